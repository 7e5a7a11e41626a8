"""The script as a user runs it: from a shell, killed and continued, on one process and on two."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from .. import tiny

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "run_scripts" / "run_label_attention.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
SMALL = [
    "--use_cpu",
    "True",
    "--disable_tqdm",
    "True",
    "--per_device_train_batch_size",
    "8",
    "--learning_rate",
    "0.01",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tiny.write_sign_documents(tmp_path_factory.mktemp("notes"))


def command(files, folder, *options, launcher=(sys.executable,)):
    common = ["--train_file", files / "train.jsonl", "--test_file", files / "test.jsonl", "--output_dir", folder]
    return [str(word) for word in (*launcher, SCRIPT, *common, *SMALL, *options)]


def run(words, **kwargs):
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, **kwargs)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_a_run_leaves_all_it_promises(files, tmp_path):
    done = run(command(files, tmp_path, "--preset", "swem", "--num_train_epochs", 3))
    assert "f1_micro" in done.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert {"validation", "test"} <= set(results["metrics"])
    assert 0 <= results["metrics"]["test"]["f1_macro_mullenbach"] <= 1
    for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md", "run.json", "scores_test.npz"):
        assert (tmp_path / name).exists(), name
    with np.load(tmp_path / "scores_test.npz", allow_pickle=False) as scores:
        assert scores["S"].dtype == np.float16 and scores["S"].shape == (20, 5)
        assert scores["labels"].tolist() == ["00", "01", "02", "03", "04"]
        assert scores["ids"][0].startswith("test")
    again = run(command(files, tmp_path, "--preset", "swem", "--num_train_epochs", 3))
    assert "holds a finished run" in again.stderr
    evaluated = run([sys.executable, ROOT / "run_scripts/evaluate.py", tmp_path, "--test_file", files / "test.jsonl"])
    assert "f1_micro" in evaluated.stdout
    found = json.loads((tmp_path / "results_evaluate.json").read_text())["metrics"]["test"]
    assert found["f1_micro"] == pytest.approx(results["metrics"]["test"]["f1_micro"])
    coded = tmp_path / "codes.jsonl"
    run(
        [sys.executable, ROOT / "run_scripts/predict.py", tmp_path, "--input", files / "test.jsonl", "--output", coded]
    )
    assert len(coded.read_text().splitlines()) == 20


def test_the_linear_yardstick_runs_the_same_way(files, tmp_path):
    run(command(files, tmp_path, "--preset", "linear"))
    assert json.loads((tmp_path / "results.json").read_text())["metrics"]["test"]["f1_micro"] > 0.8


def test_killed_and_continued_gives_the_same_results(files, tmp_path):
    options = ("--preset", "caml", "--num_train_epochs", 8, "--overrides", '{"hidden_size": 16}')
    run(command(files, tmp_path / "whole", *options))
    process = subprocess.Popen(command(files, tmp_path / "cut", *options), env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (checkpoints := list((tmp_path / "cut").glob("checkpoint-*/trainer_state.json"))):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoints and not (tmp_path / "cut/results.json").exists()
    done = run(command(files, tmp_path / "cut", *options))
    assert "continuing the interrupted run" in done.stderr
    assert (tmp_path / "cut/results.json").read_text() == (tmp_path / "whole/results.json").read_text()


def test_a_search_compares_settings_on_dev_only(files, tmp_path):
    space = {"learning_rate": [1e-6, 0.05], "overrides.dropout": [0.0, 0.9]}
    options = ["--preset", "swem", "--num_train_epochs", 3, "--metric_for_best_model", "average_precision_macro"]
    options += ["--search_space", json.dumps(space), "--search_trials", 9]
    done = run(command(files, tmp_path / "search", *options))
    found = json.loads((tmp_path / "search/search.json").read_text())
    tried = [tuple(trial["settings"].values()) for trial in found["trials"]]
    assert sorted(tried) == [(1e-6, 0.0), (1e-6, 0.9), (0.05, 0.0), (0.05, 0.9)], "each combination once"
    assert found["metric"] == "average_precision_macro" and found["best"]["learning_rate"] == 0.05
    assert max(trial["value"] for trial in found["trials"] if trial["settings"]["learning_rate"] == 1e-6) < 0.9
    assert all(0 < trial["epoch"] <= 3 for trial in found["trials"])
    assert done.stdout.count("trial ") == 4 and "best on dev" in done.stdout
    assert not (tmp_path / "search/results.json").exists() and "test" not in done.stdout


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(files, tmp_path):
    options = ["--preset", "caml", "--num_train_epochs", 2, "--overrides", '{"hidden_size": 16, "dropout": 0.0}']
    launcher = (sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
    run(command(files, tmp_path / "one", *options))
    words = command(files, tmp_path / "two", *options, launcher=launcher)
    words[words.index("--per_device_train_batch_size") + 1] = "4"
    run(words)
    assert json.loads((tmp_path / "two/run.json").read_text())["world_size"] == 2
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name in one:
        np.testing.assert_allclose(one[name], two[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "caml2"], "There is no preset 'caml2'. Choose one of: bigru, caml"),
        (["--learning_rates", '{"^encodr": 1e-4}'], "matches no parameter"),
        (["--overrides", "{hidden}"], "`--overrides` is not JSON"),
        (["--search_trials", "2", "--search_space", '{"rate": [1]}'], "neither a training argument nor"),
        (["--search_trials", "2", "--search_space", '{"learning_rate": 1}'], "Give a list of the values to try"),
        (["--labels_column", "codes"], "codes"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(files, tmp_path, options, message):
    done = subprocess.run(command(files, tmp_path, *options), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
