"""What a run leaves behind: results.json (the same for the same run, killed or not), run.json (time and machine)."""

import csv
import platform
import resource
from pathlib import Path

import numpy as np
import torch
import transformers

from .._version import __version__
from ..evaluation.metrics import label_statistics
from ..storage import replacing
from .scoring import SplitScores

HEADLINE = (
    "f1_micro",
    "f1_macro",
    "f1_macro_mullenbach",
    "average_precision_macro",
    "auc_macro",
    "precision_at_1",
    "precision_at_5",
    "precision_at_15",
    "accuracy",
)


def write_scores(path: str | Path, split: SplitScores, label_names: tuple[str, ...]) -> None:
    """Write `S` (float16 logits [documents, labels]), `ids` and `labels`; strings as unicode arrays, no pickle."""
    ids = np.array(split.dataset.ids or [str(i) for i in range(len(split.dataset))], dtype=np.str_)
    with replacing(path) as partial:
        np.savez_compressed(partial, S=split.scores, ids=ids, labels=np.array(label_names, dtype=np.str_))


def write_label_results(path: str | Path, split: SplitScores, label_counts: np.ndarray, threshold) -> None:
    """Write one CSV row per label: documents with it in training and in the split, average precision and F1."""
    statistics = label_statistics(split.scores, split.targets, threshold)
    counts = np.zeros(split.scores.shape[1], dtype=np.int64)
    counts[: len(label_counts)] = label_counts
    confusion = statistics.counts
    rows = zip(
        split.dataset.label_names,
        counts,
        confusion.positives,
        statistics.average_precision,
        confusion.f1(),
        strict=True,
    )
    with replacing(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "train_documents", "documents", "average_precision", "f1"])
        for name, train, present, precision, f1 in rows:
            writer.writerow([name, train, present, "" if np.isnan(precision) else f"{precision:.6f}", f"{f1:.6f}"])


def metrics_table(metrics: dict[str, dict[str, float]], published: dict | None = None) -> str:
    """The headline metrics of each split as an aligned table, beside published figures of the test split.

    Args:
        metrics: Metrics by split.
        published: Published figures by metric, and where they stand as `source`.
    """
    published = dict(published or {})
    source = published.pop("source", "published elsewhere")
    columns = {**metrics, **({"published": published} if published else {})}
    names = [name for name in HEADLINE if any(name in column for column in columns.values())]
    names += [name for name in published if name not in names]
    lines = [f"{'metric':<28}" + "".join(f"{column:>12}" for column in columns)]
    for name in names:
        cells = [f"{found[name]:>12.4f}" if name in found else f"{'–':>12}" for found in columns.values()]
        lines.append(f"{name:<28}{''.join(cells)}")
    return "\n".join([*lines, f"published: {source}"] if published else lines)


def environment() -> dict[str, str]:
    """Versions that matter to a reader of the results."""
    return {
        "hf_labelattn": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def peak_memory_mb() -> float:
    """Highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
