"""Push to a Hub on loopback through the real client, and load back what arrived there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.hub.model_card import card_from_folder
from hf_labelattn.hub.push import card_text, files_to_push, push_folder
from hf_labelattn.registration import register_auto_classes

from .. import tiny
from .hub_server import HubServer

register_auto_classes()
HERE = Path(__file__).parent
SCRIPT = HERE.parent.parent / "run_scripts" / "push_to_hub.py"
LEFT_BEHIND = ("training_args.bin", "scores_test.npz", "run.json", "checkpoint-5/model.safetensors", "notes.jsonl")


def save_checkpoint(folder: Path, training_data: dict | None = None):
    """A bidirectional PLANT with tokenizer, results, and files that must not leave the machine."""
    model = tiny.plant(backward=True)(training_data=training_data or {"name": "synthetic_notes", "train_documents": 9})
    model.config.encoder_config._name_or_path = "/home/somebody/language_model"
    model.save_pretrained(folder)
    word_tokenizer([f"w{i}" for i in range(tiny.VOCAB - 2)]).save_pretrained(folder)
    (folder / "results.json").write_text(json.dumps({"metrics": {"test": {"f1_micro": 0.5}}}))
    (folder / "checkpoint-5").mkdir()
    for name in LEFT_BEHIND:
        (folder / name).write_text("{}")
    return model


def run_python(hub: HubServer, home: Path, *arguments) -> str:
    """Run Python against the loopback Hub in an environment of its own; gives what it printed."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    hub_variables = {"HF_ENDPOINT": hub.url, "HF_TOKEN": hub.token, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *(str(argument) for argument in arguments)]
    child = subprocess.run(command, env={**keep, **hub_variables, **quiet}, cwd=home, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-3000:]
    return child.stdout


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """Two processes, one with and one without hf_labelattn, and what the Hub holds after them."""
    folder, home = tmp_path_factory.mktemp("runs") / "demo", tmp_path_factory.mktemp("home")
    model = save_checkpoint(folder)
    ids, mask = tiny.documents()
    save_file({"input_ids": ids, "attention_mask": mask}, folder / "inputs.safetensors")
    with HubServer() as hub:
        printed = run_python(hub, home, HERE / "round_trip.py", folder, SCRIPT, "org/plant-demo").splitlines()
        other_home = tmp_path_factory.mktemp("other_home")
        run_python(hub, other_home, "-I", HERE / "load_without_package.py", folder, "org/plant-demo")
    with torch.no_grad():
        logits = model(ids, mask).logits
        probabilities = model(torch.tensor([[5, 6, 7]])).logits.sigmoid()[0]  # "w3 w4 w5"
    found = json.loads(printed[-1])
    return SimpleNamespace(
        folder=folder, hub=hub, found=found, said=printed[0], logits=logits, probabilities=probabilities
    )


def test_repositories_are_private(pushed):
    assert pushed.hub.repositories["org/plant-demo"].private
    assert pushed.hub.repositories["org/from-model"].private
    assert pushed.said.endswith("(private)")


def test_loads_with_the_library(pushed):
    assert_close(torch.tensor(pushed.found["logits"]), pushed.logits)
    assert pushed.found["class"] == "hf_labelattn.models.modeling_plant"


@pytest.mark.parametrize("auto_class", ["AutoModel", "AutoModelForSequenceClassification"])
def test_loads_without_the_library(pushed, auto_class):
    assert_close(load_file(pushed.folder / f"{auto_class}.safetensors")["output"], pushed.logits)


def test_pipeline_gives_the_best_labels(pushed):
    best = pushed.probabilities.topk(3)
    assert [row["label"] for row in pushed.found["pipeline"]] == [f"LABEL_{i}" for i in best.indices.tolist()]
    assert_close(torch.tensor([row["score"] for row in pushed.found["pipeline"]]), best.values)


def test_only_what_others_need_is_uploaded(pushed):
    files = pushed.hub.repositories["org/plant-demo"].files
    assert {"config.json", "model.safetensors", "tokenizer.json", "modeling_plant.py", "README.md"} <= files.keys()
    assert not files.keys() & set(LEFT_BEHIND)
    assert not any(b"/home/somebody" in content for content in files.values())
    card = files["README.md"].decode()
    assert 'Predictor("org/plant-demo")' in card
    assert "f1_micro" in card


def test_visibility_of_an_existing_repository_is_respected(pushed):
    on_public, on_private = pushed.found["refusals"]
    assert "org/public exists and is public" in on_public
    assert "org/plant-demo exists and is private" in on_private
    assert not pushed.hub.repositories["org/public"].files


class TestRefusals:
    def test_weights_of_credentialed_data_do_not_go_public(self, tmp_path):
        save_checkpoint(tmp_path / "run", {"terms": "physionet"})
        with pytest.raises(ValueError, match="PhysioNet Credentialed Health Data License.*--i_have_permission"):
            push_folder(tmp_path / "run", "org/mimic", public=True)

    def test_model_push_to_hub_refuses_too(self, tmp_path):
        model = tiny.zoo("swem")(training_data={"terms": "physionet"})
        with pytest.raises(ValueError, match="PhysioNet"):
            model.push_to_hub("org/mimic", private=False)

    def test_a_card_without_the_terms_is_refused(self, tmp_path):
        save_checkpoint(tmp_path / "run", {"terms": "physionet"})
        (tmp_path / "run" / "README.md").write_text("# My model\n")
        with pytest.raises(ValueError, match="README.md does not carry the PhysioNet"):
            push_folder(tmp_path / "run", "org/mimic")

    def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="There is no folder .*nothing"):
            push_folder(tmp_path / "nothing", "org/x")

    @pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
    def test_a_folder_without_a_model(self, tmp_path, missing):
        other = {"config.json": "model.safetensors", "model.safetensors": "config.json"}[missing]
        (tmp_path / other).write_text("{}")
        with pytest.raises(FileNotFoundError, match=f"has no {missing}, so it is not a finished model"):
            push_folder(tmp_path, "org/x")


def test_files_of_subfolders_stay(tmp_path):
    (tmp_path / "ranker").mkdir()
    for name in ("model.safetensors", "ranker/model.safetensors", "predictions.jsonl"):
        (tmp_path / name).write_text("")
    assert [path.name for path in files_to_push(tmp_path)] == ["model.safetensors"]


def test_a_card_gets_the_name_it_has_on_the_hub_unless_it_was_edited(tmp_path):
    save_checkpoint(tmp_path / "run")
    readme = tmp_path / "run" / "README.md"
    card_from_folder(tmp_path / "run").save(readme)
    assert card_text(tmp_path / "run", "org/name").count("org/name") > 2
    readme.write_text(readme.read_text() + "\nMy own words.\n")
    assert card_text(tmp_path / "run", "org/name").endswith("My own words.\n")
