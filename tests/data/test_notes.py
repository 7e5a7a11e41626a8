import gzip
import json
import logging

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from hf_labelattn.data.notes import NoteColumns, NotesError, describe_notes, load_notes, main
from hf_labelattn.data.synthetic import synthetic_notes

SECRET = "Mrs Secretname came in coughing"


def note(number, split="train", **fields):
    row = {"id": f"{split}{number}", "group": f"{split}-p{number}", "text": f"{SECRET} {number}", "labels": ["0389"]}
    return row | fields


def write_jsonl(path, rows):
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_lines(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def error_of(*arguments, **options):
    """The message of the error that loading must raise; one line, and without any text of a document."""
    with pytest.raises(NotesError) as caught:
        load_notes(*arguments, **options)
    message = str(caught.value)
    assert "Secretname" not in message and "\n" not in message
    return message


def rows_of(dataset):
    return [dict(row) for row in dataset]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz", "A.JSONL.GZ"])
def test_json_lines_are_read_as_they_are(tmp_path, name):
    rows = [note(1, labels=["0389", "b;c"]), note(2, text="", labels=[]), note(3, text="Zeile\nzwei é \u2028 x")]
    notes = load_notes(write_jsonl(tmp_path / name.replace("GZ", "gz"), rows), validation_fraction=0)
    assert list(notes) == ["train"]
    assert rows_of(notes["train"]) == rows
    assert notes["train"].features["labels"] == List(Value("string"))


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t"), ("a.csv.gz", ",")])
def test_delimited_cells_stay_strings_and_labels_are_split(tmp_path, name, delimiter):
    lines = [
        "id,group,text,labels",
        '007,p1,"two\nlines, ""quoted""",0389; 428.0;;0389',
        "8,p2,NA,",
        "",
        "9,p3,nan,V10",
    ]
    content = "\n".join(lines).replace(",", "\x00").replace("lines\x00", "lines,").replace("\x00", delimiter).encode()
    path = tmp_path / name
    path.write_bytes(
        b"\xef\xbb\xbf" + content if name == "a.csv" else gzip.compress(content) if ".gz" in name else content
    )
    notes = load_notes(path, validation_fraction=0)
    assert rows_of(notes["train"]) == [
        {"id": "007", "group": "p1", "text": 'two\nlines, "quoted"', "labels": ["0389", "428.0"]},
        {"id": "8", "group": "p2", "text": "NA", "labels": []},
        {"id": "9", "group": "p3", "text": "nan", "labels": ["V10"]},
    ]


def test_long_cells_of_a_csv_file_are_read_whole(tmp_path):
    path = write_lines(tmp_path / "a.csv", "text,labels", f"{'word ' * 40_000},x")
    assert len(load_notes(path, validation_fraction=0)["train"][0]["text"]) == 200_000


def test_another_label_separator(tmp_path):
    path = write_lines(tmp_path / "a.csv", "text,labels", "some words,a|b;c")
    assert load_notes(path, label_separator="|", validation_fraction=0)["train"][0]["labels"] == ["a", "b;c"]


@pytest.mark.parametrize("string_type", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("gz", [False, True])
def test_parquet(tmp_path, string_type, gz):
    table = pa.table(
        {
            "id": pa.array([7, 8]),
            "text": pa.array(["one", "two"]).cast(string_type),
            "labels": pa.array([["0389", "a"], []]),
            "unused": [1.0, 2.0],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    if gz:
        (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "a.parquet.gz"
    notes = load_notes(path, validation_fraction=0)
    assert rows_of(notes["train"]) == [
        {"id": "7", "group": "7", "text": "one", "labels": ["0389", "a"]},
        {"id": "8", "group": "8", "text": "two", "labels": []},
    ]
    assert notes["train"].features["text"] == Value("string")


def test_column_names_are_options(tmp_path):
    rows = [{"note_id": 5, "subject": 9, "body": "words", "codes": "one label; really"}]
    columns = NoteColumns(id="note_id", group="subject", text="body", labels="codes")
    notes = load_notes(write_jsonl(tmp_path / "a.jsonl", rows), columns=columns, validation_fraction=0)
    assert rows_of(notes["train"]) == [{"id": "5", "group": "9", "text": "words", "labels": ["one label; really"]}]


def test_ids_and_groups_may_be_missing(tmp_path):
    rows = [{"text": "same", "labels": ["a"]}, {"text": "same", "labels": ["b"]}]
    files = [write_jsonl(tmp_path / f"{name}.jsonl", rows) for name in ("train", "dev", "test")]
    notes = load_notes(*files)
    assert list(notes["train"]["id"]) == list(notes["train"]["group"]) == ["train-0", "train-1"]
    assert list(notes["test"]["id"]) == ["test-0", "test-1"]


def test_other_columns_are_dropped_but_evidence_is_kept(tmp_path):
    spans = [{"label": "0389", "start": 0, "end": 3}]
    rows = [note(1, evidence=spans, leak="0389"), note(2)]
    notes = load_notes(write_jsonl(tmp_path / "a.jsonl", rows), validation_fraction=0)
    assert notes["train"].column_names == ["id", "group", "text", "labels", "evidence"]
    assert list(notes["train"]["evidence"]) == [spans, []]
    again = load_notes(dataset_name=notes, validation_fraction=0)
    assert rows_of(again["train"]) == rows_of(notes["train"])


def test_label_strings_that_look_joined_are_said(tmp_path, caplog):
    path = write_jsonl(tmp_path / "a.jsonl", [note(1, labels="401.9;428.0"), note(2, labels=["a;b"])])
    notes = load_notes(path, validation_fraction=0)
    assert list(notes["train"]["labels"]) == [["401.9;428.0"], ["a;b"]]
    assert "1 label strings contain `;`" in caplog.text


def test_class_labels_of_a_dataset_become_their_names():
    names = ["neg", "pos"]
    features = Features(
        {"text": Value("string"), "label": ClassLabel(names=names), "many": List(ClassLabel(names=names))}
    )
    rows = {"text": ["a", "b", "c"], "label": [1, 0, -1], "many": [[0, 1], [], [1]]}
    dataset = Dataset.from_dict(rows, features=features)
    single = load_notes(dataset_name=dataset, columns=NoteColumns(labels="label"), validation_fraction=0)
    several = load_notes(dataset_name=dataset, columns=NoteColumns(labels="many"), validation_fraction=0)
    assert list(single["train"]["labels"]) == [["pos"], ["neg"], []]
    assert list(several["train"]["labels"]) == [["neg", "pos"], [], ["pos"]]


@pytest.mark.parametrize("alias", ["validation", "dev", "valid", "val"])
def test_split_names_of_a_dataset_are_mapped(alias, caplog):
    parts = {name: Dataset.from_list([note(1, name)]) for name in ("train", alias, "test", "unsupervised")}
    notes = load_notes(dataset_name=DatasetDict(parts))
    assert list(notes) == ["train", "validation", "test"]
    assert notes["validation"][0]["id"] == f"{alias}1"
    assert "splits left out: unsupervised" in caplog.text


def test_a_selected_dataset_keeps_its_order():
    dataset = Dataset.from_list([note(number) for number in range(6)]).select([4, 2, 0])
    assert list(load_notes(dataset_name=dataset, validation_fraction=0)["train"]["id"]) == [
        "train4",
        "train2",
        "train0",
    ]


def test_folders_written_by_save_to_disk(tmp_path):
    dataset = Dataset.from_list([note(number) for number in range(3)])
    dataset.save_to_disk(tmp_path / "one")
    DatasetDict({"train": dataset}).save_to_disk(tmp_path / "dict")
    for folder in (tmp_path / "one", str(tmp_path / "dict")):
        notes = load_notes(dataset_name=folder, validation_fraction=0)
        assert rows_of(notes["train"]) == rows_of(dataset)


def test_a_folder_of_files_loads_like_a_hub_dataset(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("train", "dev", "test"):
        write_jsonl(folder / f"{name}.jsonl", [note(number, name) for number in range(2)])
    notes = load_notes(dataset_name=folder)
    assert {name: list(split["id"]) for name, split in notes.items()} == {
        "train": ["train0", "train1"],
        "validation": ["dev0", "dev1"],
        "test": ["test0", "test1"],
    }


def test_the_embedded_corpus_takes_its_size_and_seed():
    loaded = load_notes(dataset_name="synthetic_notes", num_documents=30, seed=1)
    made = synthetic_notes(num_documents=30, seed=1)
    assert {name: rows_of(split) for name, split in loaded.items()} == {
        name: rows_of(split) for name, split in made.items()
    }
    assert "evidence" in loaded["train"].column_names


def test_validation_is_cut_by_group_whatever_the_order_of_rows(tmp_path, caplog):
    rows = [note(number, group=f"p{number // 3}") for number in range(300)]
    shuffled = [rows[index] for index in np.random.default_rng(0).permutation(300)]
    first = load_notes(write_jsonl(tmp_path / "a.jsonl", rows), validation_fraction=0.2)
    assert caplog.text.count("held out 60 of 300 training documents (20 of 100 groups)") == 1
    second = load_notes(write_jsonl(tmp_path / "b.jsonl", shuffled), validation_fraction=0.2)
    assert set(first["validation"]["id"]) == set(second["validation"]["id"])
    assert not set(first["validation"]["group"]) & set(first["train"]["group"])
    assert len(first["train"]) == 240
    held_out = set(first["validation"]["id"])
    assert list(first["train"]["id"]) == [row["id"] for row in rows if row["id"] not in held_out]


def test_validation_of_a_tiny_set_is_never_empty(tmp_path):
    notes = load_notes(write_jsonl(tmp_path / "a.jsonl", [note(1), note(2)]), validation_fraction=0.01)
    assert len(notes["train"]) == len(notes["validation"]) == 1
    assert "single group" in error_of(write_jsonl(tmp_path / "b.jsonl", [note(1)]))


def test_a_given_validation_split_is_left_alone(tmp_path, caplog):
    train, validation = (write_jsonl(tmp_path / f"{name}.jsonl", [note(1, name)]) for name in ("train", "dev"))
    notes = load_notes(train, validation)
    assert len(notes["train"]) == len(notes["validation"]) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_equal_content_has_an_equal_fingerprint(tmp_path):
    paths = [
        write_jsonl(tmp_path / name, [note(1), note(2, text=text)])
        for name, text in [("a.jsonl", "x"), ("b.jsonl", "y")]
    ]
    prints = [load_notes(path, validation_fraction=0)["train"]._fingerprint for path in [*paths, paths[0]]]
    assert prints[0] == prints[2] != prints[1]


BROKEN_ROWS = {
    "no text column": (
        [note(1), {"id": "x", "note": SECRET, "labels": []}],
        ["line 2", "no column `text`", "`note`", "NoteColumns"],
    ),
    "no labels column": (
        [{"text": SECRET, "codes": ["a"]}],
        ["line 1", "no column `labels`", "`codes`", "--labels_column"],
    ),
    "text is null": ([note(1), note(2, text=None)], ["line 2", "found nothing in `text`"]),
    "text is a number": ([note(1, text=5)], ["line 1", "found int in `text`"]),
    "label is a number": ([note(1, labels=["a", 389])], ["line 1", "label 389", "write it in quotes"]),
    "labels is a number": ([note(1, labels=389.0)], ["line 1", "label 389.0", "write it in quotes"]),
    "labels is null": ([note(1, labels=None)], ["line 1", "found nothing in `labels`", "[] for none"]),
    "labels is an object": ([note(1, labels={"a": 1})], ["line 1", "found dict in `labels`"]),
    "an empty label": ([note(1, labels=["a", " "])], ["line 1", "an empty label"]),
    "a nested label": ([note(1, labels=[["a"]])], ["line 1", "found list in `labels`"]),
    "id is a fraction": ([note(1, id=1.5)], ["line 1", "found float in `id`"]),
    "id missing once": ([note(1), {"text": SECRET, "labels": []}], ["line 2", "no `id`"]),
    "group missing once": ([note(1), note(2, group=None)], ["line 2", "no `group`"]),
    "half a character": ([note(1), note(2, text="\ud800" + SECRET)], ["line 2", "surrogate"]),
    "broken evidence": ([note(1, evidence=[]), note(2, evidence=["x"])], ["line 2", "`evidence` is not"]),
    "duplicate id": ([note(1), note(2), note(3, id="train1")], ["id `train1`", "line 1", "line 3"]),
}


@pytest.mark.parametrize("case", BROKEN_ROWS)
def test_each_broken_row_is_named_by_its_line(tmp_path, case):
    rows, expected = BROKEN_ROWS[case]
    path = write_jsonl(tmp_path / "notes.jsonl", rows)
    message = error_of(path, validation_fraction=0)
    assert all(part in message for part in [str(path), *expected]), message


BROKEN_FILES = {
    "cut JSON": (
        "a.jsonl",
        b'{"text": "", "labels": []}\n\n{"text": "Secretname',
        ["line 3", "broken JSON", "column 10"],
    ),
    "a list": ("a.jsonl", b'["Secretname"]\n', ["line 1", "found a list", "JSON object"]),
    "empty JSONL": ("a.jsonl", b"", ["no rows", "one JSON object per line"]),
    "blank lines only": ("a.jsonl", b"\n\n", ["no rows"]),
    "empty CSV": ("a.csv", b"", ["no rows", "header"]),
    "header only": ("a.csv", b"text,labels\n", ["no rows"]),
    "latin-1": (
        "a.jsonl",
        b'{"text": "a", "labels": []}\n{"text": "Secretname caf\xe9"}',
        ["line 2", "0xe9", "iconv"],
    ),
    "gzipped without .gz": ("a.jsonl", gzip.compress(b"Secretname"), ["line 1", "gzipped", ".gz"]),
    "not gzipped": ("a.jsonl.gz", b'{"text": "Secretname"}', ["not a sound .gz"]),
    "wrong header": ("a.csv", b"body,labels\nSecretname,a\n", ["line 2", "no column `text`", "`body`"]),
    "column twice": ("a.csv", b"text,text,labels\nSecretname,a,b\n", ["line 1", "`text` is there twice"]),
    "too many cells": ("a.csv", b"text,labels\nx,a\nSecretname, here,a\n", ["line 3", "3 cells", "header has 2"]),
    "open quote": ("a.csv", b'text,labels\nx,a\n"Secretname,a\nx,y\n', ["line 3", "unexpected end"]),
    "bad quote": ("a.tsv", b'text\tlabels\n"Secret"name\ta\n', ["line 2", "quotes"]),
    "unknown extension": ("a.xlsx", b"x", ["found `.xlsx`", ".jsonl, .json, .csv, .tsv, .parquet"]),
    "no extension": ("notes", b"x", ["no extension"]),
    "not Parquet": ("a.parquet", b"Secretname", ["not a sound Parquet file"]),
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_each_broken_file_gives_one_clear_error(tmp_path, case):
    name, content, expected = BROKEN_FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    message = error_of(path)
    assert all(part in message for part in [str(path), *expected]), message


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz"])
def test_a_truncated_gz_is_named(tmp_path, name):
    rows = "".join(f"{SECRET} {number},{number}\n" for number in range(1000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"text,labels\n" + rows.encode())[:-900])
    write_jsonl(tmp_path / "a.jsonl.gz", [note(number) for number in range(1000)])
    content = (tmp_path / "a.jsonl.gz").read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(content[:-900])
    assert "ends too early" in error_of(tmp_path / name)


def test_a_damaged_gz_is_named(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl.gz", [note(number) for number in range(1000)])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    message = error_of(path)
    assert "a.jsonl.gz" in message


def test_missing_files_and_folders_are_named(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [note(1)])
    assert "does not exist (asked for as the test file)" in error_of(path, test_file=tmp_path / "none.jsonl")
    assert "is a folder" in error_of(tmp_path)
    assert "both the train and the test file" in error_of(path, test_file=tmp_path / "." / "a.jsonl")


def test_an_id_in_two_splits_is_refused(tmp_path):
    train, test = (
        write_jsonl(tmp_path / f"{n}.jsonl", [note(1, id="x", group=n), note(2, n)]) for n in ("train", "test")
    )
    message = error_of(train, test_file=test)
    assert f"id `x` is used twice: {train}, line 1 and {test}, line 1" in message


def test_a_group_in_two_splits_is_refused(tmp_path):
    train = write_jsonl(tmp_path / "train.jsonl", [note(1), note(2, group="p7"), note(3, group="p8")])
    test = write_jsonl(tmp_path / "test.jsonl", [note(1, "test", group="p8"), note(2, "test", group="p7")])
    message = error_of(train, test_file=test)
    assert f"2 groups are in both train and test, such as `p7`: {train}, line 2 and {test}, line 2" in message


def test_a_split_without_groups_beside_one_with_them_is_said(tmp_path, caplog):
    train = write_jsonl(tmp_path / "train.jsonl", [note(1), note(2)])
    test = write_jsonl(tmp_path / "test.jsonl", [{"id": "train-p1", "text": "x", "labels": []}])
    load_notes(train, test_file=test)
    assert f"no group column in {test}" in caplog.text


def test_a_chosen_column_must_be_there(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [note(1)])
    assert "no column `patient`, asked for as the group" in error_of(path, columns=NoteColumns(group="patient"))
    assert "no column `key`, asked for as the id" in error_of(path, columns=NoteColumns(id="key"))


def test_broken_tables_are_named_by_their_row(tmp_path):
    def table_error(**columns):
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        return error_of(tmp_path / "a.parquet")

    assert "no column `text`; found `labels`" in table_error(body=[SECRET], labels=[["a"]])
    assert "row 1: found nothing in `text`" in table_error(text=[SECRET, None], labels=[["a"], ["b"]])
    assert "`text` holds int64" in table_error(text=[1], labels=[["a"]])
    assert "row 1: label 389 in `labels` is a number" in table_error(text=["a", SECRET], labels=[[], [389]])
    assert "no rows" in table_error(text=pa.array([], pa.string()), labels=pa.array([], pa.list_(pa.string())))
    assert "row 2: no `id`" in table_error(text=["a", "b", SECRET], labels=[[], [], []], id=["x", "y", None])


def test_broken_datasets_are_named():
    assert "split `train`: no column `text`; found `sentence`" in error_of(
        dataset_name=Dataset.from_dict({"sentence": [SECRET]})
    )
    assert "expected some of train" in error_of(dataset_name=DatasetDict({"all": Dataset.from_list([note(1)])}))
    assert "`dataset_name` is a list" in error_of(dataset_name=[1])
    streamed = Dataset.from_list([note(1)]).to_iterable_dataset()
    assert "`dataset_name` is a dict" in error_of(dataset_name={"train": streamed})
    assert "no rows" in error_of(dataset_name=Dataset.from_list([note(1)]).select([]))


def test_what_is_no_dataset_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    for name in (str(tmp_path), "nobody/no-such-notes"):
        assert f"dataset `{name}` cannot be loaded" in error_of(dataset_name=name)


def test_wrong_options_are_named(tmp_path):
    assert "pass either files" in error_of()
    assert "pass either files" in error_of("a.jsonl", dataset_name="b")
    assert "`validation_fraction` is 1.0" in error_of("a.jsonl", validation_fraction=1.0)


def test_the_description_counts_what_is_there(tmp_path):
    rows = [
        note(1, text="a b c", labels=["x", "y", "x"]),
        note(2, text="", labels=[]),
        note(3, text="a\u00a0b", group="train-p1"),
    ]
    notes = load_notes(
        write_jsonl(tmp_path / "a.jsonl", rows),
        test_file=write_jsonl(tmp_path / "b.jsonl", [note(1, "test")]),
        validation_fraction=0,
    )
    table = [line.split() for line in describe_notes(notes).splitlines()]
    assert table[0] == "split documents groups labels labels/doc unlabelled tokens/doc median p95 max".split()
    assert table[1] == ["train", "3", "2", "3", "1.00", "1", "1.67", "2", "3", "3"]
    assert table[2] == ["test", "1", "1", "1", "1.00", "0", "6.00", "6", "6", "6"]
    assert table[3] == ["all", "4", "3", "3", "1.00", "1", "2.75", "3", "6", "6"]


def test_the_command_prints_counts_or_one_line(tmp_path, capsys):
    path = write_jsonl(tmp_path / "a.jsonl", [{"body": SECRET, "labels": "x"} for _ in range(20)])
    assert main(["--train_file", str(path), "--text_column", "body"]) == 0
    assert "validation" in capsys.readouterr().out
    assert main(["--train_file", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("error: ") and "Secretname" not in captured.err
