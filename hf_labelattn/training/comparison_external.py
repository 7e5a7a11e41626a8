"""Rows of a comparison that were scored elsewhere: a file of scores of the same test documents."""

import json
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict

from ..evaluation.confusion import THRESHOLD_METRICS
from ..evaluation.frequency_bins import quarter_metrics
from ..evaluation.metrics import label_statistics, multilabel_metrics
from ..evaluation.single_label import single_label_metrics
from ..evaluation.targets import SparseTargets
from ..evaluation.thresholds import search_threshold
from ..storage import write_json
from .comparison import Comparison, Workshop
from .experiment import DataArguments, read_notes

PREFIX = "external_"
LOWEST = float(np.finfo(np.float32).min)


def read_external(comparison: Comparison, workshop: Workshop, files: dict[str, str]) -> dict[str, dict]:
    """Figures of external rows by row and dataset, those of earlier reports included.

    Args:
        comparison: The comparison they join.
        workshop: Knows what `{name}` stands for.
        files: `ROW:DATASET` to a file of scores.
    """
    found = kept_external(comparison, workshop)
    for key, path in files.items():
        row, _, dataset = key.partition(":")
        if dataset not in comparison.datasets:
            raise ValueError(f"{key!r} is not ROW:DATASET with a dataset among: {', '.join(comparison.datasets)}.")
        known = {f.name for f in fields(DataArguments)}
        given = {k: workshop.fill(v) for k, v in comparison.datasets[dataset].items() if k in known}
        measure = single_label_figures if comparison.datasets[dataset].get("single_label") else external_figures
        figures = measure(read_notes(DataArguments(**given)), read_scores(path))
        write_json(workshop.results / dataset / f"{PREFIX}{row}.json", figures)
        found.setdefault(row, {})[dataset] = figures
    return found


def kept_external(comparison: Comparison, workshop: Workshop) -> dict[str, dict]:
    """External rows of earlier reports: their figures are kept, so that the files of scores can go."""
    found: dict[str, dict] = {}
    for dataset in comparison.datasets:
        for path in sorted((workshop.results / dataset).glob(f"{PREFIX}*.json")):
            row = path.stem.removeprefix(PREFIX)
            found.setdefault(row, {})[dataset] = json.loads(path.read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class ExternalScores:
    """What a file of scores holds.

    Attributes:
        labels: Names of the columns.
        test: Document ids and scores [documents, labels] of the test split.
        validation: The same of the development split, where the file has it: a threshold is tuned on it.
        cost: `train_cpu_seconds` and `peak_memory_mb`, where the file has them.
    """

    labels: list[str]
    test: tuple[list[str], np.ndarray]
    validation: tuple[list[str], np.ndarray] | None = None
    cost: dict[str, float] = field(default_factory=dict)


def read_scores(path: str | Path) -> ExternalScores:
    """Scores from `.npz` (S, ids, labels; perhaps S_validation, ids_validation) or `.parquet` (id, label, score)."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file of scores {path}.")
    if Path(path).suffix == ".npz":
        return _read_arrays(path)
    table = pq.read_table(path)
    if not {"id", "label", "score"} <= set(table.column_names):
        raise ValueError(f"{path} has the columns {table.column_names}; expected id, label and score.")
    ids, rows = np.unique(table["id"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    labels, columns = np.unique(table["label"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    scores = np.full((len(ids), len(labels)), LOWEST, dtype=np.float32)
    scores[rows, columns] = table["score"].to_numpy()
    return ExternalScores(labels.tolist(), (ids.tolist(), scores))


def _read_arrays(path: str | Path) -> ExternalScores:
    with np.load(path, allow_pickle=False) as arrays:
        test = arrays["ids"].tolist(), arrays["S"].astype(np.float32)
        validation = None
        if "S_validation" in arrays:
            validation = arrays["ids_validation"].tolist(), arrays["S_validation"].astype(np.float32)
        cost = {name: float(arrays[name]) for name in ("train_cpu_seconds", "peak_memory_mb") if name in arrays}
        return ExternalScores(arrays["labels"].tolist(), test, validation, cost)


def external_figures(notes: DatasetDict, given: ExternalScores) -> dict:
    """The figures of a row; those that need a threshold only where it can be tuned on the development split."""
    full, targets, names = _aligned(notes["test"], given.labels, *given.test)
    threshold = 0.0
    if given.validation is not None:
        scores, truth, _ = _aligned(notes["validation"], given.labels, *given.validation)
        known = np.arange(len(given.labels))
        threshold = search_threshold(scores[:, known], truth.select_labels(known)).threshold
    left_out = THRESHOLD_METRICS if given.validation is None else ()
    metrics = {k: v for k, v in multilabel_metrics(full, targets, threshold).items() if k not in left_out}
    statistics = label_statistics(full, targets)
    counts = Counter(label for row in notes["train"]["labels"] for label in row)
    quarters = quarter_metrics(statistics, np.array([counts[name] for name in names]))
    metrics |= {k: v for k, v in quarters.items() if k.split("/")[0] not in THRESHOLD_METRICS}
    present = statistics.counts.positives > 0
    per_label = {
        n: round(float(v), 5) for n, v, p in zip(names, statistics.average_precision, present, strict=True) if p
    }
    return {"metrics": metrics, "label_average_precision": per_label, **given.cost}


def single_label_figures(notes: DatasetDict, given: ExternalScores) -> dict:
    """The figures of a row where every document has one label: the best score is the answer, without a threshold."""
    scores, _, names = _aligned(notes["test"], given.labels, *given.test)
    column = {name: i for i, name in enumerate(names)}
    classes = np.array([column[row[0]] for row in notes["test"]["labels"]])
    return {"metrics": single_label_metrics(scores, classes), **given.cost}


def _aligned(
    split: Dataset, labels: list[str], ids: list[str], scores: np.ndarray
) -> tuple[np.ndarray, SparseTargets, list[str]]:
    """Scores and truth in the order of a split's documents; labels that were not scored follow, lowest of all."""
    place = {name: i for i, name in enumerate(ids)}
    missing = sum(name not in place for name in split["id"])
    if missing:
        raise ValueError(f"{missing} of {len(split)} documents have no score. Score every document, by its `id`.")
    names = list(dict.fromkeys([*labels, *(label for row in split["labels"] for label in row)]))
    column = {name: i for i, name in enumerate(names)}
    full = np.full((len(split), len(names)), LOWEST, dtype=np.float32)
    full[:, : len(labels)] = scores[[place[name] for name in split["id"]]]
    targets = SparseTargets.from_lists([[column[label] for label in row] for row in split["labels"]], len(names))
    return full, targets, names
