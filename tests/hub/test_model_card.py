"""The whole card, word for word, and its usage lines, which are run."""

import json
import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.hub.model_card import CardValues, card_from_folder, read_card_values, render_card
from hf_labelattn.hub.papers import CAML, describe_model
from hf_labelattn.hub.terms import TERMS
from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.configuration_label_attention import PRESETS
from hf_labelattn.models.modeling_awd_lstm import AwdLstmForCausalLM
from hf_labelattn.models.modeling_l2r import TokenRankerModel
from hf_labelattn.registration import register_auto_classes

from .. import tiny

register_auto_classes()
EXPECTED = Path(__file__).with_name("expected_card.md")
VALUES = CardValues(
    name="org/caml-demo",
    model="CAML",
    model_type="label_attention",
    papers=(CAML,),
    dataset="mimic",
    documents={"train": 47723, "validation": 1631},
    label_counts=(0, 4, 12, 9000),
    num_labels=4,
    num_described=3,
    threshold=0.25,
    chunk_size=128,
    metrics={
        "validation": {"f1_micro": 0.5},
        "test": {
            **{"f1_micro": 0.51234, "precision_at_15": 0.4, "precision_at_5": 0.6, "threshold": 0.25},
            **{"f1_micro/count_1-10": 0.125, "num_labels/count_1-10": 1.0, "num_labels_present/count_1-10": 1.0},
            **{"f1_macro/quarter_1": 0.1, "num_labels_present/count_0": 0.0},
        },
    },
    settings={"learning_rate": 0.001, "batch": 16},
    environment={"torch": "2.13.0", "python": "3.11"},
    terms=TERMS["physionet"],
)


def code_blocks(card: ModelCard) -> list[str]:
    return re.findall(r"```python\n(.*?)```", card.content, flags=re.DOTALL)


def save_run(folder, make=None, **fields):
    """What a run leaves, in small."""
    make = make or tiny.zoo("caml")
    words = [f"w{i}" for i in range(tiny.VOCAB - 5)] + ["fever", "admitted", "cough"]
    names = {i: f"code {i}" for i in range(5)}
    data = {"name": "synthetic_notes", "train_documents": 20, "test_documents": 4}
    model = make(id2label=names, label2id={name: i for i, name in names.items()}, training_data=data, **fields)
    model.save_pretrained(folder)
    word_tokenizer(words).save_pretrained(folder)
    results = {"metrics": {"test": {"f1_micro": 0.25}, "validation": {"f1_micro": 0.5}}, "seed": 3}
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "run.json").write_text(json.dumps({"train_seconds": 90.0, "environment": {"torch": "2"}}))
    return model


def test_the_whole_card():
    assert str(render_card(VALUES)).strip() == EXPECTED.read_text(encoding="utf-8").strip()


def test_model_index_can_be_read_back():
    found = ModelCard(str(render_card(VALUES))).data.eval_results
    assert [(r.dataset_split, r.metric_type, r.metric_value) for r in found] == [
        ("validation", "f1_micro", 0.5),
        ("test", "f1_micro", 0.51234),
        ("test", "precision_at_15", 0.4),
        ("test", "precision_at_5", 0.6),
    ]


def test_a_card_without_any_figures():
    card = render_card(CardValues(name="org/x", model="LEAM", model_type="leam", num_labels=2, threshold=0.5))
    assert "No results were recorded" in card.content
    assert "The number of documents was not recorded" in card.content
    assert "Terms" not in card.content
    assert "license" not in yaml.safe_load(card.content.split("---")[1])
    assert not re.search(r"\n{3,}", card.content), "no holes where parts are left out"


class TestFolder:
    def test_values(self, tmp_path):
        save_run(tmp_path / "demo", threshold=0.3, training_counts=[5, 4, 3, 2, 1])
        values = read_card_values(tmp_path / "demo")
        assert (values.name, values.model, values.dataset) == ("demo", "CAML", "synthetic_notes")
        assert (values.num_labels, values.threshold, values.label_counts) == (5, 0.3, (5, 4, 3, 2, 1))
        assert values.documents == {"train": 20, "test": 4}
        assert list(values.metrics) == ["validation", "test"]
        assert values.settings["train_minutes"] == 1.5
        assert values.chunk_size is None

    def test_single_label_has_no_threshold(self, tmp_path):
        save_run(tmp_path, problem_type="single_label_classification")
        assert read_card_values(tmp_path).threshold is None
        assert "predicted from a probability" not in card_from_folder(tmp_path).content

    def test_a_folder_without_a_model(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="has no config.json"):
            card_from_folder(tmp_path)

    @pytest.mark.parametrize("make", [tiny.zoo("caml"), tiny.plant()], ids=["caml", "plant"])
    def test_usage_runs(self, tmp_path, capsys, make):
        model = save_run(tmp_path / "demo", make, threshold=0.0)
        blocks = code_blocks(card_from_folder(tmp_path / "demo", str(tmp_path / "demo")))
        assert sum(len(block.splitlines()) for block in blocks) <= 10
        for block in blocks:
            exec(compile(block, "card", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        assert [line.rpartition(" ")[0] for line in sorted(printed[:5])] == list(model.config.id2label.values())
        assert "code " in printed[5]

    def test_usage_of_a_language_model_and_a_ranker_runs(self, tmp_path, capsys):
        tokenizer = word_tokenizer([*(f"w{i}" for i in range(tiny.VOCAB - 4)), "fever", "cough"])
        for name, model in {
            "language_model": AwdLstmForCausalLM(tiny.awd_lstm_config()),
            "ranker": TokenRankerModel(TokenRankerConfig(vocab_size=tiny.VOCAB, num_labels=3)),
        }.items():
            model.save_pretrained(tmp_path / name)
            tokenizer.save_pretrained(tmp_path / name)
            (block,) = code_blocks(card_from_folder(tmp_path / name, str(tmp_path / name)))
            assert len(block.splitlines()) <= 10
            exec(compile(block, "card", "exec"), {})
        assert len(capsys.readouterr().out.splitlines()) == 2


class TestPapers:
    @pytest.mark.parametrize("preset", PRESETS)
    def test_every_preset_has_its_own_name(self, preset):
        name, papers = describe_model({"model_type": "label_attention", **PRESETS[preset]})
        assert re.sub(r"[^a-z]", "", name.lower()) == preset.replace("_", "")
        assert len(papers) == 1

    def test_models_made_of_others_cite_them_too(self):
        plant = {"model_type": "plant", "backward_encoder_config": {"model_type": "awd_lstm"}}
        name, papers = describe_model({"model_type": "interaction", "base_config": plant})
        assert name == "interaction matching over PLANT over an AWD-LSTM in both directions"
        keys = [paper.key for paper in papers]
        assert keys == ["macavaney2020interaction", "saharoy2024plant", "merity2018regularizing"]

    def test_plant_over_a_transformer_does_not_cite_the_lstm(self):
        name, papers = describe_model({"model_type": "plant", "encoder_config": {"model_type": "bert"}})
        assert (name, len(papers)) == ("PLANT over bert", 1)
