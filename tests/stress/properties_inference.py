"""What must hold for any note that is coded, explained, shown and written down."""

import html
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from .strategies import WORDS, Property, documents, encodable, label_names

LONG = ("x" * 2**20, "7" * 2**20, WORDS[3] + " " * 2**20, "é" * 2**19, f"{WORDS[1]} " * 2**17, "🏥" * 2**18)


@cache
def predictors() -> list:
    """Every kind of model, by itself and joined with others."""
    from ..inference.notes import ALL, make_predictor

    return [make_predictor(kind) for kind in ALL]


def code(folder: Path):
    """The pipeline codes any text; evidence is where it says it is; half characters are refused as a ValueError."""
    from hf_labelattn import IcdCodingPipeline

    coders = [IcdCodingPipeline(model=p.model, tokenizer=p.tokenizer, device="cpu") for p in predictors()]

    def check(case) -> None:
        text, number, top_k = case
        coder = coders[number % len(coders)]
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


def read_on(folder: Path):
    """A note that comes in pieces has, at its end, the scores of the whole."""
    from hf_labelattn import NoteReader

    def check(case) -> None:
        pieces, number = case
        predictor = predictors()[number % len(predictors())]
        reader = NoteReader(predictor)
        for piece in pieces:
            found = reader.add(piece)
        whole = predictor.scores(["".join(pieces)])[0]
        np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)

    return check


def long_words(folder: Path):
    """A megabyte without a space, of digits, of spaces, of words, of emoji, through every kind of model."""

    def check(case) -> None:
        text, number = case
        (scores,) = predictors()[number % len(predictors())].scores([text])
        assert np.isfinite(scores).all()

    return check


def view(folder: Path):
    """What the application shows for any note and labels of one's own: a page without their markup, or ValueError."""
    from hf_labelattn.inference.app import frame
    from hf_labelattn.inference.note_view import NoteView

    from ..inference.notes import make_predictor

    shown = NoteView(make_predictor("interaction_caml"), max_characters=200)

    def check(case) -> None:
        text, names = case
        try:
            added = {}
            for name in names:
                added = shown.with_label(name, f"{name} {WORDS[3]}", added)
            page = shown.page(text, 3, added)
        except ValueError as error:
            assert len(str(error)) < 500, error
            return
        assert len(text) <= 200 and page.count("<script") == 1 and frame(page).count("<") == 2

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


def read_to_code(folder: Path):
    """Any rows are read back as they were written; one .txt file is one document."""
    from hf_labelattn import NotesError, read_texts_to_code

    def check(texts) -> None:
        path = folder / "to_code.jsonl"
        path.write_text("\n".join(json.dumps({"id": f"n{i}", "text": text}) for i, text in enumerate(texts)))
        try:
            assert list(read_texts_to_code(path)) == [(f"n{i}", text) for i, text in enumerate(texts)]
        except NotesError as error:
            assert not texts, error

    return check


SHOWN = st.tuples(documents(halves=True), label_names(3), st.lists(st.floats(0, 1), max_size=6))
NUMBERS = st.integers(0, 60)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=9)
ALL = {
    "code": Property(st.tuples(documents(halves=True), NUMBERS, st.integers(1, 6)), code, 2),
    "read_on": Property(st.tuples(st.lists(documents(), min_size=1, max_size=4), NUMBERS), read_on),
    "long_words": Property(st.tuples(st.sampled_from(LONG), NUMBERS), long_words, 0.1),
    "view": Property(st.tuples(documents(halves=True), label_names(2, unique=False)), view),
    "show": Property(SHOWN, show, 2),
    "write_codes": Property(st.tuples(NAMES, label_names(4)), write_codes),
    "read_to_code": Property(st.lists(documents(halves=True), max_size=4), read_to_code),
}
