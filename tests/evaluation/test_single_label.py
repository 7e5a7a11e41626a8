import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from hf_labelattn.evaluation import accuracy, class_ranks, single_label_metrics, top_k_accuracy

from .splits import quick, splits


@quick
@given(splits(), st.data())
def test_accuracy_and_macro_averages_equal_scikit_learn(split, data):
    scores, num_classes = split[0], split[0].shape[1]
    classes = np.array([data.draw(st.integers(0, num_classes - 1)) for _ in scores])
    predicted, everything, present = scores.argmax(1), list(range(num_classes)), np.unique(classes)
    metrics = single_label_metrics(scores, classes, ks=(1, 2))
    assert metrics["accuracy"] == accuracy(scores, classes) == sk.accuracy_score(classes, predicted)
    for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
        for suffix, labels in (("_macro", present), ("_macro_all", everything)):
            expected = function(classes, predicted, labels=labels, average="macro", zero_division=0)
            assert metrics[name + suffix] == pytest.approx(expected, abs=1e-12)


def test_top_k_accuracy_equals_scikit_learn_without_ties():
    rng = np.random.default_rng(0)
    scores, classes = rng.normal(size=(50, 6)), rng.integers(0, 6, 50)
    metrics = single_label_metrics(scores, classes, ks=(2, 3, 6))
    assert "top_6_accuracy" not in metrics
    for k in (2, 3):
        expected = sk.top_k_accuracy_score(classes, scores, k=k, labels=range(6))
        assert metrics[f"top_{k}_accuracy"] == top_k_accuracy(scores, classes, k) == pytest.approx(expected)


@quick
@given(splits(), st.data())
def test_rank_is_the_place_in_a_stable_sort(split, data):
    scores = split[0]
    classes = np.array([data.draw(st.integers(0, scores.shape[1] - 1)) for _ in scores])
    orders = np.argsort(-scores.astype(np.float64), axis=1, kind="stable")
    expected = [order.tolist().index(c) for order, c in zip(orders, classes, strict=True)]
    assert class_ranks(scores, classes).tolist() == expected


def test_no_documents_give_nan():
    assert math.isnan(single_label_metrics(np.zeros((0, 3)), np.zeros(0, dtype=int))["accuracy"])


@pytest.mark.parametrize(
    ("classes", "message"), [([0, 1], "expected \\[1\\]"), ([3], "ids run from 3 to 3, but the scores have 3 classes")]
)
def test_wrong_classes_are_refused(classes, message):
    with pytest.raises(ValueError, match=message):
        single_label_metrics(np.zeros((1, 3)), np.array(classes))
