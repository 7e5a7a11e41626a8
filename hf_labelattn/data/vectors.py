"""Pretrained word vectors (GloVe, word2vec, arrays, wink) → the embedding matrix of a tokenizer, with its coverage."""

import gzip
import json
import mmap
import os
import re
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

UNKNOWN_RANGE = 0.01


class VectorsError(ValueError):
    """A file of word vectors cannot be used as it is; the message says where, what was found and what to do."""


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, row by row."""

    words: list[str]
    matrix: np.ndarray  # float32 [words, dimensions]

    def __post_init__(self):
        if self.matrix.ndim != 2 or len(self.words) != len(self.matrix):
            found = f"{len(self.words):,} words and an array of shape {self.matrix.shape}"
            raise VectorsError(f"found {found}; expected one row of the array per word.")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dimensions(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def rows(self) -> dict[str, int]:
        """Row of each word; the first one where a word is repeated, as files list frequent forms first."""
        return {word: row for row, word in zip(range(len(self) - 1, -1, -1), reversed(self.words), strict=True)}


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary has a pretrained vector; `token_share` is known only with token counts."""

    found: int
    total: int
    lowercased: int
    token_share: float | None = None

    @property
    def share(self) -> float:
        return self.found / max(self.total, 1)

    def __str__(self) -> str:
        text = f"{self.found:,} of {self.total:,} words ({self.share:.1%}) have a pretrained vector"
        if self.lowercased:
            text += f", {self.lowercased:,} of them by their lower-case form"
        return text if self.token_share is None else f"{text}; they are {self.token_share:.1%} of the tokens"


def load_word_vectors(
    path: str | os.PathLike,
    *,
    words_file: str | os.PathLike | None = None,
    vocabulary: Collection[str] | None = None,
    progress: bool = True,
) -> WordVectors:
    """Read word vectors; the extension says how.

    `.npy` is an array with its words in a second file; `.bin` is word2vec's binary format; `.json` is what
    wink-embeddings ships; anything else is text, one word and its numbers a line, with word2vec's header line or
    without (GloVe). Text and binary files may be gzipped.

    Args:
        path: The file.
        words_file: The words of a `.npy` array: one a line, or Parquet with a column `index`. By default a file of the
            same name ending in .txt or .parquet.
        vocabulary: Keep only these words and their lower-case forms, so that a large file fits in memory.
        progress: Whether to show a progress bar when it takes more than two seconds.
    """
    path = Path(path)
    if not path.is_file():
        raise VectorsError(f"{path} does not exist or is not a file. Check the path.")
    if not path.stat().st_size:
        raise VectorsError(f"{path} is empty. Copy it again.")
    extension = os.path.splitext(path.name.lower().removesuffix(".gz"))[1]
    if extension == ".npy":
        return _read_npy(path, words_file, _filter(vocabulary))
    read = {".bin": _read_binary, ".json": _read_wink}.get(extension, _read_text)
    words, data = [], bytearray()
    entries = read(path, _filter(vocabulary))
    bar = tqdm(entries, desc=f"reading {path.name}", unit=" words", delay=2, disable=None if progress else True)
    for word, row in bar:
        words.append(word)
        data += row
    if not words:
        raise VectorsError(f"{path}: no word of the vocabulary is in it, or no word at all.")
    return _checked(path, words, np.frombuffer(data, dtype=np.float32).reshape(len(words), -1))


def embedding_matrix(
    tokenizer: PreTrainedTokenizerBase, vectors: WordVectors, seed: int = 0, token_counts: np.ndarray | None = None
) -> tuple[np.ndarray, Coverage]:
    """Initial embeddings of a tokenizer's vocabulary.

    Args:
        tokenizer: Row i of the result is its token i. A cased word without a vector gets that of its lower-case form.
        vectors: Pretrained vectors.
        seed: Seed of the words without one, which are drawn from U(-0.01, 0.01); the padding row is zero.
        token_counts: How often each token occurs in the training documents, to report the covered share of the text.

    Returns:
        float32 [vocabulary, dimensions], and the coverage.
    """
    found, lowercased = {}, 0
    special = set(tokenizer.all_special_ids)
    words = {word: index for word, index in tokenizer.get_vocab().items() if index not in special}
    for word, index in words.items():
        row = vectors.rows.get(word)
        if row is None and word.lower() != word:
            row = vectors.rows.get(word.lower())
            lowercased += row is not None
        if row is not None:
            found[index] = row
    shape = len(tokenizer), vectors.dimensions
    matrix = np.random.default_rng(seed).uniform(-UNKNOWN_RANGE, UNKNOWN_RANGE, shape).astype(np.float32)
    matrix[list(found)] = vectors.matrix[list(found.values())]
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0.0
    return matrix, Coverage(len(found), len(words), lowercased, _token_share(token_counts, list(found), shape[0]))


def _token_share(counts: np.ndarray | None, found: list[int], size: int) -> float | None:
    if counts is None:
        return None
    counts = np.asarray(counts)
    if counts.shape != (size,):
        raise ValueError(f"`token_counts` has shape {counts.shape}; expected ({size},), one count per token.")
    return float(counts[found].sum() / max(counts.sum(), 1))


def _filter(vocabulary: Collection[str] | None) -> Callable[[str], bool]:
    if vocabulary is None:
        return lambda word: True
    wanted = {*vocabulary, *(word.lower() for word in vocabulary)}
    return wanted.__contains__


def _checked(path: Path, words: list[str], matrix: np.ndarray) -> WordVectors:
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise VectorsError(
            f"{path}: the vector of `{words[row]}` (word {row + 1}) is not finite. Repair or remove it."
        )
    return WordVectors(words, matrix)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb") as stream:
            yield stream
    except EOFError:
        raise VectorsError(f"{path}: the .gz file ends too early. Copy it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise VectorsError(f"{path}: not a sound .gz file ({error}). Copy it again.") from None


def _read_text(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    expected = dimensions = None
    lines = 0
    with _opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            fields = line.replace(b"\t", b" ").rstrip(b" \r\n").split(b" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                expected, dimensions = map(int, fields)
                continue
            if fields == [b""]:
                continue
            dimensions = dimensions or len(fields) - 1
            lines += 1
            word, numbers = _word_and_numbers(fields, dimensions, f"{path}, line {number}")
            if wanted(word):
                yield word, _floats(numbers, f"{path}, line {number}")
    if expected not in (None, lines):
        raise VectorsError(f"{path}: the header says {expected:,} words, but there are {lines:,}. Copy it again.")


def _word_and_numbers(fields: list[bytes], dimensions: int, where: str) -> tuple[str, list[bytes]]:
    """A few words of the large GloVe files contain spaces; a line with too many numbers is something else."""
    extra = fields[1 : len(fields) - dimensions]
    if len(fields) <= dimensions or not dimensions or (extra and all(map(_is_number, extra))):
        hint = "Name a binary file .bin, and an array .npy."
        raise VectorsError(f"{where}: found {len(fields) - 1} numbers, expected {dimensions or 'some'}. {hint}")
    return b" ".join(fields[: len(fields) - dimensions]).decode(errors="replace"), fields[-dimensions:]


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _floats(numbers: Iterable[bytes], where: str) -> bytes:
    try:
        return array("f", map(float, numbers)).tobytes()
    except ValueError:
        raise VectorsError(f"{where}: found something else than numbers after the word. Repair the line.") from None


def _read_binary(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with _opened(path) as stream:
        header = stream.readline(64).split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            raise VectorsError(f"{path}: no word2vec header (`words dimensions`) on line 1. Name a text file .txt.")
        count, dimensions = map(int, header)
        width = 4 * dimensions
        buffer, start = b"", 0
        for number in range(count):
            while (space := buffer.find(b" ", start)) < 0 or len(buffer) < space + 1 + width:
                more = stream.read(1 << 20)
                if not more:
                    found = f"ends after {number:,} of the {count:,} words its header says"
                    raise VectorsError(f"{path}: {found}. Copy it again.")
                buffer, start = buffer[start:] + more, 0
            word = buffer[start:space].lstrip(b"\n").decode(errors="replace")
            start = space + 1 + width
            if wanted(word):
                yield word, buffer[space + 1 : start]


def _read_wink(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """`{"dimensions": 100, ..., "vectors": {"the": [100 numbers, then its norm and rank], ...}}`, entry by entry.

    Parsed as a whole, the boxed numbers of the 307 MB file would need more than a gigabyte.
    """
    entry = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*\[([^\]]*)\]\s*[,}]')
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        vectors = re.search(rb'"vectors"\s*:\s*\{', content)
        dimensions = re.search(rb'"dimensions"\s*:\s*(\d+)', content)
        if vectors is None or dimensions is None:
            raise VectorsError(f'{path}: no "dimensions" and "vectors" in it, as wink-embeddings has them.')
        size, position = int(dimensions[1]), vectors.end()
        number = 0
        while found := entry.match(content, position):
            number += 1
            word, numbers = json.loads(b'"%s"' % found[1]), found[2].split(b",")[:size]
            if len(numbers) < size:
                raise VectorsError(f"{path}, word {number}: found {len(numbers)} numbers, expected {size}.")
            if wanted(word):
                yield word, _floats(numbers, f"{path}, word {number}")
            position = found.end()
            if content[position - 1 : position] == b"}":
                return
        raise VectorsError(f"{path}: broken JSON after word {number}. Copy it again.")


def _read_npy(path: Path, words_file: str | os.PathLike | None, wanted: Callable[[str], bool]) -> WordVectors:
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise VectorsError(f"{path}: not a sound array file ({str(error).splitlines()[0]}).") from None
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        found = f"{matrix.dtype} of shape {matrix.shape}"
        raise VectorsError(f"{path}: found {found}, expected floating-point numbers [words, dimensions].")
    words = _read_words(path, words_file)
    if len(words) != len(matrix):
        raise VectorsError(f"{path} has {len(matrix):,} rows, but its word list has {len(words):,} words.")
    rows = [row for row, word in enumerate(words) if wanted(word)]
    if len(rows) < len(words):
        words, matrix = [words[row] for row in rows], matrix[rows]
    if not words:
        raise VectorsError(f"{path}: no word of the vocabulary is in it, or no word at all.")
    return _checked(path, words, matrix.astype(np.float32, copy=False))


def _read_words(path: Path, words_file: str | os.PathLike | None) -> list[str]:
    candidates = [Path(words_file)] if words_file else [path.with_suffix(".txt"), path.with_suffix(".parquet")]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        tried = " or ".join(map(str, candidates))
        raise VectorsError(f"{path}: its words should be in {tried}, which does not exist. Pass `words_file=...`.")
    if file.suffix != ".parquet":
        with _opened(file) as stream:
            return [line.rstrip(b"\r\n").decode(errors="replace") for line in stream]
    try:
        return pq.read_table(file, columns=["index"])["index"].to_pylist()
    except (pa.ArrowException, KeyError):
        raise VectorsError(f"{file}: expected a sound Parquet file with the words in a column `index`.") from None
