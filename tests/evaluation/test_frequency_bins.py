import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from hf_labelattn import evaluation as ev

from .splits import random_split

COUNTS = np.array([0, 1, 10, 11, 50, 51, 100, 101, 500, 501, 9000, 0])


def test_bins_have_the_published_limits():
    bins = {name: COUNTS[labels].tolist() for name, labels in ev.labels_by_bin(COUNTS).items()}
    assert bins == {
        "0": [0, 0],
        "1-10": [1, 10],
        "11-50": [11, 50],
        "51-100": [51, 100],
        "101-500": [101, 500],
        ">500": [501, 9000],
    }


def test_figures_of_a_bin_are_those_of_its_columns_alone():
    scores, targets = random_split()
    thresholds = np.linspace(-0.5, 0.5, 12)
    got = ev.frequency_metrics(scores, targets, COUNTS, thresholds, ks=(1, 2))
    for name, labels in ev.labels_by_bin(COUNTS).items():
        expected = ev.multilabel_metrics(scores[:, labels], targets[:, labels], thresholds[labels], ks=(1, 2))
        assert got[f"num_labels/count_{name}"] == len(labels)
        assert got[f"num_labels_present/count_{name}"] == targets[:, labels].any(0).sum()
        assert {metric: got[f"{metric}/count_{name}"] for metric in expected} == expected


def test_bins_without_figures_only_count_labels():
    scores, targets = np.zeros((2, 3)), np.array([[0, 1, 0], [0, 0, 0]])
    got = ev.frequency_metrics(scores, targets, [5, 600, 0])
    assert got["num_labels/count_1-10"] == 1 and got["num_labels_present/count_1-10"] == 0
    assert got["num_labels/count_11-50"] == 0
    assert not [name for name in got if name.endswith("count_1-10") and not name.startswith("num_")]
    assert not np.isnan(list(got.values())).any()


def test_quarters_hold_seen_and_present_labels_from_rare_to_frequent():
    scores, targets = random_split()
    counts = np.array([7, 3, 0, 9, 9, 2, 40, 41, 5, 6, 8, 1])
    present = targets.any(0)
    ranked = sorted((c, i) for i, c in enumerate(counts) if c > 0 and present[i])
    quarters = ev.labels_by_quarter(counts, present)
    assert [i for quarter in quarters for i in quarter] == [i for _, i in ranked]
    assert [len(quarter) for quarter in quarters] == [3, 3, 2, 2]
    got = ev.frequency_metrics(scores, targets, counts)
    for number, labels in enumerate(quarters, start=1):
        per_label = [average_precision_score(targets[:, i], scores[:, i]) for i in labels]
        assert got[f"average_precision_macro/quarter_{number}"] == pytest.approx(np.mean(per_label))
        assert got[f"num_perfect_average_precision/quarter_{number}"] == per_label.count(1.0)
        assert got[f"f1_macro/quarter_{number}"] == pytest.approx(ev.f1_macro(scores[:, labels], targets[:, labels]))
    assert sum(got[f"num_perfect_average_precision/quarter_{n}"] for n in range(1, 5)) >= 0


def test_perfect_labels_are_counted():
    targets = np.eye(8, dtype=bool)
    scores = np.where(targets, 1.0, 0.0)
    scores[7, 0] = 2.0
    got = ev.frequency_metrics(scores, targets, np.arange(1, 9))
    assert [got[f"num_perfect_average_precision/quarter_{n}"] for n in range(1, 5)] == [1, 2, 2, 2]


def test_counts_of_another_label_set_are_refused():
    with pytest.raises(ValueError, match=r"`train_counts` has shape \(2,\), expected \[3\]"):
        ev.frequency_metrics(np.zeros((1, 3)), [[0]], [1, 2])
