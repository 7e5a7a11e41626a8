"""Words to hidden states. Layers take plain numbers; the model that owns them reads the config.

Every encoder maps embedded words `[B, T, E]` and a mask `[B, T]` to `[B, T, H]` and the memory it carries to the next
window. `halo` is how many neighbours on each side a hidden state depends on: a convolution over a window sees that
many words beyond its borders, so reading in windows equals reading whole.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from transformers import initialization as init

from .functional_convolution import convolution_maxima, same_convolution

Memory = tuple[Tensor, ...]


class IdentityEncoder(nn.Module):
    """Hidden states are the word embeddings themselves (SWEM, Shen et al. 2018)."""

    halo = 0

    def __init__(self, input_size: int):
        super().__init__()
        self.output_size = input_size

    def forward(
        self, embedded: Tensor, mask: Tensor, memory: Memory = (), border: Memory = ()
    ) -> tuple[Tensor, Memory]:
        return embedded, memory


class ConvolutionEncoder(nn.Module):
    """Parallel convolutions, concatenated: Kim 2014 (widths 3, 4, 5), XML-CNN (2, 4, 8), CAML (one width, tanh)."""

    def __init__(self, input_size: int, filters: int, kernel_sizes: list[int], activation: str):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(input_size, filters, k) for k in kernel_sizes)
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[activation]
        self.output_size = filters * len(kernel_sizes)
        self.halo = max(kernel_sizes) // 2

    def forward(
        self, embedded: Tensor, mask: Tensor, memory: Memory = (), border: Memory = ()
    ) -> tuple[Tensor, Memory]:
        embedded = embedded * mask[..., None]
        hidden = torch.cat([same_convolution(c, embedded) for c in self.convolutions], dim=-1)
        return self.activation(hidden), memory

    def maxima(self, embedded: Tensor, mask: Tensor, part: Tensor, parts: int) -> Tensor:
        """`part_maxima` of the hidden states, which are not made: an activation that never falls can wait."""
        embedded = embedded * mask[..., None]
        best = torch.cat([convolution_maxima(c, embedded, part, parts) for c in self.convolutions], dim=-1)
        return self.activation(best).masked_fill(best == -torch.inf, -torch.inf)


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch normalisation whose statistics see real tokens only; padding comes out as zero."""

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        flat = hidden[mask]
        if flat.shape[0] > 1 or not self.training:
            flat = super().forward(flat)
        return torch.zeros_like(hidden).masked_scatter(mask[..., None], flat)


class ResidualFilter(nn.Module):
    """One filter width of MultiResCNN: a convolution and a residual block (Li & Yu 2020, eq. 1-5)."""

    def __init__(self, input_size: int, filters: int, kernel_size: int):
        super().__init__()
        self.convolution = nn.Conv1d(input_size, input_size, kernel_size)
        self.first = nn.Conv1d(input_size, filters, kernel_size, bias=False)
        self.second = nn.Conv1d(filters, filters, kernel_size, bias=False)
        self.shortcut = nn.Conv1d(input_size, filters, 1, bias=False)
        self.first_norm, self.second_norm = MaskedBatchNorm(filters), MaskedBatchNorm(filters)
        self.shortcut_norm = MaskedBatchNorm(filters)

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        hidden = torch.tanh(same_convolution(self.convolution, embedded)) * mask[..., None]
        inner = torch.tanh(self.first_norm(same_convolution(self.first, hidden), mask))
        inner = self.second_norm(same_convolution(self.second, inner), mask)
        return torch.tanh(inner + self.shortcut_norm(same_convolution(self.shortcut, hidden), mask))


class MultiResidualEncoder(nn.Module):
    """Multi-filter residual convolutions (MultiResCNN, Li & Yu 2020)."""

    def __init__(self, input_size: int, filters: int, kernel_sizes: list[int]):
        super().__init__()
        self.filters = nn.ModuleList(ResidualFilter(input_size, filters, k) for k in kernel_sizes)
        self.output_size = filters * len(kernel_sizes)
        self.halo = 3 * (max(kernel_sizes) // 2)

    def forward(
        self, embedded: Tensor, mask: Tensor, memory: Memory = (), border: Memory = ()
    ) -> tuple[Tensor, Memory]:
        embedded = embedded * mask[..., None]
        return torch.cat([layer(embedded, mask) for layer in self.filters], dim=-1), memory


def check_padding(mask: Tensor) -> None:
    """Refuse padding that is not on the right: what reads word by word would take it for words."""
    if not torch.compiler.is_compiling() and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise ValueError(
            "`attention_mask` has padding before real tokens, but this model reads word by word. Pad on the right "
            '(`tokenizer.padding_side = "right"`).'
        )


def reverse_rows(rows: Tensor, mask: Tensor) -> Tensor:
    """Reverse each row of `[B, T, ...]` within its real length; padding stays at the end. Its own inverse.

    >>> reverse_rows(torch.tensor([[1, 2, 3, 0]]), torch.tensor([[True, True, True, False]]))
    tensor([[3, 2, 1, 0]])
    """
    check_padding(mask)
    positions = torch.arange(rows.shape[1], device=rows.device).expand(rows.shape[:2])
    index = torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)
    return torch.gather(rows, 1, index.reshape(*index.shape, *[1] * (rows.dim() - 2)).expand_as(rows))


class RecurrentEncoder(nn.Module):
    """A GRU or LSTM layer, in one direction or both.

    The two directions are separate layers: reversing rows is an order of magnitude faster on CPU than packing them.
    The memory is the forward direction's state. For a document of several windows `border` is the backward direction's
    state at the window's right end, from `backward_borders`; without it a window's end is taken for the document's.
    """

    halo = 0

    def __init__(self, cell: str, input_size: int, hidden_size: int, bidirectional: bool):
        super().__init__()
        layer = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
        self.forward_layer = layer(input_size, hidden_size, batch_first=True)
        self.backward_layer = layer(input_size, hidden_size, batch_first=True) if bidirectional else None
        self.output_size = hidden_size * (2 if bidirectional else 1)
        self.state_tensors = 2 if cell == "lstm" else 1

    def forward(
        self, embedded: Tensor, mask: Tensor, memory: Memory = (), border: Memory = ()
    ) -> tuple[Tensor, Memory]:
        check_padding(mask)
        hidden, state = self.forward_layer(embedded, self._pack(memory))
        if self.backward_layer is not None:
            backward, _ = self.backward_layer(reverse_rows(embedded, mask), self._pack(border))
            hidden = torch.cat([hidden, reverse_rows(backward, mask)], dim=-1)
        return hidden, state if isinstance(state, tuple) else (state,)

    @torch.no_grad()
    def backward_borders(self, windows: Iterable[tuple[Tensor, Tensor]]) -> list[Memory]:
        """The backward direction's state at the right end of each window.

        Args:
            windows: (embedded, mask) of the windows, the document's last one first.
        """
        border: Memory = ()
        borders = []
        for embedded, mask in windows:
            borders.append(border)
            border = self._read_backward(embedded, mask, border)
        return borders[::-1]

    def _read_backward(self, embedded: Tensor, mask: Tensor, border: Memory) -> Memory:
        reversed_words = reverse_rows(embedded, mask)
        if mask.all():
            state = self.backward_layer(reversed_words, self._pack(border))[1]
        else:  # the documents that end here: packing stops each at its last real word
            lengths = mask.sum(1)
            packed = pack_padded_sequence(
                reversed_words, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
            )
            state = self.backward_layer(packed, self._pack(border))[1]
        state = state if isinstance(state, tuple) else (state,)
        return tuple(t * mask.any(1)[None, :, None] for t in state)

    def _pack(self, memory: Memory):
        if not memory:
            return None
        return tuple(memory) if self.state_tensors == 2 else memory[0]


class HashedBagFunction(torch.autograd.Function):
    """Sum of table rows per document; the gradient of the table is sparse, coalesced and as small as the batch."""

    @staticmethod
    def forward(ctx, table: Tensor, rows: Tensor, counts: Tensor) -> Tensor:
        ctx.save_for_backward(rows, counts)
        ctx.table_shape = table.shape
        return F.embedding_bag(rows, table, counts.cumsum(0) - counts, mode="sum")

    @staticmethod
    def backward(ctx, grad: Tensor):
        rows, counts = ctx.saved_tensors
        documents = torch.arange(len(counts), device=rows.device).repeat_interleave(counts)
        ordered, order = rows.sort()
        unique, repeats = ordered.unique_consecutive(return_counts=True)
        # The gradient of a row is the sum over the documents it stands in: a bag of rows of `grad`.
        values = F.embedding_bag(documents[order], grad.contiguous(), repeats.cumsum(0) - repeats, mode="sum")
        shape = ctx.table_shape
        sparse = torch.sparse_coo_tensor(unique[None], values, shape, is_coalesced=True, check_invariants=False)
        return sparse, None, None


class HashedNgramBag(nn.Module):
    """fastText's document: the mean vector of its hashed word n-grams (Joulin et al. 2017).

    The first `vocab_size` rows of the table are the words themselves, the other `buckets` rows are shared by the
    longer n-grams. Cost per document does not depend on the size of the table.
    """

    sparse_gradients = True

    def __init__(self, vocab_size: int, buckets: int, embedding_size: int, max_ngram: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocab_size + buckets, embedding_size))
        self.vocab_size, self.buckets, self.max_ngram = vocab_size, buckets, max_ngram
        self.output_size = embedding_size

    def reset_weights(self) -> None:
        """fastText's start: uniform within one over the dimension."""
        bound = 1.0 / self.table.shape[1]
        init.uniform_(self.table, -bound, bound)

    def forward(self, input_ids: Tensor, mask: Tensor, context: int = 0) -> tuple[Tensor, Tensor]:
        """Sum `[B, D]` and number `[B]` of the n-grams of each row that end after its first `context` words."""
        rows, fresh = [], []
        code, valid = input_ids, mask
        for n in range(self.max_ngram):
            if n:
                code = code[:, :-1] * 116049371 + input_ids[:, n:]
                valid = valid[:, :-1] & mask[:, n:]
            new = slice(max(0, context - n), None)
            rows.append(self.vocab_size + code[:, new] % self.buckets if n else code[:, new])
            fresh.append(valid[:, new])
        rows, fresh = torch.cat(rows, 1), torch.cat(fresh, 1)
        counts = fresh.sum(1)
        total = HashedBagFunction.apply(self.table, rows[fresh], counts)
        return total, counts.to(total.dtype)
