"""What must hold for whatever is counted, drawn and written about: tables, cards, pages, pictures."""

import re
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from .strategies import WORDS, Property, documents, label_names


def count_notes(folder: Path):
    """Any documents can be counted, and no word of theirs stands in the table."""
    from datasets import Dataset

    from hf_labelattn import corpus_statistics, describe_notes, format_statistics, load_notes

    def check(case) -> None:
        texts, names = case
        rows = {"text": [f"{text} {WORDS[7]}" for text in texts], "labels": [names] * len(texts)}
        notes = load_notes(dataset_name=Dataset.from_dict(rows), validation_fraction=0)
        for name in ("validation", "test"):
            notes[name] = notes["train"]
        told = describe_notes(notes) + format_statistics(corpus_statistics(notes, linear_model=False))
        assert WORDS[7] not in told and f"{len(texts):,}" in told

    return check


def write_card(folder: Path):
    """A card of any names is read back as a card: its metadata is what was given, and one block of it."""
    from huggingface_hub import ModelCard

    from hf_labelattn import CardValues, render_card

    def check(case) -> None:
        names, value = case
        values = CardValues(
            names[0], "CAML", "label_attention", dataset=names[-1], num_labels=3, metrics={"test": {"f1_micro": value}}
        )
        written = ModelCard(str(render_card(values))).data.to_dict()["model-index"][0]
        shown = names[-1].rstrip("/").rpartition("/")[2]  # the name of the folder, not where it lies
        assert written["name"] == names[0] and written["results"][0]["dataset"]["name"] == shown

    return check


def draw_match(folder: Path):
    """A description is found in a text where the characters say, and drawn; nothing to draw is a ValueError."""
    from matplotlib import pyplot

    from hf_labelattn import match_figure_of
    from hf_labelattn.data.tokenization import word_tokenizer

    from ..inference.notes import make_interaction

    model, tokenizer = make_interaction(), word_tokenizer(WORDS)

    def check(case) -> None:
        text, description = case
        try:
            figure = match_figure_of(model, text, description, tokenizer)
        except ValueError as error:
            assert len(str(error)) < 300 and not (WORDS[3] in text and WORDS[3] in description), error
            return
        pyplot.close(figure)

    return check


def explain_any(folder: Path):
    """The page of any note and title; passages stand where they say."""
    from hf_labelattn import explain_note

    from ..inference.notes import make_predictor

    predictor = make_predictor("caml")

    def check(case) -> None:
        text, title = case
        found = explain_note(predictor, text, folder / "page.html", title)
        page = (folder / "page.html").read_text(encoding="utf-8")
        assert page.count("<script") == 1 and len(re.findall("<h1>", page)) == 1 and found is not None

    return check


def climb_levels(folder: Path):
    """Scores and truths of parents: as many as there are parents, nothing lost."""
    from hf_labelattn import roll_up
    from hf_labelattn.evaluation.targets import as_targets

    def check(case) -> None:
        seed, labels, parents = case
        draw = np.random.default_rng(seed)
        scores, truth = draw.normal(size=(4, labels)), draw.random((4, labels)) < 0.4
        above = [f"p{i % parents}" for i in range(labels)]
        found, true = roll_up(scores, as_targets(truth, labels), above)
        assert found.shape == (4, len(set(above)))
        assert (found.max(1) == scores.max(1)).all() and (true.dense().any(1) == truth.any(1)).all()

    return check


NOTES = st.lists(documents(), min_size=1, max_size=4)
CARDS = st.tuples(label_names(3), st.floats(0, 1))
LEVELS = st.tuples(st.integers(0, 999), st.integers(1, 12), st.integers(1, 5))
ALL = {
    "count_notes": Property(st.tuples(NOTES, label_names(3)), count_notes, 0.5),
    "write_card": Property(CARDS, write_card, 0.5),
    "draw_match": Property(st.tuples(documents(), documents()), draw_match, 0.3),
    "explain_any": Property(st.tuples(documents(), documents(halves=True)), explain_any, 0.5),
    "climb_levels": Property(LEVELS, climb_levels),
}
