"""Interaction matching joined with every kind of base."""

import os
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoConfig, BertForSequenceClassification

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.models.configuration_interaction import InteractionConfig
from hf_labelattn.models.configuration_label_attention import PRESETS
from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.models.functional_matching import hash_word
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification
from hf_labelattn.models.modeling_tfidf_linear import TfidfLinearForMultiLabel

from .. import tiny
from . import contract

WORDS = [f"w{i}" for i in range(tiny.VOCAB - 2)]
DESCRIPTIONS = {"code 0": "w3 w4", "code 1": "w10", "code 2": "w5 w6 w7", "code 3": "w1 w2", "code 4": "w40 w41"}


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer(WORDS)


def label_fields(num_labels: int = 5) -> dict:
    names = {i: f"code {i}" for i in range(num_labels)}
    return {"id2label": names, "label2id": {name: i for i, name in names.items()}}


def make(preset: str = "swem", **overrides) -> InteractionForMultiLabel:
    """A tiny joint model whose descriptions are set."""
    base = tiny.zoo(preset)(**label_fields())
    model = InteractionForMultiLabel.from_base(base, **{"match_embedding_size": 10, **overrides})
    model.set_label_descriptions(DESCRIPTIONS, word_tokenizer(WORDS))
    return model.eval()


def literal_match(model, ids, mask):
    """Mean cosine of the best window, with one loop per index."""
    table, words = model.matcher.embeddings.weight, model.matcher.words.unpack()
    scores = torch.zeros(len(ids), len(words))
    for b, (row, real) in enumerate(zip(ids.flatten(1), mask.flatten(1).bool(), strict=True)):
        document = row[real].tolist()
        for i, label in enumerate(words):
            windows = []
            for k in range(len(document)):
                pairs = zip(label.tolist(), document[k : k + len(label)], strict=False)
                windows.append(sum(torch.cosine_similarity(table[u], table[v], dim=0) for u, v in pairs) / len(label))
            scores[b, i] = max(windows)
    return scores


@pytest.mark.parametrize("check", ["check_padding", "check_gradients", "check_overfits", "check_empty_document"])
@pytest.mark.parametrize("combine", ["max", "noisy_or"])
def test_contract_of_the_other_combinations(check, combine):
    getattr(contract, check)(tiny.interaction(tiny.zoo("caml"), combine=combine))


@torch.no_grad()
@pytest.mark.parametrize("score_scale", ["affine", "paper"])
@pytest.mark.parametrize("combine", ["max", "sum", "noisy_or"])
def test_logits_are_the_definition(combine, score_scale):
    model, (ids, mask) = make(combine=combine, score_scale=score_scale), tiny.documents()
    output, base = model(ids, mask), model.base(ids, mask).logits
    cosine = literal_match(model, ids, mask)
    assert_close(output.match_scores, cosine)
    assert_close(output.base_logits, base)
    temperature, bias = (10.0, -8.0) if score_scale == "affine" else (1.0, 0.0)
    p, q = base.double().sigmoid(), (temperature * cosine.double() + bias).sigmoid()
    if combine == "sum":
        expected = (base + model.config.match_weight * q).sigmoid()
    else:
        expected = torch.maximum(p, q) if combine == "max" else 1 - (1 - p) * (1 - q)
    assert_close(output.logits.double().sigmoid(), expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_papers_scale_has_its_floor_and_cap():
    """The reason for the affine scale: with the paper's, no probability is below .27 or a match above .73."""
    model = make(combine="max", score_scale="paper")
    ids, mask = tiny.documents()
    probabilities = model(ids, mask).logits.sigmoid()
    assert probabilities.min() > 0.268
    exact = model.score_labels("w3 w4", ["w3 w4"], word_tokenizer(WORDS)).logits.sigmoid()
    assert_close(exact, torch.tensor([[0.7310586]]))


@torch.no_grad()
def test_an_exact_match_scores_one_and_is_the_evidence():
    model = make()
    ids = torch.tensor([[20, 5, 6, 30, 12, 0, 0]])  # w18 w3 w4 w28 w10
    output = model(ids)
    assert_close(output.match_scores[0, :2], torch.ones(2))
    assert output.match_position[0, :2].tolist() == [[1, 2], [4, 1]]


@torch.no_grad()
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_can_be_a_base(preset, tmp_path):
    model, (ids, mask) = make(preset), tiny.documents()
    model.save_pretrained(tmp_path)
    again = InteractionForMultiLabel.from_pretrained(tmp_path).eval()
    assert type(again.base) is type(model.base)
    assert_close(again(ids, mask).logits, model(ids, mask).logits)
    assert_close(again(ids, mask).base_logits, model.base(ids, mask).logits)


def leam_config(**overrides) -> LEAMConfig:
    sizes = {"vocab_size": tiny.VOCAB, "embedding_size": 8, "window": 2, "classifier_dropout": 0.0}
    return LEAMConfig(**sizes, **label_fields(), **overrides)


@torch.no_grad()
@pytest.mark.parametrize(
    "make_base",
    [
        lambda: LEAMForSequenceClassification(leam_config()),
        lambda: TfidfLinearForMultiLabel(TfidfLinearConfig(vocab_size=tiny.VOCAB, **label_fields())),
        lambda: tiny.CLASSIFIERS["plant"](**label_fields()),
        lambda: tiny.CLASSIFIERS["plant_bert"](**label_fields()),
    ],
    ids=["leam", "tfidf_linear", "plant", "plant_bert"],
)
def test_the_other_classifiers_can_be_a_base(make_base, tokenizer, tmp_path):
    base, (ids, mask) = make_base().eval(), tiny.documents()
    model = InteractionForMultiLabel.from_base(base, match_embedding_size=10)
    model.set_label_descriptions(DESCRIPTIONS, tokenizer)
    model.save_pretrained(tmp_path)
    again = InteractionForMultiLabel.from_pretrained(tmp_path).eval()
    assert type(again.base) is type(base)
    assert_close(again(ids, mask).base_logits, base(ids, mask).logits)
    assert_close(again(ids, mask).logits, model(ids, mask).logits)


def test_leam_keeps_its_regulariser(tokenizer):
    base = LEAMForSequenceClassification(leam_config(regulariser_weight=0.5)).train()
    model = InteractionForMultiLabel.from_base(base, match_embedding_size=10, match_loss_weight=0.0)
    model.set_label_descriptions(DESCRIPTIONS, tokenizer)
    (ids, mask), truth = tiny.documents(), tiny.targets(3)
    output = model.train()(ids, mask, labels=truth)
    plain = torch.nn.functional.binary_cross_entropy_with_logits
    regulariser = base(ids, mask, labels=truth).loss - plain(base(ids, mask).logits, truth)
    assert regulariser > 0.01
    assert_close(output.loss, plain(output.logits, truth) + regulariser)


def test_the_matcher_has_a_loss_of_its_own():
    model, (ids, mask), truth = make(match_loss_weight=0.25).train(), tiny.documents(), tiny.targets(3)
    output = model(ids, mask, labels=truth)
    gate = (10 * output.match_scores - 8).sigmoid()
    alone = model.config.unseen_logit + model.config.match_weight * gate
    plain = torch.nn.functional.binary_cross_entropy_with_logits
    assert_close(output.loss, plain(output.logits, truth) + 0.25 * plain(alone, truth))
    assert_close(model.eval()(ids, mask, labels=truth).loss, plain(output.logits, truth))


class TestForeignBase:
    """A classifier of transformers, which reads one chunk at a time."""

    def make(self, **overrides) -> InteractionForMultiLabel:
        base = BertForSequenceClassification(tiny.bert_config(**label_fields()))
        fields = {"chunk_size": tiny.CHUNK, "match_embedding_size": 10, "skipped_token_ids": [57, 58], **overrides}
        model = InteractionForMultiLabel.from_base(base, **fields)
        model.set_label_descriptions(DESCRIPTIONS, word_tokenizer(WORDS))
        return model.eval()

    @torch.no_grad()
    def test_the_base_gives_its_largest_logit_over_the_chunks(self):
        model, (ids, mask) = self.make(), tiny.documents()
        output = model(ids, mask)
        chunks = [
            torch.stack([model.base(c[None], m[None]).logits[0] for c, m in zip(*pair, strict=True) if m.any()]).amax(
                0
            )
            for pair in zip(ids, mask, strict=True)
        ]
        assert_close(output.base_logits, torch.stack(chunks))

    @torch.no_grad()
    def test_windows_pass_over_special_tokens(self):
        """[CLS] w3 [SEP] | [CLS] w4 [SEP] is "w3 w4", and the window spans the tokens between."""
        model = self.make()
        ids = torch.tensor([[[57, 5, 58], [57, 6, 58]]])
        output = model(ids, torch.ones_like(ids))
        assert_close(output.match_scores[0, 0], torch.tensor(1.0))
        assert output.match_position[0, 0].tolist() == [1, 4]

    @torch.no_grad()
    def test_save_and_load(self, tmp_path):
        model, (ids, mask) = self.make(), tiny.documents()
        model.save_pretrained(tmp_path)
        again = InteractionForMultiLabel.from_pretrained(tmp_path).eval()
        assert isinstance(again.base, BertForSequenceClassification)
        assert_close(again(ids, mask).logits, model(ids, mask).logits)

    @pytest.mark.parametrize("combine", ["max", "sum", "noisy_or"])
    def test_an_empty_document_has_no_opinion_of_the_base(self, combine):
        model, (ids, mask) = self.make(combine=combine), tiny.documents((9, 0))
        output = model(ids, mask, labels=tiny.targets(2))
        assert output.base_logits[1].isnan().all()
        assert torch.isfinite(output.logits).all() and torch.isfinite(output.loss)

    def test_is_read_in_chunks(self):
        config = self.make().config
        assert config.reads_chunks and config.has_foreign_base
        with pytest.raises(ValueError, match="at most 16 tokens"):
            InteractionConfig.from_base(tiny.bert_config(), chunk_size=17)

    def test_gradients(self):
        contract.check_gradients(self.make)


@torch.no_grad()
def test_reading_in_parts_equals_reading_whole():
    """Windows over the border between parts count, and those cut off by it do not."""
    model, (ids, mask) = make("caml"), tiny.documents((21, 13, 5))
    whole = model(ids, mask)
    for cuts in ([8, 16], [1, 2, 3, 10], [20]):
        state = None
        flat, real = ids.flatten(1), mask.flatten(1)
        for part, seen in zip(flat.tensor_split(cuts, 1), real.tensor_split(cuts, 1), strict=True):
            output = model(part, seen, decoder_state=state)
            state = output.decoder_state.detach()
        assert_close(output.match_scores, whole.match_scores)
        assert output.match_position.tolist() == whole.match_position.tolist()
        width = int(model.matcher.label_lengths.max())
        assert state.keys.shape[1] <= part.shape[1] + width


@torch.no_grad()
def test_left_padding_changes_nothing():
    model, (ids, mask) = make(), tiny.documents((13, 5))
    flat, real = ids.flatten(1), mask.flatten(1)
    shifted, seen = (torch.cat([torch.zeros_like(t[:, :3]), t], 1) for t in (flat, real))
    right, left = model(flat, real), model(shifted, seen)
    assert_close(left.match_scores, right.match_scores)
    assert_close(left.match_position[..., 0], right.match_position[..., 0] + 3)


class TestUnknownWords:
    @torch.no_grad()
    def test_match_by_identity_through_hashes(self, tokenizer):
        model = make()
        model.add_labels({"new": "w3 zyrtec"}, tokenizer)
        ids = torch.tensor([[5, 1, 5, 1]])
        hashes = torch.tensor([[0, hash_word("allegra"), 0, hash_word("zyrtec")]])
        output = model(ids, match_hash=hashes)
        assert_close(output.match_scores[0, -1], torch.tensor(1.0))
        assert output.match_position[0, -1].tolist() == [2, 2]
        assert_close(model(ids).match_scores[0, -1], torch.tensor(0.5))

    @torch.no_grad()
    def test_do_not_match_each_other(self, tokenizer):
        model = make()
        scores = model.score_labels("allegra", ["zyrtec", "Allegra"], tokenizer).match_scores
        assert_close(scores, torch.tensor([[0.0, 1.0]]))


class TestLabels:
    def test_training_counts_follow_the_labels(self, tokenizer):
        model = make()
        model.config.training_counts = list(range(10, 10 + model.config.num_labels))
        model.add_labels({"new": "w20 w21"}, tokenizer)
        assert model.config.training_counts[-1] == 0 and len(model.config.training_counts) == model.config.num_labels
        model.remove_labels([model.config.id2label[0]])
        assert model.config.training_counts[0] == 11 and len(model.config.training_counts) == model.config.num_labels

    @torch.no_grad()
    def test_can_be_added_without_training(self, tokenizer, tmp_path):
        model, (ids, mask) = make(), tiny.documents()
        model.config.label_thresholds = [0.1, 0.2, 0.3, 0.4, 0.5]
        before = model(ids, mask)
        model.add_labels({"new a": "w20 w21", "new b": "w22"}, tokenizer)
        after = model(ids, mask)
        assert_close(after.logits[:, :5], before.logits)
        assert after.base_logits[:, 5:].isnan().all()
        assert model.config.num_labels == 7 and model.config.label2id["new b"] == 6
        assert model.config.label_thresholds[5:] == [model.config.threshold] * 2
        assert_close(after.logits[:, 5:], model.score_labels(ids, ["w20 w21", "w22"], tokenizer, mask).logits)
        tokenizer.save_pretrained(tmp_path)
        model.save_pretrained(tmp_path)
        again = InteractionForMultiLabel.from_pretrained(tmp_path)
        assert_close(again(ids, mask).logits, after.logits)
        again.add_labels({"new c": "w23"})
        assert again.config.label_descriptions["new a"] == "w20 w21" and again.config.num_labels == 8

    @pytest.mark.parametrize(("combine", "expected"), [("max", "match"), ("noisy_or", "match"), ("sum", "constant")])
    @torch.no_grad()
    def test_unknown_to_the_base_have_only_the_match(self, combine, expected, tokenizer):
        model = make(combine=combine)
        model.add_labels({"new": "w20 w21"}, tokenizer)
        output = model(*tiny.documents())
        match = 10 * output.match_scores[:, 5] - 8
        constant = model.config.unseen_logit + model.config.match_weight * match.sigmoid()
        assert_close(output.logits[:, 5], match if expected == "match" else constant, rtol=1e-4, atol=1e-5)

    @torch.no_grad()
    def test_can_be_removed(self):
        model, (ids, mask) = make(), tiny.documents()
        before = model(ids, mask)
        model.remove_labels(["code 1", "code 4"])
        after = model(ids, mask, labels=tiny.targets(3, 3))
        assert_close(after.logits, before.logits[:, [0, 2, 3]])
        assert model.config.id2label == {0: "code 0", 1: "code 2", 2: "code 3"}
        assert set(model.config.label_descriptions) == {"code 0", "code 2", "code 3"}

    @torch.no_grad()
    def test_come_back_as_strangers(self, tokenizer):
        model, (ids, mask) = make(), tiny.documents()
        before = model(ids, mask)
        model.remove_labels(["code 0"])
        model.add_labels({"code 0": DESCRIPTIONS["code 0"]}, tokenizer)
        after = model(ids, mask)
        assert_close(after.match_scores[:, -1], before.match_scores[:, 0])
        assert after.base_logits[:, -1].isnan().all()

    @torch.no_grad()
    @pytest.mark.parametrize("combine", ["max", "sum", "noisy_or"])
    def test_without_a_description_have_the_base_score(self, combine, tokenizer):
        model, (ids, mask) = make(combine=combine), tiny.documents()
        model.set_label_descriptions({"code 1": "w10"}, tokenizer)
        output = model(ids, mask)
        assert_close(output.logits[:, [0, 2, 3, 4]], output.base_logits[:, [0, 2, 3, 4]], rtol=1e-5, atol=1e-5)
        assert output.match_position[:, 0].tolist() == [[-1, 0]] * 3

    def test_errors_say_what_to_do(self, tokenizer):
        model = make()
        with pytest.raises(ValueError, match=r"no labels \['nope'\].*add_labels"):
            model.set_label_descriptions({"nope": "w1"}, tokenizer)
        with pytest.raises(ValueError, match="exist already"):
            model.add_labels({"code 1": "w1"}, tokenizer)
        with pytest.raises(ValueError, match="have no words"):
            model.add_labels({"new": "..."}, tokenizer)
        with pytest.raises(ValueError, match="no labels"):
            model.remove_labels(["nope"])
        with pytest.raises(ValueError, match="Pass `tokenizer=`"):
            model.add_labels({"new": "w1"})

    def test_long_descriptions_are_cut_and_it_is_said(self, tokenizer, caplog):
        model = make(max_description_tokens=2)
        assert model.matcher.label_lengths.tolist() == [2, 1, 2, 2, 2]
        assert "1 descriptions are cut" in caplog.text


class TestTermWeights:
    @torch.no_grad()
    @pytest.mark.parametrize("weighting", ["idf", "learned"])
    def test_weigh_the_words_of_a_description(self, weighting, tokenizer):
        model = make(term_weighting=weighting)
        uniform = make()
        uniform.matcher.embeddings = model.matcher.embeddings
        ids = torch.tensor([[5, 30]])  # w3 of "w3 w4", and another word
        assert_close(model(ids).match_scores, uniform(ids).match_scores)
        weights = torch.ones(tiny.VOCAB)
        weights[5] = 3.0
        model.set_term_weights(weights)
        other = torch.cosine_similarity(*model.matcher.embeddings.weight[[6, 30]], dim=0)
        assert_close(model(ids).match_scores[0, 0], (3 + other) / 4)

    def test_are_learned(self):
        contract.check_gradients(lambda: make(term_weighting="learned"))

    def test_must_fit(self):
        with pytest.raises(ValueError, match="'uniform'"):
            make().set_term_weights(torch.ones(tiny.VOCAB))
        with pytest.raises(ValueError, match="positive"):
            make(term_weighting="idf").set_term_weights(torch.zeros(tiny.VOCAB))


class TestMatcherAlone:
    """Without a base: labels nobody has trained."""

    def make(self) -> InteractionForMultiLabel:
        model = InteractionForMultiLabel(InteractionConfig(vocab_size=tiny.VOCAB, **label_fields()))
        model.set_label_descriptions(DESCRIPTIONS, word_tokenizer(WORDS))
        return model.eval()

    @torch.no_grad()
    def test_ranks_by_the_match(self, tmp_path):
        model, (ids, mask) = self.make(), tiny.documents()
        output = model(ids, mask)
        assert output.base_logits is None
        assert output.logits.argsort(1).tolist() == output.match_scores.argsort(1).tolist()
        model.save_pretrained(tmp_path)
        assert_close(InteractionForMultiLabel.from_pretrained(tmp_path)(ids, mask).logits, output.logits)

    def test_trains(self):
        contract.check_gradients(self.make)


@torch.no_grad()
def test_a_tokenizer_of_its_own():
    """The matcher can read other tokens than the base."""
    model = make(match_vocab_size=20)
    ids, mask = tiny.documents((9,))
    model.set_label_descriptions({"code 0": "w3 w4"}, word_tokenizer(WORDS[:18]))
    output = model(ids, mask, match_input_ids=torch.tensor([[9, 5, 6]]), match_attention_mask=torch.ones(1, 3))
    assert_close(output.match_scores[0, 0], torch.tensor(1.0))
    assert output.match_position[0, 0].tolist() == [1, 2]


@torch.no_grad()
def test_words_of_its_own_must_be_given_and_may_be_longer_than_a_chunk():
    model = tiny.interaction(tiny.bert_classifier, match_vocab_size=20)()
    model.set_label_descriptions({"LABEL_0": "w3 mystery"}, word_tokenizer(WORDS[:18]))
    ids, mask = tiny.documents((9,))
    with pytest.raises(ValueError, match="tokenizer_match.json.*Pass `match_input_ids`"):
        model(ids, mask)
    words = torch.tensor([[9] * 10 + [5, 1]])
    hashes = torch.tensor([[0] * 11 + [hash_word("mystery")]])
    output = model(ids, mask, match_input_ids=words, match_attention_mask=torch.ones_like(words), match_hash=hashes)
    assert_close(output.match_scores[0, 0], torch.tensor(1.0))
    assert output.match_position[0, 0].tolist() == [10, 2]


def test_given_scores_stand_for_the_base():
    """Also for a base with other columns, and without a gradient in the base."""
    model, (ids, mask) = make(), tiny.documents()
    model.remove_labels(["code 1"])
    model.add_labels({"new": "w3 w9"}, word_tokenizer(WORDS))
    own = model.base(ids, mask).logits.detach()
    assert_close(model(ids, mask, base_logits=own).logits, model(ids, mask).logits)
    other = model(ids, mask, base_logits=own + 1, labels=torch.zeros(3, 5))
    assert_close(other.base_logits[:, :4], own[:, [0, 2, 3, 4]] + 1)
    assert other.base_logits[:, 4].isnan().all()
    parameters = list(model.base.parameters())
    assert torch.autograd.grad(other.loss, parameters, allow_unused=True) == (None,) * len(parameters)


def test_word_vectors_come_from_a_matrix_or_the_base():
    model = make()
    vectors = torch.randn(tiny.VOCAB, 10)
    model.set_word_vectors(vectors)
    assert_close(model.matcher.embeddings.weight.data, vectors)
    with pytest.raises(ValueError, match="match_embedding_size=7"):
        model.set_word_vectors(torch.zeros(tiny.VOCAB, 7))
    same = make(match_embedding_size=12)
    same.set_word_vectors()
    assert_close(same.matcher.embeddings.weight, same.base.embeddings.weight)


def test_configuration_survives_as_a_dictionary():
    config = make("caml").config
    again = InteractionConfig.from_dict(config.to_dict())
    assert again.base_config.model_type == "label_attention" and again.base_config.attention == "caml"
    foreign = InteractionConfig.from_base(tiny.bert_config())
    again = InteractionConfig.from_dict(foreign.to_dict())
    assert isinstance(again.base_config, type(AutoConfig.for_model("bert"))) and again.base_config.hidden_size == 16


def test_configuration_refuses_what_cannot_work():
    with pytest.raises(ValueError, match="above 0"):
        InteractionConfig(match_temperature=0.0)
    with pytest.raises(ValueError, match="multi_label_classification"):
        InteractionConfig(problem_type="single_label_classification")
    with pytest.raises(ValueError, match="no `model_type`"):
        InteractionConfig(base_config={"hidden_size": 3})


WITHOUT_THE_PACKAGE = """
import sys
sys.modules["hf_labelattn"] = None
import torch
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True).eval()
with torch.no_grad():
    print(model(torch.arange(2, 30)[None]).logits.double().sum().item())
"""


@pytest.mark.slow
def test_a_checkpoint_brings_its_code(tmp_path, monkeypatch):
    """Where this library is not installed, the checkpoint loads with `trust_remote_code` and scores the same."""
    monkeypatch.setattr(InteractionForMultiLabel, "_auto_class", "AutoModelForSequenceClassification")
    monkeypatch.setattr(InteractionConfig, "_auto_class", "AutoConfig")
    model = make("caml")
    model.save_pretrained(tmp_path / "model")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", WITHOUT_THE_PACKAGE, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    with torch.no_grad():
        expected = model(torch.arange(2, 30)[None]).logits.double().sum().item()
    assert float(done.stdout.split()[-1]) == pytest.approx(expected, rel=1e-5)
