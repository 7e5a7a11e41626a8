"""Tokenised documents with their labels, as the Trainer reads them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch.utils.data import Dataset

from .tokenization import RaggedIds


def ragged(rows: Iterable[Sequence[int]], dtype: type = np.int32) -> RaggedIds:
    """Lists of ids as one flat array with its borders.

    >>> ragged([[1, 2], [], [3]]).lengths.tolist()
    [2, 0, 1]
    """
    arrays = [np.asarray(row, dtype=dtype) for row in rows]
    starts = np.cumsum([0, *(len(array) for array in arrays)], dtype=np.int64)
    return RaggedIds(np.concatenate(arrays) if arrays else np.zeros(0, dtype), starts)


def taken(rows: RaggedIds | None, pick: Sequence[int]) -> RaggedIds | None:
    """The rows at some positions, of the same type of number."""
    return None if rows is None else ragged([rows[i] for i in pick], rows.values.dtype)


@dataclass(frozen=True)
class DocumentDataset(Dataset):
    """Documents as token ids and label ids, held as flat arrays.

    Attributes:
        tokens: Token ids of every document.
        labels: Label ids of every document. An id from `num_labels` on is a label the model does not know: it is never
            given to the model, but evaluation counts it as missed.
        num_labels: Labels the model knows.
        label_names: Names of all label ids that occur, unknown ones included.
        ids: Name of each document.
        groups: Group (patient) of each document.
        match_tokens: For interaction matching, the documents in the matcher's own tokens, if not in `tokens`.
        match_hashes: For each of the matcher's tokens, the hash of a word its vocabulary lacks, else zero (int64).
        base_logits: `[documents, labels]` what the base of a joint model says, where that is not left to the model:
            for documents the base was fitted on, scores of a base that has not seen them.
    """

    tokens: RaggedIds
    labels: RaggedIds
    num_labels: int
    label_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    match_tokens: RaggedIds | None = None
    match_hashes: RaggedIds | None = None
    base_logits: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        labels = self.labels[index]
        row = {"input_ids": self.tokens[index], "labels": labels[labels < self.num_labels]}
        extra = {
            "match_input_ids": self.match_tokens,
            "match_hash": self.match_hashes,
            "base_logits": self.base_logits,
        }
        return row | {name: values[index] for name, values in extra.items() if values is not None}

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per document."""
        return self.tokens.lengths

    def take(self, indices: Sequence[int]) -> "DocumentDataset":
        """The documents at these positions, in this order."""
        pick = [int(i) for i in indices]
        return replace(
            self,
            tokens=taken(self.tokens, pick),
            labels=taken(self.labels, pick),
            match_tokens=taken(self.match_tokens, pick),
            match_hashes=taken(self.match_hashes, pick),
            base_logits=None if self.base_logits is None else self.base_logits[pick],
            ids=tuple(self.ids[i] for i in pick) if self.ids else (),
            groups=tuple(self.groups[i] for i in pick) if self.groups else (),
        )
