"""Arrays to numbers: metrics, thresholds, significance. Knows no model."""

from .confusion import THRESHOLD_METRICS, ConfusionCounts, confusion_counts, predict
from .frequency_bins import (
    FREQUENCY_BINS,
    bin_metrics,
    frequency_metrics,
    labels_by_bin,
    labels_by_quarter,
    quarter_metrics,
)
from .metrics import (
    DocumentStatistics,
    LabelStatistics,
    auc_macro,
    auc_micro,
    average_precision_macro,
    document_metrics,
    document_statistics,
    exact_match,
    f1_macro,
    f1_macro_all,
    f1_macro_mullenbach,
    f1_micro,
    label_metrics,
    label_statistics,
    mean_average_precision,
    multilabel_metrics,
    precision_at_k,
    precision_macro,
    precision_macro_all,
    precision_micro,
    r_precision,
    recall_at_k,
    recall_macro,
    recall_macro_all,
    recall_micro,
)
from .significance import (
    BootstrapInterval,
    RandomizationTest,
    bootstrap_values,
    group_bootstrap,
    randomization_test,
    randomization_test_values,
)
from .single_label import accuracy, class_ranks, single_label_metrics, top_k_accuracy
from .streaming import StreamingMetrics
from .targets import SparseTargets, as_targets
from .thresholds import ThresholdSearch, label_thresholds, search_threshold

__all__ = [
    "FREQUENCY_BINS",
    "THRESHOLD_METRICS",
    "BootstrapInterval",
    "ConfusionCounts",
    "DocumentStatistics",
    "LabelAttnMetrics",
    "LabelStatistics",
    "RandomizationTest",
    "SparseTargets",
    "StreamingMetrics",
    "ThresholdSearch",
    "accuracy",
    "as_targets",
    "auc_macro",
    "auc_micro",
    "average_precision_macro",
    "bin_metrics",
    "bootstrap_values",
    "class_ranks",
    "confusion_counts",
    "document_metrics",
    "document_statistics",
    "exact_match",
    "f1_macro",
    "f1_macro_all",
    "f1_macro_mullenbach",
    "f1_micro",
    "frequency_metrics",
    "group_bootstrap",
    "label_metrics",
    "label_statistics",
    "label_thresholds",
    "labels_by_bin",
    "labels_by_quarter",
    "mean_average_precision",
    "multilabel_metrics",
    "precision_at_k",
    "precision_macro",
    "precision_macro_all",
    "precision_micro",
    "predict",
    "quarter_metrics",
    "r_precision",
    "randomization_test",
    "randomization_test_values",
    "recall_at_k",
    "recall_macro",
    "recall_macro_all",
    "recall_micro",
    "search_threshold",
    "single_label_metrics",
    "top_k_accuracy",
]


def __getattr__(name: str):
    # Lazily: the `evaluate` package is heavy, and a script called evaluate.py beside the caller would be taken for it.
    if name == "LabelAttnMetrics":
        from .module import LabelAttnMetrics

        return LabelAttnMetrics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
