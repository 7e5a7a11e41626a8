"""The README's table of speed is what benchmarks/results.json says, and the harness keeps its rows straight."""

import json

import pytest

from benchmarks import measuring, readme, run

ROW = {"name": "kernel", "ratio": 1.2, "goal": 1.5, "unit": "× limit", "ours_s": 1.2, "reference_s": 1.0, "peak_mb": 3}


def test_the_readme_shows_what_was_measured():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.with_table(text, json.loads(run.RESULTS.read_text(encoding="utf-8"))) == text


def test_every_measured_row_has_the_row_form():
    for row in json.loads(run.RESULTS.read_text(encoding="utf-8")):
        assert set(row) - {"note"} == {"bench", *ROW}
        assert ("note" in row) != measuring.is_met(row), row["name"]


def test_a_readme_without_marks_is_refused():
    with pytest.raises(ValueError, match="<!-- bench -->"):
        readme.with_table("nothing", [])


def test_a_missed_row_says_why(monkeypatch):
    monkeypatch.setattr(measuring, "busy", lambda: None)
    row = measuring.make_row("kernel", 3.0, 2.0, "× limit", why="It is far.")
    assert row["note"] == "It is far."
    assert "missed because: It is far." in run.table([row])
    assert "no: It is far." in readme.markdown([row])
    assert "note" not in measuring.make_row("kernel", 2.0, 2.0, "× limit", why="It is far.")


def test_rows_of_a_benchmark_replace_its_earlier_ones(tmp_path):
    path = tmp_path / "results.json"
    run.keep([{"bench": "leam", **ROW}, {"bench": "leam", **ROW, "name": "gone"}], path)
    run.keep([{"bench": "decoder", **ROW}], path)
    kept = run.keep([{"bench": "leam", **ROW, "ratio": 1.0}], path)
    assert [(row["bench"], row["ratio"]) for row in kept] == [("decoder", 1.2), ("leam", 1.0)]
    assert json.loads(path.read_text()) == kept


def test_a_race_alternates_after_a_warm_up():
    calls = []
    clock = measuring.race({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert set(clock) == {"a", "b"}
