"""Rows of a comparison that were scored elsewhere: a file of scores of the same test documents."""

from collections import Counter
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from datasets import DatasetDict

from ..evaluation.confusion import THRESHOLD_METRICS
from ..evaluation.frequency_bins import quarter_metrics
from ..evaluation.metrics import label_statistics, multilabel_metrics
from ..evaluation.targets import SparseTargets
from .comparison import Comparison, Workshop
from .experiment import DataArguments, read_notes

LOWEST = float(np.finfo(np.float32).min)


def read_external(comparison: Comparison, workshop: Workshop, files: dict[str, str]) -> dict[str, dict]:
    """Figures of external rows by row and dataset.

    Args:
        comparison: The comparison they join.
        workshop: Knows what `{name}` stands for.
        files: `ROW:DATASET` to a file of scores.
    """
    found: dict[str, dict] = {}
    for key, path in files.items():
        row, _, dataset = key.partition(":")
        if dataset not in comparison.datasets:
            raise ValueError(f"{key!r} is not ROW:DATASET with a dataset among: {', '.join(comparison.datasets)}.")
        known = {f.name for f in fields(DataArguments)}
        given = {k: workshop.fill(v) for k, v in comparison.datasets[dataset].items() if k in known}
        notes = read_notes(DataArguments(**given))
        found.setdefault(row, {})[dataset] = external_figures(notes, *read_scores(path))
    return found


def read_scores(path: str | Path) -> tuple[list[str], list[str], np.ndarray]:
    """Ids, labels and scores [documents, labels] from `.npz` (S, ids, labels) or `.parquet` (id, label, score)."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file of scores {path}.")
    if Path(path).suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["ids"].tolist(), arrays["labels"].tolist(), arrays["S"].astype(np.float32)
    table = pq.read_table(path)
    if not {"id", "label", "score"} <= set(table.column_names):
        raise ValueError(f"{path} has the columns {table.column_names}; expected id, label and score.")
    ids, rows = np.unique(table["id"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    labels, columns = np.unique(table["label"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    scores = np.full((len(ids), len(labels)), LOWEST, dtype=np.float32)
    scores[rows, columns] = table["score"].to_numpy()
    return ids.tolist(), labels.tolist(), scores


def external_figures(notes: DatasetDict, ids: list[str], labels: list[str], scores: np.ndarray) -> dict:
    """The figures of a row that need no threshold; its threshold was not tuned here."""
    test, place = notes["test"], {name: i for i, name in enumerate(ids)}
    missing = sum(name not in place for name in test["id"])
    if missing:
        raise ValueError(f"{missing} of {len(test)} test documents have no score. Score every document, by its `id`.")
    names = list(dict.fromkeys([*labels, *(label for row in test["labels"] for label in row)]))
    column = {name: i for i, name in enumerate(names)}
    full = np.full((len(test), len(names)), LOWEST, dtype=np.float32)
    full[:, : len(labels)] = scores[[place[name] for name in test["id"]]]
    targets = SparseTargets.from_lists([[column[label] for label in row] for row in test["labels"]], len(names))
    metrics = {k: v for k, v in multilabel_metrics(full, targets).items() if k not in THRESHOLD_METRICS}
    statistics = label_statistics(full, targets)
    counts = Counter(label for row in notes["train"]["labels"] for label in row)
    quarters = quarter_metrics(statistics, np.array([counts[name] for name in names]))
    metrics |= {k: v for k, v in quarters.items() if k.split("/")[0] not in THRESHOLD_METRICS}
    present = statistics.counts.positives > 0
    per_label = {n: float(v) for n, v, p in zip(names, statistics.average_precision, present, strict=True) if p}
    return {"metrics": metrics, "label_average_precision": per_label}
