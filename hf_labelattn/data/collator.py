"""Documents to batches `[B, chunks, T]` in reading order."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from .chunking import ChunkLayout, cut, word_positions

logger = logging.getLogger(__name__)


@dataclass
class ChunkedDocumentCollator:
    """Collate rows `{"input_ids": ids, "labels": label ids}`; a document is one row of the batch, whatever its length.

    Rows for interaction matching may also have `match_input_ids` (the document in other tokens, not cut into chunks),
    `match_hash` (a number for each token of those, or of `input_ids`) and `base_logits`; see [`DocumentDataset`].

    Args:
        layout: Where documents are cut; `ChunkLayout()` reads each as one chunk (models that cut by themselves).
        num_labels: Width of the multi-hot `labels`.
        pad_token_id: Filled in behind the last token.
        max_tokens: Read at most this many tokens of a document (default: all). What is dropped is counted in
            `dropped_tokens` and said once.
        single_label: Give `labels` as class ids `[B]` instead of multi-hot `[B, L]`.
    """

    num_labels: int
    layout: ChunkLayout = field(default_factory=ChunkLayout)
    pad_token_id: int = 0
    max_tokens: int | None = None
    single_label: bool = False
    dropped_tokens: int = field(default=0, init=False)

    def __call__(self, rows: Sequence[dict]) -> dict[str, torch.Tensor]:
        chunks = [cut(self._ids(row["input_ids"]), self.layout) for row in rows]
        counts = np.array([len(document) for document in chunks])
        input_ids, mask = self._pad(chunks, counts)
        batch = {
            "input_ids": torch.from_numpy(input_ids),
            "attention_mask": torch.from_numpy(mask),
            "num_chunks": torch.from_numpy(counts),
        }
        if "labels" in rows[0]:
            batch["labels"] = self._labels([row["labels"] for row in rows])
        if "match_input_ids" in rows[0]:
            batch |= self._match_words(rows)
        elif "match_hash" in rows[0]:
            batch["match_hash"] = self._aligned([row["match_hash"] for row in rows], batch["input_ids"].shape)
        if "base_logits" in rows[0]:
            batch["base_logits"] = torch.from_numpy(np.stack([row["base_logits"] for row in rows]).astype(np.float32))
        return batch

    def _ids(self, ids) -> np.ndarray:
        ids = np.asarray(ids, dtype=np.int64)
        if self.max_tokens is not None and len(ids) > self.max_tokens:
            if not self.dropped_tokens:
                logger.warning("documents are cut to `max_tokens=%d`; the rest of each is not read", self.max_tokens)
            self.dropped_tokens += len(ids) - self.max_tokens
            ids = ids[: self.max_tokens]
        return ids

    def _pad(self, chunks: list[list[np.ndarray]], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        width = max(1, max(len(chunk) for document in chunks for chunk in document))
        if counts.max() > 1:
            width = self.layout.chunk_size  # all but a document's last chunk are full
        input_ids = np.full((len(chunks), counts.max(), width), self.pad_token_id, dtype=np.int64)
        mask = np.zeros(input_ids.shape, dtype=np.int64)
        for row, document in enumerate(chunks):
            for column, chunk in enumerate(document):
                input_ids[row, column, : len(chunk)] = chunk
                mask[row, column, : len(chunk)] = 1
        return input_ids, mask

    def _match_words(self, rows: Sequence[dict]) -> dict[str, torch.Tensor]:
        """The matcher's own tokens `[B, N]` with their mask and, where given, their hashes."""
        lengths = torch.tensor([len(row["match_input_ids"]) for row in rows])
        shape = len(rows), max(1, int(lengths.max()))
        batch = {"match_input_ids": self._rows([row["match_input_ids"] for row in rows], shape)}
        batch["match_attention_mask"] = (torch.arange(shape[1]) < lengths[:, None]).long()
        if "match_hash" in rows[0]:
            batch["match_hash"] = self._rows([row["match_hash"] for row in rows], shape)
        return batch

    def _rows(self, rows: list[np.ndarray], shape: tuple[int, int]) -> torch.Tensor:
        values = np.zeros(shape, dtype=np.int64)
        for row, numbers in enumerate(rows):
            values[row, : len(numbers)] = numbers
        return torch.from_numpy(values)

    def _aligned(self, rows: list[np.ndarray], shape: tuple[int, ...]) -> torch.Tensor:
        """One number per document token, at that token's place in the chunks."""
        values = np.zeros((shape[0], shape[1] * shape[2]), dtype=np.int64)
        for row, numbers in enumerate(rows):
            numbers = numbers[: self.max_tokens]
            values[row, word_positions(len(numbers), self.layout)] = numbers
        return torch.from_numpy(values).view(shape)

    def _labels(self, labels: list[Sequence[int]]) -> torch.Tensor:
        if self.single_label:
            wrong = next((row for row in labels if len(row) != 1), None)
            if wrong is not None:
                raise ValueError(
                    f"A document has {len(wrong)} labels, but `problem_type='single_label_classification'` needs "
                    "exactly one each. Use `multi_label_classification` for such data."
                )
            return torch.tensor([int(row[0]) for row in labels])
        target = np.zeros((len(labels), self.num_labels), dtype=np.float32)
        for row, ids in enumerate(labels):
            target[row, np.asarray(ids, dtype=np.int64)] = 1.0
        return torch.from_numpy(target)
