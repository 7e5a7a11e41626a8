import math
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from hf_labelattn import evaluation as ev
from hf_labelattn.evaluation.confusion import exact_matches

from .splits import quick, random_split, splits

DTYPES = [np.float16, np.float32, np.float64]


def oracle(scores, targets, threshold, ks):
    """Every metric from scikit-learn, label by label and document by document where it has no such average."""
    scores, present = scores.astype(np.float64), targets.any(0)
    predicted = scores >= threshold
    values = {}
    for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
        per_label = function(targets, predicted, average=None, zero_division=0)
        values[f"{name}_micro"] = function(targets, predicted, average="micro", zero_division=0)
        values[f"{name}_macro_all"] = function(targets, predicted, average="macro", zero_division=0)
        values[f"{name}_macro"] = per_label[present].mean() if present.any() else math.nan
    precision, recall = values["precision_macro_all"], values["recall_macro_all"]
    values["f1_macro_mullenbach"] = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    columns = [(t, s) for t, s in zip(targets.T, scores.T, strict=True) if t.any()]
    rows = [(t, s) for t, s in zip(targets, scores, strict=True) if t.any()]
    values["auc_macro"] = mean(sk.roc_auc_score(t, s) for t, s in columns if not t.all())
    mixed = targets.any() and not targets.all()
    values["auc_micro"] = sk.roc_auc_score(targets.ravel(), scores.ravel()) if mixed else math.nan
    values["average_precision_macro"] = mean(sk.average_precision_score(t, s) for t, s in columns)
    values["map"] = mean(sk.average_precision_score(t, s) for t, s in rows)
    values["exact_match"] = sk.accuracy_score(targets, predicted)
    values["r_precision"] = mean(expected_hits(t, s, t.sum()) / t.sum() for t, s in rows)
    for k in ks:
        values[f"precision_at_{k}"] = mean(expected_hits(t, s, k) / k for t, s in zip(targets, scores, strict=True))
        values[f"recall_at_{k}"] = mean(expected_hits(t, s, k) / t.sum() for t, s in rows)
    return values


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def expected_hits(target, scores, k):
    """Hits among the first k labels, averaged over every order of the labels that a sort could have met."""
    if len(set(scores)) == len(scores):
        return target[np.argsort(-scores)[:k]].sum()
    orders = [np.array(order) for order in permutations(range(len(scores)))]
    return mean(target[order[np.argsort(-scores[order], kind="stable")]][:k].sum() for order in orders)


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name


@quick
@given(splits(max_documents=5, max_labels=4), st.sampled_from([-1.0, 0.0, 0.3, 5.0]))
def test_whole_set_equals_scikit_learn(split, threshold):
    scores, targets = split
    assert_same(ev.multilabel_metrics(scores, targets, threshold, ks=(1, 2, 5)), oracle(*split, threshold, (1, 2, 5)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_set_equals_scikit_learn_on_a_random_split(dtype):
    scores, targets = random_split(dtype=np.float64)
    scores = np.argsort(np.argsort(scores.ravel())).reshape(scores.shape) / 100 - 4  # distinct within a row in float16
    scores = scores.astype(dtype)
    assert_same(ev.multilabel_metrics(scores, targets, 0.5), oracle(scores, targets, 0.5, (1, 5, 8, 15)))


def test_thresholds_of_labels_are_those_of_scikit_learn_on_shifted_scores():
    scores, targets = random_split(dtype=np.float64)
    cuts = np.linspace(-1, 1, scores.shape[1])
    got, expected = ev.multilabel_metrics(scores, targets, cuts), oracle(scores - cuts, targets, 0.0, ())
    for name in (*ev.THRESHOLD_METRICS, "exact_match"):
        assert got[name] == pytest.approx(expected[name], abs=1e-12)


FUNCTIONS = {
    **{name: getattr(ev, name) for name in ev.THRESHOLD_METRICS},
    **{name: getattr(ev, name) for name in ("auc_macro", "auc_micro", "average_precision_macro")},
    **{name: getattr(ev, name) for name in ("r_precision", "exact_match")},
    "map": ev.mean_average_precision,
    "precision_at_5": lambda s, t: ev.precision_at_k(s, t, 5),
    "recall_at_5": lambda s, t: ev.recall_at_k(s, t, 5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_gives_the_figure_of_its_name(name):
    scores, targets = random_split()
    whole = ev.multilabel_metrics(scores, targets, ks=(5,))
    assert FUNCTIONS.keys() == whole.keys()
    assert FUNCTIONS[name](torch.from_numpy(scores), torch.from_numpy(targets).float()) == whole[name]


@quick
@given(splits(min_labels=1))
def test_macro_f1_over_all_labels_is_the_one_over_present_labels_scaled(split):
    present = split[1].any(0).mean()
    if present:
        assert ev.f1_macro_all(*split) == pytest.approx(ev.f1_macro(*split) * present, abs=1e-12)


@quick
@given(splits(min_labels=1), st.randoms(use_true_random=False))
def test_order_of_documents_and_labels_does_not_matter(split, random):
    scores, targets = split
    rows, columns = list(range(scores.shape[0])), list(range(scores.shape[1]))
    random.shuffle(rows), random.shuffle(columns)
    shuffled = ev.multilabel_metrics(scores[rows][:, columns], targets[rows][:, columns])
    assert_same(shuffled, ev.multilabel_metrics(scores, targets))


def test_infinite_scores_rank_as_very_large_ones():
    scores, targets = random_split()
    scores[3], scores[:, 4], scores[5, 5] = -1e6, 1e6, 1e6
    infinite = np.where(np.abs(scores) == 1e6, np.sign(scores) * np.inf, scores)
    assert ev.multilabel_metrics(infinite, targets) == ev.multilabel_metrics(scores, targets)


def test_unseen_label_scored_minus_infinity_is_missed():
    scores = np.array([[1.0, -np.inf], [-1.0, -np.inf]], dtype=np.float16)
    metrics = ev.multilabel_metrics(scores, [[0, 1], []])
    assert metrics["recall_micro"] == 0.5 and metrics["precision_micro"] == 1.0 and metrics["auc_macro"] == 0.75


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (4, 3)])
def test_nothing_to_average_is_nan_and_never_an_error(shape):
    metrics = ev.multilabel_metrics(np.zeros(shape), np.zeros(shape))
    for name in ("f1_macro", "auc_macro", "auc_micro", "average_precision_macro", "map", "r_precision", "recall_at_5"):
        assert math.isnan(metrics[name]), name
    assert metrics["f1_micro"] == 0.0


def test_threshold_reached_exactly_predicts():
    assert ev.predict(np.array([[0.0, -0.0, -1e-30]])).columns.tolist() == [0, 1]


@quick
@given(splits(min_labels=1))
def test_predicted_pairs_are_the_counted_ones(split):
    scores, targets = split
    predicted = ev.predict(scores, 0.25)
    assert (predicted.dense() == (scores >= 0.25)).all()
    counts = ev.confusion_counts(scores, targets, 0.25)
    assert (counts.predicted == predicted.label_counts).all()
    assert (counts.false_negatives == (targets & ~predicted.dense()).sum(0)).all()
    assert (counts.false_positives == (~targets & predicted.dense()).sum(0)).all()
    exact = exact_matches(scores, ev.as_targets(targets, scores.shape[1]), 0.25)
    assert (exact == (predicted.dense() == targets).all(1)).all()


def test_threshold_of_wrong_length_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2,\), expected one number or one per label: 3"):
        ev.f1_micro(np.zeros((1, 3)), [[0]], [0.0, 0.0])


def test_unknown_document_metric_is_refused():
    with pytest.raises(ValueError, match="expected one of: map, r_precision, precision_at_1, recall_at_1"):
        ev.document_statistics(np.zeros((1, 3)), [[0]], ks=(1,)).values("precision_at_2")
