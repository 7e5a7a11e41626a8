"""Any hospital's two tables: joined by stay, split by patient, and marked only if asked."""

import csv
import json
from pathlib import Path

import pytest

from hf_labelattn.data.coded_stays import CodesTable
from hf_labelattn.data.dataset_files import describe_datasets, read_dataset_marks
from hf_labelattn.data.hospital_tables import prepare_tables
from hf_labelattn.data.note_store import NotesTable
from hf_labelattn.data.rows import NotesError

COUNT = 60


def write(path: Path, header: str, rows) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header.split())
        writer.writerows(rows)
    return path


@pytest.fixture
def tables(tmp_path):
    """Visits v0 … of patients with two visits each; the codes lost neither zeros nor their case."""
    notes = [(f"v{i}", f"p{i // 2}", "2024-02-01", f"letter {i},\nfirst") for i in range(COUNT)]
    notes += [("v3", "p1", "2024-01-01", "earlier letter"), ("v4", "p2", "2024-02-01", " "), ("", "p9", "", "lost")]
    codes = [(f"v{i}", code) for i in range(COUNT) for code in ("0389", "i10", f"X{i % 3}")] + [("v0", "0389")]
    notes_file = write(tmp_path / "letters.csv", "visit person day letter", notes)
    codes_file = write(tmp_path / "codes.csv", "visit code", codes)
    table = NotesTable(notes_file, "visit", "letter", "person", ("day",))
    return table, CodesTable(codes_file, "visit", "code")


def rows(folder: Path) -> dict[str, dict]:
    lines = (line for split in ("train", "validation", "test") for line in open(folder / f"{split}.jsonl"))
    return {row["id"]: row for row in map(json.loads, lines)}


def test_notes_and_codes_meet_by_stay(tables, tmp_path):
    said = prepare_tables(*tables, tmp_path / "clinic", compress=False, progress=False)
    found = rows(tmp_path / "clinic")
    assert len(found) == COUNT == sum(split["documents"] for split in said["splits"].values())
    assert found["v0"] == {"id": "v0", "group": "p0", "text": "letter 0,\nfirst", "labels": ["0389", "X0", "i10"]}
    assert found["v3"]["text"] == "earlier letter\nletter 3,\nfirst"
    assert said["patients"] == COUNT // 2 and said["notes"]["empty"] == 1 and said["notes"]["without a stay"] == 1
    assert said["terms"] is None and said["name"] == "clinic"
    assert read_dataset_marks([tmp_path / "clinic" / "train.jsonl"]) == {"name": "clinic"}
    assert prepare_tables(*tables, tmp_path / "clinic", compress=False, progress=False) is None


def test_codes_can_be_written_the_published_way(tables, tmp_path):
    cells = [(f"v{i}", code) for i in range(COUNT) for code in ("E119", "i10")] + [("v1", "?7"), ("v1", "e119")]
    codes = write(tmp_path / "icd.csv", "visit code", cells)
    table = CodesTable(codes, "visit", "code", system="icd10")
    said = prepare_tables(tables[0], table, tmp_path / "out", compress=False, progress=False)
    assert rows(tmp_path / "out")["v0"]["labels"] == ["E11.9", "I10"]
    assert rows(tmp_path / "out")["v1"]["labels"] == ["?7", "E11.9", "I10"]
    assert said["codes"]["such_as"] == ["?7"] and said["codes"]["repeated_rows"] == 1
    assert "1 codes have no known form and are kept: ?7" in describe_datasets({"out": said})
    labels = [json.loads(line) for line in open(tmp_path / "out" / "labels.jsonl")]
    assert labels[2] == {"label": "I10", "description": "Essential (primary) hypertension"}


def test_rare_codes_own_titles_lists_and_terms(tables, tmp_path):
    for name, span in (("train", range(20)), ("dev", range(20, 30)), ("test", range(30, COUNT))):
        (tmp_path / f"{name}_ids.csv").write_text("".join(f"v{i}\n" for i in span))
    titles = tmp_path / "titles.jsonl"
    titles.write_text('{"label": "0389", "description": "septicemia"}\n')
    options = {"split_ids": tmp_path, "min_count": 7, "label_file": titles, "terms": "physionet"}
    said = prepare_tables(*tables, tmp_path / "out", compress=False, progress=False, **options)
    assert [split["documents"] for split in said["splits"].values()] == [20, 10, 30]
    labels = {row["label"]: row["description"] for row in map(json.loads, open(tmp_path / "out" / "labels.jsonl"))}
    assert labels == {"0389": "septicemia", "i10": "i10", "X0": "X0", "X1": "X1"}  # X2 has 6 training documents
    assert read_dataset_marks([None, tmp_path / "out"]) == {"name": "out", "terms": "physionet"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fractions": (0.5, 0.5, 0.5)}, "three above 0"),
        ({"split_ids": "nowhere"}, "There is no folder nowhere"),
    ],
)
def test_options_that_cannot_be(tables, tmp_path, change, message):
    with pytest.raises(NotesError, match=message):
        prepare_tables(*tables, tmp_path / "out", progress=False, **change)


def test_tables_that_do_not_belong_together(tables, tmp_path):
    codes = write(tmp_path / "other.csv", "visit code", [("w1", "I10")])
    with pytest.raises(NotesError, match="no note belongs to a stay that"):
        prepare_tables(tables[0], CodesTable(codes, "visit", "code"), tmp_path / "out", progress=False)
    with pytest.raises(NotesError, match="no column `icd`; found visit, code"):
        prepare_tables(tables[0], CodesTable(codes, "visit", "icd"), tmp_path / "out", progress=False)
    with pytest.raises(NotesError, match="does not exist"):
        prepare_tables(tables[0], CodesTable(tmp_path / "no.csv", "visit", "code"), tmp_path / "out", progress=False)
    with pytest.raises(NotesError, match="found system 'icd11'"):
        CodesTable(codes, "visit", "code", system="icd11")


def test_a_stay_of_two_patients_is_refused(tables, tmp_path):
    letters = write(tmp_path / "two.csv", "visit person day letter", [("v1", "p1", "", "a"), ("v1", "p2", "", "b")])
    with pytest.raises(NotesError, match="stay v1 has notes of patients p1 and p2"):
        table = NotesTable(letters, "visit", "letter", "person", ("day",))
        prepare_tables(table, tables[1], tmp_path / "out", progress=False)


def test_a_broken_mark_is_an_error(tmp_path):
    (tmp_path / "dataset.json").write_text("{")
    with pytest.raises(NotesError, match="terms of the data are not known"):
        read_dataset_marks([tmp_path / "train.jsonl"])
