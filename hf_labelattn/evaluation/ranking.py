"""Where true pairs stand in the order of scores: one sort per label or per document, ties counted exactly.

Scores are compared as integers of the same width and order. That makes 0.0 and -0.0 one value, lets numpy use its
vectorised sort (it has none for float16), and keeps every tie a tie. Only the positives are looked up in the sorted
lines, so the cost of everything after the sort grows with the number of true pairs, not with documents × labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from .targets import SparseTargets, as_targets, to_numpy

BLOCK_ELEMENTS = 1 << 21  # scores sorted at a time: 8 MB of keys


def as_scores(scores) -> np.ndarray:
    """Read scores [N, L] as a float16, float32 or float64 array and refuse NaN.

    Args:
        scores: Array or tensor of logits or of any score that grows with confidence; infinities are legal.
    """
    scores = to_numpy(scores)
    if scores.ndim != 2:
        raise ValueError(f"`scores` has shape {scores.shape}, expected [documents, labels].")
    if scores.dtype not in (np.float16, np.float32, np.float64):
        scores = scores.astype(np.float32 if scores.dtype.itemsize <= 2 else np.float64)
    for start, stop in blocks(*scores.shape):
        if not is_ordered(scores[start:stop]):
            raise ValueError("`scores` contains NaN, which has no rank. Check the model's logits for overflow.")
    return scores


def is_ordered(scores: np.ndarray) -> bool:
    """Whether no score is NaN (on the integer keys: numpy tests float16 six times slower)."""
    integers, infinity = f"i{scores.itemsize}", np.array(np.inf, dtype=scores.dtype)
    magnitudes = scores.view(integers) & ~_sign_bit(scores.itemsize)
    return not scores.size or bool(magnitudes.max() <= infinity.view(integers))


def as_scores_and_targets(scores, targets) -> tuple[np.ndarray, SparseTargets]:
    """Read both and check that they describe the same documents and labels."""
    scores = as_scores(scores)
    targets = as_targets(targets, scores.shape[1])
    if targets.shape != scores.shape:
        raise ValueError(f"`scores` has {scores.shape[0]} documents, but `targets` has {targets.shape[0]}.")
    return scores, targets


def blocks(length: int, width: int) -> Iterator[tuple[int, int]]:
    """Cut `length` lines of `width` elements into ranges of about `BLOCK_ELEMENTS` elements."""
    step = max(1, BLOCK_ELEMENTS // max(width, 1))
    return ((start, min(start + step, length)) for start in range(0, length, step))


def _sign_bit(itemsize: int) -> int:
    return -(1 << (8 * itemsize - 1))


def order_keys(scores: np.ndarray) -> np.ndarray:
    """Integers that sort and tie as the scores do.

    >>> order_keys(np.array([-1.0, -0.0, 0.0, 1.0], dtype=np.float16)).tolist()
    [-15360, 0, 0, 15360]
    """
    bits = np.asarray(scores, order="C").view(f"i{scores.itemsize}")
    sign = bits >> (8 * scores.itemsize - 1)  # -1 for negative scores, else 0
    magnitude = bits & ~bits.dtype.type(_sign_bit(scores.itemsize))
    return (magnitude ^ sign) - sign


def key_values(keys: np.ndarray, dtype) -> np.ndarray:
    """The scores that have these keys (inverse of `order_keys`).

    >>> key_values(np.array([-15360, 0, 15360]), np.float16).tolist()
    [-1.0, 0.0, 1.0]
    """
    dtype = np.dtype(dtype)
    magnitude = np.abs(keys).astype(f"i{dtype.itemsize}").view(dtype)
    return np.where(np.asarray(keys) < 0, -magnitude, magnitude)


def threshold_keys(threshold, dtype) -> np.ndarray:
    """Keys such that `score >= threshold` exactly when `key >= threshold_key`, without rounding the threshold.

    >>> exactly_one, above_one = threshold_keys([1.0, 1.00001], np.float16)
    >>> int(exactly_one), int(above_one)
    (15360, 15361)
    """
    exact = np.asarray(to_numpy(threshold), dtype=np.float64)
    if np.isnan(exact).any():
        raise ValueError("`threshold` is NaN, expected a number in the unit of the scores.")
    with np.errstate(over="ignore"):
        rounded = exact.astype(dtype)
    return order_keys(np.where(rounded < exact, np.nextafter(rounded, rounded.dtype.type(np.inf)), rounded))


def sorted_lines(scores: np.ndarray, targets: SparseTargets) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Walk over the lines that have positives, sorting them in blocks.

    Lines are labels with `scores.T` and `targets`, documents with `scores` and `targets.transposed`.

    Args:
        scores: Scores [lines, elements], possibly a transposed view.
        targets: True pairs, shape [elements, lines].

    Yields:
        The line's number, its keys in ascending order, and the keys of its positives in the order of `targets`.
    """
    pairs = targets.transposed
    starts, used = pairs.indptr, targets.label_counts > 0
    for start, stop in tqdm(list(blocks(*scores.shape)), desc="ranking", delay=5, leave=False):
        members = np.flatnonzero(used[start:stop])
        keys = order_keys(scores[start:stop])[members]  # a slice first: gathering scattered columns is slower
        ordered = np.sort(keys.astype(np.int32) if keys.dtype == np.int16 else keys, axis=1)
        for line, line_keys, line_ordered in zip(members + start, keys, ordered, strict=True):
            yield line, line_ordered, line_keys[pairs.columns[starts[line] : starts[line + 1]]]


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """Position of every positive among the elements of its line (a label's documents, or a document's labels).

    Attributes:
        lines: Line of each positive, ascending, int64 [P].
        above: Elements with a strictly higher score, int64 [P].
        through: Elements with a score at least as high, the positive itself included, int64 [P].
        positives_above: Positives with a strictly higher score, int64 [P].
        positives_through: Positives with a score at least as high, int64 [P].
        shape: Number of lines and number of elements in each.
    """

    lines: np.ndarray
    above: np.ndarray
    through: np.ndarray
    positives_above: np.ndarray
    positives_through: np.ndarray
    shape: tuple[int, int]

    def line_sums(self, values: np.ndarray) -> np.ndarray:
        """Sum a value of each positive over its line, float64 [lines]."""
        return np.bincount(self.lines, weights=values, minlength=self.shape[0])

    @property
    def positives(self) -> np.ndarray:
        """Number of positives of each line, int64 [lines]."""
        return np.bincount(self.lines, minlength=self.shape[0])


def label_ranks(scores: np.ndarray, targets: SparseTargets) -> PositiveRanks:
    """Rank each label's positives among all documents.

    >>> ranks = label_ranks(np.array([[0.9], [0.5], [0.5], [0.1]]), SparseTargets.from_lists([[], [0], [], [0]], 1))
    >>> ranks.above.tolist(), ranks.through.tolist()
    ([1, 3], [3, 4])
    """
    return _ranks(scores.T, targets)


def document_ranks(scores: np.ndarray, targets: SparseTargets) -> PositiveRanks:
    """Rank each document's true labels among all labels."""
    return _ranks(scores, targets.transposed)


def _ranks(scores: np.ndarray, targets: SparseTargets) -> PositiveRanks:
    ranks = np.empty((4, len(targets.rows)), dtype=np.int64)
    length, start = scores.shape[1], 0
    for _, ordered, positives in sorted_lines(scores, targets):
        line = ranks[:, start : start + len(positives)]
        among = np.sort(positives)
        line[0] = length - ordered.searchsorted(positives, "right")
        line[1] = length - ordered.searchsorted(positives, "left")
        line[2] = len(positives) - among.searchsorted(positives, "right")
        line[3] = len(positives) - among.searchsorted(positives, "left")
        start += len(positives)
    return PositiveRanks(targets.transposed.rows, *ranks, shape=scores.shape)


@dataclass(frozen=True, eq=False)
class PooledCounts:
    """All pairs of a split in one ranking, counted at each distinct score of a true pair.

    Attributes:
        keys: Distinct keys of the positives, ascending [U].
        below: Pairs with a strictly lower score, int64 [U].
        up_to: Pairs with a score at most as high, int64 [U].
        positives: Positives with exactly this score, int64 [U].
        total: Number of pairs, documents × labels.
    """

    keys: np.ndarray
    below: np.ndarray
    up_to: np.ndarray
    positives: np.ndarray
    total: int


def pooled_counts(scores: np.ndarray, targets: SparseTargets) -> PooledCounts:
    """Count pairs below and up to every positive's score, block by block: exact without one global sort.

    >>> counts = pooled_counts(np.array([[0.2, 0.7], [0.7, 0.9]]), SparseTargets.from_lists([[1], [1]], 2))
    >>> counts.below.tolist(), counts.up_to.tolist(), counts.positives.tolist()
    ([1, 3], [3, 4], [1, 1])
    """
    keys, positives = np.unique(order_keys(scores[targets.rows, targets.columns]), return_counts=True)
    below, up_to = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    for start, stop in tqdm(list(blocks(*scores.shape)), desc="pooling", delay=5, leave=False):
        block = order_keys(scores[start:stop]).ravel()
        ordered = np.sort(block.astype(np.int32) if block.dtype == np.int16 else block)
        below += ordered.searchsorted(keys, "left")
        up_to += ordered.searchsorted(keys, "right")
    return PooledCounts(keys, below, up_to, positives, scores.size)
