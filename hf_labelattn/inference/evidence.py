"""Why a label: the words of a document that speak for it, as character spans, and how far they can be trusted.

One interface for every model, see `token_weights.py`. A span is evidence only as far as the model uses it, which
[`evidence_quality`] measures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import combining

import numpy as np
import torch
from tqdm.auto import tqdm

from ..data.chunking import word_positions
from .prediction import Predictor
from .token_weights import MatchWords, token_weights

MAX_GAP = 10  # characters between neighbouring words of one span, such as a number that is no token


@dataclass(frozen=True)
class Evidence:
    """A passage that speaks for a label.

    Attributes:
        start: First character in the original text.
        end: One behind the last.
        text: `text[start:end]` of the original.
        weight: Its share in all that speaks for the label, between 0 and 1.
    """

    start: int
    end: int
    text: str
    weight: float


@dataclass(frozen=True)
class TokenizedNote:
    """A text as the model reads it, with the way back to its characters.

    Attributes:
        text: The original.
        ids: `[n]` token ids, without special tokens.
        words: `[n]` which word each token is a piece of.
        borders: `[words, 2]` first character and one behind the last of each word.
    """

    text: str
    ids: np.ndarray
    words: np.ndarray
    borders: np.ndarray

    @classmethod
    def read(cls, tokenizer, text: str) -> "TokenizedNote":
        """Tokenize a text with a fast tokenizer."""
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        pieces = found.word_ids(0)
        names = range(len(offsets)) if None in pieces else pieces
        _, words = np.unique(np.fromiter(names, np.int64, len(offsets)), return_inverse=True)
        starts = np.full(words.max(initial=-1) + 1, len(text))
        ends = np.zeros_like(starts)
        np.minimum.at(starts, words, offsets[:, 0])
        np.maximum.at(ends, words, offsets[:, 1])
        return cls(text, np.array(found["input_ids"], dtype=np.int64), words, np.stack([starts, ends], 1))

    def word_weights(self, weights: np.ndarray) -> np.ndarray:
        """Token weights `[l, n]` summed over the pieces of each word, `[l, words]`."""
        result = np.zeros((len(weights), len(self.borders)), dtype=np.float64)
        np.add.at(result, (slice(None), self.words), weights)
        return result

    def passages(self, chosen: Sequence[int], weights: np.ndarray) -> list[Evidence]:
        """Words as spans in reading order; neighbours become one span with their joint weight."""
        result: list[Evidence] = []
        before = None
        for word in sorted(int(w) for w in chosen):
            start, end = self._trimmed(*self.borders[word])
            if start >= end:
                continue
            weight = float(weights[word])
            if before == word - 1 and start - result[-1].end <= MAX_GAP:
                last = result.pop()
                start, weight = last.start, last.weight + weight
            result.append(Evidence(start, end, self.text[start:end], weight))
            before = word
        return result

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        """Without the white space some tokenizers count to a word, with the accents that follow its last letter."""
        piece = self.text[start:end]
        start, end = int(start) + len(piece) - len(piece.lstrip()), int(end) - len(piece) + len(piece.rstrip())
        while start < end < len(self.text) and combining(self.text[end]):
            end += 1
        return start, end


def explain(predictor: Predictor, text: str, labels: Sequence[str], top_tokens: int = 8) -> dict[str, list[Evidence]]:
    """The passages of a text that speak for some labels, by any model of this library.

    Args:
        predictor: The model and its tokenizer.
        text: The document.
        labels: Names of the labels to explain, predicted or not.
        top_tokens: Words shown for each label, at most.

    Returns:
        For each label its passages, heaviest first; offsets index `text` as it was given.
    """
    note = TokenizedNote.read(predictor.tokenizer, text)
    weights = note.word_weights(note_weights(predictor, note.ids, label_ids(predictor, labels)))
    spans = [note.passages(heaviest(row, top_tokens), row) for row in weights]
    ordered = [sorted(row, key=lambda e: (-e.weight, e.start)) for row in spans]
    return dict(zip(labels, ordered, strict=True))


def label_ids(predictor: Predictor, labels: Sequence[str]) -> list[int]:
    """Columns of labels by name."""
    known = predictor.model.config.label2id
    missing = [label for label in labels if label not in known]
    if missing:
        raise ValueError(f"The model has no labels {missing[:5]}. Choose names in `model.config.label2id`.")
    return [int(known[label]) for label in labels]


def note_weights(predictor: Predictor, ids: np.ndarray, labels: Sequence[int]) -> np.ndarray:
    """Shares `[labels, tokens]` of the tokens of one document in what speaks for each label."""
    if not len(ids) or not len(labels):
        return np.zeros((len(labels), len(ids)))
    batch = predictor.collate([{"input_ids": ids}])
    inputs = batch["input_ids"].to(predictor.device), batch["attention_mask"].to(predictor.device)
    places = word_positions(len(ids), predictor.collate.layout)
    words = match_words(predictor, ids, places)
    weights = token_weights(predictor.model, *inputs, torch.tensor(labels, device=predictor.device), words)
    weights = weights[:, places].double().cpu().numpy()
    # What lies on the special tokens of chunks is evidence of nothing.
    return weights / np.maximum(weights.sum(1, keepdims=True), 1e-12)


def match_words(predictor: Predictor, ids: np.ndarray, places: np.ndarray) -> MatchWords | None:
    """The words of a matcher that does not read the base's tokens, and where these stand in the chunks."""
    if predictor.matching is None or not predictor.matching.separate:
        return None
    row, tokens = predictor.matching.words_of_tokens(ids)
    batch = predictor.collate([{"input_ids": ids, **row}])
    inputs = {name: batch[name].to(predictor.device) for name in batch if name.startswith("match_")}
    return MatchWords(inputs, torch.from_numpy(places[tokens]).to(predictor.device))


def heaviest(weights: np.ndarray, count: int) -> np.ndarray:
    """Positions of the largest positive weights, the earlier of equal ones first.

    >>> heaviest(np.array([0.1, 0.5, 0.0, 0.4]), 3).tolist()
    [1, 3, 0]
    """
    order = np.argsort(-weights, kind="stable")[:count]
    return order[weights[order] > 0]


def evidence_quality(
    predictor: Predictor,
    texts: Iterable[str],
    labels: Iterable[Sequence[str]],
    spans: Iterable[Sequence[Mapping]] | None = None,
    top_tokens: int = 8,
    seed: int = 0,
) -> dict[str, float]:
    """Whether evidence is what the model uses (faithful), and what a reader would mark (if that is known).

    Comprehensiveness is how much a label's probability drops when its evidence is removed from the document (higher is
    better); sufficiency how much it drops when nothing but the evidence is left (lower is better). Each is also
    measured with as many random words, which a method has to beat.

    Args:
        predictor: The model and its tokenizer.
        texts: Documents.
        labels: The labels of each to explain; those the model does not know are left out.
        spans: True spans `{label, start, end}` of each document, such as the column `evidence` of `synthetic_notes`.
        top_tokens: Words of evidence per label.
        seed: Of the random words.

    Returns:
        Means over labels of documents of `comprehensiveness` and `sufficiency`; with spans also `span_precision`
        (share of evidence characters inside true spans of the label) and `span_recall` (share of true spans that
        evidence touches); each also with `_random`; and the numbers of `documents` and `explained` labels.
    """
    generator, tallies, known = np.random.default_rng(seed), Tally(), predictor.model.config.label2id
    texts = list(texts)
    truth = [None] * len(texts) if spans is None else list(spans)
    rows = zip(tqdm(texts, desc="explaining", unit=" notes", delay=3), labels, truth, strict=True)
    for text, names, true in rows:
        note = TokenizedNote.read(predictor.tokenizer, text)
        names = [name for name in names if name in known]
        if names and len(note.borders):
            _measure(predictor, note, names, true, top_tokens, generator, tallies)
    return {"documents": len(texts), **tallies.result()}


class Tally:
    """Sums of what was measured."""

    def __init__(self):
        self.drops: dict[str, list[float]] = {"comprehensiveness": [], "sufficiency": []}
        self.drops |= {f"{name}_random": [] for name in list(self.drops)}
        self.counts: dict[str, np.ndarray] = {}

    def add_spans(self, kind: str, found: Sequence[Evidence], true: Sequence[tuple[int, int]]) -> None:
        """Count the characters of the found spans that lie in true ones, and the true ones that are touched."""
        marked, correct = np.zeros((2, max([e for _, e in true] + [f.end for f in found], default=0)), dtype=bool)
        for span in found:
            marked[span.start : span.end] = True
        for start, end in true:
            correct[start:end] = True
        touched = sum(bool(marked[start:end].any()) for start, end in true)
        counts = np.array([(marked & correct).sum(), marked.sum(), touched, len(true)])
        self.counts[kind] = self.counts.get(kind, 0) + counts

    def result(self) -> dict[str, float]:
        """The means."""
        result = {"explained": len(self.drops["sufficiency"])}
        result |= {name: float(np.mean(values)) if values else float("nan") for name, values in self.drops.items()}
        for kind, (inside, marked, touched, true) in self.counts.items():
            result[f"span_precision{kind}"] = float(inside / max(1, marked))
            result[f"span_recall{kind}"] = float(touched / max(1, true))
        return result


def _measure(predictor, note: TokenizedNote, names, true, top_tokens: int, generator, tally: Tally) -> None:
    """Add all labels of one document to the tally."""
    columns = label_ids(predictor, names)
    weights = note.word_weights(note_weights(predictor, note.ids, columns))
    chosen = [heaviest(row, top_tokens) for row in weights]
    chance = [generator.choice(len(note.borders), len(words), replace=False) for words in chosen]
    whole = predictor.score_ids([note.ids])[0, columns]
    for kind, words in (("", chosen), ("_random", chance)):
        pieces = [np.isin(note.words, row) for row in words]
        without = predictor.score_ids([note.ids[~piece] for piece in pieces])
        alone = predictor.score_ids([note.ids[piece] for piece in pieces])
        rows = np.arange(len(columns))
        tally.drops[f"comprehensiveness{kind}"] += (whole - without[rows, columns]).tolist()
        tally.drops[f"sufficiency{kind}"] += (whole - alone[rows, columns]).tolist()
        if true is not None:
            for name, row, weight in zip(names, words, weights, strict=True):
                places = [(span["start"], span["end"]) for span in true if span["label"] == name]
                tally.add_spans(kind, note.passages(row, weight), places)
