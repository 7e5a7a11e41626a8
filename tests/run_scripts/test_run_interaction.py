"""Interaction matching from a shell: over every kind of base, without training, and with unseen labels."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from hf_labelattn.data.tokenization import word_tokenizer

from .. import tiny
from .test_run_label_attention import ENVIRONMENT, ROOT, SMALL, run

SCRIPT = ROOT / "run_scripts" / "run_interaction.py"
LABELS = {"00": "alpha beta", "01": "gamma", "02": "delta of epsilon", "03": "zeta", "04": "omega psi"}
UNTRAINED = "04"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Documents that contain their labels' descriptions; the last label is in the test documents only."""
    folder, generator = tmp_path_factory.mktemp("described"), np.random.default_rng(0)
    for name, count in (("train", 60), ("validation", 30), ("test", 30)):
        with open(folder / f"{name}.jsonl", "w") as file:
            for i in range(count):
                labels = [k for k in LABELS if generator.random() < 0.4 and (k != UNTRAINED or name == "test")]
                words = [LABELS[k] for k in labels] + [f"word{w}" for w in "abcdefghijkl"]
                row = {"id": f"{name}{i}", "text": " ".join(generator.permutation(words)), "labels": labels}
                file.write(json.dumps(row) + "\n")
    words = sorted({w for text in LABELS.values() for w in text.split()} - {"psi"}) + [
        f"word{w}" for w in "abcdefghijkl"
    ]
    lines = [" ".join([word, *(f"{x:.4f}" for x in generator.normal(size=12))]) for word in words]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n")
    rows = [json.dumps({"label": k, "name": text, "description": "unused"}) for k, text in LABELS.items()]
    (folder / "labels.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def command(files, folder, *options):
    splits = [word for s in ("train", "validation", "test") for word in (f"--{s}_file", files / f"{s}.jsonl")]
    described = ["--label_file", files / "labels.jsonl", "--description_column", "name", "--output_dir", folder]
    return [str(word) for word in (sys.executable, SCRIPT, *splits, *described, *SMALL, *options)]


def call(words) -> None:
    """Run a script in this process, which spares its imports."""
    _, script, *arguments = map(str, words)
    name = f"script_{Path(script).stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, script)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [script, *arguments])
        sys.modules[name].main()


def results(folder, split="test"):
    return json.loads((folder / "results.json").read_text())["metrics"][split]


def scores_of(folder, label):
    with np.load(folder / "scores_test.npz") as saved:
        return saved["S"][:, saved["labels"].tolist().index(label)].astype(float)


def truth_of(files, label):
    rows = [json.loads(line) for line in (files / "test.jsonl").read_text().splitlines()]
    return np.array([label in row["labels"] for row in rows])


def separates(files, folder, label):
    scores, truth = scores_of(folder, label), truth_of(files, label)
    return scores[truth].min() > scores[~truth].max()


def test_joint_from_scratch_leaves_all_it_promises_and_scores_a_label_nobody_trained(files, tmp_path):
    options = ("--base", "swem", "--word_vectors", files / "vectors.txt", "--num_train_epochs", 3)
    run(command(files, tmp_path, *options))
    for name in ("model.safetensors", "tokenizer.json", "README.md", "run.json", "scores_test.npz"):
        assert (tmp_path / name).exists(), name
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["base_config"]["model_type"] == "label_attention" and config["match_embedding_size"] == 12
    assert config["label_descriptions"][UNTRAINED] == "omega psi"
    assert separates(files, tmp_path, UNTRAINED)
    coded = tmp_path / "codes.jsonl"
    predict = [sys.executable, ROOT / "run_scripts/predict.py", tmp_path, "--input", files / "test.jsonl"]
    run([str(word) for word in (*predict, "--output", coded, "--top_k", 5)])
    saved = [json.loads(line) for line in coded.read_text().splitlines()]
    assert len(saved) == 30
    # The same scores as in training: "psi" is in no vocabulary, and still matches itself.
    predicted = {row["id"]: dict(zip(row["labels"], row["scores"], strict=True)) for row in saved}
    with np.load(tmp_path / "scores_test.npz") as scores:
        expected = 1 / (1 + np.exp(-scores["S"].astype(float)))
        names = scores["labels"].tolist()
        for row, name in zip(expected, scores["ids"], strict=True):
            for label, probability in zip(names, row, strict=True):
                assert predicted[str(name)][label] == pytest.approx(probability, abs=2e-3)


def test_linear_base_is_cross_fitted_and_stays_as_fitted(files, tmp_path):
    options = ("--base", "linear", "--word_vectors", files / "vectors.txt", "--num_train_epochs", 3, "--folds", 3)
    call(command(files, tmp_path, *options, "--term_weighting", "idf"))
    assert results(tmp_path)["average_precision_macro"] > 0.9 and separates(files, tmp_path, UNTRAINED)
    weights = load_file(tmp_path / "model.safetensors")
    assert 1.5 < weights["matcher.term_weights"].max() <= 1 + np.log(61)
    call(command(files, tmp_path / "alone", *options, "--match", False))
    alone = load_file(tmp_path / "alone/model.safetensors")
    for name in alone:
        if name.startswith("base."):
            np.testing.assert_array_equal(alone[name], weights[name], err_msg=name)


def test_with_nothing_left_to_train_it_reports_what_it_starts_with(files, tmp_path, capsys):
    frozen = ["--freeze_vectors", "True", "--combine", "max", "--score_scale", "paper", "--fit_on", "dev"]
    call(command(files, tmp_path, "--base", "linear", "--word_vectors", files / "vectors.txt", *frozen))
    assert "nothing is left to train" in capsys.readouterr().out
    assert results(tmp_path)["average_precision_macro"] > 0.5


def test_on_top_of_a_trained_base_that_lacks_a_label(files, tmp_path, capsys):
    base = [sys.executable, ROOT / "run_scripts/run_label_attention.py", "--preset", "caml", *SMALL]
    base += ["--train_file", files / "train.jsonl", "--num_train_epochs", "2", "--overrides", '{"hidden_size": 8}']
    call([str(word) for word in (*base, "--output_dir", tmp_path / "base")])
    options = ("--base", tmp_path / "base", "--freeze_base", True, "--num_train_epochs", 2)
    call(command(files, tmp_path / "joint", *options))
    assert "joint weights are fitted on" in capsys.readouterr().out
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("base", "joint"))
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[f"base.{name}"], err_msg=name)
    assert after["base_columns"].tolist() == [0, 1, 2, 3, -1]
    assert not np.array_equal(after["combination.weight"], np.float32(3.0))


def test_bert_reads_pieces_and_the_matcher_words(files, tmp_path):
    tiny.save_bert(
        tmp_path / "bert", [*"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
    )
    common = ("--backbone", tmp_path / "bert", "--num_train_epochs", 1, "--overrides", '{"chunk_size": 16}')
    call(command(files, tmp_path / "words", *common, "--word_vectors", files / "vectors.txt"))
    assert (tmp_path / "words/tokenizer_match.json").exists()
    config = json.loads((tmp_path / "words/config.json").read_text())
    assert config["base_config"]["model_type"] == "bert" and config["match_embedding_size"] == 12
    assert separates(files, tmp_path / "words", UNTRAINED)
    scored = [sys.executable, ROOT / "run_scripts/evaluate.py", "--model", tmp_path / "words"]
    call([*scored, "--test_file", files / "test.jsonl", "--use_cpu", True])
    again = json.loads((tmp_path / "words/results_evaluate.json").read_text())["metrics"]["test"]
    assert again["average_precision_macro"] == pytest.approx(
        results(tmp_path / "words")["average_precision_macro"], abs=1e-6
    )
    call(command(files, tmp_path / "pieces", *common))
    assert json.loads((tmp_path / "pieces/config.json").read_text())["match_vocab_size"] is None


def test_zero_shot_needs_no_training_file(files, tmp_path):
    words = [sys.executable, SCRIPT, "--zero_shot", True, "--label_file", files / "labels.jsonl", "--use_cpu", True]
    words += ["--description_column", "name", "--word_vectors", files / "vectors.txt"]
    call([str(w) for w in (*words, "--test_file", files / "test.jsonl", "--output_dir", tmp_path / "scored")])
    assert results(tmp_path / "scored")["average_precision_macro"] > 0.9
    call([str(w) for w in (*words, "--output_dir", tmp_path / "saved")])
    predict = [
        sys.executable,
        ROOT / "run_scripts/predict.py",
        "--model",
        tmp_path / "saved",
        "--input",
        files / "test.jsonl",
    ]
    call([str(w) for w in (*predict, "--output", tmp_path / "codes.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "codes.jsonl").read_text().splitlines()]
    true = [set(json.loads(line)["labels"]) for line in (files / "test.jsonl").read_text().splitlines()]
    found = [set(row["labels"]) for row in rows]
    assert np.mean([one == other for one, other in zip(true, found, strict=True)]) > 0.9


def test_on_top_of_plant(files, tmp_path):
    words = sorted({w for text in LABELS.values() for w in text.split()}) + [f"word{w}" for w in "abcdefghijkl"]
    names = dict(enumerate(LABELS))
    base = tiny.plant()(id2label=names, label2id={name: i for i, name in names.items()})
    base.save_pretrained(tmp_path / "plant")
    word_tokenizer(words).save_pretrained(tmp_path / "plant")
    options = ("--base", tmp_path / "plant", "--num_train_epochs", 4, "--combine", "noisy_or")
    call(command(files, tmp_path / "joint", *options))
    config = json.loads((tmp_path / "joint/config.json").read_text())
    assert config["base_config"]["model_type"] == "plant" and config["match_embedding_size"] == 10
    assert separates(files, tmp_path / "joint", UNTRAINED)


def test_a_mistake_is_one_line_and_exit_code_2(files, tmp_path):
    done = subprocess.run(command(files, tmp_path, "--base", "caml2"), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "There is no base 'caml2'. Choose bert, bigru, caml" in done.stderr


def test_zero_shot_refuses_a_training_file(files, tmp_path):
    with pytest.raises(ValueError, match="Leave out `--train_file`"):
        call(command(files, tmp_path, "--zero_shot", True, "--word_vectors", files / "vectors.txt"))
