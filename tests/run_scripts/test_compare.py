"""compare.py as a user runs it: real scripts in processes of their own, cells kept, tables from what was kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_labelattn import Comparison, DataArguments, Workshop, put_into_readme, read_external, read_notes
from hf_labelattn.training.comparison_external import read_scores
from hf_labelattn.training.comparison_report import headline_table, markdown_tables, one_table, p_value

from .. import tiny

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
LINEAR = {"script": "run_label_attention", "preset": "linear", "overrides": {"min_df": 1}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents in which every label shows as a word of its own, and a comparison of two rows."""
    place = tiny.write_sign_documents(tmp_path_factory.mktemp("compare"))
    over = {"script": "run_interaction", "base": "{run:linear}", "max_steps": 2, "label_file": "{data}/labels.jsonl"}
    config = {
        "datasets": {"signs": {"train_file": "{data}/train.jsonl", "test_file": "{data}/test.jsonl"}},
        "common": {"use_cpu": True, "disable_tqdm": True},
        "models": {"joint": over, "linear": LINEAR},
        "reference": "linear",
        "gains": ["joint"],
    }
    (place / "compare_signs.json").write_text(json.dumps(config))
    labels = [json.dumps({"label": f"0{k}", "description": f"sign0{k}"}) for k in range(5)]
    (place / "labels.jsonl").write_text("\n".join(labels))
    return place


def compare(folder, *options):
    words = [sys.executable, ROOT / "run_scripts" / "compare.py", folder / "compare_signs.json", "--set"]
    words += [f"data={folder}", "--results", folder / "kept", "--runs", folder / "runs", *options]
    return subprocess.run([str(w) for w in words], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def test_cells_are_run_once_and_reported(folder):
    rows = [("test" + str(i), f"0{k}", float(i == k)) for i in range(20) for k in range(5)]
    table = {name: [row[i] for row in rows] for i, name in enumerate(("id", "label", "score"))}
    pq.write_table(pa.table(table), folder / "peer.parquet")
    done = compare(folder)
    assert done.returncode == 0, done.stderr[-2000:]
    kept = json.loads((folder / "kept/signs/joint_fraction1_seed0.json").read_text())
    assert 0 < kept["metrics"]["average_precision_macro"] <= 1 and len(kept["label_average_precision"]) == 5
    assert (folder / "runs/signs/linear_fraction1_seed0/config.json").exists()  # the joint row is built from it
    assert not (folder / "runs/signs/joint_fraction1_seed0").exists()
    again = compare(folder, "--report_only", "--external", f"peer:signs={folder / 'peer.parquet'}")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "| peer | – | – | ." in again.stdout and "| linear |" in again.stdout
    assert "| peer | – | – | ." in compare(folder, "--report_only").stdout, "kept, like the other cells"
    assert all((folder / f"kept/{name}.png").stat().st_size > 1000 for name in ("frequency", "gains"))
    assert str(folder) not in json.dumps(kept)


def test_errors_say_what_to_do(folder):
    done = compare(folder, "--external", "peer=x.parquet", "--report_only")
    assert done.returncode == 2 and "ROW:DATASET" in done.stderr
    bad = folder / "bad.json"
    bad.write_text(json.dumps({"datasets": {}, "models": {"a": {"preset": "cnn"}}}))
    with pytest.raises(ValueError, match='no "script"'):
        Comparison.from_file(bad)
    bad.write_text(json.dumps({"data": {}}))
    with pytest.raises(ValueError, match="expected `datasets` and `models`"):
        Comparison.from_file(bad)


def test_rows_that_others_need_come_first(folder):
    cells = list(Comparison.from_file(folder / "compare_signs.json").cells())
    assert [(cell.model, cell.keep) for cell in cells] == [("linear", True), ("joint", False)]


def test_placeholders(folder):
    shop = Workshop(ROOT / "run_scripts", folder / "runs", folder / "kept", {"data": "D"})
    cell = list(Comparison.from_file(folder / "compare_signs.json").cells())[1]
    assert shop.fill("{run:linear}", None, cell) == str(folder / "runs/signs/linear_fraction1_seed0")
    assert shop.fill({"a": "{data}/x", "b": 3}) == {"a": "D/x", "b": 3}
    assert shop.fill("{stage:lm}", None, cell) == str(folder / "runs/signs/stage_lm")


def test_changed_arguments_make_a_cell_new(folder, tmp_path):
    comparison = Comparison({"d": {}}, {"m": {"script": "run_label_attention", "preset": "cnn"}})
    shop = Workshop(ROOT, tmp_path, tmp_path, {})
    cell = next(comparison.cells())
    path = tmp_path / f"{cell.name}.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"arguments": cell.arguments, "metrics": {}}))
    assert shop.kept(cell) is not None
    other = Comparison({"d": {}}, {"m": {"script": "run_label_attention", "preset": "caml"}})
    assert shop.kept(next(other.cells())) is None


def test_a_row_can_name_what_it_is_tested_against():
    labels = {f"l{i}": i / 20 for i in range(20)}
    better = {name: min(1, value + 0.3) for name, value in labels.items()}
    rows = {n: [{"metrics": {}, "label_average_precision": v}] for n, v in (("base", labels), ("joint", better))}
    comparison = Comparison({}, {"base": {}, "joint": {}}, metrics=["f1_micro"], against={"joint": "base"})
    lines = one_table(comparison, rows).splitlines()
    assert lines[0].endswith("| MB | p |") and lines[2].endswith("|  |") and lines[3].endswith("| <.001 (base) |")


def test_the_headline_has_one_line_per_set_and_the_first_row_that_is_there():
    def figures(value):
        labels = {str(i): value for i in range(20)}
        return [{"metrics": {"f1_micro": value}, "label_average_precision": labels, "num_labels": 20}]

    found = {
        ("one", "base", 1.0): figures(0.4),
        ("one", "small", 1.0): figures(0.5),
        ("one", "big", 1.0): figures(0.6),
    }
    found |= {
        ("two", "base", 1.0): figures(0.0),
        ("two", "small", 1.0): figures(0.5),
        ("three", "base", 1.0): figures(1),
    }
    rows = {"base": {}, "small": {}, "big": {}}
    options = {"metrics": ["f1_micro"], "reference": "base", "headline": ["big", "small"]}
    lines = headline_table(Comparison(dict.fromkeys(("one", "two", "three"), {}), rows, **options), found).splitlines()
    assert lines[4:] == [
        "| one | 20 | big | .400 → .600 (+50 %) | <.001 |",
        "| two | 20 | small | .000 → .500 | <.001 |",
    ]


def test_table_and_p_value():
    names = [str(i) for i in range(20)]
    good = [{"metrics": {"f1_micro": 0.9}, "label_average_precision": dict.fromkeys(names, 0.9)}]
    poor = [{"metrics": {"f1_micro": 0.5}, "label_average_precision": dict.fromkeys(names, 0.1)}] * 2
    good[0] |= {"train_seconds": 9.0, "train_cpu_seconds": 4.0}
    poor[0] |= {"train_seconds": 7.0}
    comparison = Comparison({}, {"good": {}, "poor": {}}, metrics=["f1_micro"], reference="good")
    lines = one_table(comparison, {"good": good, "poor": poor}).splitlines()
    assert lines[0] == "| model | micro-F1 | seeds | CPU s | MB | p against good |"
    assert lines[2].startswith("| good | .900 | 1 | 4 | – |"), "not the seconds of a busy machine"
    assert lines[3].startswith("| poor | .500 ± .000 | 2 | 7 | – |"), "unless there are no others"
    assert p_value(poor, good) < 0.001 and p_value(good, good) == 1


def test_several_fractions_are_columns_of_one_table_per_metric():
    values = {name: {str(i): value for i in range(20)} for name, value in (("new", 0.9), ("old", 0.1))}

    def seed(name, value):
        metrics = {"precision_at_5": value, "average_precision_macro": value / 2}
        return {"metrics": metrics, "label_average_precision": values[name]}

    found = {("d", "new", 0.1): [seed("new", 0.6)] * 2, ("d", "new", 1.0): [seed("new", 0.8)]}
    found["d", "old", 1.0] = [seed("old", 0.4)]
    metrics = ["precision_at_5", "average_precision_macro"]
    comparison = Comparison({"d": {}}, {"new": {}, "old": {}}, fractions=[0.1, 1.0], metrics=metrics, reference="old")
    text = markdown_tables(comparison, found)
    assert text.startswith("### d, by share of the training documents\n\n| P@5 | 0.1 | 1 | seeds |")
    assert "| new | .600 ± .000 | .800 | 1-2 |\n| old | – | .400 | 1 |\n\n| macro-AP |" in text
    assert text.endswith("| p, new against old | – | <.001 |  |\n")


def test_scores_of_dev_give_a_peer_its_threshold_and_its_cost_is_shown(folder, tmp_path):
    comparison = Comparison.from_file(folder / "compare_signs.json")
    shop = Workshop(ROOT / "run_scripts", tmp_path, tmp_path, {"data": str(folder)})
    notes = read_notes(DataArguments(train_file=folder / "train.jsonl", test_file=folder / "test.jsonl"))
    labels = [f"0{k}" for k in range(5)]

    def scored(split):  # right, but 0.3 and 0.2 instead of 1 and 0: without a threshold of its own nothing is found
        return np.array([[0.3 if name in row else 0.2 for name in labels] for row in notes[split]["labels"]])

    arrays = {"S": scored("test"), "ids": notes["test"]["id"], "labels": labels}
    np.savez(tmp_path / "plain.npz", **arrays)
    dev = {"S_validation": scored("validation"), "ids_validation": notes["validation"]["id"]}
    np.savez(tmp_path / "tuned.npz", **arrays, **dev, train_cpu_seconds=7.0, peak_memory_mb=90.0)
    files = {f"{name}:signs": tmp_path / f"{name}.npz" for name in ("plain", "tuned")}
    found = read_external(comparison, shop, files)
    assert "f1_micro" not in found["plain"]["signs"]["metrics"]
    assert found["tuned"]["signs"]["metrics"]["f1_micro"] == 1
    table = one_table(comparison, {name: [by_set["signs"]] for name, by_set in found.items()})
    assert "| 1 | 7 | 90 |" in table and "| 1 | – | – |" in table


def test_external_rows_of_single_label_sets_have_accuracy(tmp_path):
    for name, kinds in (("train", "abab"), ("test", "aabb")):
        rows = [{"id": f"{name}{i}", "text": f"word{i}", "labels": [kind]} for i, kind in enumerate(kinds)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = {f"{name}_file": str(tmp_path / f"{name}.jsonl") for name in ("train", "test")}
    comparison = Comparison({"kinds": {**files, "single_label": True}}, {"m": {"script": "run_leam"}})
    scores = np.array([[0.2, 0.1], [0.1, 0.2], [0.3, 0.4], [0.3, 0.4]])  # columns b and a: the last two say a
    np.savez(tmp_path / "peer.npz", S=scores, ids=[f"test{i}" for i in (2, 0, 1, 3)], labels=["b", "a"])
    found = read_external(comparison, Workshop(ROOT, tmp_path, tmp_path, {}), {"peer:kinds": tmp_path / "peer.npz"})
    assert found["peer"]["kinds"]["metrics"]["accuracy"] == 0.75


def test_scores_need_their_columns(tmp_path):
    pq.write_table(pa.table({"id": ["a"], "score": [1.0]}), tmp_path / "s.parquet")
    with pytest.raises(ValueError, match="expected id, label and score"):
        read_scores(tmp_path / "s.parquet")


def test_tables_go_into_a_readme(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- compare:a -->\nold\n<!-- end -->\nafter\n")
    put_into_readme(readme, "a", "new\n")
    put_into_readme(readme, "a", "newer\n")
    assert readme.read_text() == "before\n<!-- compare:a -->\nnewer\n<!-- end -->\nafter\n"
    with pytest.raises(ValueError, match="compare:b"):
        put_into_readme(readme, "b", "new")
