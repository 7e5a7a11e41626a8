"""Time and memory of the metrics at 10,000 documents × 8,929 labels: `python -m benchmarks.run --only evaluation`.

Everything runs on one thread in a process of its own, so that the peak is that of an evaluation and nothing else;
times are processor seconds. scikit-learn would need minutes: it is timed on a slice of labels or documents and scaled
up linearly.
"""

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measuring import in_own_process, make_row, peak_mb, row

SEARCHES = (
    ("threshold by micro-F1, all cuts", "micro_threshold", 15),
    ("threshold by macro-F1, all cuts", "macro_threshold", 60),
    ("thresholds of labels", "label_thresholds", 30),
    ("randomisation test, macro-F1, 10,000 rounds", "randomization", 60),
)
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
    for line in scores:
        line[:] = 2 * rng.standard_normal(LABELS, dtype=np.float32) - 6
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
    times["peak_mb"] = peak_mb()
    times["micro_threshold"] = seconds(ev.search_threshold, scores, targets, "f1_micro")
    times["macro_threshold"] = seconds(ev.search_threshold, scores, targets, "f1_macro")
    times["label_thresholds"] = seconds(ev.label_thresholds, scores, targets, 0.0)
    other = np.roll(scores, 1, axis=1)
    times["randomization"] = seconds(ev.randomization_test, scores, other, targets, "f1_macro")
    times["total_peak_mb"] = peak_mb()
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


def rows(quick: bool = False) -> Iterator[dict]:
    """All rows of this benchmark; `quick` has no smaller form."""
    m = in_own_process(measure)
    peak, tests = m["peak_mb"], m["total_peak_mb"]
    shape, clock = "Metrics, 10,000 × 8,929", {"ours": m["whole_set"], "scikit-learn": m["scikit_learn"]}
    yield row(f"{shape}: whole set (scikit-learn from slices)", clock, 0.25, reference="scikit-learn", peak_mb=peak)
    yield make_row(f"{shape}: streamed, with frequency bins", m["streaming"], 90, "s", m["streaming"], None, peak)
    yield make_row(f"{shape}: peak memory", peak, 3000, "MB", m["streaming"], None, peak)
    for name, key, goal in SEARCHES:
        yield make_row(f"{shape}: {name}", m[key], goal, "s", m[key], None, tests)
