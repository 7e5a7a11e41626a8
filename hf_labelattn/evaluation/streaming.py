"""Metrics over batches: documents come and go, scores stay as float16 and true labels as pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from .frequency_bins import bin_metrics, quarter_metrics
from .metrics import (
    DEFAULT_KS,
    DocumentStatistics,
    document_metrics,
    document_statistics,
    label_metrics,
    label_statistics,
    pooled_metrics,
)
from .ranking import as_scores
from .targets import SparseTargets, as_targets, to_numpy

BLOCK_BYTES = 1 << 24


class StreamingMetrics:
    """Collects scores and true labels batch by batch and computes every metric at the end.

    Document-wise metrics are counted as batches arrive. Label-wise metrics need all documents of a label, so the
    scores are kept, once, in `store_dtype`. Every figure is computed from the stored scores: evaluating saved scores
    later gives the same numbers to the last digit.

    Args:
        num_labels: Number of labels.
        ks: Lengths of the lists of `precision_at_k` and `recall_at_k`.
        store_dtype: `float16` (default), `float32` or `float64`, numpy or torch. Float16 keeps three digits, which
            suits logits; probabilities near 0 or 1 should be kept as float32.

    >>> metrics = StreamingMetrics(num_labels=3, ks=(1,))
    >>> metrics.update(np.array([[2.0, -1.0, -3.0]]), np.array([[1, 0, 0]]))
    >>> metrics.update(torch.tensor([[1.0, 3.0, -2.0]]), torch.tensor([[0.0, 1.0, 1.0]]))
    >>> round(metrics.compute()["f1_micro"], 4), metrics.num_documents
    (0.6667, 2)
    """

    def __init__(self, num_labels: int, ks=DEFAULT_KS, store_dtype=np.float16):
        self.num_labels, self.ks = num_labels, tuple(ks)
        is_torch = isinstance(store_dtype, torch.dtype)
        self.store_dtype = np.dtype(str(store_dtype).removeprefix("torch.") if is_torch else store_dtype)
        if self.store_dtype not in (np.float16, np.float32, np.float64):
            raise ValueError(f"`store_dtype` is {store_dtype}, expected float16, float32 or float64.")
        self.reset()

    def reset(self) -> None:
        """Forget all documents."""
        self.num_documents = 0
        self._joined = np.empty((0, self.num_labels), dtype=self.store_dtype)
        self._blocks: list[np.ndarray] = []
        self._room = 0  # empty rows in the last block
        self._targets: list[SparseTargets] = []
        self._documents: list[DocumentStatistics] = []

    def update(self, scores, targets) -> None:
        """Add a batch of documents.

        Args:
            scores: Logits [B, L].
            targets: True labels of the batch: 0/1 array or tensor [B, L], CSR matrix, or label ids per document.
        """
        scores = self._stored(scores)
        targets = as_targets(targets, self.num_labels)
        self._documents.append(document_statistics(scores, targets, self.ks))
        self._append(scores)
        self._targets.append(targets)

    def _stored(self, scores) -> np.ndarray:
        scores = to_numpy(scores)
        if scores.ndim != 2 or scores.shape[1] != self.num_labels:
            raise ValueError(f"`scores` has shape {scores.shape}, expected [documents, {self.num_labels}].")
        with np.errstate(over="ignore"):  # a logit of 100,000 is infinite in float16, and as certain
            return as_scores(scores.astype(self.store_dtype))

    def _append(self, scores: np.ndarray) -> None:
        """Fill fixed blocks, so that no update copies what earlier ones stored."""
        rows = max(1, BLOCK_BYTES // max(1, self.num_labels * self.store_dtype.itemsize))
        while len(scores):
            if not self._room:
                self._blocks.append(np.empty((rows, self.num_labels), dtype=self.store_dtype))
                self._room = rows
            taken = min(self._room, len(scores))
            self._blocks[-1][rows - self._room :][:taken] = scores[:taken]
            self._room -= taken
            self.num_documents += taken
            scores = scores[taken:]

    @property
    def scores(self) -> np.ndarray:
        """All scores so far [N, L] in the order of the updates; joins the blocks, freeing each as it is copied."""
        if self._blocks:
            joined = np.empty((self.num_documents, self.num_labels), dtype=self.store_dtype)
            start = len(self._joined)
            joined[:start], self._joined = self._joined, joined
            while self._blocks:
                block = self._blocks.pop(0)[: self.num_documents - start]
                joined[start : start + len(block)] = block
                start += len(block)
            self._room = 0
        return self._joined

    @property
    def targets(self) -> SparseTargets:
        """All true labels so far, in the order of the updates."""
        self._targets = [SparseTargets.concatenate(self._targets, self.num_labels)]
        return self._targets[0]

    @property
    def documents(self) -> DocumentStatistics:
        """Document-wise statistics so far, in the order of the updates."""
        self._documents = [DocumentStatistics.concatenate(self._documents, self.ks)]
        return self._documents[0]

    def merge(self, other: StreamingMetrics) -> None:
        """Add the documents of another collector behind the own ones.

        Args:
            other: A collector with the same labels, `ks` and `store_dtype`; it is left as it was.
        """
        own, others = ((m.num_labels, m.ks, m.store_dtype.name) for m in (self, other))
        if own != others:
            raise ValueError(f"`other` has (num_labels, ks, store_dtype) {others}, expected {own}.")
        self._append(other.scores)
        self._targets.append(other.targets)
        self._documents.append(other.documents)

    def compute(self, threshold=0.0, train_counts=None) -> dict[str, float]:
        """Compute the whole set of metrics over all documents so far.

        Args:
            threshold: One number or one per label, in the unit of the scores (0 is a probability of 0.5).
            train_counts: Training documents of each label [L]; given, the frequency bins and quarters are added.

        Returns:
            Metric by name, as `multilabel_metrics`, and `"<metric>/count_<bin>"` and `"<metric>/quarter_<1-4>"`.
        """
        scores, targets = self.scores, self.targets
        statistics = label_statistics(scores, targets, threshold)
        metrics = label_metrics(statistics) | pooled_metrics(scores, targets, threshold)
        metrics |= document_metrics(self.documents)
        if train_counts is not None:
            metrics |= bin_metrics(scores, targets, train_counts, threshold, self.ks, statistics)
            metrics |= quarter_metrics(statistics, train_counts)
        return metrics

    def trainer_hook(self, threshold=0.0, train_counts=None) -> Callable[..., dict[str, float]]:
        """A `compute_metrics` for `Trainer` with `batch_eval_metrics=True`.

        Each evaluation starts anew; after it, `scores` and `targets` still hold the evaluated documents.

        Args:
            threshold: As for `compute`.
            train_counts: As for `compute`.
        """
        finished = False

        def compute_metrics(prediction, compute_result: bool = True) -> dict[str, float]:
            nonlocal finished
            if finished:
                self.reset()
            logits = prediction.predictions
            self.update(logits[0] if isinstance(logits, (tuple, list)) else logits, prediction.label_ids)
            finished = compute_result
            return self.compute(threshold, train_counts) if compute_result else {}

        return compute_metrics
