"""PLANT's stages: kept by content, from the training split only, and a prior that is the starting point."""

import dataclasses
import json

import pytest
import torch
from torch.testing import assert_close

from hf_labelattn.data.documents import DocumentDataset, ragged
from hf_labelattn.data.labels import LabelSet
from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.planting.ranking import RankingArguments
from hf_labelattn.training.arguments import LabelAttnTrainingArguments
from hf_labelattn.training.experiment import PreparedData
from hf_labelattn.training.linear import fit_tfidf_linear
from hf_labelattn.training.plant_stages import PlantArguments, StageCache, apply_recipe, plant_classifier

from .. import tiny

LABELS = LabelSet(tuple(f"code {i}" for i in range(5)), ("",) * 5, (8, 8, 8, 8, 8))
RANKING = RankingArguments(ranking_epochs=1)
SMALL = {"embedding_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "lm_epochs": 1, "chunk_size": 8}
SMALL |= {"l2r_embedding_size": 4, "l2r_hidden_size": 4}


def prepared(test_labels=None) -> PreparedData:
    splits = {"train": tiny.dataset(200), "validation": tiny.dataset(80, seed=1), "test": tiny.dataset(20, seed=2)}
    if test_labels is not None:
        splits["test"] = dataclasses.replace(splits["test"], labels=test_labels)
    return PreparedData(LABELS, word_tokenizer([f"w{i}" for i in range(tiny.VOCAB - 2)]), splits)


def planted(folder, data=None, **options):
    data = data or prepared()
    settings = {"direction": "forward", "seed": 0, "use_cpu": True, "fields": data.config_fields()}
    return plant_classifier(data, PlantArguments(**{**SMALL, **options}), RANKING, StageCache(folder, data), settings)


def test_stages_are_read_back_and_redone_only_where_something_changed(tmp_path, caplog):
    first = planted(tmp_path)
    caplog.clear()
    again = planted(tmp_path)
    assert caplog.text.count("unchanged, taken from") == 3
    for (name, a), b in zip(first.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    caplog.clear()
    planted(tmp_path, l2r_scorer="dot")
    assert caplog.text.count("unchanged, taken from") == 2


def test_shuffling_the_test_labels_changes_no_number(tmp_path):
    shuffled = ragged([[i % 5] for i in range(20)])
    one, two = planted(tmp_path / "a"), planted(tmp_path / "b", prepared(shuffled))
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("evidence", [False, True])
def test_a_prior_is_where_training_starts(evidence, tmp_path):
    data = prepared()
    train, dev = data.splits["train"], data.splits["validation"]
    linear = fit_tfidf_linear(
        train.tokens, train.labels, TfidfLinearConfig(**data.config_fields()), (dev.tokens, dev.labels)
    )
    linear.save_pretrained(tmp_path / "linear")
    model = planted(tmp_path / "plant", data, prior=str(tmp_path / "linear"), use_evidence=evidence).eval()
    ids, mask = tiny.documents()
    assert_close(model(ids, mask).logits, linear(ids, mask).logits)
    assert not any(p.requires_grad for p in model.prior.parameters())
    model.save_pretrained(tmp_path / "saved")
    again = type(model).from_pretrained(tmp_path / "saved")
    assert_close(again(ids, mask).logits, linear(ids, mask).logits)


def test_evidence_is_planted_with_the_words_of_descriptions(tmp_path):
    data = prepared()
    described = dataclasses.replace(data.labels, descriptions=("", "w7 w9", "", "", ""))
    data = dataclasses.replace(data, labels=described)
    plain, model = planted(tmp_path / "a", data), planted(tmp_path / "b", data, use_evidence=True)
    decoder, words = model.reader.decoder, data.tokenizer.convert_tokens_to_ids(["w7", "w9"])
    row = slice(*decoder.relevance_starts[1:3].tolist())
    assert set(words) <= set(decoder.relevance_tokens[row].tolist())
    assert len(decoder.relevance_values) < len(plain.reader.decoder.relevance_values), "what chance gives is gone"
    assert (model.label_bias <= plain.label_bias).all() and (model.label_bias < plain.label_bias).any()
    assert torch.equal(decoder.evidence, torch.ones(5))


@pytest.mark.parametrize("switch", ["use_static", "use_planted", "use_learned"])
def test_each_attention_can_be_switched_off(switch, tmp_path):
    model = planted(tmp_path, **{switch: False})
    ids, mask = tiny.documents()
    assert torch.isfinite(model(ids, mask).logits).all()
    assert not getattr(model.config, switch)


def test_recipes_set_rates_and_unfreezing(tmp_path):
    training = LabelAttnTrainingArguments(str(tmp_path), learning_rate=0.01, use_cpu=True)
    apply_recipe(PlantArguments(), training)
    assert training.learning_rates == {r"\.encoder\.": 0.002, r"\.ranker\.": 0.005}
    assert len(training.unfreezing) == 3
    frozen = LabelAttnTrainingArguments(str(tmp_path), use_cpu=True)
    apply_recipe(PlantArguments(recipe="decoder_only"), frozen)
    assert frozen.frozen == [r"\.encoder\."] and frozen.unfreezing is None


def test_a_stage_that_was_cut_short_is_not_taken_for_finished(tmp_path):
    cache, made = StageCache(tmp_path, prepared()), []

    def fail(folder):
        made.append(folder)
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.path("stage", {"a": 1}, fail)
    folder = cache.path("stage", {"a": 1}, made.append)
    assert len(made) == 2 and (folder / "half").exists(), "an interrupted stage may continue from what it left"
    cache.path("stage", {"a": 2}, made.append)
    assert not (folder / "half").exists(), "another content starts anew"
    assert json.loads((folder / "stage.json").read_text())["a"] == 2


def test_documents_carry_on_without_labels():
    rows = DocumentDataset(ragged([[2, 3]]), ragged([[]]), 5)
    assert rows[0]["labels"].size == 0
