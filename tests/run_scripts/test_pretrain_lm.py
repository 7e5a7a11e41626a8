"""The language model script: from files to a folder, killed and continued, alone and in two processes."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hf_labelattn.models.modeling_awd_lstm import AwdLstmForCausalLM

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "pretrain_lm.py"
SIZES = {"embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2}
NO_DROPOUT = {"dropout_multiplier": 0.0, "activation_regularization": 0.0, "temporal_activation_regularization": 0.0}


@pytest.fixture
def text_file(tmp_path):
    """Notes that count upwards from a random place, without labels."""
    generator = torch.Generator().manual_seed(0)
    starts = torch.randint(26, (40,), generator=generator).tolist()
    rows = [{"text": " ".join(f"w{chr(97 + (start + i) % 26)}" for i in range(40))} for start in starts]
    path = tmp_path / "notes.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def options(text_file, folder, sizes=SIZES, **changes):
    values = {"train_file": text_file, "output_dir": folder, "overrides": json.dumps(sizes), "use_cpu": True}
    values |= {"num_train_epochs": 3, "batch_size": 4, "bptt": 10, "save_steps": 5, "learning_rate": 0.03, **changes}
    return [part for name, value in values.items() for part in (f"--{name}", str(value))]


def run_here(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    importlib.import_module("pretrain_lm").main()


def read(folder, name="results.json"):
    return json.loads((Path(folder) / name).read_text())


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[1])}


def test_a_model_is_trained_and_another_vocabulary_starts_from_it(text_file, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "lm"
    run_here(options(text_file, folder), monkeypatch)
    results = read(folder)
    found = results["metrics"]["validation"]
    assert found["perplexity"] < found["unigram_perplexity"]
    printed = capsys.readouterr().out
    assert f"dev perplexity {found['perplexity']:.2f}" in printed and "unigram model" in printed
    assert results["documents"]["train"] + results["documents"]["validation"] == 40
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    run_here(options(text_file, folder), monkeypatch)
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed

    other = tmp_path / "other.jsonl"
    other.write_text(text_file.read_text().replace("wa", "alpha"))
    second = options(other, tmp_path / "second", sizes={}, model_name_or_path=folder, num_train_epochs=1)
    run_here(second, monkeypatch)
    assert read(tmp_path / "second")["coverage"]["shared"] == 27
    assert "27 of 28 words keep their vectors" in capsys.readouterr().out
    assert read(tmp_path / "second")["history"][0]["perplexity"] < results["history"][0]["perplexity"]

    wrong = options(other, tmp_path / "third", sizes={}, model_name_or_path=folder, direction="backward")
    with pytest.raises(ValueError, match="reads forward. Pass `--direction forward`"):
        run_here(wrong, monkeypatch)


def wait_for(condition, seconds=120):
    """Wait until something is there."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def test_killed_and_run_again_gives_the_same_results(text_file, tmp_path, monkeypatch):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, str(SCRIPT), *options(text_file, killed, num_train_epochs=4, save_steps=1)]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: any(killed.glob("checkpoint-0001-*")) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "results.json").exists()
    run_here(options(text_file, killed, num_train_epochs=4, save_steps=50), monkeypatch)
    assert read(killed, "run.json")["resumed"]
    run_here(options(text_file, whole, num_train_epochs=4, save_steps=50), monkeypatch)
    assert read(killed) == read(whole)


@pytest.mark.slow
def test_two_processes_train_as_one_with_twice_the_rows(text_file, tmp_path, monkeypatch):
    sizes = {**SIZES, **NO_DROPOUT}
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    arguments = options(text_file, tmp_path / "two", sizes, batch_size=2, num_train_epochs=1)
    done = subprocess.run([*launch, str(SCRIPT), *arguments], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "two", "run.json")["processes"] == 2
    run_here(options(text_file, tmp_path / "one", sizes, batch_size=4, num_train_epochs=1), monkeypatch)
    two, one = (AwdLstmForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in ("two", "one"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-4, rtol=1e-3)
    losses = [read(tmp_path / name)["history"][0]["loss"] for name in ("two", "one")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
