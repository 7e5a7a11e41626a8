from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from hf_labelattn import evaluation as ev
from hf_labelattn.evaluation import significance
from hf_labelattn.evaluation.significance import _resampled_metric

from .splits import quick, random_split, splits

COUNTED = [*ev.THRESHOLD_METRICS, "exact_match", "precision_at_1", "recall_at_2", "map", "r_precision"]
SMALL = {"documents": 7, "labels": 4}


def measure(metric, scores, targets):
    return ev.multilabel_metrics(scores, targets, ks=(1, 2))[metric]


def two_systems(seed=0, **sizes):
    scores, targets = random_split(seed=seed, **sizes)
    worse = scores - 0.8 * targets * np.random.default_rng(seed).random(scores.shape).astype(np.float32)
    return scores, worse, targets


@cache
def all_swaps(groups):
    """All differences between two small systems, for every way of swapping groups of documents between them."""
    (a, b, targets), names, groups = two_systems(**SMALL), np.unique(groups), np.array(groups)
    differences = []
    for swaps in product([False, True], repeat=len(names)):
        swap = np.isin(groups, names[list(swaps)])[:, None]
        left, right = (ev.multilabel_metrics(np.where(swap, *pair), targets, ks=(1, 2)) for pair in ((b, a), (a, b)))
        differences.append({metric: abs(left[metric] - right[metric]) for metric in left})
    return differences


def exact_p_value(metric, groups=tuple(range(7))):
    differences = np.array([row[metric] for row in all_swaps(tuple(groups))])
    return (differences >= differences[0] - 1e-12).mean()


@pytest.mark.parametrize("metric", COUNTED)
def test_p_value_is_that_of_all_swaps_of_documents(metric):
    a, b, targets = two_systems(**SMALL)
    test = ev.randomization_test(a, b, targets, metric, rounds=4000)
    assert test.unit == "document" and test.rounds == 4000
    assert test.statistic == pytest.approx(measure(metric, a, targets) - measure(metric, b, targets), abs=1e-12)
    assert test.p_value == pytest.approx(exact_p_value(metric), abs=0.03)


@pytest.mark.parametrize("metric", ["f1_micro", "f1_macro", "map"])
def test_documents_of_a_group_are_swapped_together(metric):
    a, b, targets = two_systems(**SMALL)
    groups = ["p1", "p1", "p2", "p3", "p3", "p4", "p5"]
    test = ev.randomization_test(a, b, targets, metric, groups=groups, rounds=4000)
    assert test.unit == "group"
    assert test.p_value == pytest.approx(exact_p_value(metric, groups), abs=0.03)


@pytest.mark.parametrize("metric", ["average_precision_macro", "auc_macro"])
def test_ranking_metrics_swap_labels(metric):
    a, b, targets = two_systems(documents=30, labels=9)
    field = metric.removesuffix("_macro")
    values = [getattr(ev.label_statistics(scores, targets), field) for scores in (a, b)]
    differences = np.subtract(*values)
    differences = differences[~np.isnan(differences)]
    signs = np.array(list(product([-1, 1], repeat=len(differences))))
    expected = (np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean()
    test = ev.randomization_test(a, b, targets, metric, rounds=4000)
    assert test.unit == "label" and test.p_value == pytest.approx(expected, abs=0.03)
    assert test.statistic == pytest.approx(measure(metric, a, targets) - measure(metric, b, targets))


def test_each_system_is_cut_at_its_own_threshold():
    a, b, targets = two_systems()
    test = ev.randomization_test(a, b - 3, targets, "f1_macro", threshold_a=0.5, threshold_b=-2.5, rounds=10)
    assert test.value_a == pytest.approx(ev.f1_macro(a, targets, 0.5))
    assert test.value_b == pytest.approx(ev.f1_macro(b - 3, targets, -2.5))


@pytest.mark.parametrize("metric", [*COUNTED, "average_precision_macro"])
def test_equal_systems_do_not_differ(metric):
    scores, targets = random_split()
    assert ev.randomization_test(scores, scores, targets, metric, rounds=50).p_value == 1.0


def test_a_clear_difference_is_as_small_as_the_rounds_allow():
    scores, targets = random_split()
    test = ev.randomization_test(np.where(targets, 1.0, -1.0), scores, targets, "f1_macro", rounds=999)
    assert test.p_value == 1 / 1000 and test.statistic > 0


def test_same_seed_same_result():
    a, targets = random_split()
    b = a + np.random.default_rng(1).normal(size=a.shape)
    one, same, other = (ev.randomization_test(a, b, targets, "f1_macro", rounds=500, seed=s) for s in (1, 1, 2))
    assert one == same and one.p_value != other.p_value
    one, same, other = (ev.group_bootstrap(a, targets, "f1_macro", rounds=200, seed=s) for s in (1, 1, 2))
    assert one == same and one.low != other.low


@quick
@given(split=splits(max_documents=6, max_labels=4), data=st.data())
def test_a_resampled_split_has_the_figures_of_its_repeated_documents(split, data):
    scores, targets = split
    _, units = np.unique([data.draw(st.integers(0, 3)) for _ in scores], return_inverse=True)
    weights = np.array([data.draw(st.integers(0, 3)) for _ in range(units.max() + 1)])
    repeated = np.repeat(np.arange(len(scores)), weights[units])
    assume(len(repeated) and targets[repeated].any())
    expected = ev.multilabel_metrics(scores[repeated], targets[repeated], ks=(1, 2))
    for metric in (*COUNTED, "average_precision_macro"):
        sparse = ev.as_targets(targets, scores.shape[1])
        evaluate = _resampled_metric(scores, sparse, metric, 0.0, units, units.max() + 1)
        got = evaluate(torch.from_numpy(weights).float()[:, None])
        assert got == pytest.approx(expected[metric], abs=1e-6), metric


def test_interval_contains_the_metric_and_widens_with_groups():
    scores, targets = random_split(documents=100)
    copies = np.repeat(np.arange(100), 4)
    alone = ev.group_bootstrap(scores[copies], targets[copies], rounds=400)
    grouped = ev.group_bootstrap(scores[copies], targets[copies], groups=copies, rounds=400)
    assert alone.num_groups == 400 and grouped.num_groups == 100
    assert alone.low < alone.statistic < alone.high
    assert alone.statistic == pytest.approx(ev.f1_micro(scores, targets))
    assert (grouped.high - grouped.low) / (alone.high - alone.low) == pytest.approx(2.0, rel=0.2)
    assert alone.p_value is None


@pytest.mark.parametrize("metric", ["f1_micro", "f1_macro", "precision_at_1", "average_precision_macro"])
def test_difference_is_paired(metric):
    scores, targets = random_split()
    same = ev.group_bootstrap(scores, targets, metric, other_scores=scores, rounds=50)
    assert same.low == same.high == same.statistic == 0.0 and same.p_value == 1.0
    perfect = np.where(targets, 2.0, -2.0) + np.zeros_like(scores)
    better = ev.group_bootstrap(perfect, targets, metric, other_scores=scores, rounds=199)
    assert better.statistic > 0 and better.p_value == pytest.approx(0.01)


def test_bootstrap_of_a_mean_has_the_width_of_its_standard_error():
    values = np.random.default_rng(0).normal(size=400)
    interval = ev.bootstrap_values(values, rounds=2000, confidence=0.9)
    assert interval.high - interval.low == pytest.approx(2 * 1.645 * values.std() / 20, rel=0.1)
    with_gaps = ev.bootstrap_values(np.append(values, [np.nan] * 5), rounds=10)
    assert with_gaps.statistic == pytest.approx(values.mean())


def test_rounds_in_blocks_cover_all_rounds(monkeypatch):
    monkeypatch.setattr(significance, "BLOCK_ELEMENTS", 700)
    a, b, targets = two_systems(**SMALL)
    for metric in ("f1_macro", "map"):
        p_value = ev.randomization_test(a, b, targets, metric, rounds=1501).p_value
        assert p_value == pytest.approx(exact_p_value(metric), abs=0.03)
    assert ev.group_bootstrap(a, targets, rounds=37).rounds == 37


def test_wrong_requests_are_refused():
    a, b, targets = two_systems()
    with pytest.raises(ValueError, match="'auc_micro', which cannot be resampled. Pass one of: precision_micro"):
        ev.randomization_test(a, b, targets, "auc_micro")
    with pytest.raises(ValueError, match=r"`groups` has shape \(2,\), expected \[60\]"):
        ev.randomization_test(a, b, targets, groups=["p", "q"])
    with pytest.raises(ValueError, match="`rounds` is 0"):
        ev.randomization_test(a, b, targets, rounds=0)
    with pytest.raises(ValueError, match="`confidence` is 95"):
        ev.group_bootstrap(a, targets, confidence=95, rounds=2)
    with pytest.raises(ValueError, match="expected two equal vectors"):
        ev.randomization_test_values([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="no document to resample"):
        ev.bootstrap_values([])
