"""The command that writes the embedded corpus."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "make_synthetic_notes.py"
SMALL = "--num_documents 40 --num_labels 60 --length_scale 0.2 --codes_per_note 4 --seed 1".split()


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_same_command_writes_the_same_bytes_and_prints_the_figures(monkeypatch, tmp_path, capsys):
    for folder in ("first", "second"):
        run(monkeypatch, *SMALL, "--output_dir", tmp_path / folder)
    files = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert files == ["labels.jsonl", "test.jsonl", "train.jsonl", "validation.jsonl"]
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    printed = capsys.readouterr().out
    assert "num_documents" in printed and "exact_match_f1_micro" in printed and "linear_f1_micro" in printed


def test_rows_hold_what_the_other_scripts_read(monkeypatch, tmp_path):
    run(monkeypatch, *SMALL, "--output_dir", tmp_path, "--linear_model", "False")
    descriptions = {row["label"]: row["description"] for row in read(tmp_path / "labels.jsonl")}
    rows = [row for split in ("train", "validation", "test") for row in read(tmp_path / f"{split}.jsonl")]
    assert len(descriptions) == 60 and len(rows) == 40
    for row in rows:
        assert list(row) == ["id", "group", "text", "labels", "evidence"]
        assert set(row["labels"]) <= descriptions.keys()
        assert all(row["text"][span["start"] : span["end"]].strip() for span in row["evidence"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--num_documents", "2", "--output_dir", "x"], "expected at least 10"),
        (["--num_documents", "10"], "required: --output_dir"),
    ],
)
def test_a_bad_size_is_one_clear_error(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
