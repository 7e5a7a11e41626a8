import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hf_labelattn import evaluation as ev
from hf_labelattn.evaluation.thresholds import OBJECTIVES

from .splits import quick, random_split, splits


@pytest.mark.parametrize("objective", OBJECTIVES)
@quick
@given(split=splits(min_labels=1))
def test_search_finds_what_trying_every_score_finds(objective, split):
    scores, targets = split
    assume(targets.any())
    metric = getattr(ev, objective)
    best = ev.search_threshold(scores, targets, objective)
    everything = max(metric(scores, targets, float(cut)) for cut in np.unique(scores))
    assert best.value == pytest.approx(everything, abs=1e-12)
    assert metric(scores, targets, best.threshold) == best.value


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_search_is_exact_on_a_random_split(objective, dtype):
    scores, targets = random_split(dtype=dtype)
    best = ev.search_threshold(scores, targets, objective)
    everything = [getattr(ev, objective)(scores, targets, float(cut)) for cut in np.unique(scores)]
    assert best.value == pytest.approx(max(everything), abs=1e-12)
    assert best.num_candidates == len(np.unique(scores[targets]))


def test_threshold_lies_between_two_scores():
    scores = np.array([[4.0, 1.0, 0.0]], dtype=np.float16)
    assert ev.search_threshold(scores, [[0, 1]]).threshold == 0.5
    assert ev.search_threshold(scores[:, :2], [[0, 1]]).threshold == 1.0


def test_equal_thresholds_give_the_highest():
    scores = np.array([[3.0, 2.0, 1.0, 0.0]])
    assert ev.search_threshold(scores, [[0, 3]]).threshold == 2.5


def test_search_skips_scores_of_minus_infinity():
    scores = np.array([[2.0, -np.inf], [-1.0, -np.inf]])
    assert ev.search_threshold(scores, [[0], [0]]).threshold == -1.0


@quick
@given(splits(min_labels=1), st.sampled_from([-1.0, 0.0, 2.0]))
def test_unshrunk_label_thresholds_reach_the_best_f1_of_each_label(split, global_threshold):
    scores, targets = split
    found = ev.label_thresholds(scores, targets, global_threshold, shrinkage=0.0)
    for label in range(scores.shape[1]):
        column, truth = scores[:, [label]], targets[:, [label]]
        best = max(ev.f1_micro(column, truth, float(cut)) for cut in np.unique(column))
        if truth.any():
            assert ev.f1_micro(column, truth, found[label]) == pytest.approx(best, abs=1e-12)
        else:
            assert found[label] == global_threshold


def test_shrinkage_weighs_by_the_number_of_positives():
    scores, targets = random_split()
    own = ev.label_thresholds(scores, targets, 0.7, shrinkage=0.0)
    counts = targets.sum(0)
    shrunk = ev.label_thresholds(scores, targets, 0.7, shrinkage=3.0)
    assert shrunk == pytest.approx((counts * own + 3.0 * 0.7) / (counts + 3.0))


def test_label_with_no_finite_cut_takes_the_global_threshold():
    assert ev.label_thresholds(np.full((2, 1), -np.inf), [[0], []], 0.3).tolist() == [0.3]


def test_wrong_requests_are_refused():
    scores, targets = random_split()
    with pytest.raises(ValueError, match="`objective` is 'f1', expected one of f1_micro, f1_macro"):
        ev.search_threshold(scores, targets, "f1")
    with pytest.raises(ValueError, match="has no positive"):
        ev.search_threshold(scores, np.zeros_like(targets))
    with pytest.raises(ValueError, match="`shrinkage` is -1, expected 0 or more"):
        ev.label_thresholds(scores, targets, 0.0, shrinkage=-1)
