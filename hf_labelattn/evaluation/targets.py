"""The true labels of documents, kept as pairs: a split has 8,929 labels but about 15 of them per document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class SparseTargets:
    """True (document, label) pairs, sorted by document and then by label, each pair once.

    Attributes:
        rows: Document of each pair, int64 [P], ascending.
        columns: Label of each pair, int64 [P].
        shape: Number of documents and number of labels.

    >>> targets = SparseTargets.from_lists([[2, 0], [], [1]], num_labels=3)
    >>> targets.dense().astype(int).tolist()
    [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    >>> targets.label_counts.tolist(), targets.document_counts.tolist()
    ([1, 1, 1], [2, 0, 1])
    """

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def from_pairs(cls, rows, columns, shape: tuple[int, int]) -> SparseTargets:
        """Sort the pairs, drop repetitions and refuse label ids outside the label set."""
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        if columns.size and (columns.min() < 0 or columns.max() >= shape[1]):
            found = f"from {columns.min()} to {columns.max()}"
            raise ValueError(
                f"Label ids run {found}, but there are {shape[1]} labels. Pass ids between 0 and {shape[1] - 1}."
            )
        pairs = np.unique(rows * max(shape[1], 1) + columns)
        return cls(*np.divmod(pairs, max(shape[1], 1)), shape=tuple(shape))

    @classmethod
    def from_dense(cls, targets) -> SparseTargets:
        """Read a documents × labels array of zeros and ones (any dtype, numpy or torch)."""
        targets = to_numpy(targets)
        if targets.ndim != 2:
            raise ValueError(f"`targets` has shape {targets.shape}, expected [documents, labels].")
        if targets.dtype != bool and not np.isin(targets[targets != 0], 1).all():
            strange = targets[(targets != 0) & (targets != 1)][0]
            raise ValueError(f"`targets` contains {strange}, expected only 0 and 1. Pass a multi-hot array.")
        return cls(*np.nonzero(targets), shape=targets.shape)

    @classmethod
    def from_lists(cls, lists, num_labels: int) -> SparseTargets:
        """Read one list of label ids per document."""
        lengths = [len(labels) for labels in lists]
        columns = [label for labels in lists for label in labels]
        return cls.from_pairs(np.repeat(np.arange(len(lengths)), lengths), columns, (len(lengths), num_labels))

    @classmethod
    def from_csr(cls, matrix) -> SparseTargets:
        """Read anything with `indptr`, `indices` and `shape`, such as a scipy CSR matrix."""
        rows, columns = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), np.asarray(matrix.indices)
        stored = np.asarray(getattr(matrix, "data", np.ones(len(columns)))) != 0
        return cls.from_pairs(rows[stored], columns[stored], matrix.shape)

    @classmethod
    def concatenate(cls, parts: list[SparseTargets], num_labels: int) -> SparseTargets:
        """Stack the documents of several parts, in order."""
        starts = np.cumsum([0] + [part.shape[0] for part in parts])
        rows = [part.rows + start for part, start in zip(parts, starts, strict=False)]
        columns = [part.columns for part in parts]
        empty = np.zeros(0, dtype=np.int64)
        return cls(np.concatenate([empty, *rows]), np.concatenate([empty, *columns]), (int(starts[-1]), num_labels))

    @cached_property
    def document_counts(self) -> np.ndarray:
        """Number of labels of each document, int64 [N]."""
        return np.bincount(self.rows, minlength=self.shape[0])

    @cached_property
    def label_counts(self) -> np.ndarray:
        """Number of documents of each label, int64 [L]."""
        return np.bincount(self.columns, minlength=self.shape[1])

    @property
    def indptr(self) -> np.ndarray:
        """Where each document's pairs start, int64 [N + 1]."""
        return np.concatenate([[0], np.cumsum(self.document_counts)])

    @property
    def indices(self) -> np.ndarray:
        """The labels of all documents one after the other, as in a CSR matrix."""
        return self.columns

    @cached_property
    def transposed(self) -> SparseTargets:
        """The same pairs by label: rows are labels, columns are documents."""
        order = np.argsort(self.columns, kind="stable")
        return SparseTargets(self.columns[order], self.rows[order], self.shape[::-1])

    def select_labels(self, labels: np.ndarray) -> SparseTargets:
        """Keep the given labels, renumbered in the given order."""
        new_ids = np.full(self.shape[1], -1)
        new_ids[labels] = np.arange(len(labels))
        kept = new_ids[self.columns] >= 0
        return self.from_pairs(self.rows[kept], new_ids[self.columns[kept]], (self.shape[0], len(labels)))

    def dense(self) -> np.ndarray:
        """The pairs as a bool array [N, L]."""
        dense = np.zeros(self.shape, dtype=bool)
        dense[self.rows, self.columns] = True
        return dense


def to_numpy(array) -> np.ndarray:
    """A numpy view of a tensor or array; bfloat16, which numpy lacks, becomes float32."""
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    return np.asarray(array)


def as_targets(targets, num_labels: int) -> SparseTargets:
    """Read targets in any accepted form.

    Args:
        targets: A `SparseTargets`, a 0/1 array or tensor [N, L], a CSR matrix, or a list of lists of label ids.
        num_labels: Number of labels the scores have.

    >>> as_targets([[0], [1, 2]], num_labels=3).columns.tolist()
    [0, 1, 2]
    """
    if isinstance(targets, (list, tuple)):
        targets = SparseTargets.from_lists(targets, num_labels)
    elif hasattr(targets, "indptr") and not isinstance(targets, SparseTargets):
        targets = SparseTargets.from_csr(targets)
    elif not isinstance(targets, SparseTargets):
        targets = SparseTargets.from_dense(targets)
    if targets.shape[1] != num_labels:
        raise ValueError(f"`targets` has {targets.shape[1]} labels, but the scores have {num_labels}.")
    return targets
