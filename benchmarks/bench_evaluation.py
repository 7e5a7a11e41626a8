"""Time and memory of the metrics at 10,000 documents × 8,929 labels: `python -m benchmarks.bench_evaluation`.

Everything runs on one thread in a process of its own, so that the peak is that of an evaluation and nothing else;
times are processor seconds. scikit-learn would need minutes: it is timed on a slice of labels or documents and scaled
up linearly.
"""

import json
import os
import resource
import subprocess
import sys
import time
from functools import partial

import numpy as np

DOCUMENTS, LABELS, LABELS_PER_DOCUMENT = 10_000, 8_929, 15


def split():
    """Float16 logits and long-tailed true labels, made in blocks so that making them sets no memory peak."""
    from hf_labelattn.evaluation import SparseTargets

    rng = np.random.default_rng(0)
    frequency = 1 / (np.arange(LABELS) + 30.0) ** 1.1
    rows = np.repeat(np.arange(DOCUMENTS), rng.poisson(LABELS_PER_DOCUMENT, DOCUMENTS))
    columns = rng.choice(LABELS, size=len(rows), p=frequency / frequency.sum())
    targets = SparseTargets.from_pairs(rows, columns, (DOCUMENTS, LABELS))
    scores = np.empty((DOCUMENTS, LABELS), dtype=np.float16)
    for row in scores:
        row[:] = 2 * rng.standard_normal(LABELS, dtype=np.float32) - 6
    scores[targets.rows, targets.columns] += np.float16(5)
    return scores, targets


def seconds(function, *args) -> float:
    """Processor seconds of a call: on one thread, what a clock shows when nothing else runs."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def time_ours(scores, targets) -> dict[str, float]:
    """Seconds of each part, and the peak of the process in MB after the parts that an evaluation runs."""
    from hf_labelattn import evaluation as ev

    def stream():
        metrics = ev.StreamingMetrics(LABELS)
        lists = np.split(targets.columns, targets.indptr[1:-1])
        for start in range(0, DOCUMENTS, 32):
            metrics.update(scores[start : start + 32], [ids.tolist() for ids in lists[start : start + 32]])
        metrics.compute(train_counts=4 * targets.label_counts)

    times = {"whole_set": seconds(ev.multilabel_metrics, scores, targets), "streaming": seconds(stream)}
    times["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times["micro_threshold"] = seconds(ev.search_threshold, scores, targets, "f1_micro")
    times["macro_threshold"] = seconds(ev.search_threshold, scores, targets, "f1_macro")
    times["label_thresholds"] = seconds(ev.label_thresholds, scores, targets, 0.0)
    other = np.roll(scores, 1, axis=1)
    times["randomization"] = seconds(ev.randomization_test, scores, other, targets, "f1_macro")
    times["total_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return times


def time_scikit_learn(scores, targets) -> float:
    """Seconds scikit-learn would take for the metrics it has, from slices of 60 labels and 100 documents."""
    from sklearn import metrics as sk

    present = np.flatnonzero(targets.label_counts)
    labels = present[:: len(present) // 60]
    documents = np.flatnonzero(targets.document_counts)[:100]
    wide, truth = scores[documents].astype(np.float32), targets.dense()

    def rank(lines_true, lines_scores, function):
        return sum(seconds(function, t, s) for t, s in zip(lines_true, lines_scores, strict=True)) / len(lines_true)

    columns = scores[:, labels].T.astype(np.float32)
    per_label = rank(truth[:, labels].T, columns, sk.roc_auc_score)
    per_label += rank(truth[:, labels].T, columns, sk.average_precision_score)
    per_document = rank(truth[documents], wide, sk.average_precision_score)
    per_document += seconds(sk.roc_auc_score, truth[documents].ravel(), wide.ravel()) / len(documents)
    counts = partial(sk.precision_recall_fscore_support, truth[documents], wide >= 0, zero_division=0)
    per_document += sum(seconds(partial(counts, average=average)) for average in ("micro", "macro")) / len(documents)
    return per_label * len(present) + per_document * DOCUMENTS


def measure() -> dict[str, float]:
    """Run everything here, in this process."""
    scores, targets = split()
    return time_ours(scores, targets) | {"scikit_learn": time_scikit_learn(scores, targets)}


def measure_alone() -> dict[str, float]:
    """Run `measure` in a process of its own, on one thread."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.bench_evaluation", "--measure"]
    output = subprocess.run(command, env=os.environ | threads, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def row(name: str, ratio: float, goal: float, unit: str, ours: float, reference: float | None, peak: float) -> dict:
    rounded = {"ratio": round(ratio, 4), "goal": goal, "unit": unit, "ours_s": round(ours, 2)}
    return {
        "name": f"evaluation, 10,000 x 8,929: {name}",
        **rounded,
        "reference_s": None if reference is None else round(reference, 2),
        "peak_mb": round(peak),
    }


def rows() -> list[dict]:
    """All rows of this benchmark; a row is met when its ratio is at most its goal."""
    m = measure_alone()
    peak, ours, reference = m["peak_mb"], m["whole_set"], m["scikit_learn"]
    stream, tests = m["streaming"], m["total_peak_mb"]
    return [
        row(
            "whole set / scikit-learn (scaled up from slices)", ours / reference, 0.25, "ratio", ours, reference, peak
        ),
        row("whole set, streamed, with frequency bins: time", stream, 90, "s", stream, None, peak),
        row("whole set, streamed, with frequency bins: peak memory", peak, 3000, "MB", stream, None, peak),
        row("threshold by micro-F1, all cuts", m["micro_threshold"], 15, "s", m["micro_threshold"], None, tests),
        row("threshold by macro-F1, all cuts", m["macro_threshold"], 60, "s", m["macro_threshold"], None, tests),
        row("thresholds of labels", m["label_thresholds"], 30, "s", m["label_thresholds"], None, tests),
        row(
            "randomisation test, macro-F1, 10,000 rounds", m["randomization"], 60, "s", m["randomization"], None, tests
        ),
    ]


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure()))
    else:
        print(*map(json.dumps, rows()), sep="\n")
