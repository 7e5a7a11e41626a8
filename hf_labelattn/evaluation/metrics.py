"""Multi-label metrics by exact definition, on scores [documents, labels] and true labels.

`L` is the whole label set, `L+` the labels with at least one positive in the evaluated split. Three figures go by the
name "macro F1" in the literature, and here each has its own:

- `f1_macro_mullenbach`: harmonic mean of macro precision and macro recall over `L` (Mullenbach et al. 2018);
- `f1_macro_all`: mean F1 of the labels in `L`, absent labels count 0 (scikit-learn);
- `f1_macro`: mean F1 of the labels in `L+` (Edin et al. 2023); `f1_macro_all = f1_macro · |L+| / |L|`.

A pair is predicted when `score >= threshold`. Ties: AUC and average precision treat equal scores as one step of the
curve, as scikit-learn does. A top-k list cut inside a run of equal scores counts each of the tied labels with the
probability that a random order would include it, so no figure depends on the order of the labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .confusion import THRESHOLD_METRICS, ConfusionCounts, confusion_counts, exact_matches, ratio
from .ranking import PositiveRanks, as_scores_and_targets, document_ranks, label_ranks, pooled_counts

DEFAULT_KS = (1, 5, 8, 15)


@dataclass(frozen=True, eq=False)
class LabelStatistics:
    """What every label-wise metric is a mean of.

    Attributes:
        counts: True positives, predictions and positives of each label.
        auc: Area under the ROC curve of each label [L]; NaN without positives or without negatives.
        average_precision: Average precision of each label [L]; NaN without positives.
    """

    counts: ConfusionCounts
    auc: np.ndarray
    average_precision: np.ndarray

    def select(self, labels: np.ndarray) -> LabelStatistics:
        """The statistics of some labels."""
        return LabelStatistics(self.counts.select(labels), self.auc[labels], self.average_precision[labels])


@dataclass(frozen=True, eq=False)
class DocumentStatistics:
    """What every document-wise metric is a mean of.

    Attributes:
        positives: Number of true labels of each document [N].
        average_precision: Average precision of each document's ranking of labels [N]; NaN without true labels.
        r_precision: Share of true labels among the first `positives` labels [N]; NaN without true labels.
        hits: For each k, the number of true labels among the first k [N].
    """

    positives: np.ndarray
    average_precision: np.ndarray
    r_precision: np.ndarray
    hits: dict[int, np.ndarray]

    @classmethod
    def concatenate(cls, parts: list[DocumentStatistics], ks) -> DocumentStatistics:
        """Stack the documents of several parts, in order."""
        empty = np.zeros(0)
        fields = ("positives", "average_precision", "r_precision")
        stacked = (np.concatenate([empty, *(getattr(part, field) for part in parts)]) for field in fields)
        return cls(*stacked, hits={k: np.concatenate([empty, *(part.hits[k] for part in parts)]) for k in ks})

    def values(self, metric: str) -> np.ndarray:
        """One document's share of a metric for every document [N], NaN where it has none.

        Args:
            metric: `"map"`, `"r_precision"`, or `"precision_at_<k>"` or `"recall_at_<k>"` with a k in `hits`.
        """
        if metric in ("map", "r_precision"):
            return self.average_precision if metric == "map" else self.r_precision
        name, _, k = metric.rpartition("_")
        if name not in ("precision_at", "recall_at") or not k.isdigit() or int(k) not in self.hits:
            expected = ", ".join(document_metric_names(self.hits))
            raise ValueError(f"`{metric}` is not a mean over documents here, expected one of: {expected}.")
        hits = self.hits[int(k)]
        return hits / int(k) if name == "precision_at" else ratio(hits, self.positives, empty=np.nan)


def document_metric_names(ks=DEFAULT_KS) -> list[str]:
    """Names of the metrics that are means over documents.

    >>> document_metric_names(ks=(1, 5))
    ['map', 'r_precision', 'precision_at_1', 'precision_at_5', 'recall_at_1', 'recall_at_5']
    """
    return ["map", "r_precision", *(f"precision_at_{k}" for k in ks), *(f"recall_at_{k}" for k in ks)]


def _nan_mean(values: np.ndarray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _average_precision(ranks: PositiveRanks) -> np.ndarray:
    return ratio(ranks.line_sums(ranks.positives_through / ranks.through), ranks.positives, empty=np.nan)


def _auc(ranks: PositiveRanks) -> np.ndarray:
    above = ranks.above - ranks.positives_above
    tied = ranks.through - ranks.positives_through - above
    lost = ranks.line_sums(above + tied / 2)  # pairs of a positive and a negative in the wrong order
    pairs = ranks.positives * (ranks.shape[1] - ranks.positives)
    return ratio(pairs - lost, pairs, empty=np.nan)


def _hits_at(ranks: PositiveRanks, k: np.ndarray | int) -> np.ndarray:
    return ranks.line_sums(np.clip((k - ranks.above) / (ranks.through - ranks.above), 0, 1))


def label_statistics(scores, targets, threshold=0.0) -> LabelStatistics:
    """Compute counts, AUC and average precision of every label.

    Args:
        scores: Scores [N, L]: float16, float32 or float64, numpy or torch.
        targets: 0/1 array [N, L], CSR matrix, `SparseTargets`, or a list of label ids per document.
        threshold: One number or one per label, in the unit of the scores.
    """
    scores, targets = as_scores_and_targets(scores, targets)
    ranks = label_ranks(scores, targets)
    return LabelStatistics(confusion_counts(scores, targets, threshold), _auc(ranks), _average_precision(ranks))


def document_statistics(scores, targets, ks=DEFAULT_KS) -> DocumentStatistics:
    """Compute average precision, R-precision and hits among the first k labels of every document.

    Args:
        scores: Scores [N, L].
        targets: True labels in any accepted form.
        ks: Lengths of the lists to count hits in.
    """
    scores, targets = as_scores_and_targets(scores, targets)
    ranks = document_ranks(scores, targets)
    own_length = _hits_at(ranks, ranks.positives[ranks.lines])
    hits = {k: _hits_at(ranks, k) for k in ks}
    return DocumentStatistics(
        ranks.positives, _average_precision(ranks), ratio(own_length, ranks.positives, empty=np.nan), hits
    )


def label_metrics(statistics: LabelStatistics) -> dict[str, float]:
    """Every metric that is computed from labels one by one, by its exact name."""
    metrics = {name: float(metric(statistics.counts)) for name, metric in THRESHOLD_METRICS.items()}
    metrics["auc_macro"] = _nan_mean(statistics.auc)
    metrics["average_precision_macro"] = _nan_mean(statistics.average_precision)
    return metrics


def document_metrics(statistics: DocumentStatistics) -> dict[str, float]:
    """Every metric that is a mean over documents, by its exact name."""
    return {name: _nan_mean(statistics.values(name)) for name in document_metric_names(statistics.hits)}


def multilabel_metrics(scores, targets, threshold=0.0, ks=DEFAULT_KS) -> dict[str, float]:
    """Compute the whole set of metrics.

    Args:
        scores: Scores [N, L]: float16, float32 or float64, numpy or torch.
        targets: 0/1 array [N, L], CSR matrix, `SparseTargets`, or a list of label ids per document.
        threshold: One number or one per label, in the unit of the scores (for logits, 0 is a probability of 0.5).
        ks: Lengths of the lists of `precision_at_k` and `recall_at_k`.

    Returns:
        Metric by name. A mean over nothing (no label or document has a positive) is NaN.

    >>> metrics = multilabel_metrics(np.array([[2.0, -1.0, -3.0], [1.0, 3.0, -2.0]]), [[0], [1, 2]], ks=(1,))
    >>> metrics["f1_micro"], metrics["precision_at_1"], metrics["auc_macro"]
    (0.6666666666666666, 1.0, 1.0)
    """
    scores, targets = as_scores_and_targets(scores, targets)
    labelwise = label_metrics(label_statistics(scores, targets, threshold))
    documentwise = document_metrics(document_statistics(scores, targets, ks))
    return labelwise | pooled_metrics(scores, targets, threshold) | documentwise


def pooled_metrics(scores, targets, threshold=0.0) -> dict[str, float]:
    """Compute `auc_micro` and `exact_match`, the metrics that are means of neither labels nor single rankings."""
    return {"auc_micro": auc_micro(scores, targets), "exact_match": exact_match(scores, targets, threshold)}


def _threshold_metric(name: str, scores, targets, threshold) -> float:
    return float(THRESHOLD_METRICS[name](confusion_counts(scores, targets, threshold)))


def precision_micro(scores, targets, threshold=0.0) -> float:
    """Share of the predicted pairs that are true."""
    return _threshold_metric("precision_micro", scores, targets, threshold)


def recall_micro(scores, targets, threshold=0.0) -> float:
    """Share of the true pairs that are predicted."""
    return _threshold_metric("recall_micro", scores, targets, threshold)


def f1_micro(scores, targets, threshold=0.0) -> float:
    """Harmonic mean of micro precision and micro recall.

    >>> f1_micro(np.array([[1.0, -1.0], [1.0, 2.0]]), np.array([[1, 0], [0, 1]]))
    0.8
    """
    return _threshold_metric("f1_micro", scores, targets, threshold)


def precision_macro(scores, targets, threshold=0.0) -> float:
    """Mean precision of the labels in `L+`; a label never predicted counts 0."""
    return _threshold_metric("precision_macro", scores, targets, threshold)


def precision_macro_all(scores, targets, threshold=0.0) -> float:
    """Mean precision of the labels in `L`; a label never predicted counts 0."""
    return _threshold_metric("precision_macro_all", scores, targets, threshold)


def recall_macro(scores, targets, threshold=0.0) -> float:
    """Mean recall of the labels in `L+`."""
    return _threshold_metric("recall_macro", scores, targets, threshold)


def recall_macro_all(scores, targets, threshold=0.0) -> float:
    """Mean recall of the labels in `L`; absent labels count 0."""
    return _threshold_metric("recall_macro_all", scores, targets, threshold)


def f1_macro(scores, targets, threshold=0.0) -> float:
    """Mean F1 of the labels in `L+` (Edin et al. 2023).

    >>> f1_macro(np.array([[1.0, -1.0, -1.0], [1.0, 2.0, -1.0]]), [[0], [1]])
    0.8333333333333333
    """
    return _threshold_metric("f1_macro", scores, targets, threshold)


def f1_macro_all(scores, targets, threshold=0.0) -> float:
    """Mean F1 of the labels in `L`; absent labels count 0 (scikit-learn's macro F1).

    >>> round(f1_macro_all(np.array([[1.0, -1.0, -1.0], [1.0, 2.0, -1.0]]), [[0], [1]]), 4)
    0.5556
    """
    return _threshold_metric("f1_macro_all", scores, targets, threshold)


def f1_macro_mullenbach(scores, targets, threshold=0.0) -> float:
    """Harmonic mean of `precision_macro_all` and `recall_macro_all` (Mullenbach et al. 2018).

    >>> round(f1_macro_mullenbach(np.array([[1.0, -1.0, -1.0], [1.0, 2.0, -1.0]]), [[0], [1]]), 4)
    0.5714
    """
    return _threshold_metric("f1_macro_mullenbach", scores, targets, threshold)


def auc_macro(scores, targets) -> float:
    """Mean area under the ROC curve of the labels in `L+`; labels without negatives have none and are left out."""
    return _nan_mean(_auc(label_ranks(*as_scores_and_targets(scores, targets))))


def auc_micro(scores, targets) -> float:
    """Area under the ROC curve of all document-label pairs in one ranking, over `L`; NaN without both kinds of pair.

    >>> auc_micro(np.array([[0.9, 0.1], [0.4, 0.4]]), np.array([[1, 0], [0, 1]]))
    0.875
    """
    counts = pooled_counts(*as_scores_and_targets(scores, targets))
    positives_below = np.cumsum(counts.positives) - counts.positives
    below = counts.below - positives_below
    tied = counts.up_to - counts.below - counts.positives
    total = int(counts.positives.sum())
    return float(ratio((counts.positives * (below + tied / 2)).sum(), total * (counts.total - total), empty=np.nan))


def average_precision_macro(scores, targets) -> float:
    """Mean average precision of the labels in `L+`, each label ranking the documents ("macro-AP").

    >>> average_precision_macro(np.array([[0.9, 0.0], [0.5, 0.0], [0.1, 0.0]]), np.array([[1, 0], [0, 0], [1, 0]]))
    0.8333333333333333
    """
    return _nan_mean(_average_precision(label_ranks(*as_scores_and_targets(scores, targets))))


def mean_average_precision(scores, targets) -> float:
    """Mean over the documents with true labels of the average precision of their ranking of labels (`map`)."""
    return _nan_mean(_average_precision(document_ranks(*as_scores_and_targets(scores, targets))))


def precision_at_k(scores, targets, k: int) -> float:
    """Mean over all documents of the true labels among the first k, divided by k.

    Args:
        scores: Scores [N, L].
        targets: True labels in any accepted form.
        k: Length of the list. It divides even where a document has fewer than k true labels.

    >>> precision_at_k(np.array([[3.0, 2.0, 1.0], [1.0, 1.0, 0.0]]), np.array([[1, 0, 1], [1, 0, 0]]), k=1)
    0.75
    """
    return _nan_mean(document_statistics(scores, targets, (k,)).values(f"precision_at_{k}"))


def recall_at_k(scores, targets, k: int) -> float:
    """Mean over the documents with true labels of the share of them among the first k."""
    return _nan_mean(document_statistics(scores, targets, (k,)).values(f"recall_at_{k}"))


def r_precision(scores, targets) -> float:
    """Mean over the documents with true labels of precision at k, with k the number of true labels."""
    return _nan_mean(document_statistics(scores, targets, ()).r_precision)


def exact_match(scores, targets, threshold=0.0) -> float:
    """Share of the documents whose predicted label set is exactly the true one."""
    scores, targets = as_scores_and_targets(scores, targets)
    return float(exact_matches(scores, targets, threshold).mean()) if len(scores) else float("nan")
