"""The metrics as an `evaluate` module, for code that speaks `evaluate.combine`, `Evaluator` or `add_batch`."""

from __future__ import annotations

import datasets
import evaluate
import numpy as np

from .frequency_bins import frequency_metrics
from .metrics import DEFAULT_KS, multilabel_metrics
from .single_label import single_label_metrics

CONFIGS = ("multilabel", "multilabel_ids", "single_label")

DESCRIPTION = """Metrics of label-attention text classification by exact definition: three macro-F1s by name, micro and
macro precision, recall, AUC, average precision by label and by document, P@k, R@k, R-precision, exact match."""

INPUTS = """
Args:
    predictions: logits (or any score) of every label, one list of floats per document.
    references: config "multilabel": one list of 0/1 per document, as long as the predictions;
        "multilabel_ids": the list of true label ids of each document; "single_label": the class id of each document.
    threshold: number in the unit of the predictions, or one per label; 0 is a probability of 0.5 for logits.
    ks: lengths of the lists of precision and recall at k (top-k accuracy for "single_label").
    train_counts: training documents of each label; given, the frequency bins and quarters are added.

Returns:
    A dict of floats by metric name.
"""


class LabelAttnMetrics(evaluate.Metric):
    """All metrics of this library as one `evaluate.EvaluationModule`; needs no network.

    >>> module = LabelAttnMetrics("multilabel_ids", keep_in_memory=True)
    >>> metrics = module.compute(predictions=[[2.0, -1.0], [-3.0, 1.0]], references=[[0], [0, 1]], ks=(1,))
    >>> metrics["f1_micro"], metrics["precision_at_1"]
    (0.8, 1.0)
    """

    def __init__(self, config_name: str = "multilabel", **kwargs):
        if config_name not in CONFIGS:
            raise ValueError(f"`config_name` is {config_name!r}, expected one of {', '.join(CONFIGS)}.")
        super().__init__(config_name=config_name, **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        single = self.config_name == "single_label"
        references = datasets.Value("int64") if single else datasets.List(datasets.Value("int64"))
        features = {"predictions": datasets.List(datasets.Value("float32")), "references": references}
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features(features),
        )

    def _compute(self, predictions, references, threshold=0.0, ks=None, train_counts=None) -> dict[str, float]:
        scores = np.asarray(predictions, dtype=np.float32)
        if self.config_name == "single_label":
            return single_label_metrics(scores, np.asarray(references), **({} if ks is None else {"ks": ks}))
        targets = list(references) if self.config_name == "multilabel_ids" else np.asarray(references)
        metrics = multilabel_metrics(scores, targets, threshold, DEFAULT_KS if ks is None else ks)
        if train_counts is not None:
            metrics |= frequency_metrics(scores, targets, train_counts, threshold, DEFAULT_KS if ks is None else ks)
        return metrics
