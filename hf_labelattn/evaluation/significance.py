"""Is a difference more than luck: paired approximate randomisation, and a bootstrap by patient.

What is shuffled depends on what the metric is made of:

- Metrics of counts at a threshold (micro and macro precision, recall, F1) and means over documents (P@k, MAP, exact
  match …): the two systems' outputs are swapped document by document, or patient by patient with `groups`.
- Means over labels of a ranking of documents (macro-AP, macro-AUC): the two values are swapped label by label.
  Swapping documents would rank scores of different systems, in different units, against each other.

Nothing is re-evaluated per round: counts are sums over documents, so a round is one row of a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from .confusion import THRESHOLD_METRICS, ConfusionCounts, exact_matches, predict
from .metrics import document_metric_names, document_statistics, label_statistics
from .ranking import BLOCK_ELEMENTS, as_scores_and_targets, order_keys
from .targets import SparseTargets

DOCUMENT_METRICS = ("map", "r_precision", "exact_match", "precision_at_<k>", "recall_at_<k>")
LABEL_METRICS = ("average_precision_macro", "auc_macro")
TIE = 1e-12  # two statistics closer than this are equal but for rounding


@dataclass(frozen=True)
class RandomizationTest:
    """Result of a paired approximate randomisation test.

    Attributes:
        metric: Name of the metric.
        value_a: The metric of the first system.
        value_b: The metric of the second system.
        statistic: `value_a - value_b`.
        p_value: Share of rounds (the observed one included) with a difference at least as large, two-sided.
        rounds: Number of random rounds.
        unit: What was swapped: `"document"`, `"group"` or `"label"`.
    """

    metric: str
    value_a: float
    value_b: float
    statistic: float
    p_value: float
    rounds: int
    unit: str


@dataclass(frozen=True)
class BootstrapInterval:
    """Percentile confidence interval of a metric, or of a difference between two systems.

    Attributes:
        metric: Name of the metric.
        statistic: The metric (or the difference) on the split as it is.
        low: Lower end of the interval.
        high: Upper end of the interval.
        p_value: For a difference, twice the smaller share of rounds on either side of zero; else `None`.
        confidence: Share of rounds inside the interval.
        rounds: Number of resampled splits.
        num_groups: Number of groups (patients, or documents where no groups are given) drawn with replacement.
    """

    metric: str
    statistic: float
    low: float
    high: float
    p_value: float | None
    confidence: float
    rounds: int
    num_groups: int


def _unit_ids(groups, num_documents: int) -> tuple[np.ndarray, int]:
    """Number the groups 0, 1, …; without groups every document is its own."""
    if not num_documents:
        raise ValueError("There is no document to resample. Pass the scores and targets of at least one.")
    if groups is None:
        return np.arange(num_documents), num_documents
    groups = np.asarray(groups)
    if groups.shape != (num_documents,):
        raise ValueError(f"`groups` has shape {groups.shape}, expected [{num_documents}], one group per document.")
    names, ids = np.unique(groups, return_inverse=True)
    return ids, len(names)


def _round_blocks(rounds: int, width: int) -> Iterator[int]:
    """Cut the rounds so that a matrix of `width` × rounds stays small."""
    if rounds < 1:
        raise ValueError(f"`rounds` is {rounds}, expected 1 or more.")
    step = max(1, BLOCK_ELEMENTS // max(width, 1))
    sizes = [min(step, rounds - start) for start in range(0, rounds, step)]
    return iter(tqdm(sizes, desc="resampling", delay=5, leave=False))


def _p_value(differences: list[np.ndarray], observed: float) -> float:
    extreme = sum(np.count_nonzero(np.abs(part) >= abs(observed) - TIE) for part in differences)
    return float((1 + extreme) / (1 + sum(map(len, differences))))


def randomization_test_values(
    values_a, values_b, metric: str = "mean", groups=None, rounds: int = 10_000, seed: int = 0, unit: str = "document"
) -> RandomizationTest:
    """Test the difference of two means over paired units, such as per-document or per-label values.

    Args:
        values_a: One value per unit of the first system; NaN where the metric does not exist.
        values_b: The same of the second system.
        metric: Name to report.
        groups: Group of each unit; values of a group are swapped together.
        rounds: Number of random rounds.
        seed: Seed of the swaps.
        unit: Name of the unit to report, if no groups are given.

    >>> test = randomization_test_values([1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0])
    >>> test.statistic, round(test.p_value, 1)  # 2 of the 16 sign patterns are as extreme
    (0.8, 0.1)
    """
    values_a, values_b = np.asarray(values_a, dtype=np.float64), np.asarray(values_b, dtype=np.float64)
    if values_a.shape != values_b.shape or values_a.ndim != 1:
        raise ValueError(f"The values have shapes {values_a.shape} and {values_b.shape}, expected two equal vectors.")
    units, num_units = _unit_ids(groups, len(values_a))
    defined = ~(np.isnan(values_a) | np.isnan(values_b))
    if not defined.any():
        raise ValueError(f"No unit has a value of `{metric}` in both systems.")
    mean_a, mean_b = values_a[defined].mean(), values_b[defined].mean()
    differences = np.bincount(units[defined], (values_a - values_b)[defined], num_units) / defined.sum()
    differences = differences[differences != 0]
    rng = np.random.default_rng(seed)
    signed = [_signs(rng, size, len(differences)) @ differences for size in _round_blocks(rounds, len(differences))]
    p_value = _p_value(signed, mean_a - mean_b)
    unit = unit if groups is None else "group"
    return RandomizationTest(metric, float(mean_a), float(mean_b), float(mean_a - mean_b), p_value, rounds, unit)


def _signs(rng: np.random.Generator, rounds: int, units: int) -> np.ndarray:
    return rng.integers(0, 2, size=(rounds, units), dtype=np.int8) * 2.0 - 1.0


def randomization_test(
    scores_a,
    scores_b,
    targets,
    metric: str = "f1_micro",
    *,
    threshold_a=0.0,
    threshold_b=0.0,
    groups=None,
    rounds: int = 10_000,
    seed: int = 0,
) -> RandomizationTest:
    """Test whether two systems differ on a metric by more than chance (two-sided, paired).

    Args:
        scores_a: Scores of the first system [N, L].
        scores_b: Scores of the second system [N, L], same documents and labels.
        targets: True labels in any accepted form.
        metric: A metric at a threshold, a mean over documents (`"precision_at_<k>"`, `"recall_at_<k>"`, `"map"`,
            `"r_precision"`, `"exact_match"`), or `"average_precision_macro"` or `"auc_macro"`, which swap labels.
        threshold_a: Threshold of the first system, one number or one per label.
        threshold_b: Threshold of the second system.
        groups: Patient (or other group) of each document; documents of a group are swapped together.
        rounds: Number of random rounds.
        seed: Seed of the swaps.
    """
    scores_a, targets = as_scores_and_targets(scores_a, targets)
    scores_b, targets = as_scores_and_targets(scores_b, targets)
    if metric in THRESHOLD_METRICS:
        pairs_a, pairs_b = predict(scores_a, threshold_a), predict(scores_b, threshold_b)
        return _test_counts(pairs_a, pairs_b, targets, metric, groups, rounds, seed)
    if metric in LABEL_METRICS:
        field = metric.removesuffix("_macro")
        values = (getattr(label_statistics(scores, targets), field) for scores in (scores_a, scores_b))
        return randomization_test_values(*values, metric=metric, rounds=rounds, seed=seed, unit="label")
    values_a = _document_values(scores_a, targets, metric, threshold_a)
    values_b = _document_values(scores_b, targets, metric, threshold_b)
    return randomization_test_values(values_a, values_b, metric, groups, rounds, seed)


def _document_values(scores: np.ndarray, targets: SparseTargets, metric: str, threshold) -> np.ndarray:
    if metric == "exact_match":
        return exact_matches(scores, targets, threshold).astype(np.float64)
    k = metric.rpartition("_")[2]
    ks = (int(k),) if k.isdigit() else ()
    if metric not in document_metric_names(ks):
        expected = ", ".join([*THRESHOLD_METRICS, *DOCUMENT_METRICS, *LABEL_METRICS])
        raise ValueError(f"`metric` is {metric!r}, which cannot be resampled. Pass one of: {expected}.")
    return document_statistics(scores, targets, ks).values(metric)


@dataclass(frozen=True, eq=False)
class _UnitCounts:
    """Counts of one kind of pair for every label and unit, as a sparse matrix [L, units]."""

    matrix: torch.Tensor

    @classmethod
    def of_pairs(cls, pairs: SparseTargets, units: np.ndarray, num_units: int, pool: bool) -> _UnitCounts:
        """Count pairs; `pool` counts all labels as one, which is all a micro average needs."""
        labels = np.zeros_like(pairs.columns) if pool else pairs.columns
        places = torch.from_numpy(np.stack([labels, units[pairs.rows]]))
        shape = (1 if pool else pairs.shape[1], num_units)
        ones = torch.ones(places.shape[1])
        return cls(torch.sparse_coo_tensor(places, ones, shape, check_invariants=False).coalesce())

    def totals(self) -> np.ndarray:
        return self.weighted(torch.ones(self.matrix.shape[1], 1))

    def weighted(self, weights: torch.Tensor) -> np.ndarray:
        """Counts of every label when unit u counts `weights[u, r]` times, float32 [L, R]; exact below 2^24."""
        return torch.sparse.mm(self.matrix, weights).numpy()

    def minus(self, other: _UnitCounts) -> _UnitCounts:
        difference = (self.matrix - other.matrix).coalesce()
        kept = difference.values() != 0
        entries = difference.indices()[:, kept], difference.values()[kept]
        return _UnitCounts(torch.sparse_coo_tensor(*entries, difference.shape, check_invariants=False).coalesce())


def _intersection(pairs: SparseTargets, targets: SparseTargets) -> SparseTargets:
    codes = (p.rows * p.shape[1] + p.columns for p in (pairs, targets))
    common = np.intersect1d(*codes, assume_unique=True)
    return SparseTargets(*np.divmod(common, max(pairs.shape[1], 1)), shape=pairs.shape)


def _test_counts(pairs_a, pairs_b, targets, metric: str, groups, rounds: int, seed: int) -> RandomizationTest:
    units, num_units = _unit_ids(groups, targets.shape[0])
    kinds = (_intersection(pairs_a, targets), pairs_a, _intersection(pairs_b, targets), pairs_b, targets)
    counts = [_UnitCounts.of_pairs(pairs, units, num_units, pool=metric.endswith("_micro")) for pairs in kinds]
    right_a, predicted_a, right_b, predicted_b, positives = (count.totals() for count in counts)
    change_right, change_predicted = counts[2].minus(counts[0]), counts[3].minus(counts[1])

    def values(right: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value_a = THRESHOLD_METRICS[metric](ConfusionCounts(right_a + right, predicted_a + predicted, positives))
        value_b = THRESHOLD_METRICS[metric](ConfusionCounts(right_b - right, predicted_b - predicted, positives))
        return value_a, value_b

    value_a, value_b = (float(value[0]) for value in values(0 * right_a, 0 * right_a))
    rng, differences = np.random.default_rng(seed), []
    for size in _round_blocks(rounds, max(num_units, len(right_a))):
        swapped = torch.from_numpy(rng.integers(0, 2, size=(num_units, size), dtype=np.int8)).float()
        changes = change_right.weighted(swapped), change_predicted.weighted(swapped)
        differences.append(np.subtract(*values(*changes)))
    p_value = _p_value(differences, value_a - value_b)
    unit = "document" if groups is None else "group"
    return RandomizationTest(metric, value_a, value_b, value_a - value_b, p_value, rounds, unit)


def group_bootstrap(
    scores,
    targets,
    metric: str = "f1_micro",
    *,
    threshold=0.0,
    groups=None,
    other_scores=None,
    other_threshold=0.0,
    rounds: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> BootstrapInterval:
    """Confidence interval of a metric when patients (groups) are drawn anew with replacement.

    With `other_scores` the interval is of `metric(scores) - metric(other_scores)`, both on the same draws. Macro-AP is
    re-ranked exactly in every round and costs rounds × documents × true pairs; all else is one sparse product.

    Args:
        scores: Scores [N, L].
        targets: True labels in any accepted form.
        metric: A metric at a threshold, a mean over documents, or `"average_precision_macro"`.
        threshold: One number or one per label, in the unit of the scores.
        groups: Patient (or other group) of each document; default every document is its own.
        other_scores: Scores of a second system [N, L].
        other_threshold: Threshold of the second system.
        rounds: Number of resampled splits.
        confidence: Share of rounds inside the interval.
        seed: Seed of the draws.
    """
    scores, targets = as_scores_and_targets(scores, targets)
    units, num_units = _unit_ids(groups, len(scores))
    evaluate = _resampled_metric(scores, targets, metric, threshold, units, num_units)
    split, values = _resample(evaluate, num_units, rounds, seed, width=scores.shape[1])
    if other_scores is None:
        return _interval(metric, split, values, confidence, num_units)
    other_scores, _ = as_scores_and_targets(other_scores, targets)
    evaluate = _resampled_metric(other_scores, targets, metric, other_threshold, units, num_units)
    other_split, other_values = _resample(evaluate, num_units, rounds, seed, width=scores.shape[1])
    return _interval(metric, split - other_split, values - other_values, confidence, num_units, difference=True)


def bootstrap_values(
    values, metric: str = "mean", groups=None, rounds: int = 1000, confidence: float = 0.95, seed: int = 0
) -> BootstrapInterval:
    """Confidence interval of the mean of per-document values when groups are drawn anew with replacement.

    Args:
        values: One value per document; NaN where the metric does not exist.
        metric: Name to report.
        groups: Patient (or other group) of each document; default every document is its own.
        rounds: Number of resampled splits.
        confidence: Share of rounds inside the interval.
        seed: Seed of the draws.

    >>> interval = bootstrap_values(np.arange(100) % 2, rounds=500)
    >>> interval.statistic, 0.38 < interval.low < 0.42, 0.58 < interval.high < 0.62
    (0.5, True, True)
    """
    values = np.asarray(values, dtype=np.float64)
    units, num_units = _unit_ids(groups, len(values))
    split, resampled = _resample(_resampled_mean(values, units, num_units), num_units, rounds, seed)
    return _interval(metric, split, resampled, confidence, num_units)


def _resample(evaluate: Callable, num_units: int, rounds: int, seed: int, width: int = 0) -> tuple[float, np.ndarray]:
    """The metric of the split as it is, and of `rounds` splits of units drawn with replacement [R]."""
    rng, values = np.random.default_rng(seed), []
    for size in _round_blocks(rounds, max(num_units, width)):
        draws = rng.multinomial(num_units, np.full(num_units, 1 / num_units), size=size)  # [R, units]
        values.append(evaluate(torch.from_numpy(draws.T.astype(np.float32))))
    return float(evaluate(torch.ones(num_units, 1))[0]), np.concatenate(values)


def _interval(metric, statistic, values, confidence, num_units, difference=False) -> BootstrapInterval:
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` is {confidence}, expected a number between 0 and 1, such as 0.95.")
    low, high = np.nanquantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    smaller_side = min(np.count_nonzero(values <= TIE), np.count_nonzero(values >= -TIE))
    p_value = float(min(1.0, 2 * (1 + smaller_side) / (1 + len(values)))) if difference else None
    ends = float(low), float(high)
    return BootstrapInterval(metric, float(statistic), *ends, p_value, confidence, len(values), num_units)


def _resampled_metric(scores, targets, metric, threshold, units, num_units) -> Callable[[torch.Tensor], np.ndarray]:
    """A function from weights of units [units, R] to the metric of each weighted split [R]."""
    if metric in THRESHOLD_METRICS:
        return _resampled_counts(predict(scores, threshold), targets, metric, units, num_units)
    if metric == "average_precision_macro":
        return lambda weights: _weighted_average_precision(scores, targets, weights[torch.from_numpy(units)])
    return _resampled_mean(_document_values(scores, targets, metric, threshold), units, num_units)


def _resampled_mean(values: np.ndarray, units: np.ndarray, num_units: int) -> Callable[[torch.Tensor], np.ndarray]:
    defined = ~np.isnan(values)
    sums = np.bincount(units[defined], values[defined], num_units)
    sizes = np.bincount(units[defined], minlength=num_units)

    def evaluate(weights: torch.Tensor) -> np.ndarray:
        weights = weights.double().numpy()
        with np.errstate(invalid="ignore"):
            return (sums @ weights) / (sizes @ weights)

    return evaluate


def _resampled_counts(predicted, targets, metric, units, num_units) -> Callable[[torch.Tensor], np.ndarray]:
    kinds = (_intersection(predicted, targets), predicted, targets)
    counts = [_UnitCounts.of_pairs(pairs, units, num_units, pool=metric.endswith("_micro")) for pairs in kinds]
    return lambda weights: THRESHOLD_METRICS[metric](ConfusionCounts(*(count.weighted(weights) for count in counts)))


def _weighted_average_precision(scores: np.ndarray, targets: SparseTargets, weights: torch.Tensor) -> np.ndarray:
    """Macro-AP of splits in which document n occurs `weights[n, r]` times, float64 [R]."""
    pairs, total, present = targets.transposed, np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    starts = pairs.indptr
    for label in np.flatnonzero(targets.label_counts):
        documents = pairs.columns[starts[label] : starts[label + 1]]
        positives = weights[torch.from_numpy(documents)].double().sum(0).numpy()
        sums = _weighted_precision_sum(order_keys(scores[:, label]), documents, weights)
        total += np.divide(sums, positives, out=np.zeros_like(sums), where=positives > 0)
        present += positives > 0
    with np.errstate(invalid="ignore"):
        return total / present


def _weighted_precision_sum(keys: np.ndarray, documents: np.ndarray, weights: torch.Tensor) -> np.ndarray:
    """Sum over a label's positives of the precision at their score, each as often as it occurs, float64 [R]."""
    step = 256  # cuts compared at a time
    total, cuts = np.zeros(weights.shape[1]), np.unique(keys[documents])
    own = weights[torch.from_numpy(documents)]  # [P, R]
    for start in range(0, len(cuts), step):
        cut = cuts[start : start + step]
        through = torch.from_numpy(keys >= cut[:, None]).float() @ weights  # [cuts, R]
        positives_through = torch.from_numpy(keys[documents] >= cut[:, None]).float() @ own
        at = torch.from_numpy(keys[documents] == cut[:, None]).float() @ own
        total += (at.double() * positives_through / through.clamp(min=1)).sum(0).numpy()
    return total
