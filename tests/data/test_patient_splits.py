"""Splits by patient: published lists read as they are, and a rule that keeps patients together and codes spread."""

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from hf_labelattn.data.patient_splits import SPLITS, find_id_lists, stratified_splits, without_shared_patients
from hf_labelattn.data.rows import NotesError

FRACTIONS = {"train": 0.7, "validation": 0.1, "test": 0.2}


def patients_and_labels(count=3000, seed=0):
    draw = np.random.default_rng(seed)
    patients = [str(number) for number in draw.integers(0, count // 2, count)]
    share = np.cumsum(1 / np.arange(1, 61))
    labels = [np.unique(np.searchsorted(share / share[-1], draw.random(draw.integers(1, 8)))) for _ in range(count)]
    return patients, labels


def test_the_rule_keeps_patients_together_and_spreads_every_code():
    patients, labels = patients_and_labels()
    splits = stratified_splits(patients, labels, FRACTIONS, progress=False)
    assert len(set(zip(patients, splits.tolist(), strict=True))) == len(set(patients))
    shares = np.bincount(splits, minlength=3) / len(splits)
    assert np.abs(shares - list(FRACTIONS.values())).max() < 0.02
    for label in range(60):
        holders = splits[[label in row for row in labels]]
        assert np.abs(np.bincount(holders, minlength=3) / len(holders) - list(FRACTIONS.values())).max() < 0.08


def test_the_rule_does_not_depend_on_the_order_of_the_rows():
    patients, labels = patients_and_labels(600)
    splits = stratified_splits(patients, labels, FRACTIONS, progress=False)
    order = np.random.default_rng(1).permutation(len(patients))
    again = stratified_splits([patients[i] for i in order], [labels[i] for i in order], FRACTIONS, progress=False)
    assert np.array_equal(again, splits[order])


def test_patients_without_a_code_are_dealt_too():
    splits = stratified_splits([str(i) for i in range(100)], [np.array([], int)] * 100, FRACTIONS, progress=False)
    assert np.bincount(splits).tolist() == [70, 10, 20]


def test_documents_of_a_patient_in_a_later_split_are_left_out():
    splits, left_out = without_shared_patients(list("aabbc"), np.array([0, 2, 0, 1, 0]))
    assert splits.tolist() == [-1, 2, -1, 1, 0] and left_out == {"train": 2}


def write_lists(folder, **lists):
    folder.mkdir(parents=True, exist_ok=True)
    for name, ids in lists.items():
        (folder / f"{name}_hadm_ids.csv").write_text("".join(f"{key}\n" for key in ids))


def test_csv_lists_with_and_without_a_header(tmp_path):
    write_lists(tmp_path / "mimicdata", train_full=[1, 2], dev_full=["hadm_id", 3], test_full=[4])
    found = find_id_lists(tmp_path, ["*_50_hadm_ids.csv", "*_full_hadm_ids.csv"])
    assert found.ids == {"train": ["1", "2"], "validation": ["3"], "test": ["4"]}
    assert found.split_of()["3"] == "validation"


def test_feather_and_literal_lists(tmp_path):
    table = pa.table({"_id": [1, 2, 3], "split": ["train", "val", "test"]})
    feather.write_feather(table, tmp_path / "mimiciv_icd10_split.feather")
    found = find_id_lists(tmp_path, ["mimiciv_icd10_split.feather"])
    assert [found.ids[split] for split in SPLITS] == [["1"], ["2"], ["3"]]
    script = "raise SystemExit('run')\ntrain_ids = ['4_11', '5_12']\ndev_ids = ['6_13']\ntest_ids = ['7_14']\n"
    (tmp_path / "collectrare50data.py").write_text(script)
    assert find_id_lists(tmp_path, ["collectrare50data.py"]).ids["train"] == ["11", "12"]
    assert find_id_lists(tmp_path, ["*_rare50_hadm_ids.csv"]) is None


def test_lists_that_cannot_be_used_are_refused(tmp_path):
    write_lists(tmp_path / "half", train_full=[1], dev_full=[2])
    with pytest.raises(NotesError, match="there is no test_full_hadm_ids.csv beside"):
        find_id_lists(tmp_path / "half", ["*_full_hadm_ids.csv"])
    write_lists(tmp_path / "twice", train_full=[1], dev_full=[2], test_full=[1])
    with pytest.raises(NotesError, match="id 1 is listed as train and as test"):
        find_id_lists(tmp_path / "twice", ["*_full_hadm_ids.csv"]).split_of()
    for name in ("mimic4_icd9", "mimic4_icd10"):
        write_lists(tmp_path / "clone" / name, train_50=[1], dev_50=[2], test_50=[3])
    with pytest.raises(NotesError, match="Pass the one folder that is meant"):
        find_id_lists(tmp_path / "clone", ["*_50_hadm_ids.csv"])
    assert find_id_lists(tmp_path / "clone", ["*_50_hadm_ids.csv"], avoid=["icd9"]) is not None
    (tmp_path / "broken.feather").write_bytes(b"no feather")
    with pytest.raises(NotesError, match="not a feather file"):
        find_id_lists(tmp_path, ["broken.feather"])
