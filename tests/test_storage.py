"""Files are whole or absent, damage is found, a full disk is understood."""

import json
import os
import random
import subprocess
import sys

import pytest
import torch

from hf_labelattn import LabelAttentionForMultiLabel, Predictor, load_model, replacing, save_whole, write_json
from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.storage import check_archive, is_disk_full, load_archive
from hf_labelattn.training.checkpoints import last_whole_checkpoint
from hf_labelattn.training.cli import run

from . import tiny
from .inference.notes import WORDS
from .stress.corrupted import cut, flip, one_label_more, refuses


@pytest.fixture
def model(tmp_path):
    save_whole(tmp_path / "model", tiny.zoo("caml")(), word_tokenizer(WORDS))
    return tmp_path / "model"


def test_an_error_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(RuntimeError), replacing(tmp_path / "a.json") as partial:
        partial.write_text("half")
        raise RuntimeError
    assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_a_killed_process_left_is_removed(tmp_path):
    killed = "import os, signal\nfrom hf_labelattn.storage import replacing\n"
    killed += "with replacing('a.json') as p:\n    p.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    assert subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, env=environment).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1 and not (tmp_path / "a.json").exists()
    write_json(tmp_path / "a.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_sound_model_loads(model):
    assert Predictor(str(model), device="cpu").predict(["wordaa"], top_k=2)
    assert isinstance(load_model(LabelAttentionForMultiLabel, model), LabelAttentionForMultiLabel)


@pytest.mark.parametrize("number", range(5))
def test_a_flipped_bit_is_found(model, number):
    flip(model / "model.safetensors", random.Random(number))
    refuses(model)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_cut_and_missing_files_are_refused_in_a_sentence(model, name):
    cut(model / name, random.Random(1))
    refuses(model)
    (model / name).unlink()
    refuses(model)


def test_another_number_of_labels_is_refused(model):
    one_label_more(model)
    refuses(model)


def test_an_archive_with_a_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "state.pt"
    torch.save({"a": torch.zeros(1000)}, path)
    check_archive(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot be gone on from.*Remove"):
        load_archive(path)


def test_a_checkpoint_that_is_not_whole_is_left_out(tmp_path, caplog):
    for step in (5, 10):
        folder = tmp_path / f"checkpoint-{step}"
        save_whole(folder, tiny.zoo("caml")())
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            torch.save({"a": torch.zeros(3)}, folder / name)
        (folder / "trainer_state.json").write_text("{}")
    assert last_whole_checkpoint(tmp_path).name == "checkpoint-10"
    assert last_whole_checkpoint(tmp_path, world_size=2) is None
    (tmp_path / "checkpoint-10" / "trainer_state.json").write_text("{")
    assert last_whole_checkpoint(tmp_path).name == "checkpoint-5"
    assert "checkpoint-10 is left out" in caplog.text
    assert last_whole_checkpoint(tmp_path / "nowhere") is None


def test_a_full_disk_is_one_line(capsys):
    def full() -> None:
        with open("/dev/full", "w") as file:
            file.write("x")

    with pytest.raises(SystemExit) as ended:
        run(full)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: The disk is full. Free some space")
    assert not is_disk_full(ValueError("x")) and not is_disk_full(None)
