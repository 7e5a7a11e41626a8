"""The hybrid from a shell: words alone, with sentence embeddings, for single labels; continued after a kill."""

import json
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from .. import tiny
from .test_run_interaction import LABELS, UNTRAINED, call, files, results, separates  # noqa: F401
from .test_run_label_attention import ROOT, SMALL, run

SCRIPT = ROOT / "run_scripts" / "run_long_tail.py"


def command(files, folder, *options):  # noqa: F811
    splits = [word for s in ("train", "validation", "test") for word in (f"--{s}_file", files / f"{s}.jsonl")]
    described = ["--label_file", files / "labels.jsonl", "--description_column", "name", "--output_dir", folder]
    return [str(word) for word in (sys.executable, SCRIPT, *splits, *described, *SMALL, *options)]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory, files):  # noqa: F811
    folder = tmp_path_factory.mktemp("backbone") / "bert"
    words = {w for text in LABELS.values() for w in text.split()} | {f"word{w}" for w in "abcdefghijkl"}
    tiny.save_bert(folder, sorted(words))
    return folder


def test_all_parts_in_one_checkpoint(files, backbone, tmp_path):  # noqa: F811
    options = ("--word_vectors", files / "vectors.txt", "--backbone", backbone, "--num_train_epochs", 2)
    options += ("--leam_steps", 20)
    run(command(files, tmp_path, *options))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["part_names"] == ["words", "leam", "sentence"] and config["match_vocab_size"] > 10
    assert results(tmp_path)["average_precision_macro"] > 0.9 and separates(files, tmp_path, UNTRAINED)
    coded = tmp_path / "codes.jsonl"
    predict = [sys.executable, ROOT / "run_scripts/predict.py", tmp_path, "--input", files / "test.jsonl"]
    run([str(word) for word in (*predict, "--output", coded, "--top_k", 5)])
    saved = {row["id"]: row for row in map(json.loads, coded.read_text().splitlines())}
    with np.load(tmp_path / "scores_test.npz") as scores:
        expected, names = 1 / (1 + np.exp(-scores["S"].astype(float))), scores["labels"].tolist()
        for row, name in zip(expected, scores["ids"], strict=True):
            found = dict(zip(saved[str(name)]["labels"], saved[str(name)]["scores"], strict=True))
            assert all(found[label] == pytest.approx(p, abs=2e-3) for label, p in zip(names, row, strict=True))


def test_a_finished_part_is_not_trained_again(files, tmp_path):  # noqa: F811
    options = ("--word_vectors", files / "vectors.txt", "--num_train_epochs", 1, "--leam_steps", 4)
    call(command(files, tmp_path, *options))
    first = load_file(tmp_path / "model.safetensors")
    (tmp_path / "results.json").unlink()
    parts = [tmp_path / f"parts/{name}/model.safetensors" for name in ("words", "leam")]
    written = [part.stat().st_mtime_ns for part in parts]
    call(command(files, tmp_path, *options))
    assert [part.stat().st_mtime_ns for part in parts] == written
    again = load_file(tmp_path / "model.safetensors")
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_trained_parts_are_taken_as_they_are(files, backbone, tmp_path):  # noqa: F811
    common = command(files, "unused")[2 : -len(SMALL) - 1]
    common = common[: common.index("--output_dir")]
    for script, folder, options in (
        ("run_interaction.py", "words", ("--base", "linear", "--word_vectors", files / "vectors.txt", "--folds", 2)),
        ("run_label_attention.py", "sentence", ("--preset", "sentence", "--backbone", backbone)),
        ("run_long_tail.py", "joined", ("--words", tmp_path / "words", "--sentence", tmp_path / "sentence")),
    ):
        words = [sys.executable, ROOT / "run_scripts" / script, *common, *SMALL, *options]
        call([str(word) for word in (*words, "--output_dir", tmp_path / folder)])
    joined = load_file(tmp_path / "joined/model.safetensors")
    for i, name in enumerate(("words", "sentence")):
        for key, value in load_file(tmp_path / name / "model.safetensors").items():
            np.testing.assert_array_equal(joined[f"parts.{i}.{key}"], value, err_msg=key)
    assert not (tmp_path / "joined/parts").exists()


def test_single_labels(tmp_path):
    folder = tiny.write_sign_documents(tmp_path)
    for name in ("train", "test"):
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        kept = [json.dumps({**row, "labels": row["labels"][:1]}) for row in rows if row["labels"]]
        (folder / f"{name}.jsonl").write_text("\n".join(kept) + "\n")
    tiny.save_bert(tmp_path / "bert", [f"sign0{k}" for k in range(5)] + [f"word{k}" for k in range(20)])
    words = [sys.executable, SCRIPT, "--train_file", folder / "train.jsonl", "--test_file", folder / "test.jsonl"]
    words += [*SMALL, "--single_label", "True", "--backbone", tmp_path / "bert", "--output_dir", tmp_path / "out"]
    call([str(word) for word in words])
    assert results(tmp_path / "out")["accuracy"] > 0.3
