import gzip
import os
from collections import Counter

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MultiLabelBinarizer

from hf_labelattn.data.labels import LabelSet, count_labels, read_label_file
from hf_labelattn.data.rows import NotesError


def documents(*label_lists):
    return Dataset.from_dict({"text": ["x"] * len(label_lists), "labels": list(label_lists)})


NAMES = st.lists(st.text(min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=6, unique=True)


def test_labels_come_sorted_from_training_documents_and_the_label_file():
    train = documents(["b", "0389", "b"], [], ["0389"])
    labels = LabelSet.from_notes(train, {"0389": "septicemia", "z": "only described", "b": ""})
    assert labels.names == ("0389", "b", "z")
    assert labels.descriptions == ("septicemia", "b", "only described")
    assert labels.counts == (2, 1, 0)
    assert labels.num_labels == len(labels) == 3
    assert labels.id2label == {0: "0389", 1: "b", 2: "z"}
    assert labels.label2id == {"0389": 0, "b": 1, "z": 2}
    assert labels.label2description["0389"] == "septicemia"


def test_the_order_of_documents_does_not_matter():
    train = documents(["b"], ["a", "c"], ["b", "a"])
    assert LabelSet.from_notes(train) == LabelSet.from_notes(train.select([2, 0, 1]))


def test_a_selection_is_counted_without_the_rest():
    assert count_labels(documents(["a"], ["b"], ["a", "a"]).select([1, 2])) == Counter({"a": 1, "b": 1})


def test_encoding_keeps_known_labels_once():
    labels = LabelSet(("a", "b", "c"), ("", "", ""), (1, 1, 1))
    assert labels.encode(["c", "new", "a", "c"]) == [0, 2]
    assert labels.encode([]) == []


@settings(deadline=None, max_examples=25)
@given(NAMES, st.data())
def test_multi_hot_equals_scikit_learn(names, data):
    labels = LabelSet(names, names, [0] * len(names))
    lists = data.draw(st.lists(st.lists(st.sampled_from(names)), max_size=5))
    expected = MultiLabelBinarizer(classes=names).fit_transform(lists) if lists else np.zeros((0, len(names)))
    targets = labels.multi_hot(lists)
    assert targets.dtype == np.float32
    np.testing.assert_array_equal(targets, expected)


def test_unseen_labels_are_counted_and_can_be_added():
    labels = LabelSet.from_notes(documents(["b"], ["d"]))
    test = documents(["b", "c"], ["a", "c", "c"], [])
    assert labels.unseen(test) == Counter({"c": 2, "a": 1})
    extended = labels.with_unseen(test, {"a": "first"})
    assert extended.names == ("b", "d", "a", "c")
    assert extended.descriptions == ("b", "d", "first", "c")
    assert extended.counts == (1, 1, 0, 0)
    assert labels.with_unseen(documents(["b"])) == labels


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "label `a` is there twice"),
        (["a", ""], "label 1 is empty"),
        (["a", " \t"], "label 1 is empty"),
        (["a", 389], "label 1 is 389, a int"),
    ],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        LabelSet(names, ["x"] * len(names), [0] * len(names))


def test_bad_descriptions_and_counts_are_refused():
    with pytest.raises(ValueError, match="found 2 names, 1 descriptions and 2 counts"):
        LabelSet(("a", "b"), ("x",), (0, 0))
    with pytest.raises(ValueError, match="a description is not a string"):
        LabelSet(("a",), (None,), (0,))
    with pytest.raises(ValueError, match="a count is negative"):
        LabelSet(("a",), ("x",), (-1,))
    with pytest.raises(ValueError, match="no training document has a label"):
        LabelSet.from_notes(documents([], []))


@settings(deadline=None, max_examples=25)
@given(NAMES)
def test_saving_and_loading_keeps_any_name(tmp_path_factory, names):
    labels = LabelSet(names, [f"about {name}" for name in names], range(len(names)))
    path = tmp_path_factory.mktemp("labels") / "new" / "labels.jsonl"
    labels.save(path)
    assert LabelSet.load(path) == labels
    assert read_label_file(path) == labels.label2description
    assert os.listdir(path.parent) == ["labels.jsonl"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "labels.jsonl"
    old = LabelSet(("a",), ("x",), (1,))
    old.save(path)
    # A directory in the way makes the final rename fail for real.
    (tmp_path / "blocked").mkdir()
    with pytest.raises(OSError):
        LabelSet(("b",), ("y",), (2,)).save(tmp_path / "blocked")
    assert LabelSet.load(path) == old
    assert sorted(os.listdir(tmp_path)) == ["blocked", "labels.jsonl"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"label": "a", "description": "x"}', "line 1: expected `label`"),
        ('{"label": "a", "description": "x", "count": 1}\n{"label": 3, "description": "x", "count": 1}', "line 2"),
        ('{"label": "a", "description": "x", "count": 1}\n' * 2, "label `a` is there twice"),
        ("", "no rows"),
        ("{", "line 1: broken JSON"),
    ],
)
def test_loading_something_else_is_refused(tmp_path, content, message):
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    with pytest.raises(NotesError, match=message) as caught:
        LabelSet.load(path)
    assert str(path) in str(caught.value)


def test_label_files(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"label": "0389", "description": "long text", "name": "short"}\n{"label": "b"}\n'
    )
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"label,description\n0389,long text\nb,\n"))
    expected = {"0389": "long text", "b": "b"}
    assert read_label_file(tmp_path / "a.jsonl") == expected
    assert read_label_file(tmp_path / "b.csv.gz") == expected


def test_label_files_by_another_column(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("label\tdescription\tname\n0389\tlong text\tshort\n")
    assert read_label_file(path, description_column="name") == {"0389": "short"}
    with pytest.raises(NotesError, match="line 2: no column `title`; found `label`, `description`, `name`"):
        read_label_file(path, description_column="title")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"label": 389, "description": "x"}', "line 1: found int in `label`.*quotes"),
        ('{"code": "0389"}', "line 1: found nothing in `label`"),
        ('{"label": " "}', "line 1: found blanks in `label`"),
        ('{"label": "a"}\n{"label": "a"}', "line 2: label `a` is there twice"),
        ('{"label": "a", "description": ["x"]}', "line 1: found list in `description`"),
        ("", "no rows"),
    ],
)
def test_bad_label_files_are_refused(tmp_path, content, message):
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    with pytest.raises(NotesError, match=message):
        read_label_file(path)


def test_shuffled_test_labels_change_nothing():
    train = documents(["a"], ["b", "c"])
    before = LabelSet.from_notes(train)
    test = documents(["c", "x"], ["y"])
    before.unseen(test)
    before.with_unseen(test)
    assert LabelSet.from_notes(train) == before == LabelSet(("a", "b", "c"), ("a", "b", "c"), (1, 1, 1))
