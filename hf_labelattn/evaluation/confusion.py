"""Counts of right and wrong predictions at a threshold, and every metric that needs nothing else.

`L` is the whole label set and `L+` the labels with at least one positive in the evaluated split. A ratio with a zero
denominator is 0, as in scikit-learn with `zero_division=0`; a mean over no label is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .ranking import as_scores, as_scores_and_targets, blocks, order_keys, threshold_keys
from .targets import SparseTargets


@dataclass(frozen=True, eq=False)
class ConfusionCounts:
    """Counts per label; a second axis, if there is one, holds resampled versions of the same split.

    Attributes:
        true_positives: Pairs predicted and true, [L] or [L, R].
        predicted: Pairs predicted, [L] or [L, R].
        positives: Pairs true, [L] or [L, 1] or [L, R].
    """

    true_positives: np.ndarray
    predicted: np.ndarray
    positives: np.ndarray

    @property
    def false_positives(self) -> np.ndarray:
        """Pairs predicted but not true."""
        return self.predicted - self.true_positives

    @property
    def false_negatives(self) -> np.ndarray:
        """Pairs true but not predicted."""
        return self.positives - self.true_positives

    def select(self, labels: np.ndarray) -> ConfusionCounts:
        """The counts of some labels."""
        return ConfusionCounts(self.true_positives[labels], self.predicted[labels], self.positives[labels])

    def pooled(self) -> ConfusionCounts:
        """The counts of all labels together, as of one label."""
        return ConfusionCounts(*(c.sum(0, keepdims=True) for c in self._arrays()))

    def precision(self) -> np.ndarray:
        """True positives over predicted pairs, per label."""
        return ratio(self.true_positives, self.predicted)

    def recall(self) -> np.ndarray:
        """True positives over true pairs, per label."""
        return ratio(self.true_positives, self.positives)

    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall, per label."""
        return ratio(2 * self.true_positives, self.predicted + self.positives)

    def mean_present(self, values: np.ndarray):
        """Mean over `L+`."""
        present = np.broadcast_to(self.positives > 0, values.shape)
        return ratio((values * present).sum(0), present.sum(0), empty=np.nan)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.true_positives, self.predicted, self.positives


def ratio(numerator, denominator, empty: float = 0.0) -> np.ndarray:
    """Divide, with `empty` where the denominator is zero.

    >>> ratio(np.array([1, 0]), np.array([2, 0])).tolist()
    [0.5, 0.0]
    """
    numerator, denominator = np.broadcast_arrays(np.asarray(numerator, dtype=np.float64), denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, empty), where=denominator != 0)


def _mean(values: np.ndarray):
    return values.mean(0) if len(values) else np.full(values.shape[1:], np.nan)


def _harmonic_mean(a, b):
    return ratio(2 * a * b, a + b)


THRESHOLD_METRICS: dict[str, Callable[[ConfusionCounts], np.ndarray]] = {
    "precision_micro": lambda counts: counts.pooled().precision()[0],
    "recall_micro": lambda counts: counts.pooled().recall()[0],
    "f1_micro": lambda counts: counts.pooled().f1()[0],
    "precision_macro": lambda counts: counts.mean_present(counts.precision()),
    "recall_macro": lambda counts: counts.mean_present(counts.recall()),
    "f1_macro": lambda counts: counts.mean_present(counts.f1()),
    "precision_macro_all": lambda counts: _mean(counts.precision()),
    "recall_macro_all": lambda counts: _mean(counts.recall()),
    "f1_macro_all": lambda counts: _mean(counts.f1()),
    "f1_macro_mullenbach": lambda counts: _harmonic_mean(_mean(counts.precision()), _mean(counts.recall())),
}
"""Every metric of counts at a threshold, by its exact name: one float for counts [L], [R] for counts [L, R]."""


def prediction_counts(scores: np.ndarray, threshold=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Number of predictions of each label and of each document.

    Args:
        scores: Scores [N, L] as `as_scores` returns them.
        threshold: One number or one per label; a pair is predicted when its score is at least the threshold.

    >>> [counts.tolist() for counts in prediction_counts(np.array([[0.2, 0.7], [0.7, 0.9]]), 0.5)]
    [[1, 2], [1, 2]]
    """
    cut = _label_cuts(scores, threshold)
    per_label, per_document = np.zeros(scores.shape[1], dtype=np.int64), np.zeros(scores.shape[0], dtype=np.int64)
    for start, stop in blocks(*scores.shape):
        predicted = order_keys(scores[start:stop]) >= cut  # [block, L]
        per_label += np.count_nonzero(predicted, axis=0)
        per_document[start:stop] = np.count_nonzero(predicted, axis=1)
    return per_label, per_document


def _label_cuts(scores: np.ndarray, threshold) -> np.ndarray:
    cut = threshold_keys(threshold, scores.dtype)
    if cut.ndim and cut.shape != scores.shape[1:]:
        raise ValueError(
            f"`threshold` has shape {cut.shape}, expected one number or one per label: {scores.shape[1]}."
        )
    return cut


def hits(scores: np.ndarray, targets: SparseTargets, threshold=0.0) -> np.ndarray:
    """Whether each true pair is predicted, bool [P], in the order of `targets`."""
    cut = np.broadcast_to(_label_cuts(scores, threshold), scores.shape[1:])
    return order_keys(scores[targets.rows, targets.columns]) >= cut[targets.columns]


def confusion_counts(scores, targets, threshold=0.0) -> ConfusionCounts:
    """Count true positives, predictions and positives of every label.

    Args:
        scores: Scores [N, L].
        targets: True labels in any form `as_targets` reads.
        threshold: One number or one per label, in the unit of the scores; `score >= threshold` predicts.

    >>> counts = confusion_counts(np.array([[1.0, -1.0], [1.0, 2.0]]), np.array([[1, 0], [0, 1]]))
    >>> counts.true_positives.tolist(), counts.false_positives.tolist(), counts.false_negatives.tolist()
    ([1, 1], [1, 0], [0, 0])
    """
    scores, targets = as_scores_and_targets(scores, targets)
    true_positives = np.bincount(targets.columns[hits(scores, targets, threshold)], minlength=scores.shape[1])
    return ConfusionCounts(true_positives, prediction_counts(scores, threshold)[0], targets.label_counts)


def exact_matches(scores: np.ndarray, targets: SparseTargets, threshold=0.0) -> np.ndarray:
    """Whether the predicted label set of each document is exactly the true one, bool [N]."""
    right = np.bincount(targets.rows[hits(scores, targets, threshold)], minlength=scores.shape[0])
    predicted = prediction_counts(scores, threshold)[1]
    return (right == targets.document_counts) & (predicted == targets.document_counts)


def predict(scores, threshold=0.0) -> SparseTargets:
    """The predicted (document, label) pairs.

    Args:
        scores: Scores [N, L].
        threshold: One number or one per label, in the unit of the scores.

    >>> predict(np.array([[1.0, -1.0], [1.0, 2.0]])).dense().astype(int).tolist()
    [[1, 0], [1, 1]]
    """
    scores = as_scores(scores)
    cut = _label_cuts(scores, threshold)
    found = [np.nonzero(order_keys(scores[start:stop]) >= cut) for start, stop in blocks(*scores.shape)]
    starts = [start for start, _ in blocks(*scores.shape)]
    parts = [np.stack([rows + start, columns]) for start, (rows, columns) in zip(starts, found, strict=True)]
    return SparseTargets(*np.concatenate([np.zeros((2, 0), dtype=np.int64), *parts], axis=1), shape=scores.shape)
