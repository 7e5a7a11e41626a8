"""Figures of a corpus of notes: sizes, the long tail of labels, and how far two simple methods get on it."""

import re
from collections import Counter

import numpy as np
from datasets import DatasetDict

from .synthetic import count_words

_MAX_FEATURES, _MIN_DOCUMENTS = 20_000, 3


def corpus_statistics(
    dataset: DatasetDict, descriptions: dict[str, str] | None = None, *, linear_model: bool = True
) -> dict[str, int | float]:
    """Measure a corpus as `synthetic_notes` returns it.

    Args:
        dataset: Splits `train`, `validation`, `test` with columns `text`, `labels` (and perhaps `group`, `evidence`).
        descriptions: Label → description; given, the figures tell how well an exact string match does on test.
        linear_model: Whether to fit a TF-IDF linear SVM (about a minute for 4,000 notes); its threshold comes from the
            validation split, its score from the test split.
    """
    statistics = _sizes(dataset) | _label_statistics(dataset) | _mention_statistics(dataset)
    if descriptions:
        statistics["exact_match_f1_micro"] = exact_match_f1(dataset["test"], descriptions)
    if linear_model:
        statistics["linear_f1_micro"] = linear_model_f1(dataset)
    return statistics


def format_statistics(statistics: dict[str, int | float]) -> str:
    """Lay the figures out as a table, one a line.

    Args:
        statistics: What `corpus_statistics` returns.

    >>> print(format_statistics({"num_documents": 4000, "exact_match_f1_micro": 0.25}))
    num_documents               4,000
    exact_match_f1_micro       0.2500
    """
    width = max(map(len, statistics))
    lines = (f"{name:<{width}} {_figure(value):>12}" for name, value in statistics.items())
    return "\n".join(lines)


def _figure(value: int | float) -> str:
    return f"{value:.4f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}"


def exact_match_f1(split, descriptions: dict[str, str]) -> float:
    """Score the rule "a label is meant where its description stands in the text", whatever case and punctuation.

    Args:
        split: Rows with `text` and `labels`.
        descriptions: Label → description.
    """
    phrases = [(label, *_phrase(description)) for label, description in descriptions.items()]
    true_positives = predicted = actual = 0
    for text, labels in zip(split["text"], split["labels"], strict=True):
        words = _words(text)
        sequence, present = f" {' '.join(words)} ", set(words)
        found = {label for label, phrase, longest in phrases if longest in present and phrase in sequence}
        true_positives += len(found & set(labels))
        predicted, actual = predicted + len(found), actual + len(set(labels))
    return _f1(true_positives, predicted, actual)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _phrase(description: str) -> tuple[str, str]:
    """Return the words in a row, and the longest of them, which tells quickly that a text does not hold the phrase."""
    words = _words(description)
    return f" {' '.join(words)} ", max(words, key=len, default="")


def linear_model_f1(dataset: DatasetDict) -> float:
    """Fit one linear SVM a label on TF-IDF words of the training split; labels it never saw count as missed.

    Args:
        dataset: Splits `train`, `validation`, `test` with `text` and `labels`.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    # words of every second note carry no label; without them the fit is several times faster
    vectorizer = TfidfVectorizer(min_df=_MIN_DOCUMENTS, max_df=0.5, max_features=_MAX_FEATURES, sublinear_tf=True)
    train = vectorizer.fit_transform(dataset["train"]["text"])
    known = MultiLabelBinarizer(sparse_output=True).fit(dataset["train"]["labels"])
    model = OneVsRestClassifier(LinearSVC(tol=0.01)).fit(train, known.transform(dataset["train"]["labels"]))
    scored = {}
    for split in ("validation", "test"):
        scores = model.decision_function(vectorizer.transform(dataset[split]["text"]))
        scored[split] = scores, _targets(dataset[split]["labels"], known.classes_)
    scores, targets = scored["test"]
    predicted = scores > best_threshold(*scored["validation"])
    return _f1(int((predicted & targets).sum()), int(predicted.sum()), sum(map(len, dataset["test"]["labels"])))


def best_threshold(scores: np.ndarray, targets: np.ndarray) -> float:
    """Find the score above which predictions have the highest micro-F1.

    Args:
        scores: [documents, labels].
        targets: [documents, labels], boolean.
    """
    order = np.argsort(-scores, axis=None, kind="stable")
    ranked = scores.ravel()[order]
    hits = np.cumsum(targets.ravel()[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + targets.sum())
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # a threshold cannot part equal scores
    best = int(f1.argmax())
    return float(ranked[best : best + 2].mean())


def _targets(label_lists, classes: np.ndarray) -> np.ndarray:
    column = {label: number for number, label in enumerate(classes)}
    targets = np.zeros((len(label_lists), len(classes)), dtype=bool)
    for row, labels in enumerate(label_lists):
        targets[row, [column[label] for label in labels if label in column]] = True
    return targets


def _f1(true_positives: int, predicted: int, actual: int) -> float:
    return 2 * true_positives / max(predicted + actual, 1)


def _sizes(dataset: DatasetDict) -> dict[str, int | float]:
    figures: dict[str, int | float] = {"num_documents": sum(map(len, dataset.values()))}
    figures |= {f"num_{split}": len(rows) for split, rows in dataset.items()}
    if all("group" in rows.column_names for rows in dataset.values()):
        figures["num_groups"] = len({group for rows in dataset.values() for group in rows["group"]})
    figures |= _quartiles("words", [count_words(text) for rows in dataset.values() for text in rows["text"]])
    return figures | _quartiles("labels", [len(labels) for rows in dataset.values() for labels in rows["labels"]])


def _quartiles(name: str, counts: list[int]) -> dict[str, int]:
    low, median, high = np.percentile(counts, [25, 50, 75])
    return {f"{name}_quartile_1": round(low), f"{name}_median": round(median), f"{name}_quartile_3": round(high)}


def _label_statistics(dataset: DatasetDict) -> dict[str, int | float]:
    counts = {
        split: Counter(label for labels in rows["labels"] for label in labels) for split, rows in dataset.items()
    }
    everywhere = set().union(*counts.values())
    rare = sum(counts["train"][label] < 10 for label in everywhere)
    return {
        "num_labels": len(everywhere),
        "num_labels_train": len(counts["train"]),
        "share_labels_under_10_train": rare / max(len(everywhere), 1),
        "num_labels_test_unseen_in_train": sum(label not in counts["train"] for label in counts["test"]),
    }


def _mention_statistics(dataset: DatasetDict) -> dict[str, float]:
    if not all("evidence" in rows.column_names for rows in dataset.values()):
        return {}
    spans = sum(len(evidence) for rows in dataset.values() for evidence in rows["evidence"])
    labels = sum(len(row) for rows in dataset.values() for row in rows["labels"])
    return {"evidence_spans_per_label": spans / max(labels, 1)}
