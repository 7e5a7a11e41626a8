"""Streaming evaluation: batches of logits in, one half-precision score table and its metrics out."""

import math
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedConfig
from transformers.trainer_utils import EvalPrediction

from ..data.documents import DocumentDataset
from ..evaluation.frequency_bins import frequency_metrics
from ..evaluation.metrics import multilabel_metrics
from ..evaluation.single_label import single_label_metrics
from ..evaluation.targets import SparseTargets
from ..evaluation.thresholds import search_threshold


@dataclass(frozen=True)
class SplitScores:
    """Scores of a split.

    Attributes:
        scores: `[documents, labels]` float16 logits. Labels of the split that the model does not know follow its own,
            with the lowest score there is.
        targets: The truth, of the same shape.
        dataset: The documents.
    """

    scores: np.ndarray
    targets: SparseTargets
    dataset: DocumentDataset


def logit(probability: float) -> float:
    """The logit of a probability.

    >>> logit(0.5)
    0.0
    """
    probability = min(max(probability, 1e-12), 1 - 1e-12)
    return math.log(probability / (1 - probability))


def threshold_logits(config: PreTrainedConfig, num_columns: int) -> float | np.ndarray:
    """The stored threshold(s) in the unit of the logits, for the model's labels and the unknown ones after them."""
    if config.label_thresholds is None:
        return logit(config.threshold)
    known = [logit(p) for p in config.label_thresholds]
    return np.array(known + [logit(config.threshold)] * (num_columns - len(known)))


def split_targets(dataset: DocumentDataset) -> SparseTargets:
    """The truth of a split, unknown labels included."""
    width = max(dataset.num_labels, len(dataset.label_names))
    return SparseTargets.from_lists([dataset.labels[i] for i in range(len(dataset))], width)


def score_metrics(split: SplitScores, config: PreTrainedConfig, label_counts: np.ndarray | None) -> dict[str, float]:
    """Every metric of a split under its exact name."""
    if config.problem_type == "single_label_classification":
        classes = np.array([split.dataset.labels[i][0] for i in range(len(split.dataset))])
        return single_label_metrics(split.scores, classes)
    threshold = threshold_logits(config, split.scores.shape[1])
    metrics = multilabel_metrics(split.scores, split.targets, threshold)
    if label_counts is not None:
        counts = np.zeros(split.scores.shape[1], dtype=np.int64)
        counts[: len(label_counts)] = label_counts
        metrics |= frequency_metrics(split.scores, split.targets, counts, threshold)
    return {**metrics, "threshold": config.threshold}


class ScoreCollector:
    """`compute_metrics` for `batch_eval_metrics`: fills one float16 table, then measures it.

    Args:
        config: The model's config; a tuned threshold is stored in it.
        objective: What the threshold maximises on the development split.
        label_counts: Training documents per label, for metrics by frequency.
    """

    def __init__(self, config: PreTrainedConfig, objective: str, label_counts: np.ndarray | None):
        self.config, self.objective, self.label_counts = config, objective, label_counts
        self.result: SplitScores | None = None

    def open(self, dataset: DocumentDataset, order: np.ndarray, tune: bool, by_frequency: bool) -> None:
        """Begin a split whose documents arrive in `order`."""
        self.by_frequency = by_frequency
        self.targets, self.dataset, self.order, self.tune = split_targets(dataset), dataset, order, tune
        width = max(self.config.num_labels, len(dataset.label_names))
        self.scores = np.full((len(dataset), width), np.finfo(np.float16).min, dtype=np.float16)
        self.position = 0

    def __call__(self, prediction: EvalPrediction, compute_result: bool) -> dict[str, float]:
        logits = prediction.predictions
        logits = logits[0] if isinstance(logits, tuple) else logits
        limit = np.finfo(np.float16).max
        rows = self.order[self.position : self.position + len(logits)]
        values = logits[: len(rows)].detach().float().cpu().numpy()
        self.scores[rows, : self.config.num_labels] = values.clip(-limit, limit).astype(np.float16)
        self.position += len(rows)
        return self._finish() if compute_result else {}

    def _finish(self) -> dict[str, float]:
        self.result = SplitScores(self.scores, self.targets, self.dataset)
        if self.tune and self.config.problem_type == "multi_label_classification" and self.targets.indices.size:
            known = self.config.num_labels
            targets = self.targets.select_labels(np.arange(known))
            best = search_threshold(self.scores[:, :known], targets, objective=self.objective).threshold
            self.config.threshold = 1 / (1 + math.exp(-min(max(best, -30.0), 30.0)))
        metrics = score_metrics(self.result, self.config, self.label_counts if self.by_frequency else None)
        spread = self.scores[:, : self.config.num_labels].astype(np.float32)
        return {**metrics, "score_spread": float(np.ptp(spread, axis=0).max()) if len(spread) > 1 else 1.0}
