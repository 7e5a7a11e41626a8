"""Soft n-gram matching of label descriptions against documents (MacAvaney et al., "Interaction Matching for Long-Tail
Multi-Label Classification", eq. 1-2), as pure functions.

For label i with words `L_i1 … L_im` and a document `T_1 … T_n`, the sum `Σ_j S[L_ij, T_(k+j)]` of word similarities is
taken for every start k; the largest is the label's match. What makes it fast: similarities are computed once for each
pair of *distinct* label word and *distinct* document word, a window sum is a few shifted row additions, and the
gradient touches only the cells of the winning windows.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

# Words repeat more within a larger block, but its similarities fall out of the processor's cache.
_BLOCK_TOKENS = 1024
_SUMS_BYTES = 2**22


@lru_cache(maxsize=2**16)
def hash_word(word: str) -> int:
    """A positive 62-bit number that is the same in every process (FNV-1a).

    >>> hash_word("zyrtec") == hash_word("zyrtec"), hash_word("zyrtec") == hash_word("allegra")
    (True, False)
    """
    value = 0xCBF29CE484222325
    for byte in word.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return 1 + value % (2**62 - 1)


def surface_hashes(
    text: str,
    input_ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    unk_token_id: int | None,
    lowercase: bool = True,
) -> list[int]:
    """One number per token: the hash of the word as written where the vocabulary lacks it, zero elsewhere.

    Args:
        text: What was tokenized.
        input_ids: The tokens.
        offsets: Character span of each token (`return_offsets_mapping=True`).
        unk_token_id: Id of the unknown word; None when the tokenizer has none.
        lowercase: Whether two spellings that differ only in case are the same word.

    >>> [h > 0 for h in surface_hashes("a Zyrtec", [5, 1], [(0, 1), (2, 8)], unk_token_id=1)]
    [False, True]
    """
    # Word by word: in lower case some characters become two, and the places of a whole text would move.
    spelled = str.lower if lowercase else str
    pairs = zip(input_ids, offsets, strict=True)
    return [hash_word(spelled(text[a:b])) if token == unk_token_id and b > a else 0 for token, (a, b) in pairs]


def word_keys(input_ids: Tensor, hashes: Tensor | None, unk_token_id: int | None) -> Tensor:
    """One number per word: its vocabulary id, or minus the hash of a word the vocabulary lacks.

    >>> word_keys(torch.tensor([5, 1, 1]), torch.tensor([0, 77, 0]), unk_token_id=1)
    tensor([  5, -77,   1])
    """
    if hashes is None or unk_token_id is None:
        return input_ids
    return torch.where((input_ids == unk_token_id) & (hashes > 0), -hashes, input_ids)


class LabelWords(NamedTuple):
    """Descriptions of L labels, by their distinct words.

    Attributes:
        keys: `[U]` distinct words (see `word_keys`).
        rows: `[terms]` the words of all descriptions one after another, as indices into `keys`.
        lengths: `[L]` words per description; zero for a label without one.
    """

    keys: Tensor
    rows: Tensor
    lengths: Tensor

    @classmethod
    def pack(cls, descriptions: Iterable[Tensor]) -> "LabelWords":
        """From one tensor of word keys per label.

        >>> LabelWords.pack([torch.tensor([7, 5]), torch.tensor([], dtype=torch.long), torch.tensor([5])])
        LabelWords(keys=tensor([5, 7]), rows=tensor([1, 0, 0]), lengths=tensor([2, 0, 1]))
        """
        descriptions = list(descriptions)
        lengths = torch.tensor([len(words) for words in descriptions], dtype=torch.long)
        words = torch.cat([torch.zeros(0, dtype=torch.long), *(words.cpu() for words in descriptions)])
        keys, rows = words.unique(return_inverse=True)
        return cls(keys, rows, lengths)

    def unpack(self) -> tuple[Tensor, ...]:
        """The word keys of each label: the inverse of `pack`."""
        return self.keys[self.rows].split(self.lengths.tolist())

    def label_of_term(self) -> Tensor:
        """`[terms]` the label each word belongs to."""
        labels = torch.arange(len(self.lengths), device=self.lengths.device)
        return labels.repeat_interleave(self.lengths, output_size=len(self.rows))

    def place_of_term(self) -> Tensor:
        """`[terms]` the place of each word in its description, from zero."""
        first = self.lengths.cumsum(0) - self.lengths
        return torch.arange(len(self.rows), device=self.rows.device) - first[self.label_of_term()]

    def sum_terms(self, values: Tensor) -> Tensor:
        """Sum one value per distinct word over each description: `[U]` to `[L]`."""
        return values.new_zeros(len(self.lengths)).index_add(0, self.label_of_term(), values[self.rows])


def append_identity(label_vectors: Tensor, label_keys: Tensor, vectors: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Give words outside the vocabulary (negative keys) that occur on both sides a dimension of their own.

    With vectors that are zero otherwise, such a word has similarity 1 to itself and 0 to everything else.

    Args:
        label_vectors: `[U, D]` label words.
        label_keys: `[U]` keys of the label words.
        vectors: `[V, D]` document words.
        keys: `[V]` their keys.

    Returns:
        Both matrices with as many new columns as there are shared unknown words.
    """
    shared = label_keys[(label_keys < 0) & torch.isin(label_keys, keys)].unique()
    if not len(shared):
        return label_vectors, vectors
    label_side = (label_keys[:, None] == shared).to(label_vectors.dtype)
    return torch.cat([label_vectors, label_side], 1), torch.cat([vectors, (keys[:, None] == shared).to(vectors)], 1)


class _Piece(NamedTuple):
    """Windows of one document that start in `[start, stop)`."""

    document: int
    start: int
    stop: int


def _blocks(lengths: list[int], width: int, capacity: int) -> list[list[_Piece]]:
    """Put documents (long ones in pieces) into blocks of at most `capacity` tokens, each piece followed by a margin.

    >>> [[tuple(piece) for piece in block] for block in _blocks([1, 0, 9, 2], width=2, capacity=6)]
    [[(0, 0, 1)], [(2, 0, 5)], [(2, 5, 9)], [(3, 0, 2)]]
    """
    step = max(1, capacity - width + 1)
    pieces = [_Piece(d, i, min(i + step, n)) for d, n in enumerate(lengths) for i in range(0, n, step)]
    blocks, room = [], 0
    for piece in pieces:
        size = piece.stop - piece.start + width - 1
        if size > room:
            blocks.append([])
            room = capacity
        blocks[-1].append(piece)
        room -= size
    return blocks


def _similarity(label_vectors: Tensor, document_vectors: Tensor, columns: Tensor) -> Tensor:
    """Similarities `[U, len(columns)]` of a stretch of text, by one product of its distinct words."""
    words, columns = columns.unique(return_inverse=True)
    return (label_vectors @ document_vectors[words].T).index_select(1, columns)


def _window_sums(similarity: Tensor, rows: Tensor, places: Tensor, lengths: Tensor, width: int) -> Tensor:
    """`sums[i, k] = Σ_j similarity[rows_ij, k + j]`: `[labels, span - width]` for `[U, span]` similarities."""
    in_one_pass = similarity.device.type == "cpu" and similarity.dtype in (torch.float32, torch.float64)
    return (_bag_sums if in_one_pass else _shifted_sums)(similarity, rows, places, lengths, width)


def _bag_sums(similarity: Tensor, rows: Tensor, places: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Window sums as bags over every stretch of the flat matrix, which adds the shifted rows in one pass."""
    span = similarity.shape[1]
    flat = similarity.as_strided((similarity.numel() - span + width + 1, span - width), (1, 1))
    first = lengths.cumsum(0) - lengths
    # The last stretch is no word's (places stay below `width`). Naming it as padding keeps the kernel from copying
    # the overlapping view, which would take a thousand times longer.
    return F.embedding_bag(rows * span + places, flat, first, mode="sum", padding_idx=len(flat) - 1)


def _shifted_sums(similarity: Tensor, rows: Tensor, places: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Window sums by one row addition per place, for devices and types the bags do not serve."""
    count = similarity.shape[1] - width
    sums = similarity.new_zeros(len(lengths), count)
    labels = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    for place in range(width):
        here = (places == place).nonzero()[:, 0]
        sums.index_add_(0, labels[here], similarity[:, place : place + count].index_select(0, rows[here]))
    return sums


def _label_slices(lengths: Tensor, size: int) -> list[tuple[slice, slice]]:
    """Label chunks with the terms they span."""
    size = max(1, size)
    ends = F.pad(lengths.cumsum(0), (1, 0)).tolist()
    count = len(lengths)
    starts = range(0, count, size)
    return [(slice(i, min(i + size, count)), slice(ends[i], ends[min(i + size, count)])) for i in starts]


def _best_windows(
    label_vectors: Tensor,
    document_vectors: Tensor,
    columns: Tensor,
    document_lengths: Tensor,
    num_windows: Tensor,
    words: LabelWords,
    max_bytes: int,
) -> tuple[Tensor, Tensor]:
    """The largest window sum of each document and label, and where it starts."""
    best = label_vectors.new_full((len(columns), len(words.lengths)), -torch.inf)
    start = torch.full_like(best, -1, dtype=torch.long)
    width = max(1, int(words.lengths.max()))
    document_vectors = F.pad(document_vectors, (0, 0, 0, 1))
    void = len(document_vectors) - 1
    inside = torch.arange(columns.shape[1] + width, device=columns.device) < document_lengths[:, None]
    padded = F.pad(columns, (0, width)).masked_fill(~inside, void)  # [B, N + width]
    places = words.place_of_term()
    capacity = max(2 * width, min(max_bytes // (best.element_size() * len(label_vectors)), _BLOCK_TOKENS))
    label_slices = _label_slices(words.lengths, min(max_bytes, _SUMS_BYTES) // (best.element_size() * capacity))
    for block in _blocks(num_windows.tolist(), width, capacity):
        parts = [padded[p.document, p.start : p.stop + width - 1] for p in block]
        stream = torch.cat([*parts, padded.new_full((1,), void)])
        similarity = _similarity(label_vectors, document_vectors, stream)  # [U, span]
        for labels, terms in label_slices:
            sums = _window_sums(similarity, words.rows[terms], places[terms], words.lengths[labels], width)
            _keep_larger(best, start, sums, labels, block, width)
    return best, start


def _keep_larger(best: Tensor, start: Tensor, sums: Tensor, labels: slice, block: list[_Piece], width: int) -> None:
    """Fold the window sums of a block into the running maxima; of equal windows the first stays."""
    offset = 0
    for piece in block:
        windows = sums[:, offset : offset + piece.stop - piece.start]
        offset += piece.stop - piece.start + width - 1
        kept, kept_start = best[piece.document, labels], start[piece.document, labels]
        if piece.start == 0:
            torch.max(windows, 1, out=(kept, kept_start))
            continue
        value, index = windows.max(1)
        larger = value > kept
        kept.copy_(torch.where(larger, value, kept))
        kept_start.copy_(torch.where(larger, index + piece.start, kept_start))


class _SoftNgramMatch(torch.autograd.Function):
    """Forward keeps only the winning windows; backward visits only their cells."""

    @staticmethod
    def forward(ctx, label_vectors, document_vectors, columns, document_lengths, num_windows, words, max_memory_mb):
        max_bytes = max_memory_mb * 2**20 // 4
        tensors = (label_vectors, document_vectors, columns, document_lengths)
        with torch.autocast(label_vectors.device.type, enabled=False):
            best, start = _best_windows(*tensors, num_windows, words, max_bytes)
        start = start.masked_fill(words.lengths == 0, -1)
        ctx.save_for_backward(*tensors, start)
        ctx.words, ctx.max_bytes = words, max_bytes
        ctx.mark_non_differentiable(start)
        return best.masked_fill(start < 0, 0.0), start

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        label_vectors, document_vectors, columns, document_lengths, start = ctx.saved_tensors
        # Five numbers of eight bytes are held for each cell.
        documents = max(1, ctx.max_bytes // (40 * max(1, len(ctx.words.rows))))
        cells = [
            _winning_cells(*part, ctx.words, len(document_vectors))
            for part in zip(*(t.split(documents) for t in (grad, start, columns, document_lengths)), strict=True)
        ]
        key, value = _coalesce(torch.cat([k for k, _ in cells]), torch.cat([v for _, v in cells]))
        row, column = key // len(document_vectors), key % len(document_vectors)
        return (
            _gather_sum(row, column, value, document_vectors, len(label_vectors)),
            _gather_sum(column, row, value, label_vectors, len(document_vectors)),
            *[None] * 5,
        )


def _winning_cells(grad, start, columns, document_lengths, words: LabelWords, num_columns: int):
    """The gradient of the similarity matrix, as (label word, document word) keys and values."""
    labels = words.label_of_term()
    position = start[:, labels] + words.place_of_term()  # [B, terms]
    real = (position < document_lengths[:, None]) & ((start >= 0) & (grad != 0))[:, labels]
    document, term = real.nonzero(as_tuple=True)
    key = words.rows[term] * num_columns + columns[document, position[document, term]]
    return _coalesce(key, grad[document, labels[term]])


def _coalesce(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Add up the values of equal keys; keys come back sorted."""
    key, index = key.unique(return_inverse=True)
    return key, value.new_zeros(len(key)).index_add_(0, index, value)


def _gather_sum(target: Tensor, source: Tensor, weight: Tensor, table: Tensor, size: int) -> Tensor:
    """`out[target] += weight * table[source]` for `size` targets: a sparse product without scattering vectors."""
    order = target.argsort(stable=True)
    count = torch.bincount(target, minlength=size)
    weight = weight[order].to(table.dtype)
    return F.embedding_bag(source[order], table, count.cumsum(0) - count, mode="sum", per_sample_weights=weight)


def soft_ngram_match(
    label_vectors: Tensor,
    document_vectors: Tensor,
    columns: Tensor,
    document_lengths: Tensor,
    words: LabelWords,
    max_memory_mb: int = 256,
    num_windows: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest window sum of each label in each document, and where that window starts.

    Windows start at every token; words of a description that fall behind the last token add nothing. A document or a
    description without words has the sum 0 and the start -1. Of equal windows, the first is given.

    Args:
        label_vectors: `[U, D]` the distinct label words, normalised (times a weight, where words are weighted).
        document_vectors: `[V, D]` the distinct document words, normalised.
        columns: `[B, N]` which of the V each token is; anything behind the document's length.
        document_lengths: `[B]`.
        words: The descriptions in terms of the U rows.
        max_memory_mb: Working memory; at least a few windows of similarities with all label words have to fit.
        num_windows: `[B]` try only windows that start before this token.

    Returns:
        Sums `[B, L]` (gradients reach both matrices of vectors) and starts `[B, L]`.

    >>> vectors = torch.eye(3)
    >>> brush_tool = LabelWords.pack([torch.tensor([0, 1])])
    >>> soft_ngram_match(vectors[:2], vectors, torch.tensor([[2, 0, 1, 2]]), torch.tensor([4]), brush_tool)
    (tensor([[2.]]), tensor([[1]]))
    """
    if not len(words.rows) or not columns.numel():
        shape = (len(columns), len(words.lengths))
        return label_vectors.new_zeros(shape), columns.new_full(shape, -1)
    if num_windows is None:
        num_windows = document_lengths
    vectors = (label_vectors, document_vectors)
    return _SoftNgramMatch.apply(*vectors, columns, document_lengths, num_windows, words, max_memory_mb)


def window_characters(position: tuple[int, int], offsets: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Character span of a matching window (start token, length); None where nothing matched.

    >>> window_characters((1, 2), [(0, 3), (4, 9), (10, 14)])
    (4, 14)
    """
    start, length = position
    return None if start < 0 else (offsets[start][0], offsets[start + length - 1][1])


def left_aligned(values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the real tokens of each row to its front.

    Returns:
        Values `[B, N]` (zero behind the real ones), their number `[B]`, and where each came from `[B, N]`.

    >>> left_aligned(torch.tensor([[7, 8, 9]]), torch.tensor([[False, True, True]]))
    (tensor([[8, 9, 0]]), tensor([2]), tensor([[1, 2, 0]]))
    """
    lengths = mask.sum(1)
    if not (mask[:, 1:] > mask[:, :-1]).any():
        return values * mask, lengths, torch.arange(values.shape[1], device=values.device).expand_as(values)
    source = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
    inside = torch.arange(values.shape[1], device=values.device) < lengths[:, None]
    return values.gather(1, source) * inside, lengths, source


def add_probabilities(first: Tensor, second: Tensor) -> Tensor:
    """Noisy or on logits: the logit of `1 - (1 - p)(1 - q)`, without leaving log space.

    >>> add_probabilities(torch.tensor(0.0), torch.tensor(0.0)).sigmoid()
    tensor(0.7500)
    """
    first, second = torch.broadcast_tensors(first, second)
    return torch.stack([first, second, first + second]).logsumexp(0)


def inverse_document_frequency(counts: Tensor, num_documents: int) -> Tensor:
    """Smoothed inverse document frequency of words found in `counts` of `num_documents` training documents.

    >>> inverse_document_frequency(torch.tensor([0, 9]), 9)
    tensor([3.3026, 1.0000])
    """
    return ((1 + num_documents) / (1 + counts.float())).log() + 1
