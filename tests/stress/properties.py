"""What must hold for any input, one property per public entry point."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from .strategies import HALVES, WORDS, batches, documents, label_names


@dataclass(frozen=True)
class Property:
    """What to generate, and what to do with it.

    Attributes:
        cases: A strategy.
        check: Gives, for a folder to work in, the function that raises where a case is not served as promised.
        share: Of the usual number of examples.
    """

    cases: st.SearchStrategy
    check: Callable[[Path], Callable]
    share: float = 1.0


def read_documents(folder: Path):
    """JSONL: the same texts and labels come back, or a NotesError that quotes no text."""
    from hf_labelattn import NotesError, load_notes

    path = folder / "notes.jsonl"

    def check(case) -> None:
        rows, names = case
        lines = [{"id": str(i), "text": text, "labels": names} for i, text in enumerate(rows)]
        path.write_text("\n".join(map(json.dumps, lines)))
        try:
            found = load_notes(path, validation_fraction=0)["train"]
        except NotesError as error:
            assert any(half in text for text in rows for half in map(chr, range(0xD800, 0xE000)) if half in text), (
                error
            )
            return
        assert found["text"][:] == rows and all(row == names for row in found["labels"])

    return check


def keep_labels(folder: Path):
    """A label set is saved and read back as it was; numbers and names map onto each other."""
    from hf_labelattn import LabelSet

    path = folder / "labels.jsonl"

    def check(names) -> None:
        labels = LabelSet(tuple(names), tuple(f"about {name}" for name in names), (1,) * len(names))
        labels.save(path)
        assert LabelSet.load(path) == labels
        assert [labels.names[i] for i in labels.encode(names)] == list(names)

    return check


def tokenize(folder: Path):
    """The fast way gives the tokenizer's own ids; offsets index the text as it was given."""
    from hf_labelattn import encode_documents
    from hf_labelattn.data.tokenization import word_tokenizer
    from hf_labelattn.inference.evidence import TokenizedNote

    tokenizer = word_tokenizer(WORDS)

    def check(text) -> None:
        note = TokenizedNote.read(tokenizer, text)
        assert encode_documents(tokenizer, [text], progress=False)[0].tolist() == note.ids.tolist()
        assert ((note.borders >= 0) & (note.borders <= len(text))).all()
        assert (note.borders[:, 0] < note.borders[:, 1]).all()

    return check


def learn_vocabulary(folder: Path):
    """A tokenizer of any documents, or a ValueError that there are no words."""
    from hf_labelattn import train_word_tokenizer

    def check(texts) -> None:
        try:
            tokenizer = train_word_tokenizer(texts, min_document_frequency=1, progress=False)
        except ValueError as error:
            assert "no words" in str(error), error
            return
        assert len(tokenizer) >= 3

    return check


def collate(folder: Path):
    """Any chunk size: nothing is lost, nothing is added."""
    from hf_labelattn import ChunkedDocumentCollator
    from hf_labelattn.data.chunking import ChunkLayout

    def check(case) -> None:
        lengths, size, specials = case
        try:
            layout = ChunkLayout(size, (1,) * specials, (2,) * specials)
        except ValueError:
            assert size is not None and size <= 2 * specials
            return
        rows = [{"input_ids": np.arange(3, 3 + n), "labels": [0]} for n in lengths]
        batch = ChunkedDocumentCollator(2, layout)(rows)
        for row, n in enumerate(lengths):
            read = batch["input_ids"][row][batch["attention_mask"][row].bool()].tolist()
            assert [i for i in read if i > 2] == list(range(3, 3 + n))

    return check


@cache
def models() -> dict:
    from .. import tiny

    return {name: make() for name, make in tiny.CLASSIFIERS.items()}


def forward(folder: Path):
    """Every model takes any batch: scores are finite, of the right shape, blind to what the mask hides."""
    import torch

    names = list(models())

    def check(case) -> None:
        (ids, mask), number = case
        model = models()[names[number % len(names)]]
        ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
        with torch.no_grad():
            try:
                scores = model(ids, mask).logits
            except ValueError:
                return
            again = model(torch.where(mask.bool(), ids, 7), mask).logits
        assert scores.shape == (len(ids), 5) and scores.isfinite().all(), names[number % len(names)]
        torch.testing.assert_close(again, scores, rtol=1e-4, atol=1e-5, msg=names[number % len(names)])

    return check


@cache
def coders() -> list:
    from hf_labelattn import IcdCodingPipeline
    from hf_labelattn.data.tokenization import word_tokenizer

    from ..inference.notes import ALL

    kinds = ("plant", "caml", "leam_label", "tfidf", "interaction_caml")
    return [IcdCodingPipeline(model=ALL[kind](), tokenizer=word_tokenizer(WORDS), device="cpu") for kind in kinds]


def code(folder: Path):
    """The pipeline codes any text; evidence is where it says it is; half characters are refused as a ValueError."""

    def check(case) -> None:
        text, number, top_k = case
        coder = coders()[number % len(coders())]
        try:
            rows = coder(text, top_k=top_k)
        except ValueError as error:
            assert not encodable(text), error
            assert len(str(error)) < 300, error
            return
        assert len(rows) == min(top_k, 5)
        for row in rows:
            assert 0 <= row["score"] <= 1
            for span in row["evidence"]:
                assert text[span["start"] : span["end"]] == span["text"] != ""

    return check


def show(folder: Path):
    """The page of any note holds its text, and none of its markup."""
    from hf_labelattn import Evidence, Prediction
    from hf_labelattn.inference.html import render_page

    def check(case) -> None:
        text, names, cuts = case
        edges = sorted(int(cut * len(text)) for cut in cuts)
        spans = [Evidence(a, b, text[a:b], 0.5) for a, b in zip(edges, edges[1:], strict=False) if a < b]
        predictions = [Prediction(name, 0.5) for name in names]
        page = render_page(text, predictions, dict.fromkeys(names, spans), {names[0]: text}, title=names[0])
        page.encode()
        assert page.count("<script") == 1 and page.count("<b>") == len(names)
        note = re.search(r'<p id="note">(.*?)</p></main>', page, re.S)[1]
        shown = html.unescape(re.sub(r"</?mark[^>]*>", "", note))
        assert len(shown) == len(text)
        assert all(a == b or b in "\ufffd ?" for a, b in zip(text, shown, strict=True))

    return check


def measure(folder: Path):
    """Metrics of any scores and truths are numbers, and streaming gives the same."""
    from hf_labelattn import StreamingMetrics, multilabel_metrics

    def check(case) -> None:
        seed, documents_, labels, share, scale = case
        draw = np.random.default_rng(seed)
        scores = (draw.normal(size=(documents_, labels)) * scale).astype(np.float32).round(1)
        truth = draw.random((documents_, labels)) < share
        found = multilabel_metrics(scores, truth)
        assert all(np.isfinite(value) or np.isnan(value) for value in found.values())
        assert all(
            -1e-9 <= v <= 1 + 1e-9 for n, v in found.items() if n.startswith(("f1", "precision", "recall", "auc"))
        )

    assert StreamingMetrics
    return check


def write_codes(folder: Path):
    """What is written as JSONL and Parquet is read back as it was."""
    import pyarrow.parquet as pq

    from hf_labelattn import Prediction, PredictionWriter

    def check(case) -> None:
        name, labels = case
        for end in ("jsonl", "parquet"):
            with PredictionWriter(folder / f"codes.{end}") as writer:
                writer.write(name, [Prediction(label, 0.5) for label in labels])
        read = [json.loads((folder / "codes.jsonl").read_text()), *pq.read_table(folder / "codes.parquet").to_pylist()]
        assert all(row["id"] == name and row["labels"] == labels for row in read)

    return check


def sizes(folder: Path):
    """One label and 20,000; a megabyte without a space."""
    import torch

    from .. import tiny

    def check(case) -> None:
        count, name = case
        ids, mask = tiny.documents((9,))
        with torch.no_grad():
            assert tiny.CLASSIFIERS[name](count)(ids, mask).logits.shape == (1, count)
        for text in ("x" * 2**20, "7" * 2**20, WORDS[3] + " " * 2**20, "é" * 2**19):
            coders()[1](text, top_k=2)

    return check


def encodable(text: str) -> bool:
    """Whether UTF-8 can hold it."""
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


assert not encodable(HALVES[0])
TEXTS = st.lists(documents(halves=True), min_size=1, max_size=4)
LAYOUTS = st.tuples(
    st.lists(st.integers(0, 30), min_size=1, max_size=4), st.one_of(st.none(), st.integers(1, 40)), st.integers(0, 2)
)
SHOWN = st.tuples(documents(halves=True), label_names(3), st.lists(st.floats(0, 1), max_size=6))
ARRAYS = st.tuples(
    st.integers(0, 2**31),
    st.integers(1, 12),
    st.integers(1, 9),
    st.sampled_from([0, 0.3, 1]),
    st.sampled_from([0, 1, 1e4]),
)
ALL = {
    "read_documents": Property(st.tuples(TEXTS, label_names(4)), read_documents),
    "keep_labels": Property(label_names(20), keep_labels),
    "tokenize": Property(documents(), tokenize, 4),
    "learn_vocabulary": Property(st.lists(documents(), max_size=4), learn_vocabulary),
    "collate": Property(LAYOUTS, collate, 2),
    "forward": Property(st.tuples(batches(), st.integers(0, 100)), forward, 2),
    "code": Property(st.tuples(documents(halves=True), st.integers(0, 4), st.integers(1, 6)), code, 2),
    "show": Property(SHOWN, show, 2),
    "measure": Property(ARRAYS, measure),
    "write_codes": Property(
        st.tuples(st.text(st.characters(exclude_categories=("Cs",)), max_size=9), label_names(4)), write_codes
    ),
    "sizes": Property(
        st.tuples(st.sampled_from([1, 20_000]), st.sampled_from(["caml", "plant", "swem", "leam"])), sizes, 0.04
    ),
}
