"""Training of the token ranker: lists, hold-out, choice of the epoch, interruption."""

import dataclasses

import numpy as np
import pytest
import torch

from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.modeling_l2r import TokenRankerModel
from hf_labelattn.planting import ranker_training
from hf_labelattn.planting.graded_lists import GradedLists, random_ndcg, ranker_ndcg
from hf_labelattn.planting.mutual_information import TokenRelevance
from hf_labelattn.planting.ranking import RankingArguments, split_tokens, train_token_ranker

VOCAB, LABELS, TOPICS, SPECIAL = 120, 12, 6, [0, 1]
FAST = RankingArguments(
    ndcg_k=5, ranking_epochs=3, labels_per_step=4, list_size=60, held_out_tokens=0.2, ranking_learning_rate=0.03
)


@pytest.fixture(autouse=True)
def short_epochs(monkeypatch):
    monkeypatch.setattr(ranker_training, "MIN_STEPS", 12)


def topical_vectors(seed=0):
    """Word vectors in which words of one topic are alike: word t has topic t modulo TOPICS."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(TOPICS, 8))
    return torch.tensor(centres[np.arange(VOCAB) % TOPICS] + 0.1 * draw.normal(size=(VOCAB, 8)), dtype=torch.float32)


def topical_relevance():
    """Label l is about topic l modulo TOPICS: its words are relevant, in falling grades; the last label has none."""
    rows = [[t for t in range(2, VOCAB) if t % TOPICS == label % TOPICS] for label in range(LABELS - 1)] + [[]]
    values = [np.linspace(1, 0.3, len(row)) * (1 + label) for label, row in enumerate(rows)]
    indptr = np.cumsum([0, *map(len, rows)])
    return TokenRelevance(
        indptr, np.concatenate(rows).astype(np.int32), np.concatenate(values).astype(np.float32), VOCAB, 50
    )


def new_ranker(scorer="mlp", vectors=True):
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "embedding_size": 8, "hidden_size": 16}
    model = TokenRankerModel(TokenRankerConfig(num_labels=LABELS, l2r_scorer=scorer, **sizes))
    if vectors:
        model.set_token_vectors(topical_vectors())
    return model


def train(model, args=FAST, **options):
    return train_token_ranker(model, topical_relevance(), args, SPECIAL, progress=False, **options)


def test_grades_of_any_tokens_in_any_order():
    lists, relevance = GradedLists(topical_relevance(), np.arange(2, VOCAB)), topical_relevance()
    labels, tokens = torch.tensor([7, 11, 0]), torch.tensor([90, 7, 3, 1, 13])
    found = lists.grades(labels, tokens)
    for row, label in enumerate(labels.tolist()):
        grades = dict(zip(*(a.tolist() for a in relevance.row(label)), strict=True))
        for column, token in enumerate(tokens.tolist()):
            best = max(grades.values(), default=1)
            assert found[row, column] == pytest.approx(grades.get(token, 0) / best)


def test_best_tokens_are_those_of_each_label_among_the_allowed():
    allowed = np.setdiff1d(np.arange(2, VOCAB), [6, 7])
    lists = GradedLists(topical_relevance(), allowed)
    assert lists.best_tokens(torch.tensor([0, 1, 11]), 2).tolist() == [12, 13, 18, 19]
    assert lists.labels.tolist() == list(range(LABELS - 1))


def test_held_out_tokens_are_never_in_a_training_list(monkeypatch):
    held_out = set(split_tokens(topical_relevance(), SPECIAL, 0.2, 0)[1].tolist())
    assert len(held_out) == round(0.2 * (VOCAB - 2))
    seen = []
    original = TokenRankerModel.scores

    def watched(self, labels, tokens, **options):
        if torch.is_grad_enabled():
            seen.append(set(tokens.tolist()))
        return original(self, labels, tokens, **options)

    monkeypatch.setattr(TokenRankerModel, "scores", watched)
    before = new_ranker().token_embedding.weight
    model = new_ranker()
    train(model, dataclasses.replace(FAST, refit=False))
    assert len(seen) > 30 and not any(tokens & (held_out | set(SPECIAL)) for tokens in seen)
    still = sorted(held_out)
    assert torch.equal(model.token_embedding.weight[still], before[still])
    assert not model.token_known[still].any() and model.token_known.sum() == VOCAB - 2 - len(held_out)


@pytest.mark.parametrize("scorer", ["mlp", "dot", "bilinear"])
@pytest.mark.parametrize("list_size", [60, 0])
def test_the_ranker_learns_and_generalises_through_the_embeddings(scorer, list_size):
    model = new_ranker(scorer)
    report = train(model, dataclasses.replace(FAST, list_size=list_size, ranking_epochs=6))
    assert report.ndcg["train"] > 2 * report.chance["train"]
    assert report.ndcg_all > 2 * report.chance["all"]
    assert report.ndcg["held_out"] > 1.5 * report.chance["held_out"]
    assert report.chosen_on == "held_out"
    assert report.best_epoch == int(np.argmax(report.history["held_out"])) + 1
    assert model.token_known.sum() == VOCAB - len(SPECIAL) and not model.label_known[LABELS - 1]


def test_without_informative_embeddings_the_training_tokens_choose(monkeypatch):
    monkeypatch.setattr(ranker_training, "BETTER_THAN_CHANCE", 3.0)
    report = train(new_ranker(vectors=False))
    assert report.chosen_on == "train"
    assert report.best_epoch == int(np.argmax(report.history["train"])) + 1


def test_the_kept_model_is_the_best_epochs(monkeypatch):
    model, args = new_ranker(), dataclasses.replace(FAST, refit=False)
    report = train(model, args)
    held_out = GradedLists(topical_relevance(), split_tokens(topical_relevance(), SPECIAL, 0.2, 0)[1])
    assert ranker_ndcg(model.scores, held_out, 5) == pytest.approx(max(report.history["held_out"]))


def test_patience_stops_training():
    args = dataclasses.replace(FAST, ranking_epochs=50, ranking_patience=1, ranking_learning_rate=1e-9)
    report = train(new_ranker(), args)
    assert len(report.history["train"]) == 2 and report.best_epoch == 1


def test_same_seed_same_ranker_other_seed_another():
    first, second, third = new_ranker(), new_ranker(), new_ranker()
    train(first), train(second), train(third, dataclasses.replace(FAST, ranking_seed=1))
    assert torch.equal(first.scores(), second.scores())
    assert not torch.equal(first.scores(), third.scores())


@pytest.mark.parametrize("stopped_in", ["choose", "refit"])
def test_an_interrupted_run_continues_to_the_same_ranker(stopped_in, tmp_path, monkeypatch):
    expected = new_ranker()
    report = train(expected)
    original = ranker_training.RankerTraining._save

    def interrupted(self):
        original(self)
        if self.file.stem == stopped_in and self.epoch == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(ranker_training.RankerTraining, "_save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(new_ranker(), checkpoint_dir=tmp_path / "run")
    monkeypatch.setattr(ranker_training.RankerTraining, "_save", original)
    model = new_ranker()
    assert train(model, checkpoint_dir=tmp_path / "run") == report
    assert torch.equal(model.scores(), expected.scores())
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_other_arguments_is_not_continued(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(ranker_training.RankerTraining, "remove_checkpoint", lambda self: None)
    train(new_ranker(), checkpoint_dir=tmp_path)
    other = dataclasses.replace(FAST, ranking_seed=1)
    model, expected = new_ranker(), new_ranker()
    train(model, other, checkpoint_dir=tmp_path)
    train(expected, other)
    assert torch.equal(model.scores(), expected.scores())
    assert "choose.pt belongs to another run" in caplog.text


def test_random_scores_rank_as_chance_would():
    lists = GradedLists(topical_relevance(), np.arange(2, VOCAB))
    perfect = ranker_ndcg(lambda labels, tokens: lists.grades(labels, tokens), lists, 5)
    assert perfect == pytest.approx(1) and 0 < random_ndcg(lists, 5) < 0.5
    assert ranker_ndcg(lambda labels, tokens: lists.grades(labels, tokens), lists, 5, max_labels=2) == pytest.approx(1)


def test_wrong_arguments_say_what_to_type():
    with pytest.raises(ValueError, match="`ndcg_k` is 0, but must be at least 1"):
        RankingArguments(ndcg_k=0)
    with pytest.raises(ValueError, match="`held_out_tokens` is 1"):
        RankingArguments(held_out_tokens=1)
    with pytest.raises(ValueError, match="`list_size` is -1"):
        RankingArguments(list_size=-1)
    nothing = TokenRelevance(np.zeros(LABELS + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), VOCAB, 5)
    with pytest.raises(ValueError, match="No label has a relevant token"):
        train_token_ranker(new_ranker(), nothing, FAST, SPECIAL, progress=False)
