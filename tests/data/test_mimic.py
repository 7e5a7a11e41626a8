"""From the tables of MIMIC, with all their traps, to the subsets: what is in them and what is said about them."""

import gzip
import json

import pyarrow as pa
import pyarrow.feather as feather
import pytest

from hf_labelattn import load_notes, read_label_file
from hf_labelattn.data import mimic
from hf_labelattn.data.dataset_files import describe_datasets
from hf_labelattn.data.mimic import find_mimic3, find_mimic4, prepare_mimic
from hf_labelattn.data.mimic_subsets import MIMIC3_RARE_50, MIMIC3_TOP_50, MIMIC4_ICD10_TOP_50, SUBSETS
from hf_labelattn.data.rows import NotesError
from tests.data.mimic_tables import version, write_mimic3, write_mimic4

SMALL = {"length_scale": 0.05, "num_labels": 80}
COUNT = 300


@pytest.fixture(scope="module")
def mimic3(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mimic3")
    return folder, write_mimic3(folder, COUNT, **SMALL)


@pytest.fixture(scope="module")
def mimic4(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mimic4")
    return folder, write_mimic4(folder, COUNT, **SMALL)


@pytest.fixture(scope="module")
def prepared(mimic3, mimic4, tmp_path_factory):
    """All subsets, and what was said of them."""
    folder = tmp_path_factory.mktemp("prepared")
    said = prepare_mimic(find_mimic3(mimic3[0]), folder, progress=False)
    return folder, said | prepare_mimic(find_mimic4(mimic4[0]), folder, progress=False)


def read(folder):
    """Rows of all splits by id, and the split of each."""
    rows, splits = {}, {}
    for split in ("train", "validation", "test"):
        with gzip.open(folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                rows[row["id"]], splits[row["id"]] = row, split
    return rows, splits


def dotted9(codes, procedure=False):
    """ICD-9 codes the published way, in other words than the library's."""
    places = {code: 2 if procedure else 4 if code.startswith("E") else 3 for code in codes}
    return {f"{code[:n]}.{code[n:]}".rstrip(".") for code, n in places.items()}


def dotted10(codes):
    return {f"{code[:3]}.{code[3:]}".rstrip(".") for code in codes}


def test_every_stay_has_its_codes_once_and_its_notes_in_order(prepared, mimic3):
    rows, _ = read(prepared[0] / "mimic3-full")
    assert len(rows) == COUNT
    for stay in mimic3[1]:
        row = rows[stay.hadm]
        assert row["labels"] == sorted(dotted9(stay.icd9) | dotted9(stay.procedures9, procedure=True))
        assert row["text"] == stay.whole_text
        assert row["group"] == stay.subject
    names = {label for row in rows.values() for label in row["labels"]}
    assert {"038.9", "042", "E849.0", "V15.82", "00.66", "03.31", "54"} <= names
    assert any(stay.second and stay.addendum for stay in mimic3[1])


def test_icd10_and_icd9_stays_of_mimic4_part_ways(prepared, mimic4):
    ten, nine = (read(prepared[0] / name)[0] for name in ("mimic4-icd10-full", "mimic4-icd9-full"))
    assert not ten.keys() & nine.keys()
    counts = {}
    for stay in mimic4[1]:
        if version(stay) == 10:
            for code in dotted10(stay.icd10) | set(stay.procedures10):
                counts[code] = counts.get(code, 0) + 1
    for stay in mimic4[1]:
        if version(stay) == 10:
            expected = {code for code in dotted10(stay.icd10) | set(stay.procedures10) if counts[code] >= 10}
            assert ten[f"2{stay.hadm}"]["labels"] == sorted(expected)
            assert ten[f"2{stay.hadm}"]["text"] == stay.whole_text
    assert "I10" in ten[next(iter(ten))]["labels"]


@pytest.mark.parametrize("name", SUBSETS)
def test_every_subset_can_be_loaded_and_has_no_patient_twice(prepared, name):
    folder = prepared[0] / name
    notes = load_notes(*(folder / f"{split}.jsonl.gz" for split in ("train", "validation", "test")))
    labels = read_label_file(folder / "labels.jsonl")
    said = json.loads((folder / "dataset.json").read_text())
    for split, dataset in notes.items():
        assert said["splits"][split]["documents"] == len(dataset) > 0
        assert {label for row in dataset["labels"] for label in row} <= labels.keys()
    groups = [set(dataset["group"]) for dataset in notes.values()]
    assert not groups[0] & groups[1] and not groups[0] & groups[2] and not groups[1] & groups[2]
    assert said["terms"] == "physionet" and said["labels"] == len(labels)
    assert all(title and title != label for label, title in labels.items())


@pytest.mark.parametrize(
    ("name", "codes"),
    [("mimic3-50", MIMIC3_TOP_50), ("mimic3-rare50", MIMIC3_RARE_50), ("mimic4-icd10-50", MIMIC4_ICD10_TOP_50)],
)
def test_subsets_of_fifty_have_the_published_codes(prepared, name, codes):
    rows, _ = read(prepared[0] / name)
    assert len(set(codes)) == 50 and set(read_label_file(prepared[0] / name / "labels.jsonl")) == set(codes)
    assert all(row["labels"] and set(row["labels"]) <= set(codes) for row in rows.values())


def test_subsets_share_the_patients_of_their_splits(prepared):
    full, fifty, top = (read(prepared[0] / f"mimic3-{name}")[1] for name in ("full", "50", "top-level"))
    assert full == top and fifty.items() <= full.items()


def test_top_level_codes_are_categories(prepared):
    rows, _ = read(prepared[0] / "mimic3-top-level")
    full, _ = read(prepared[0] / "mimic3-full")
    for name, row in rows.items():
        assert row["labels"] == sorted({label.split(".")[0] for label in full[name]["labels"]})


def test_clean_leaves_out_codes_with_fewer_than_ten_documents(prepared):
    rows, _ = read(prepared[0] / "mimic3-clean")
    counts = {}
    for row in rows.values():
        for label in row["labels"]:
            counts[label] = counts.get(label, 0) + 1
    assert min(counts.values()) >= 10


def test_what_differs_from_the_published_counts_is_said(prepared):
    said = prepared[1]["mimic3-full"]["differences"]
    train = prepared[1]["mimic3-full"]["splits"]["train"]["documents"]
    assert f"train documents: {train:,}, published 47,723 ({train - 47723:+,})" in said
    printed = describe_datasets(prepared[1])
    assert "published 8,929" in printed and "no patient is in two splits" in printed
    assert "as published" not in printed


def test_counts_as_published_are_said_to_be_so(prepared, mimic3, tmp_path, monkeypatch):
    found = prepared[1]["mimic3-full"]
    documents = tuple(split["documents"] for split in found["splits"].values())
    subset = mimic.SUBSETS["mimic3-full"]
    same = type(subset)(**{**vars(subset), "documents": documents, "labels": found["labels"]})
    monkeypatch.setitem(mimic.SUBSETS, "mimic3-full", same)
    said = prepare_mimic(find_mimic3(mimic3[0]), tmp_path, ["mimic3-full"], progress=False)
    assert said["mimic3-full"]["differences"] == []
    assert "as published by Mullenbach et al. 2018" in describe_datasets(said)


def test_published_lists_decide_and_their_gaps_are_counted(mimic3, tmp_path):
    folder, made = mimic3
    patients = sorted({stay.subject for stay in made}, key=int)
    held_out = {"dev": set(patients[:10]), "test": set(patients[10:40])}
    lists = {"train": [], "dev": [], "test": []}
    for stay in made[:-5]:
        split = next((name for name, group in held_out.items() if stay.subject in group), "train")
        lists[split].append(stay.hadm)
    lists["train"] += ["99", "4711"]  # codes but no note; nothing at all
    for name, ids in lists.items():
        (tmp_path / f"{name}_full_hadm_ids.csv").write_text("\n".join(ids) + "\n")
    said = prepare_mimic(find_mimic3(folder), tmp_path, ["mimic3-full"], split_ids=tmp_path, progress=False)
    said = said["mimic3-full"]
    found = [split["documents"] for split in said["splits"].values()]
    assert found == [len(lists["train"]) - 2, len(lists["dev"]), len(lists["test"])]
    assert "1 listed ids have codes, but no discharge summary with codes of this system" in said["differences"]
    assert "1 listed ids have no code in these tables" in said["differences"]
    assert "5 documents are in none of the lists" in said["differences"]
    assert said["split_by"].startswith("train_full_hadm_ids.csv")


def test_a_patient_that_lists_put_into_two_splits_stays_out_of_training(mimic3, tmp_path):
    folder, made = mimic3
    patient = next(stay.subject for stay in made if sum(other.subject == stay.subject for other in made) > 1)
    own = [stay.hadm for stay in made if stay.subject == patient]
    others = [stay.hadm for stay in made if stay.subject != patient]
    lists = {"train": [*own[:-1], *others[10:]], "dev": others[:1], "test": [own[-1]]}
    for name, ids in lists.items():
        (tmp_path / f"{name}_full_hadm_ids.csv").write_text("\n".join(ids) + "\n")
    said = prepare_mimic(find_mimic3(folder), tmp_path, ["mimic3-full"], split_ids=tmp_path, progress=False)
    rows, splits = read(tmp_path / "mimic3-full")
    assert {split for name, split in splits.items() if rows[name]["group"] == patient} == {"test"}
    assert any("left out of train" in line for line in said["mimic3-full"]["differences"])


def test_lists_of_another_database_are_refused(mimic3, tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}_full_hadm_ids.csv").write_text(f"{len(name)}\n")
    with pytest.raises(NotesError, match="none of the ids is in these tables"):
        prepare_mimic(find_mimic3(mimic3[0]), tmp_path, ["mimic3-full"], split_ids=tmp_path, progress=False)
    with pytest.raises(NotesError, match="no list of ids for mimic3-clean"):
        prepare_mimic(find_mimic3(mimic3[0]), tmp_path, ["mimic3-clean"], split_ids=tmp_path, progress=False)


def test_plain_files_with_crlf_give_the_same_documents(prepared, tmp_path):
    write_mimic3(tmp_path / "tables", COUNT, packed=False, end="\r\n", **SMALL)
    prepare_mimic(find_mimic3(tmp_path / "tables"), tmp_path, ["mimic3-full"], progress=False)
    for name in ("train.jsonl.gz", "validation.jsonl.gz", "test.jsonl.gz", "labels.jsonl"):
        assert (tmp_path / "mimic3-full" / name).read_bytes() == (prepared[0] / "mimic3-full" / name).read_bytes()


def test_counting_on_training_documents_only(mimic3, tmp_path):
    tables = find_mimic3(mimic3[0])
    prepare_mimic(tables, tmp_path, ["mimic3-clean"], count_codes_on="train", progress=False)
    rows, splits = read(tmp_path / "mimic3-clean")
    counts = {}
    for name, row in rows.items():
        for label in row["labels"]:
            counts[label] = counts.get(label, 0) + (splits[name] == "train")
    assert min(counts.values()) >= 10
    with pytest.raises(NotesError, match="pass 'all' or 'train'"):
        prepare_mimic(tables, tmp_path, count_codes_on="test", progress=False)


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(prepared, mimic3, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    reads = []
    extract, lines = mimic.extract_notes, mimic.write_dataset.__globals__["write_lines"]

    def kill_at_test(path, rows):
        if path.name.startswith("test"):
            raise Killed
        lines(path, rows)

    tables = find_mimic3(mimic3[0])
    with monkeypatch.context() as patch:
        patch.setitem(mimic.write_dataset.__globals__, "write_lines", kill_at_test)
        with pytest.raises(Killed):
            prepare_mimic(tables, tmp_path, ["mimic3-full"], progress=False)
    train = tmp_path / "mimic3-full" / "train.jsonl.gz"
    first = train.stat().st_mtime_ns
    assert not (tmp_path / "mimic3-full" / "dataset.json").exists()
    monkeypatch.setattr(mimic, "extract_notes", lambda *a, **k: reads.append(1) or extract(*a, **k))
    monkeypatch.setattr("hf_labelattn.data.note_store.read_batches", None)  # the notes are not read again
    prepare_mimic(tables, tmp_path, ["mimic3-full"], progress=False)
    assert reads and train.stat().st_mtime_ns == first
    for name in ("train.jsonl.gz", "test.jsonl.gz"):
        assert (tmp_path / "mimic3-full" / name).read_bytes() == (prepared[0] / "mimic3-full" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mimic3-full"]  # no copy of the notes is left
    assert prepare_mimic(tables, tmp_path, ["mimic3-full"], progress=False) == {}


def test_a_changed_table_or_option_makes_it_anew(mimic3, tmp_path):
    tables = find_mimic3(mimic3[0])
    prepare_mimic(tables, tmp_path, ["mimic3-50"], progress=False)
    assert prepare_mimic(tables, tmp_path, ["mimic3-50"], compress=False, progress=False)
    assert (tmp_path / "mimic3-50" / "train.jsonl").exists()
    assert not (tmp_path / "mimic3-50" / "train.jsonl.gz").exists()
    assert prepare_mimic(tables, tmp_path, ["mimic3-50"], compress=False, overwrite=True, progress=False)


def test_missing_dictionaries_are_no_error_and_missing_tables_are(mimic3, tmp_path):
    for name in ("NOTEEVENTS", "DIAGNOSES_ICD", "PROCEDURES_ICD"):
        (tmp_path / f"{name}.csv.gz").write_bytes((mimic3[0] / f"{name}.csv.gz").read_bytes())
    prepare_mimic(find_mimic3(tmp_path), tmp_path / "out", ["mimic3-50"], progress=False)
    titles = read_label_file(tmp_path / "out" / "mimic3-50" / "labels.jsonl")
    assert titles["401.9"] == "Unspecified essential hypertension"
    (tmp_path / "PROCEDURES_ICD.csv.gz").unlink()
    with pytest.raises(NotesError, match="no table PROCEDURES_ICD.csv"):
        find_mimic3(tmp_path)


def test_a_truncated_notes_table_leaves_nothing_that_looks_finished(mimic3, tmp_path):
    for path in mimic3[0].iterdir():
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(content[: len(content) * 2 // 3] if "NOTE" in path.name else content)
    with pytest.raises(NotesError, match="NOTEEVENTS.csv.gz: the .gz file ends too early") as raised:
        prepare_mimic(find_mimic3(tmp_path), tmp_path / "out", ["mimic3-50"], progress=False)
    assert "summary" not in str(raised.value)
    assert not (tmp_path / "out" / "mimic3-50").exists()


def test_unknown_subsets_are_refused(mimic3, tmp_path):
    with pytest.raises(NotesError, match="no subset 'mimic4-icd10-full' of mimic3. Choose from: mimic3-full"):
        prepare_mimic(find_mimic3(mimic3[0]), tmp_path, ["mimic4-icd10-full"], progress=False)


def test_feather_and_csv_lists_of_mimic4_side_by_side(mimic4, tmp_path):
    folder, made = mimic4
    ten = [f"2{stay.hadm}" for stay in made if version(stay) == 10]
    patients = {f"2{stay.hadm}": stay.subject for stay in made}
    held_out = {
        patient: "val" if i < 10 else "test" for i, patient in enumerate(sorted({patients[k] for k in ten})[:30])
    }
    names = [held_out.get(patients[key], "train") for key in ten]
    lists = tmp_path / "lists"
    for system in ("icd9", "icd10"):
        (lists / f"mimic4_{system}").mkdir(parents=True)
        for split, alias in (("train", "train"), ("val", "dev"), ("test", "test")):
            ids = [key for key, name in zip(ten, names, strict=True) if name == split]
            (lists / f"mimic4_{system}" / f"{alias}_50_hadm_ids.csv").write_text("\n".join(ids) + "\n")
    table = pa.table({"_id": [int(key) for key in ten], "split": names})
    feather.write_feather(table, lists / "mimiciv_icd10_split.feather")
    chosen = ["mimic4-icd10-full", "mimic4-icd10-50"]
    said = prepare_mimic(find_mimic4(folder), tmp_path, chosen, split_ids=lists, progress=False)
    assert said["mimic4-icd10-full"]["split_by"] == "mimiciv_icd10_split.feather"
    assert said["mimic4-icd10-50"]["split_by"].startswith("train_50_hadm_ids.csv")
    for name in chosen:
        assert said[name]["splits"]["validation"]["documents"] == names.count("val") > 0
