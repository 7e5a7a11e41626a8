"""Relevance of tokens to labels: the mutual information of "label present" and "token present" (PLANT, appendix A.2).

With `t(n) = n ln n` and document counts `nx` (token), `ny` (label), `n11` (both) out of `N`,

    N I = t(n11) + t(nx - n11) + t(ny - n11) + t(N - nx - ny + n11) - t(nx) - t(N - nx) - t(ny) - t(N - ny) + t(N)

Every argument is a whole number up to N, so `t` is a table and no logarithm is taken in the loop. The sum is in double
precision, because its terms are thousands of times larger than itself. What is added is counted: add the training
split and no other.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from tqdm.auto import tqdm

from ..storage import replacing

ARRAYS = ("indptr", "token_ids", "values")


@dataclass(frozen=True)
class TokenRelevance:
    """The relevance `g` of tokens to labels in nats, sparse, one row per label, best tokens first.

    Attributes:
        indptr: int64 [L + 1], where the entries of each label begin.
        token_ids: int32 [nnz].
        values: float32 [nnz], above zero.
        vocab_size: Size of the vocabulary.
        num_documents: How many documents were counted.
    """

    indptr: np.ndarray
    token_ids: np.ndarray
    values: np.ndarray
    vocab_size: int
    num_documents: int

    @property
    def num_labels(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def row(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of one label and their relevance, best first."""
        entries = slice(self.indptr[label], self.indptr[label + 1])
        return self.token_ids[entries], self.values[entries]

    def grades(self) -> TokenRelevance:
        """Scale every row to a best grade of 1, so that a rare label's best token counts as much as a common one's."""
        lengths = np.diff(self.indptr)
        best = self.values[self.indptr[:-1][lengths > 0]]
        values = self.values / np.repeat(best, lengths[lengths > 0])
        return TokenRelevance(self.indptr, self.token_ids, values, self.vocab_size, self.num_documents)

    def save(self, path: str | os.PathLike) -> None:
        """Write a safetensors file; a reader never sees half of it."""
        arrays = {"indptr": self.indptr, "token_ids": self.token_ids, "values": self.values}
        # One entry, because safetensors writes several in any order and equal tables would differ in their bytes.
        sizes = {"vocab_size": int(self.vocab_size), "num_documents": int(self.num_documents)}
        metadata = {"sizes": json.dumps({**sizes, "sha256": _digest(arrays, sizes)})}
        with replacing(path) as partial:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, partial, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike) -> TokenRelevance:
        """Read what `save` wrote; a damaged file is refused in one sentence."""
        again = f"Remove {Path(path).parent} and type the same command again: it is counted anew."
        try:
            with safe_open(path, framework="numpy") as file:
                sizes = json.loads((file.metadata() or {}).get("sizes", "{}"))
                arrays = {name: file.get_tensor(name) for name in ARRAYS if name in file.keys()}
        except (SafetensorError, ValueError) as error:
            raise ValueError(f"{path} is damaged ({error}). {again}") from None
        if len(arrays) < len(ARRAYS) or "vocab_size" not in sizes:
            raise ValueError(f"{path} is not a relevance table. Pass a file that `TokenRelevance.save` wrote.")
        if sizes.pop("sha256", None) not in (None, _digest(arrays, sizes)):
            raise ValueError(f"{path} is damaged: its content has changed. {again}")
        return cls(**arrays, **sizes)


def _digest(arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> str:
    digest = hashlib.sha256(json.dumps(sizes, sort_keys=True).encode())
    for name in ARRAYS:
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


class RelevanceCounter:
    """Collects which tokens and labels each document has; turns them into relevance.

    Documents are kept as sets of token ids (four bytes each, 130 MB for 50,000 hospital notes). That is far smaller
    than a table of counts for every pair that occurs, adds up by concatenation, and loses nothing.

    >>> counter = RelevanceCounter(vocab_size=4, num_labels=2)
    >>> for tokens, labels in [([2, 2, 3], [0]), ([2], [0]), ([3], [1]), ([3], [])]:
    ...     counter.add(tokens, labels)
    >>> counter.relevance().row(0)[0]
    array([2], dtype=int32)
    """

    def __init__(self, vocab_size: int, num_labels: int, ignored_tokens: Iterable[int] = ()):
        self.vocab_size, self.num_labels = vocab_size, num_labels
        self.ignored_tokens = np.array(sorted(ignored_tokens), dtype=np.int64)
        self._tokens: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        self._present = np.zeros(vocab_size, dtype=bool)

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, token_ids: np.ndarray | list[int], label_ids: np.ndarray | list[int]) -> None:
        """Count one document; repeats count once.

        Args:
            token_ids: Its tokens.
            label_ids: Its labels; ids from `num_labels` on are labels nobody trains and are left out.
        """
        self._present[np.asarray(token_ids, dtype=np.int64)] = True
        self._present[self.ignored_tokens] = False
        found = np.flatnonzero(self._present)
        self._present[found] = False
        labels = np.unique(np.asarray(label_ids, dtype=np.int64))
        self._tokens.append(found.astype(np.int32))
        self._labels.append(labels[labels < self.num_labels])

    def add_all(self, tokens: Iterable, labels: Iterable, progress: bool = True) -> RelevanceCounter:
        """Count many documents, given as two iterables of id sequences; returns itself."""
        total = len(tokens) if hasattr(tokens, "__len__") else None
        pairs = zip(tokens, labels, strict=True)
        bar = tqdm(pairs, desc="counting", unit=" notes", total=total, delay=2, disable=None if progress else True)
        for token_ids, label_ids in bar:
            self.add(token_ids, label_ids)
        return self

    def merge(self, other: RelevanceCounter) -> RelevanceCounter:
        """Add the documents of another counter, of another shard or process; returns itself."""
        mine, theirs = (self.vocab_size, self.num_labels), (other.vocab_size, other.num_labels)
        if mine != theirs:
            raise ValueError(
                f"The counters have {mine} and {theirs} tokens and labels. Make both with one tokenizer and label set."
            )
        self._tokens += other._tokens
        self._labels += other._labels
        return self

    def relevance(self, top_k: int | None = None, positive_only: bool = True, progress: bool = True) -> TokenRelevance:
        """Compute the mutual information of every label with its tokens.

        Args:
            top_k: Keep the best tokens of each label (equal ones by id); None keeps all.
            positive_only: Keep only tokens that are more frequent with the label than without (`n11 N > nx ny`).
                Mutual information does not tell a token that speaks for a label from one that speaks against it, but
                attention on a token says "look here for this label".
            progress: Whether to show a progress bar when it takes more than two seconds.
        """
        if not len(self):
            raise ValueError("No documents were counted. Call `add` with the training documents first.")
        information = _Information.of(self._tokens, self.vocab_size)
        rows = tqdm(
            self._documents_by_label(),
            desc="mutual information",
            unit=" labels",
            total=self.num_labels,
            delay=2,
            disable=None if progress else True,
        )
        kept = []
        for documents in rows:
            together = self._count_tokens(documents)
            kept.append(_best(*information.of_label(together, len(documents), positive_only), top_k))
        sizes = [len(ids) for ids, _ in kept]
        return TokenRelevance(
            indptr=np.cumsum([0, *sizes], dtype=np.int64),
            token_ids=np.concatenate([ids for ids, _ in kept]).astype(np.int32),
            values=np.concatenate([values for _, values in kept]).astype(np.float32),
            vocab_size=self.vocab_size,
            num_documents=len(self),
        )

    def _documents_by_label(self) -> Iterator[np.ndarray]:
        labels = np.concatenate(self._labels)
        documents = np.repeat(np.arange(len(self)), [len(row) for row in self._labels])
        borders = np.cumsum(np.bincount(labels, minlength=self.num_labels))[:-1]
        yield from np.split(documents[np.argsort(labels, kind="stable")], borders)

    def _count_tokens(self, documents: np.ndarray) -> np.ndarray:
        if not len(documents):
            return np.zeros(self.vocab_size, dtype=np.int64)
        return np.bincount(np.concatenate([self._tokens[i] for i in documents]), minlength=self.vocab_size)


@dataclass(frozen=True)
class _Information:
    """What all labels share: the table of `n ln n` and the document counts of the tokens."""

    table: np.ndarray  # float64 [N + 1]
    with_token: np.ndarray  # int64 [V]
    token_terms: np.ndarray  # float64 [V]

    @classmethod
    def of(cls, tokens: list[np.ndarray], vocab_size: int) -> _Information:
        total = len(tokens)
        numbers = np.arange(total + 1, dtype=np.float64)
        table = numbers * np.log(np.maximum(numbers, 1))
        with_token = np.zeros(vocab_size, dtype=np.int64)
        for first in range(0, total, 1000):
            with_token += np.bincount(np.concatenate(tokens[first : first + 1000]), minlength=vocab_size)
        return cls(table, with_token, table[with_token] + table[total - with_token])

    def of_label(self, together: np.ndarray, with_label: int, positive_only: bool) -> tuple[np.ndarray, np.ndarray]:
        """Tokens that depend on a label, ascending, and their mutual information with it.

        Args:
            together: int64 [V] documents with both.
            with_label: Documents with the label.
            positive_only: Whether to leave out tokens the label avoids.
        """
        total, t = len(self.table) - 1, self.table
        excess = together * total - self.with_token * with_label
        ids = np.flatnonzero(excess > 0 if positive_only else excess)
        both, token = together[ids], self.with_token[ids]
        terms = t[both] + t[token - both] + t[with_label - both] + t[total - token - with_label + both]
        terms += (t[total] - t[with_label] - t[total - with_label]) - self.token_terms[ids]
        return ids, np.maximum(terms / total, np.finfo(np.float32).tiny)


def _best(ids: np.ndarray, values: np.ndarray, top_k: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The largest values, falling; equal values by rising id."""
    if top_k is not None and top_k < len(ids):
        last = np.partition(values, len(ids) - top_k)[len(ids) - top_k]
        above, equal = np.flatnonzero(values > last), np.flatnonzero(values == last)
        chosen = np.concatenate([above, equal[: top_k - len(above)]])
        ids, values = ids[chosen], values[chosen]
    order = np.lexsort((ids, -values))
    return ids[order], values[order]
