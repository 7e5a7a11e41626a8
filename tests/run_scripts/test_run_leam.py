"""LEAM from a shell: labels start among the words that describe them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from hf_labelattn import DataArguments, LEAMConfig, new_leam, phrase_rate, prepare_data
from hf_labelattn.training import leam

from .test_run_label_attention import ENVIRONMENT, ROOT, SMALL, run

SCRIPT = ROOT / "run_scripts" / "run_leam.py"
CLASSES = ("sport", "music", "money")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Documents of one class each, vectors in which the words of a class are close, and descriptions.

    The description of the last class is a word that no document has.
    """
    folder, generator = tmp_path_factory.mktemp("classes"), np.random.default_rng(0)
    for name, count in (("train", 60), ("test", 30)):
        with open(folder / f"{name}.jsonl", "w") as file:
            for i in range(count):
                kind = CLASSES[i % 3]
                words = [f"{kind}{w}" for w in "abcdef"[: 1 + i % 4]] + [f"other{w}" for w in "abcdefghij"]
                row = {"id": f"{name}{i}", "text": " ".join(generator.permutation(words)), "labels": [kind]}
                file.write(json.dumps(row) + "\n")
    vectors = {
        f"{kind}{w}": np.eye(4)[k] + generator.normal(0, 0.1, 4) for k, kind in enumerate(CLASSES) for w in "abcd"
    }
    vectors |= {f"other{w}": np.eye(4)[3] + generator.normal(0, 0.1, 4) for w in "abcdefghij"}
    vectors["wealth"] = np.eye(4)[2]
    lines = [" ".join([word, *(f"{x:.4f}" for x in row)]) for word, row in vectors.items()]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n")
    described = zip(CLASSES, ("sporta sportb", "musica", "Wealth"), strict=True)
    rows = [json.dumps({"label": label, "description": text}) for label, text in described]
    (folder / "labels.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def command(files, folder, *options):
    common = ["--train_file", files / "train.jsonl", "--test_file", files / "test.jsonl", "--output_dir", folder]
    return [str(word) for word in (sys.executable, SCRIPT, *common, *SMALL, *options)]


def test_single_label_with_vectors(files, tmp_path):
    options = ("--single_label", True, "--num_train_epochs", 15, "--label_file", files / "labels.jsonl")
    options += ("--overrides", '{"sharpness": 3}')
    done = run(command(files, tmp_path, *options, "--word_vectors", files / "vectors.txt", "--figures", True))
    assert "3 of 3 labels start from the words of their description" in done.stdout
    beyond = int(re.search(r"([\d,]+) parameters beyond the word table", done.stdout)[1].replace(",", ""))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["embedding_size"] == 4 and config["pooling"] == "max"
    assert beyond == 3 * 4 + 101 + 3 + 3 * 4 + 3  # labels, shared phrase kernel and bias, classifier
    assert json.loads((tmp_path / "results.json").read_text())["metrics"]["test"]["accuracy"] > 0.85
    for name in ("model.safetensors", "tokenizer.json", "README.md", "run.json", "scores_test.npz"):
        assert (tmp_path / name).exists(), name
    rates = json.loads((tmp_path / "run.json").read_text())["arguments"]
    assert rates["learning_rates"] == {"phrase_weight": rates["learning_rate"] / 10}
    for name in ("cosines.png", "joint_space.png"):
        assert str(tmp_path / name) in done.stdout
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_multi_label_without_vectors(files, tmp_path):
    overrides = '{"embedding_size": 8, "phrase_conv": null}'
    run(command(files, tmp_path, "--num_train_epochs", 1, "--overrides", overrides))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["pooling"] == "label" and config["phrase_conv"] is None
    assert load_file(tmp_path / "model.safetensors")["attention.label_embeddings"].shape == (3, 8)
    assert "f1_micro" in json.loads((tmp_path / "results.json").read_text())["metrics"]["test"]


def test_vectors_of_another_width_are_refused(files, tmp_path):
    options = ("--word_vectors", files / "vectors.txt", "--overrides", '{"embedding_size": 8}')
    done = subprocess.run(command(files, tmp_path, *options), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Set `embedding_size=4`" in done.stderr and "Traceback" not in done.stderr


def test_a_sharp_kernel_learns_slowly_and_a_random_one_at_the_common_rate():
    def rate(**fields):
        return phrase_rate(LEAMConfig(vocab_size=9, num_labels=2, embedding_size=4, **fields), 1.01)

    assert rate(pooling="label", sharpness=5) == {"phrase_weight": pytest.approx(0.01)}
    assert rate(pooling="max", sharpness=1) == {"phrase_weight": pytest.approx(0.101)}
    assert rate(sharpness=0) == {} and rate(phrase_conv=None) == {}


def test_a_random_kernel_only_where_thousands_of_documents_train_it(monkeypatch):
    data = prepare_data(DataArguments(dataset_name="synthetic_notes", num_documents=40, synthetic_length=0.1))
    starts = {}
    for enough in (10, 10_000):
        monkeypatch.setattr(leam, "ENOUGH_FOR_RANDOM", enough)
        starts[enough] = [
            new_leam(data, single_label=True, embedding_size=4).config.sharpness,
            new_leam(data, single_label=True, embedding_size=4, sharpness=2).config.sharpness,
            new_leam(data, embedding_size=4).config.sharpness,
        ]
    assert starts == {10: [0, 2, 5], 10_000: [1, 2, 5]}
