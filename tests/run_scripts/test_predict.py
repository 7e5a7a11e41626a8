"""The prediction script: a folder of notes to a file of codes, one note to a page."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from ..inference.notes import make_predictor, text

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "predict.py"


@pytest.fixture
def model(tmp_path):
    predictor = make_predictor("plant")
    predictor.model.config.label_descriptions = {"LABEL_0": "First & foremost"}
    predictor.model.save_pretrained(tmp_path / "model")
    predictor.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def predict(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments), "--use_cpu", "True"])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_notes_become_codes_with_evidence(model, tmp_path, monkeypatch):
    notes = [{"id": f"n{i}", "text": text(10 + 5 * i, i)} for i in range(3)]
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, notes)))
    options = "--input", tmp_path / "notes.jsonl", "--output", tmp_path / "codes.jsonl", "--top_k", 2
    predict(monkeypatch, model, *options)
    plain = [json.loads(line) for line in (tmp_path / "codes.jsonl").read_text().splitlines()]
    assert [row["id"] for row in plain] == ["n0", "n1", "n2"] and "evidence" not in plain[0]
    predict(monkeypatch, model, *options, "--evidence", "True", "--top_tokens", 3)
    rows = [json.loads(line) for line in (tmp_path / "codes.jsonl").read_text().splitlines()]
    for note, row, before in zip(notes, rows, plain, strict=True):
        assert row["labels"] == before["labels"] and len(row["evidence"]) == 2
        for span in (span for spans in row["evidence"] for span in spans):
            assert note["text"][span["start"] : span["end"]] == span["text"]


def test_one_note_becomes_a_page(model, tmp_path, monkeypatch, capsys):
    (tmp_path / "note.txt").write_text(text(20))
    page = tmp_path / "pages" / "note.html"
    predict(monkeypatch, model, "--input", tmp_path / "note.txt", "--html", page, "--top_k", 5)
    assert "page of 5 codes" in capsys.readouterr().out
    assert "First &amp; foremost" in page.read_text() and "<mark" in page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["note.html"]


@pytest.mark.parametrize(
    ("options", "message"),
    [((), "Nothing to write. Pass `--output"), (("--html", "a.html"), "pass a .txt file as `--input`")],
)
def test_what_cannot_be_written_is_said(model, options, message, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        predict(monkeypatch, model, "--input", "notes.jsonl", *options)
    assert ended.value.code == 2 and message in capsys.readouterr().err
