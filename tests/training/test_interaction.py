"""What joint models start from, and what their weights are fitted on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict

from hf_labelattn.data.documents import ragged
from hf_labelattn.data.labels import LabelSet
from hf_labelattn.data.tokenization import encode_documents, word_tokenizer
from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.models.modeling_interaction import word_table
from hf_labelattn.training.experiment import DataArguments
from hf_labelattn.training.interaction import (
    InteractionArguments,
    cross_fitted_logits,
    fitting_data,
    fold_of_group,
    join_matcher,
    joint_rates,
    new_base,
    start_at_prior,
)
from hf_labelattn.training.interaction_data import MatchingData, prepare_matching_data
from hf_labelattn.training.linear import fit_tfidf_linear

from .. import tiny

TOKENIZER = word_tokenizer([f"w{i}" for i in range(tiny.VOCAB - 2)])


def matching_data(count: int = 60) -> MatchingData:
    """Documents in which label l shows as word l, which also describes it."""
    splits = {"train": tiny.dataset(count), "validation": tiny.dataset(count, seed=1)}
    names = splits["train"].label_names
    counts = np.bincount(splits["train"].labels.values, minlength=5).tolist()
    labels = LabelSet(names, tuple(f"w{i} w{i + 5}" for i in range(5)), tuple(counts))
    return MatchingData(labels, TOKENIZER, splits, match_tokenizer=TOKENIZER)


def save_notes(folder) -> str:
    """Documents on disk: patients have two notes each."""
    rows = [
        {"id": f"n{i}", "group": f"p{i // 2}", "text": f"fever and cough {'asthma' * (i % 2)}", "labels": ["J45"]}
        for i in range(20)
    ]
    DatasetDict({"train": Dataset.from_list(rows)}).save_to_disk(folder)
    return str(folder)


def test_folds_keep_groups_together_and_do_not_depend_on_order():
    groups = tuple(f"p{i // 3}" for i in range(300))
    folds = fold_of_group(groups, 5)
    assert np.array_equal(folds[::3], folds[1::3]) and set(folds) == set(range(5))
    assert np.array_equal(fold_of_group(groups[::-1], 5), folds[::-1])


def test_cross_fitted_scores_come_from_models_that_have_not_seen_the_document():
    data = matching_data()
    config = TfidfLinearConfig(num_labels=5, vocab_size=tiny.VOCAB)
    found = cross_fitted_logits(data, config, folds=3)
    train, dev = data.splits["train"], data.splits["validation"]
    fold = fold_of_group(train.groups, 3)
    rest, held = train.take(np.flatnonzero(fold != 1)), train.take(np.flatnonzero(fold == 1))
    alone = fit_tfidf_linear(rest.tokens, rest.labels, config, dev=(dev.tokens, dev.labels))
    with torch.no_grad():
        expected = [alone(torch.from_numpy(row.astype(np.int64))[None]).logits[0].numpy() for row in held.tokens]
    np.testing.assert_allclose(found[fold == 1], np.stack(expected), atol=0.02)


def test_scores_of_seen_documents_are_too_sure():
    """Why cross-fitting is needed at all: labels that follow no word are learned by heart."""
    data, generator = matching_data(), np.random.default_rng(0)
    labels = ragged([np.flatnonzero(generator.random(5) < 0.4) for _ in range(60)])
    train = replace(data.splits["train"], labels=labels)
    data = replace(data, splits={**data.splits, "train": train})
    config = TfidfLinearConfig(num_labels=5, vocab_size=tiny.VOCAB, calibration="none")
    honest = cross_fitted_logits(data, config, folds=3)
    seen = fit_tfidf_linear(train.tokens, labels, config)
    truth = np.array([[label in row for label in range(5)] for row in labels])
    with torch.no_grad():
        sure = np.stack([seen(torch.from_numpy(row.astype(np.int64))[None]).logits[0].numpy() for row in train.tokens])
    assert ((sure > 0) == truth).mean() > 0.95 > 0.75 > ((honest > 0) == truth).mean()


def test_a_frozen_base_is_joined_on_half_of_the_development_documents():
    data = matching_data()
    args = InteractionArguments(base="caml", freeze_base=True)
    found = fitting_data(data, args)
    assert args.fits_on == "dev"
    ids = [set(found.splits[name].ids) for name in ("train", "validation")]
    assert not ids[0] & ids[1] and ids[0] | ids[1] == set(data.splits["validation"].ids) and min(map(len, ids)) > 15
    assert fitting_data(data, InteractionArguments(base="caml")) is data


@pytest.mark.parametrize("base", ["none", "linear", "leam", "swem", "fasttext", "dr_caml", "joint_laat"])
def test_every_base_starts_from_the_data(base):
    data = matching_data()
    sizes = {} if base == "linear" else {"embedding_size": 6}
    args = InteractionArguments(base=base, base_overrides=sizes, term_weighting="idf")
    found = new_base(args, data)
    if found is not None:
        start_at_prior(found, data)
    model = join_matcher(found, data, args).eval()
    assert model.config.label_descriptions["code 2"] == "w2 w7" and model.matcher.label_lengths.tolist() == [2] * 5
    weights = model.matcher.term_weights
    document_frequency = sum(9 in row for row in data.splits["train"].tokens)
    assert weights[9].item() == pytest.approx(1 + np.log(61 / (1 + document_frequency)))
    ids = torch.from_numpy(encode_documents(TOKENIZER, ["w30 w2 w7"])[0].astype(np.int64))[None]
    with torch.no_grad():
        assert model(ids).match_scores[0, 2].item() == pytest.approx(1.0)
    if base not in ("none", "linear"):
        assert torch.equal(model.matcher.embeddings.weight, word_table(found)[: tiny.VOCAB])
        assert model.config.match_embedding_size == 6


@pytest.mark.parametrize(
    ("base", "match", "columns"),
    [("caml", True, [0, 1, -1, 3, 4]), ("linear", True, [0, 1, -1, 3, 4]), ("caml", False, [0, 1, 2, 3, 4])],
)
def test_a_base_has_no_opinion_on_labels_without_training_documents(base, match, columns):
    data = matching_data()
    counts = tuple(0 if i == 2 else count for i, count in enumerate(data.labels.counts))
    data = replace(data, labels=replace(data.labels, counts=counts))
    sizes = {} if base == "linear" else {"embedding_size": 6}
    args = InteractionArguments(base=base, base_overrides=sizes, match=match)
    model = join_matcher(new_base(args, data), data, args).eval()
    assert model.base_columns.tolist() == columns
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    found = model(ids)
    if match:
        expected = (
            model.combination.unseen_logit
            + model.combination.weight * model.combination.match_logits(found.match_scores[:, 2]).sigmoid()
        )
        torch.testing.assert_close(found.logits[:, 2], expected)


def test_sentence_embeddings_keep_their_opinion_on_labels_they_read():
    data, base = matching_data(), tiny.zoo("sentence")()
    base.config.training_counts = [3, 0, 2, 1, 4]
    model = join_matcher(base, data, InteractionArguments(base="none"))
    assert model.base_columns.tolist() == [0, 1, 2, 3, 4]


def test_the_prior_reaches_the_last_layer_of_a_foreign_base():
    data, base = matching_data(), tiny.bert_classifier()
    start_at_prior(base, data)
    rate = (data.counts + 0.5) / 61
    np.testing.assert_allclose(base.classifier.bias.detach().numpy(), np.log(rate / (1 - rate)), rtol=1e-5)


def test_vocabulary_takes_up_described_words_that_have_a_vector(tmp_path, capsys):
    (tmp_path / "v.txt").write_text("fever 1 0\ncough 0 1\nwheeze 1 1\n")
    (tmp_path / "labels.jsonl").write_text(
        '{"label": "J45", "description": "asthma"}\n{"label": "R06", "description": "wheeze unheard"}\n'
    )
    args = DataArguments(dataset_name=save_notes(tmp_path / "notes"), label_file=str(tmp_path / "labels.jsonl"))
    data = prepare_matching_data(args, str(tmp_path / "v.txt"))
    vocabulary = data.tokenizer.get_vocab()
    assert "wheeze" in vocabulary and "unheard" not in vocabulary and not data.separate
    assert data.match_vectors[vocabulary["wheeze"]].tolist() == [1.0, 1.0]
    assert data.splits["train"].match_hashes is not None, "a described word is in no vocabulary"
    assert prepare_matching_data(args).splits["train"].match_tokens is None
    assert "matcher: 3 of" in capsys.readouterr().out


def test_labels_of_a_trained_base_come_first(tmp_path):
    args = DataArguments(dataset_name=save_notes(tmp_path / "notes"))
    data = prepare_matching_data(args, tokenizer=TOKENIZER, base_labels=["Z99", "J45"])
    assert data.labels.names == ("Z99", "J45") and data.labels.counts[0] == 0 < data.labels.counts[1]
    with pytest.raises(ValueError, match="Train the base on the same label set"):
        prepare_matching_data(args, tokenizer=TOKENIZER, base_labels=["LABEL_0"])


def test_the_numbers_that_join_the_scores_learn_faster():
    assert joint_rates(tiny.interaction(None)(), 0.001) == {r"^combination\.": 0.02}
    assert joint_rates(tiny.interaction(None, combine="max", score_scale="paper")(), 0.001) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "caml", "fit_on": "cross_fit"}, "only `--base linear`, not caml"),
        ({"fit_on": "test"}, "must be one of auto, train, cross_fit, dev"),
        ({"zero_shot": True}, "Pass `--word_vectors`"),
        ({"base": "linear", "folds": 1}, "`folds` is 1"),
        ({"base": "bert"}, "`backbone` None: pass it with bert, plm_icd, plm_ca, only"),
        ({"base": "swem", "backbone": "x"}, "`base` is swem and `backbone` x"),
    ],
)
def test_arguments_that_cannot_work_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        InteractionArguments(**options)


def test_the_base_may_be_a_folder(tmp_path):
    tiny.zoo("swem")().save_pretrained(tmp_path / "trained")
    assert InteractionArguments(base=str(tmp_path / "trained")).trained_base == str(tmp_path / "trained")
    assert InteractionArguments(base="swem").trained_base is None
    assert InteractionArguments(backbone="any").base == "bert"
    with pytest.raises(ValueError, match="There is no base 'nowhere'"):
        _ = InteractionArguments(base="nowhere").trained_base
