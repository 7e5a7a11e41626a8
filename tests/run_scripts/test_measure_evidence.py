"""The script that measures evidence: several models, one table, the same figures as JSON."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from hf_labelattn.data.tokenization import word_tokenizer

from .. import tiny
from ..inference.notes import WORDS, word_classifier, words

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "measure_evidence.py"
NOTES = [words(20, 5, 21, 22, 9, 23, 24), words(9, 30, 31, 9, 32, 33), words(40, 41, 5, 42)]
MARKS = {"a": words(5), "b": words(9)}


def spans(note: str) -> list[dict]:
    places = [(label, i) for label, mark in MARKS.items() for i in range(len(note)) if note.startswith(mark, i)]
    return [{"label": label, "start": i, "end": i + len(MARKS[label])} for label, i in places]


@pytest.fixture
def folder(tmp_path):
    """A model whose evidence is perfect, one that knows nothing, and documents with and without true spans."""
    names = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}}
    random = tiny.plant(backward=True)(2, **names)
    for name, model in (("words", word_classifier({"a": 5, "b": 9})), ("random", random)):
        model.save_pretrained(tmp_path / name)
        word_tokenizer(WORDS).save_pretrained(tmp_path / name)
    rows = [{"id": str(i), "text": note, "evidence": spans(note)} for i, note in enumerate(NOTES)]
    rows = [{**row, "labels": sorted({span["label"] for span in row["evidence"]})} for row in rows]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    bare = [{name: value for name, value in row.items() if name != "evidence"} for row in rows]
    (tmp_path / "bare.jsonl").write_text("\n".join(map(json.dumps, bare)))
    return tmp_path


def measure(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments), "--use_cpu", "True"])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_models_are_compared_in_one_table(folder, monkeypatch, capsys):
    options = "--test_file", folder / "test.jsonl", "--top_tokens", 1, 4, "--output", folder / "evidence.json"
    measure(monkeypatch, folder / "words", folder / "random", *options)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| words", "| words", "| random", "| random"]
    found = json.loads((folder / "evidence.json").read_text())
    rows = {(row["model"], row["top_tokens"]): row for row in found["rows"]}
    assert found["documents"] == 3 and rows["words", 4]["explained"] == 4
    best = rows["words", 4]
    assert best["span_precision"] == best["span_recall"] == 1.0 > best["span_precision_random"]
    assert rows["words", 1]["span_recall"] == 4 / 5  # one note has a word twice
    assert rows["random", 4]["span_precision"] < 1.0
    assert f"| words | 4 | 4 | 1.000 ({best['span_precision_random']:.3f}) | 1.000 (" in lines[3]


def test_without_true_spans_faithfulness_is_left(folder, monkeypatch, capsys):
    measure(monkeypatch, folder / "words", "--test_file", folder / "bare.jsonl", "--max_documents", 2)
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.startswith("| words | 8 | 3 | – | – | 0.") and WORDS[3] not in row


def test_labels_the_model_misses_can_be_left_out(folder, monkeypatch, capsys):
    config = json.loads((folder / "words" / "config.json").read_text())
    (folder / "words" / "config.json").write_text(json.dumps({**config, "label_thresholds": [0.1, 1.1]}))
    options = "--test_file", folder / "test.jsonl", "--only_recognised", "True"
    measure(monkeypatch, folder / "words", *options)
    assert capsys.readouterr().out.splitlines()[-1].startswith("| words | 8 | 2 | 1.000")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "train"), "no split 'train' (found: test)"),
        (("--top_tokens", "0"), "must be 1 or more"),
        (("--output", "a.md"), "must end in .json"),
    ],
)
def test_bad_options_are_refused(folder, monkeypatch, capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        measure(monkeypatch, folder / "words", "--test_file", folder / "test.jsonl", *options)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_data_of_another_label_set_is_refused(folder, monkeypatch, capsys):
    (folder / "other.jsonl").write_text(json.dumps({"id": "1", "text": NOTES[0], "labels": ["z"]}))
    with pytest.raises(SystemExit):
        measure(monkeypatch, folder / "words", "--test_file", folder / "other.jsonl")
    assert "none of the documents' labels" in capsys.readouterr().err
