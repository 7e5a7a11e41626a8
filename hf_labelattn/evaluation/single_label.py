"""Metrics of single-label classification: every document has exactly one class."""

from __future__ import annotations

import numpy as np

from .confusion import THRESHOLD_METRICS, ConfusionCounts
from .ranking import as_scores
from .targets import to_numpy


def _as_scores_and_classes(scores, class_ids) -> tuple[np.ndarray, np.ndarray]:
    scores, class_ids = as_scores(scores), to_numpy(class_ids)
    if class_ids.shape != scores.shape[:1]:
        raise ValueError(f"`class_ids` has shape {class_ids.shape}, expected [{len(scores)}], one class per document.")
    if class_ids.size and (class_ids.min() < 0 or class_ids.max() >= scores.shape[1]):
        found = f"from {class_ids.min()} to {class_ids.max()}"
        raise ValueError(f"Class ids run {found}, but the scores have {scores.shape[1]} classes.")
    return scores, class_ids.astype(np.int64)


def class_ranks(scores, class_ids) -> np.ndarray:
    """Number of classes placed before the true one, int64 [N]; of equal scores the lowest class id comes first.

    Args:
        scores: Scores [N, K].
        class_ids: True class of each document, ints [N].

    >>> class_ranks(np.array([[0.1, 0.7, 0.7], [0.5, 0.3, 0.2]]), np.array([2, 0])).tolist()
    [1, 0]
    """
    scores, class_ids = _as_scores_and_classes(scores, class_ids)
    own = np.take_along_axis(scores, class_ids[:, None], axis=1)  # [N, 1]
    earlier = np.arange(scores.shape[1]) < class_ids[:, None]
    return np.count_nonzero((scores > own) | ((scores == own) & earlier), axis=1)


def accuracy(scores, class_ids) -> float:
    """Share of the documents whose best class is the true one."""
    return top_k_accuracy(scores, class_ids, k=1)


def top_k_accuracy(scores, class_ids, k: int) -> float:
    """Share of the documents whose true class is among the k best.

    Args:
        scores: Scores [N, K].
        class_ids: True class of each document, ints [N].
        k: Length of the list; of equal scores the lowest class id comes first.

    >>> top_k_accuracy(np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]]), np.array([2, 2]), k=2)
    0.5
    """
    ranks = class_ranks(scores, class_ids)
    return float((ranks < k).mean()) if len(ranks) else float("nan")


def class_counts(scores, class_ids) -> ConfusionCounts:
    """Count true positives, predictions and positives of every class."""
    scores, class_ids = _as_scores_and_classes(scores, class_ids)
    predicted, num_classes = scores.argmax(1), scores.shape[1]
    right = class_ids[predicted == class_ids]
    return ConfusionCounts(*(np.bincount(ids, minlength=num_classes) for ids in (right, predicted, class_ids)))


def single_label_metrics(scores, class_ids, ks=(3, 5)) -> dict[str, float]:
    """Compute `accuracy`, macro precision, recall and F1, and `top_<k>_accuracy`.

    `f1_macro` (and precision, recall) average over the classes present in the split, `f1_macro_all` over all classes.

    Args:
        scores: Scores [N, K].
        class_ids: True class of each document, ints [N].
        ks: Lengths of the lists of top-k accuracy; a k that covers every class is left out.

    >>> metrics = single_label_metrics(np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]]), np.array([2, 0]), ks=(2,))
    >>> metrics["accuracy"], metrics["f1_macro"], metrics["top_2_accuracy"]
    (0.5, 0.5, 1.0)
    """
    scores, class_ids = _as_scores_and_classes(scores, class_ids)
    counts = class_counts(scores, class_ids)
    macro = [name for name in THRESHOLD_METRICS if "_macro" in name and "mullenbach" not in name]
    ranks, num_classes = class_ranks(scores, class_ids), scores.shape[1]
    metrics = {"accuracy": float((ranks < 1).mean()) if len(ranks) else float("nan")}
    metrics |= {name: float(THRESHOLD_METRICS[name](counts)) for name in macro}
    return metrics | {f"top_{k}_accuracy": float((ranks < k).mean()) for k in ks if k < num_classes and len(ranks)}
