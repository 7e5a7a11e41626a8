"""What must hold for any documents, labels and files that are read, one property per public entry point."""

import csv
import json
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from .strategies import WORDS, Property, documents, encodable, label_names


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
            assert not all(map(encodable, rows)), error
            assert not any(len(text) > 20 and text in str(error) for text in rows)
            return
        assert found["text"][:] == rows and all(row == names for row in found["labels"])

    return check


def read_cells(folder: Path):
    """CSV and TSV: cells come back as they were, labels split at the separator; or a NotesError."""
    from hf_labelattn import NotesError, load_notes

    def check(case) -> None:
        texts, names, end = case
        path = folder / f"notes.{end}"
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if end == "tsv" else ",")
            writer.writerow(["text", "labels"])
            writer.writerows([text, "|".join(names)] for text in texts)
        try:
            found = load_notes(path, validation_fraction=0, label_separator="|")["train"]
        except NotesError as error:
            assert len(str(error)) < 500, error
            assert any("\r" in text or "\0" in text for text in (*texts, *names)), error
            return
        wanted = list(dict.fromkeys(part.strip() for name in names for part in name.split("|") if part.strip()))
        assert found["text"][:] == texts and all(row == wanted for row in found["labels"])

    return check


def name_files(folder: Path):
    """A label file is read as it was written; names that are blank or there twice are refused."""
    from hf_labelattn import LabelSet, NotesError, read_label_file

    path = folder / "described.jsonl"

    def check(names) -> None:
        sound = names and len(set(names)) == len(names) and all(map(str.strip, names))
        path.write_text("\n".join(json.dumps({"label": n, "description": f"{n} so"}) for n in names))
        try:
            assert read_label_file(path) == {name: f"{name} so" for name in names} and sound
        except NotesError as error:
            assert not sound or not all(map(encodable, names)), error
        try:
            LabelSet(tuple(names), tuple(names), (0,) * len(names))
        except ValueError as error:
            assert not sound and str(error).endswith("."), error
        else:
            assert sound or not names

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


def order_documents(folder: Path):
    """Any lengths and batch sizes: every document is given, some twice to fill up, and whole batches only."""
    from hf_labelattn import LengthAwareSampler

    def check(case) -> None:
        lengths, size, epoch, shuffle = case
        sampler = LengthAwareSampler(lengths, size, pool_batches=2, shuffle=shuffle)
        sampler.set_epoch(epoch)
        found = list(sampler)
        assert len(found) == len(sampler) and set(found) == set(range(len(lengths)))
        assert len(found) == len(lengths) or len(found) % size == 0

    return check


def climb_codes(folder: Path):
    """Any string as a code: a chain that ends, a title or none; only an unknown system is refused."""
    from hf_labelattn import describe_icd, format_icd, parent_code, top_level_code

    def check(case) -> None:
        code, system, kind = case
        where = {"system": system, "kind": kind}
        try:
            described = describe_icd(code, **where)
            steps, above = 0, code
            while above is not None and steps < 20:
                above, steps = parent_code(above, **where), steps + 1
            assert steps < 20 and (described is None or described)
            top_level_code(code, **where)
            format_icd(code, **where)
        except ValueError as error:
            assert len(str(error)) < 400 and "\n" not in str(error).replace(code, ""), error

    return check


def read_vectors(folder: Path):
    """Any bytes as a file of vectors: a table of finite numbers, or a VectorsError."""
    from hf_labelattn import VectorsError, description_vectors, embedding_matrix, load_word_vectors, vector_tokenizer
    from hf_labelattn.data.tokenization import word_tokenizer

    tokenizer = word_tokenizer(WORDS)

    def check(case) -> None:
        content, end = case
        path = folder / f"vectors{end}"
        path.write_bytes(content)
        try:
            vectors = load_word_vectors(path, progress=False)
        except VectorsError as error:
            assert str(path) in str(error), error
            return
        matrix, coverage = embedding_matrix(tokenizer, vectors)
        assert np.isfinite(matrix).all() and 0 <= coverage.share <= 1
        means = description_vectors(["wordaa", "", "\x00 x"], vector_tokenizer(vectors), vectors)
        assert means.shape == (3, vectors.dimensions) and np.isfinite(means).all()

    return check


def name_words(folder: Path):
    """Words outside the vocabulary have a hash of their spelling, at the place where they stand; others have none."""
    from hf_labelattn import hash_word, surface_hashes, with_words
    from hf_labelattn.data.tokenization import word_tokenizer

    tokenizer = with_words(word_tokenizer(WORDS[:5]), WORDS[5:9])

    def check(text) -> None:
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, spans = found["input_ids"], found["offset_mapping"]
        hashes = surface_hashes(text, ids, spans, tokenizer.unk_token_id)
        for i, value, (start, end) in zip(ids, hashes, spans, strict=True):
            expected = hash_word(text[start:end].lower()) if i == tokenizer.unk_token_id else 0
            assert value == expected and value >= 0

    return check


TEXTS = st.lists(documents(halves=True), min_size=1, max_size=4)
WHOLE = st.lists(documents(), min_size=1, max_size=4)
LAYOUTS = st.tuples(
    st.lists(st.integers(0, 30), min_size=1, max_size=4), st.one_of(st.none(), st.integers(1, 40)), st.integers(0, 2)
)
ORDERS = st.tuples(st.lists(st.integers(0, 99), max_size=40), st.integers(1, 9), st.integers(0, 3), st.booleans())
CODES = st.one_of(documents(halves=True), st.from_regex(r"[A-TV-Z0-9][0-9A-Z]{1,6}", fullmatch=True))
SYSTEMS = st.tuples(CODES, st.sampled_from(["icd9", "icd10"]), st.sampled_from(["diagnosis", "procedure"]))
LINES = st.lists(st.tuples(st.sampled_from([*WORDS[:4], "<unk>", "é"]), st.lists(st.floats(width=32), max_size=3)))
BYTES = st.one_of(
    st.binary(max_size=200),
    LINES.map(lambda rows: "\n".join(" ".join([word, *map(str, row)]) for word, row in rows).encode()),
)
ENDS = [".txt", ".bin", ".json", ".npy", ".txt.gz"]
ALL = {
    "read_documents": Property(st.tuples(TEXTS, label_names(4)), read_documents),
    "read_cells": Property(st.tuples(WHOLE, label_names(4), st.sampled_from(["csv", "tsv"])), read_cells),
    "name_files": Property(label_names(6, unique=False), name_files, 2),
    "keep_labels": Property(label_names(20), keep_labels),
    "tokenize": Property(documents(), tokenize, 4),
    "learn_vocabulary": Property(st.lists(documents(), max_size=4), learn_vocabulary),
    "collate": Property(LAYOUTS, collate, 2),
    "order_documents": Property(ORDERS, order_documents),
    "climb_codes": Property(SYSTEMS, climb_codes, 2),
    "read_vectors": Property(
        st.tuples(BYTES, st.sampled_from([".txt", ".bin", ".json", ".npy", ".txt.gz"])), read_vectors, 2
    ),
    "name_words": Property(documents(), name_words),
}
