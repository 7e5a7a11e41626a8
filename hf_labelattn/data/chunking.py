"""Pure functions between a document's token ids and the chunks a model reads, in reading order.

Used by the collator and by inference alike, so both cut documents at the same places.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ChunkLayout:
    """How a document is cut: tokens per chunk, and the special tokens around each chunk (transformers need them).

    Attributes:
        chunk_size: Width of a chunk, special tokens included; None reads the document as one chunk.
        prefix: Token ids put before the words of every chunk, such as `[CLS]`.
        suffix: Token ids put after them, such as `[SEP]`.
    """

    chunk_size: int | None = None
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()

    def __post_init__(self):
        if self.chunk_size is not None and self.words_per_chunk < 1:
            raise ValueError(
                f"`chunk_size` is {self.chunk_size}, but {len(self.prefix) + len(self.suffix)} special tokens have to "
                f"fit beside at least one word. Pass `chunk_size={len(self.prefix) + len(self.suffix) + 1}` or more."
            )

    @property
    def words_per_chunk(self) -> int | None:
        """Document tokens per chunk, without the special ones."""
        return None if self.chunk_size is None else self.chunk_size - len(self.prefix) - len(self.suffix)

    def num_chunks(self, num_tokens: int) -> int:
        """Chunks a document of `num_tokens` takes; an empty one takes one.

        >>> [ChunkLayout(4).num_chunks(n) for n in (0, 1, 4, 5)]
        [1, 1, 1, 2]
        """
        return 1 if self.chunk_size is None else max(1, -(-num_tokens // self.words_per_chunk))


def cut(ids: np.ndarray, layout: ChunkLayout) -> list[np.ndarray]:
    """Cut a document into chunks in reading order; only the last may be shorter. Nothing is dropped.

    >>> [chunk.tolist() for chunk in cut(np.arange(5), ChunkLayout(4, prefix=(101,), suffix=(102,)))]
    [[101, 0, 1, 102], [101, 2, 3, 102], [101, 4, 102]]
    >>> [chunk.tolist() for chunk in cut(np.arange(5), ChunkLayout())]
    [[0, 1, 2, 3, 4]]
    """
    step = layout.words_per_chunk or max(1, len(ids))
    starts = range(0, max(1, len(ids)), step)
    if not layout.prefix and not layout.suffix:
        return [ids[i : i + step] for i in starts]
    return [np.concatenate([layout.prefix, ids[i : i + step], layout.suffix]) for i in starts]


def word_positions(num_tokens: int, layout: ChunkLayout) -> np.ndarray:
    """Where each document token stands in the flattened chunks: maps attention over chunks back to tokens.

    >>> word_positions(5, ChunkLayout(4, prefix=(101,), suffix=(102,))).tolist()
    [1, 2, 5, 6, 9]
    """
    tokens = np.arange(num_tokens)
    if layout.chunk_size is None:
        return tokens + len(layout.prefix)
    return tokens // layout.words_per_chunk * layout.chunk_size + tokens % layout.words_per_chunk + len(layout.prefix)


def chunk_layout(config, tokenizer=None) -> ChunkLayout:
    """How documents must be cut for a model: in chunks with special tokens for transformers, whole for the others."""
    if not config.reads_chunks:
        return ChunkLayout()
    prefix, suffix = special_tokens(tokenizer) if tokenizer is not None else ((), ())
    return ChunkLayout(config.chunk_size, prefix, suffix)


def special_tokens(tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids a tokenizer puts before and after a text, such as `[CLS]` and `[SEP]`."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a", add_special_tokens=True)["input_ids"]
    start = next((i for i in range(len(full) - len(bare) + 1) if full[i : i + len(bare)] == bare), 0)
    return tuple(full[:start]), tuple(full[start + len(bare) :])
