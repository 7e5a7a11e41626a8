"""Decision thresholds, chosen on the dev split.

Every search here is exact over all possible cuts, not over a grid: lowering a threshold past a negative can only lose
precision, so the best cut lies at the score of some true pair, and all of those are tried. The threshold returned is
the middle between that score and the next lower one, so rounding on another machine does not flip a prediction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .confusion import THRESHOLD_METRICS, confusion_counts, ratio
from .ranking import as_scores_and_targets, blocks, key_values, order_keys, pooled_counts, sorted_lines
from .targets import SparseTargets

F1_CURVES = (lambda true_positives, predicted, positives: 2 * true_positives / (predicted + positives),)
MULLENBACH_CURVES = (
    lambda true_positives, predicted, positives: true_positives / predicted,
    lambda true_positives, predicted, positives: true_positives / positives,
)
OBJECTIVES = ("f1_micro", "f1_macro", "f1_macro_all", "f1_macro_mullenbach")


@dataclass(frozen=True)
class ThresholdSearch:
    """The best threshold for all labels.

    Attributes:
        threshold: In the unit of the scores; `score >= threshold` predicts.
        value: What the objective reaches there on the split it was searched on.
        objective: Name of the metric that was maximised.
        num_candidates: Number of distinct cuts compared.
    """

    threshold: float
    value: float
    objective: str
    num_candidates: int


def search_threshold(scores, targets, objective: str = "f1_micro") -> ThresholdSearch:
    """Find the threshold for all labels that maximises a metric; of equal ones the highest.

    Time grows with documents × labels, memory with the number of true pairs.

    Args:
        scores: Dev scores [N, L].
        targets: True labels in any accepted form.
        objective: `"f1_micro"`, `"f1_macro"`, `"f1_macro_all"` or `"f1_macro_mullenbach"`.

    >>> search_threshold(np.array([[2.0, -1.0], [-2.0, -0.5]]), [[0], [1]]).threshold
    -0.75
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"`objective` is {objective!r}, expected one of {', '.join(OBJECTIVES)}.")
    scores, targets = as_scores_and_targets(scores, targets)
    if not len(targets.rows):
        raise ValueError("`targets` has no positive, so no threshold is better than another. Pass the dev split.")
    candidates, values = (_micro_curve if objective == "f1_micro" else _macro_curve)(scores, targets, objective)
    best = len(values) - 1 - int(np.argmax(values[::-1]))
    threshold = _between(candidates[best], _next_lower(scores, candidates[best]), scores.dtype)
    value = float(THRESHOLD_METRICS[objective](confusion_counts(scores, targets, threshold)))
    return ThresholdSearch(threshold, value, objective, len(candidates))


def _micro_curve(scores: np.ndarray, targets: SparseTargets, objective: str) -> tuple[np.ndarray, np.ndarray]:
    counts = pooled_counts(scores, targets)
    true_positives = counts.positives[::-1].cumsum()[::-1]
    return counts.keys, 2 * true_positives / (counts.total - counts.below + len(targets.rows))


def _macro_curve(scores: np.ndarray, targets: SparseTargets, objective: str) -> tuple[np.ndarray, np.ndarray]:
    """Sum per-label curves over labels by adding up, at each candidate, how much every label's value changes there.

    A label's curve changes with each of its documents. Within one candidate's interval only the total change counts,
    so the order of tied documents does not matter.
    """
    candidates = np.unique(order_keys(scores[targets.rows, targets.columns]))
    curves = MULLENBACH_CURVES if objective == "f1_macro_mullenbach" else F1_CURVES
    sums, predicted = np.zeros((len(curves), len(candidates))), np.arange(1, len(scores) + 1)
    for _, ordered, positives in sorted_lines(scores.T, targets):
        interval = candidates.searchsorted(ordered, "right")[::-1] - 1  # by falling score; -1: below every candidate
        kept = len(ordered) - ordered.searchsorted(candidates[0], "left")
        above = len(ordered) - ordered.searchsorted(positives, "right")
        true_positives = np.bincount(above, minlength=len(ordered)).cumsum()
        for total, curve in zip(sums, curves, strict=True):
            changes = np.diff(curve(true_positives, predicted, len(positives)), prepend=0.0)
            total += np.bincount(interval[:kept], weights=changes[:kept], minlength=len(candidates))
    means = sums[:, ::-1].cumsum(1)[:, ::-1] / scores.shape[1]
    return candidates, ratio(2 * means.prod(0), means.sum(0)) if len(means) == 2 else means[0]


def _next_lower(scores: np.ndarray, key) -> int | None:
    lower = []
    for start, stop in blocks(*scores.shape):
        keys = order_keys(scores[start:stop])
        below = keys[keys < key]
        lower += [below.max()] if below.size else []
    return max(lower) if lower else None


def _between(key, lower_key, dtype) -> float:
    """The middle between a score and the next lower one, or the score itself where there is no finite middle."""
    score = float(key_values(key, dtype))
    lower = float("-inf") if lower_key is None else float(key_values(lower_key, dtype))
    middle = lower + (score - lower) / 2 if np.isfinite(lower) and np.isfinite(score) else score
    return middle if lower < middle <= score else score


def label_thresholds(scores, targets, global_threshold: float, shrinkage: float = 10.0) -> np.ndarray:
    """Find the threshold of each label that maximises its F1, pulled towards the global one.

    A label with n dev positives gets `(n · own + shrinkage · global) / (n + shrinkage)`: rare labels, whose best cut
    on dev is mostly luck, stay near the global threshold, and labels without dev positives take it as it is.

    Args:
        scores: Dev scores [N, L].
        targets: True labels in any accepted form.
        global_threshold: The threshold of all labels, from `search_threshold`.
        shrinkage: Number of positives at which own and global threshold weigh the same; 0 trusts dev alone.

    Returns:
        Thresholds in the unit of the scores, float64 [L].

    >>> scores = np.array([[3.0, -1.0], [1.0, -2.0], [-1.0, -3.0]])
    >>> label_thresholds(scores, [[0], [], []], global_threshold=0.0, shrinkage=1.0).tolist()
    [1.0, 0.0]
    """
    if shrinkage < 0:
        raise ValueError(f"`shrinkage` is {shrinkage}, expected 0 or more.")
    scores, targets = as_scores_and_targets(scores, targets)
    thresholds = np.full(scores.shape[1], float(global_threshold))
    for label, ordered, positives in sorted_lines(scores.T, targets):
        own = _best_cut(ordered, np.sort(positives), scores.dtype)
        if np.isfinite(own):
            count = len(positives)
            thresholds[label] = (count * own + shrinkage * global_threshold) / (count + shrinkage)
    return thresholds


def _best_cut(ordered: np.ndarray, positives: np.ndarray, dtype) -> float:
    below = ordered.searchsorted(positives, "left")
    true_positives = len(positives) - positives.searchsorted(positives, "left")
    f1 = 2 * true_positives / (len(ordered) - below + len(positives))
    best = len(f1) - 1 - int(np.argmax(f1[::-1]))
    return _between(positives[best], ordered[below[best] - 1] if below[best] else None, dtype)
