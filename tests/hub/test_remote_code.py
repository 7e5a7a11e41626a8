"""One folder, two ways to load it: with this library, and with the code inside the checkpoint alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.models.modeling_awd_lstm import AwdLstmForCausalLM
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel
from hf_labelattn.models.modeling_l2r import TokenRankerModel
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification
from hf_labelattn.models.modeling_tfidf_linear import TfidfLinearForMultiLabel
from hf_labelattn.registration import register_auto_classes

from .. import tiny

register_auto_classes()
WORDS = [f"w{i}" for i in range(tiny.VOCAB - 2)]


def leam():
    return LEAMForSequenceClassification(LEAMConfig(vocab_size=tiny.VOCAB, embedding_size=6, num_labels=5)).eval()


def tfidf():
    config = TfidfLinearConfig(vocab_size=tiny.VOCAB, num_labels=5, num_bigrams=0, num_weights=5 * tiny.VOCAB)
    model = TfidfLinearForMultiLabel(config)
    return model.set_arrays(
        idf=torch.rand(tiny.VOCAB) + 1,
        bigram_codes=torch.zeros(0, dtype=torch.long),
        weight_starts=torch.arange(tiny.VOCAB + 1) * 5,
        weight_labels=torch.arange(5).repeat(tiny.VOCAB),
        weight_values=torch.randn(5 * tiny.VOCAB),
        intercept=torch.randn(5),
        calibration_scale=torch.rand(config.num_calibrated) + 1,
        calibration_offset=torch.randn(config.num_calibrated),
    ).eval()


def interaction(make_base):
    """A maker of interaction matching over a base."""

    def make():
        model = InteractionForMultiLabel.from_base(make_base(), match_embedding_size=10)
        model.set_label_descriptions({f"LABEL_{i}": f"w{i} w{i + 1}" for i in range(5)}, word_tokenizer(WORDS))
        return model.eval()

    return make


def token_ranker():
    return TokenRankerModel(TokenRankerConfig(vocab_size=tiny.VOCAB, num_labels=5, embedding_size=6)).eval()


def language_model():
    return AwdLstmForCausalLM(tiny.awd_lstm_config()).eval()


def bert_classifier():
    return transformers.BertForSequenceClassification(
        tiny.bert_config(num_labels=5, problem_type="multi_label_classification")
    )


CLASSIFIERS = tiny.CLASSIFIERS | {
    "leam": leam,
    "tfidf_linear": tfidf,
    "interaction_over_caml": interaction(tiny.zoo("caml")),
    "interaction_over_leam": interaction(leam),
    "interaction_over_tfidf_linear": interaction(tfidf),
    "interaction_over_plant": interaction(tiny.plant()),
    "interaction_over_plant_bidirectional": interaction(tiny.plant(backward=True)),
    "interaction_over_plm_icd": interaction(tiny.zoo("plm_icd")),
    "interaction_over_bert": interaction(bert_classifier),
}
MODELS = CLASSIFIERS | {"token_ranker": token_ranker, "awd_lstm": language_model}


def inputs(name: str) -> dict[str, torch.Tensor]:
    """Arguments of `forward`."""
    ids, mask = tiny.documents()
    if name == "token_ranker":
        return {"label_ids": torch.arange(5), "token_ids": torch.arange(20)}
    return {"input_ids": ids[:, 0].clone()} if name == "awd_lstm" else {"input_ids": ids, "attention_mask": mask}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Path:
    """Every model saved, and loaded once by a process that has no hf_labelattn: one process, to save time."""
    root = tmp_path_factory.mktemp("checkpoints")
    for name, make in MODELS.items():
        make().save_pretrained(root / name)
        save_file(inputs(name), root / name / "inputs.safetensors")
    script = Path(__file__).with_name("load_without_package.py")
    environment = {**os.environ, "HF_HOME": str(root / "home"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-I", str(script), str(root)]
    child = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-3000:]
    return root


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_both_ways_give_the_same_logits(name, checkpoints):
    folder = checkpoints / name
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    if name in CLASSIFIERS:
        assert auto_map.keys() == {"AutoConfig", "AutoModel", "AutoModelForSequenceClassification"}
    for auto_class in auto_map.keys() - {"AutoConfig"}:
        model = getattr(transformers, auto_class).from_pretrained(folder).eval()
        assert type(model).__module__.startswith("hf_labelattn.models."), "loaded by the registered class"
        found = load_file(folder / f"{auto_class}.safetensors")["output"]
        assert_close(found, model(**inputs(name))[0])


def test_loaded_from_the_hub_and_saved_again_it_names_its_own_code(tmp_path):
    model = leam()
    model.config.auto_map = {"AutoModelForSequenceClassification": "org/name--modeling_leam.Old"}
    model.save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert auto_map == {
        "AutoConfig": "configuration_leam.LEAMConfig",
        "AutoModel": "modeling_leam.LEAMForSequenceClassification",
        "AutoModelForSequenceClassification": "modeling_leam.LEAMForSequenceClassification",
    }


def test_registering_twice_changes_nothing():
    before = LEAMForSequenceClassification.save_pretrained
    register_auto_classes()
    assert LEAMForSequenceClassification.save_pretrained is before
