"""Sparse relevance of tokens to labels, and the distinct tokens of a batch it is looked up for."""

from typing import NamedTuple

import torch
from torch import Tensor


class TokenIndex(NamedTuple):
    """The distinct tokens of a batch and where each of them stands.

    Attributes:
        unique: [U] distinct ids of the real tokens, ascending.
        columns: [B, T] the place of every token in `unique`; U for padding.
    """

    unique: Tensor
    columns: Tensor


def index_tokens(token_ids: Tensor, mask: Tensor) -> TokenIndex:
    """Find the distinct real tokens of a batch.

    >>> index_tokens(torch.tensor([[7, 3, 7, 0]]), torch.tensor([[1, 1, 1, 0]]))
    TokenIndex(unique=tensor([3, 7]), columns=tensor([[1, 0, 1, 2]]))
    """
    mask = mask.bool()
    unique, places = torch.unique(token_ids[mask], return_inverse=True)
    columns = torch.full_like(token_ids, len(unique), dtype=torch.int64)
    columns[mask] = places
    return TokenIndex(unique, columns)


class StaticRelevance(NamedTuple):
    """The relevance `g` of tokens to labels, sparse, one row per label.

    Attributes:
        indptr: [L + 1] int64, where each label's entries begin.
        token_ids: [nnz] the tokens.
        values: [nnz] their relevance, not negative.
        vocab_size: Size of the vocabulary `token_ids` and the batch are drawn from.
    """

    indptr: Tensor
    token_ids: Tensor
    values: Tensor
    vocab_size: int

    def select(self, label_ids: Tensor) -> "StaticRelevance":
        """Return the rows of some labels, in the order given."""
        starts, lengths = self.indptr[label_ids], self.indptr.diff()[label_ids]
        indptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        within = torch.arange(int(indptr[-1]), device=indptr.device) - indptr[:-1].repeat_interleave(lengths)
        entries = starts.repeat_interleave(lengths) + within
        return StaticRelevance(indptr, self.token_ids[entries], self.values[entries], self.vocab_size)


def relevance_table(relevance: StaticRelevance, rows: slice, column_of_token: Tensor, width: int) -> Tensor:
    """Spread sparse rows over some tokens.

    Args:
        relevance: The sparse rows.
        rows: Which labels.
        column_of_token: [V] the column of every token; `width` for the tokens that are not wanted.
        width: Number of columns.

    Returns:
        [l, width + 1]; the last column is zero.
    """
    indptr = relevance.indptr[rows.start : rows.stop + 1]
    first, last = int(indptr[0]), int(indptr[-1])
    starts = torch.arange(0, (len(indptr) - 1) * (width + 1), width + 1, device=indptr.device)
    places = column_of_token[relevance.token_ids[first:last]] + starts.repeat_interleave(indptr.diff())
    table = torch.zeros(len(starts), width + 1, dtype=relevance.values.dtype, device=indptr.device)
    table.view(-1).scatter_(0, places, relevance.values[first:last])
    table[:, -1] = 0
    return table


class TokenPlaces(NamedTuple):
    """Where each distinct token of a batch stands.

    Attributes:
        order: [B * T] positions, those of one token next to each other.
        first: [U] where a token's positions begin in `order`.
        count: [U] how many it has.
    """

    order: Tensor
    first: Tensor
    count: Tensor


def token_places(index: TokenIndex) -> TokenPlaces:
    """Find the positions of each distinct token.

    >>> token_places(TokenIndex(torch.tensor([3, 7]), torch.tensor([[1, 0, 1, 2]])))
    TokenPlaces(order=tensor([1, 0, 2, 3]), first=tensor([0, 1]), count=tensor([1, 2]))
    """
    flat = index.columns.flatten()
    count = torch.bincount(flat, minlength=len(index.unique) + 1)
    first = count.cumsum(0) - count
    return TokenPlaces(flat.argsort(stable=True), first[: len(index.unique)], count[: len(index.unique)])


class RelevanceCells(NamedTuple):
    """Places of a batch where some labels have any relevance.

    Attributes:
        label: [n] the label, counted from the first of the rows asked for.
        position: [n] the place in the flattened batch.
        value: [n] the relevance.
    """

    label: Tensor
    position: Tensor
    value: Tensor


def relevance_cells(
    relevance: StaticRelevance, rows: slice, column_of_token: Tensor, places: TokenPlaces
) -> RelevanceCells:
    """Spread sparse rows over the places of a batch, without the places where there is none.

    >>> rows = StaticRelevance(torch.tensor([0, 2]), torch.tensor([3, 9]), torch.tensor([0.5, 0.25]), vocab_size=10)
    >>> index = index_tokens(torch.tensor([[7, 3, 3]]), torch.ones(1, 3))
    >>> relevance_cells(rows, slice(0, 1), columns_of_tokens(index.unique, 10), token_places(index)).position
    tensor([1, 2])
    """
    indptr = relevance.indptr[rows.start : rows.stop + 1]
    first, last = int(indptr[0]), int(indptr[-1])
    column = column_of_token.index_select(0, relevance.token_ids[first:last])
    present = (column < len(places.count)).nonzero()[:, 0]
    label = torch.searchsorted(indptr[1:], present + first, right=True)
    column = column[present]
    count = places.count[column]
    entry = torch.arange(len(present), device=count.device).repeat_interleave(count)
    within = torch.arange(len(entry), device=count.device) - (count.cumsum(0) - count)[entry]
    position = places.order[places.first[column][entry] + within]
    return RelevanceCells(label[entry], position, relevance.values[first:last][present][entry])


def columns_of_tokens(token_ids: Tensor, vocab_size: int) -> Tensor:
    """Where each token of the vocabulary stands in a list of distinct tokens; the length of the list if nowhere.

    >>> columns_of_tokens(torch.tensor([3, 1]), 5)
    tensor([2, 1, 2, 0, 2])
    """
    columns = torch.full((vocab_size,), len(token_ids), device=token_ids.device)
    columns[token_ids] = torch.arange(len(token_ids), device=token_ids.device)
    return columns
