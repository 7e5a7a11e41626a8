"""The same metrics for rare and for frequent labels, by how often the training split showed them."""

from __future__ import annotations

import numpy as np

from .metrics import (
    DEFAULT_KS,
    LabelStatistics,
    document_metrics,
    document_statistics,
    label_metrics,
    label_statistics,
    pooled_metrics,
)
from .ranking import as_scores_and_targets

FREQUENCY_BINS = {
    "0": (0, 0),
    "1-10": (1, 10),
    "11-50": (11, 50),
    "51-100": (51, 100),
    "101-500": (101, 500),
    ">500": (501, None),
}
"""Name of each bin and its lowest and highest training count."""


def labels_by_bin(train_counts, bins=None) -> dict[str, np.ndarray]:
    """Sort label ids into bins of training frequency.

    Args:
        train_counts: Number of training documents of each label, ints [L].
        bins: Name → (lowest, highest) count, `None` for no upper end; default `FREQUENCY_BINS`.

    >>> {name: ids.tolist() for name, ids in labels_by_bin([0, 7, 700, 10]).items() if len(ids)}
    {'0': [0], '1-10': [1, 3], '>500': [2]}
    """
    counts = np.asarray(train_counts)
    limits = FREQUENCY_BINS if bins is None else bins
    highest = {name: np.inf if high is None else high for name, (_, high) in limits.items()}
    return {name: np.flatnonzero((counts >= low) & (counts <= highest[name])) for name, (low, _) in limits.items()}


def labels_by_quarter(train_counts, present) -> list[np.ndarray]:
    """Quarter the labels that training showed and the split contains, the rarest in training first.

    Args:
        train_counts: Number of training documents of each label, ints [L].
        present: Whether each label has a positive in the evaluated split, bool [L].

    Returns:
        Four arrays of label ids of nearly equal length; labels of equal count keep the order of their ids.

    >>> [ids.tolist() for ids in labels_by_quarter([9, 0, 3, 5, 1], [True, True, True, True, True])]
    [[4], [2], [3], [0]]
    """
    counts = np.asarray(train_counts)
    known = np.flatnonzero((counts > 0) & np.asarray(present, dtype=bool))
    return np.array_split(known[np.argsort(counts[known], kind="stable")], 4)


def _check_counts(train_counts, num_labels: int) -> np.ndarray:
    counts = np.asarray(train_counts)
    if counts.shape != (num_labels,):
        raise ValueError(f"`train_counts` has shape {counts.shape}, expected [{num_labels}], one count per label.")
    return counts


def _named(metrics: dict[str, float], group: str) -> dict[str, float]:
    return {f"{name}/{group}": value for name, value in metrics.items() if not np.isnan(value)}


def _sizes(statistics: LabelStatistics) -> dict[str, float]:
    positives = statistics.counts.positives
    return {"num_labels": float(len(positives)), "num_labels_present": float(np.count_nonzero(positives))}


def bin_metrics(scores, targets, train_counts, threshold=0.0, ks=DEFAULT_KS, statistics=None) -> dict[str, float]:
    """Compute every metric again on the labels of each frequency bin alone.

    The figures of a bin are those of `multilabel_metrics` on the bin's columns: document-wise metrics rank only the
    labels of the bin. Figures that do not exist (an empty bin, no label of it in the split) are left out.

    Args:
        scores: Scores [N, L].
        targets: True labels in any accepted form.
        train_counts: Number of training documents of each label, ints [L].
        threshold: One number or one per label, in the unit of the scores.
        ks: Lengths of the lists of `precision_at_k` and `recall_at_k`.
        statistics: The `label_statistics` of the split, if already computed.

    Returns:
        `"<metric>/count_<bin>"` → value, with `num_labels` and `num_labels_present` of each bin.
    """
    scores, targets = as_scores_and_targets(scores, targets)
    train_counts = _check_counts(train_counts, scores.shape[1])
    statistics = label_statistics(scores, targets, threshold) if statistics is None else statistics
    thresholds = np.broadcast_to(np.asarray(threshold, dtype=np.float64), scores.shape[1:])
    metrics = {}
    for name, labels in labels_by_bin(train_counts).items():
        part = statistics.select(labels)
        metrics |= _named(_sizes(part), f"count_{name}")
        if part.counts.positives.any():
            part_scores, part_targets = scores[:, labels], targets.select_labels(labels)
            values = label_metrics(part) | pooled_metrics(part_scores, part_targets, thresholds[labels])
            values |= document_metrics(document_statistics(part_scores, part_targets, ks))
            metrics |= _named(values, f"count_{name}")
    return metrics


def quarter_metrics(statistics: LabelStatistics, train_counts) -> dict[str, float]:
    """Compute the label-wise metrics of each quarter of the labels, `quarter_1` being the rarest in training.

    Only labels seen in training and present in the evaluated split take part.

    Args:
        statistics: The `label_statistics` of the split.
        train_counts: Number of training documents of each label, ints [L].

    Returns:
        `"<metric>/quarter_<1-4>"` → value; `num_labels` and `num_perfect_average_precision` count labels.
    """
    train_counts = _check_counts(train_counts, len(statistics.auc))
    metrics = {}
    for number, labels in enumerate(labels_by_quarter(train_counts, statistics.counts.positives > 0), start=1):
        part = statistics.select(labels)
        perfect = float(np.count_nonzero(part.average_precision == 1))
        sizes = {"num_labels": float(len(labels)), "num_perfect_average_precision": perfect}
        values = label_metrics(part) if len(labels) else {}
        metrics |= _named(sizes | values, f"quarter_{number}")
    return metrics


def frequency_metrics(scores, targets, train_counts, threshold=0.0, ks=DEFAULT_KS) -> dict[str, float]:
    """Compute `bin_metrics` and `quarter_metrics` in one pass over the labels.

    Args:
        scores: Scores [N, L].
        targets: True labels in any accepted form.
        train_counts: Number of training documents of each label, ints [L].
        threshold: One number or one per label, in the unit of the scores.
        ks: Lengths of the lists of `precision_at_k` and `recall_at_k`.
    """
    scores, targets = as_scores_and_targets(scores, targets)
    statistics = label_statistics(scores, targets, threshold)
    by_bin = bin_metrics(scores, targets, train_counts, threshold, ks, statistics)
    return by_bin | quarter_metrics(statistics, train_counts)
