"""Tokenised documents with their labels, as the Trainer reads them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch.utils.data import Dataset

from .tokenization import RaggedIds


def ragged(rows: Iterable[Sequence[int]]) -> RaggedIds:
    """Lists of ids as one flat array with its borders.

    >>> ragged([[1, 2], [], [3]]).lengths.tolist()
    [2, 0, 1]
    """
    arrays = [np.asarray(row, dtype=np.int32) for row in rows]
    starts = np.cumsum([0, *(len(array) for array in arrays)], dtype=np.int64)
    return RaggedIds(np.concatenate(arrays) if arrays else np.zeros(0, np.int32), starts)


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
    """

    tokens: RaggedIds
    labels: RaggedIds
    num_labels: int
    label_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        labels = self.labels[index]
        return {"input_ids": self.tokens[index], "labels": labels[labels < self.num_labels]}

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per document."""
        return self.tokens.lengths

    def take(self, indices: Sequence[int]) -> "DocumentDataset":
        """The documents at these positions, in this order."""
        pick = [int(i) for i in indices]
        return replace(
            self,
            tokens=ragged([self.tokens[i] for i in pick]),
            labels=ragged([self.labels[i] for i in pick]),
            ids=tuple(self.ids[i] for i in pick) if self.ids else (),
            groups=tuple(self.groups[i] for i in pick) if self.groups else (),
        )
