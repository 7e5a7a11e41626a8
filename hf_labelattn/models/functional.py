"""Pure kernels shared by the models. Softmax is computed in float32; padding is masked before it."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# Labels × tokens that one block of `label_pool` holds, and tokens of it: larger ones leave the processor's cache.
CELLS_IN_CACHE, TOKENS_IN_CACHE = 2**19, 1024
# Labels of a block even where a document is too long for that cache: thinner products read it once for each of them.
FEWEST_LABELS = 16
# What a cell takes in the backward pass, where it counts most: four arrays of four bytes.
BYTES_PER_CELL = 16


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the positions where `mask` is true; a row without any gets zeros instead of NaN.

    >>> masked_softmax(torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    scores = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(dim).masked_fill(~mask, 0.0)


def classification_loss(logits: Tensor, labels: Tensor, problem_type: str) -> Tensor:
    """Binary cross entropy over all labels, or cross entropy over classes, averaged over the batch.

    >>> classification_loss(torch.zeros(2, 3), torch.ones(2, 3), "multi_label_classification")
    tensor(0.6931)
    """
    if problem_type == "single_label_classification":
        return F.cross_entropy(logits.float(), labels.view(-1).long())
    if labels.shape != logits.shape:
        raise ValueError(
            f"`labels` has shape {tuple(labels.shape)}, but multi-label logits have {tuple(logits.shape)}. Pass a "
            "multi-hot float tensor, or set `problem_type='single_label_classification'` in the config."
        )
    return F.binary_cross_entropy_with_logits(logits.float(), labels.float())


def label_chunks(num_labels: int, bytes_per_label: int, max_memory_mb: int) -> list[slice]:
    """Cut the label axis into equal slices whose working memory fits the budget.

    >>> label_chunks(10, bytes_per_label=2**20, max_memory_mb=4)
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """
    size = max(1, min(num_labels, max_memory_mb * 2**20 // max(1, bytes_per_label)))
    return [slice(i, min(i + size, num_labels)) for i in range(0, num_labels, size)]


def label_scores(keys: Tensor, mask: Tensor, queries: Tensor) -> Tensor:
    """Attention scores `[B, L, T]` in float32; minus infinity at padding."""
    scores = (keys @ queries.T).transpose(1, 2).float()
    return scores.masked_fill(~mask[:, None], -torch.inf)


class _Block(NamedTuple):
    """Some labels of some documents, small enough to stay near the processor."""

    documents: slice
    width: int  # tokens of the longest of them
    labels: slice


def _pool_blocks(lengths: list[int], num_labels: int, cells: int, most: int = 0) -> list[_Block]:
    """Cut labels × documents into blocks of at most so many labels × tokens, neighbours together, empty ones nowhere.

    A few labels are taken together all the same, as long as a block has no more than `most` labels × tokens.

    >>> [(block.documents, block.width, block.labels) for block in _pool_blocks([3, 2, 900], 5, cells=3600)]
    [(slice(0, 2, None), 3, slice(0, 5, None)), (slice(2, 3, None), 900, slice(0, 4, None)), \
(slice(2, 3, None), 900, slice(4, 5, None))]
    """
    blocks, start = [], 0
    while start < len(lengths):
        stop, width = start + 1, lengths[start]
        while stop < len(lengths) and (stop + 1 - start) * max(width, lengths[stop]) <= TOKENS_IN_CACHE:
            stop, width = stop + 1, max(width, lengths[stop])
        area = max(1, (stop - start) * width)
        size = max(1, cells // area, min(FEWEST_LABELS, most // area))
        labels = [slice(i, min(i + size, num_labels)) for i in range(0, num_labels if width else 0, size)]
        blocks += [_Block(slice(start, stop), width, part) for part in labels]
        start = stop
    return blocks


def _read_lengths(mask: Tensor) -> list[int]:
    """Where each document ends; all of the width where values must not be looked at."""
    if torch.compiler.is_compiling() or mask.device.type != "cpu":
        return [mask.shape[1]] * len(mask)
    return (mask * torch.arange(1, mask.shape[1] + 1)).amax(1).tolist() if mask.numel() else [0] * len(mask)


class _LabelPool(torch.autograd.Function):
    """Label-wise attention pooling, block by block; exponents are kept for the backward pass only if they fit."""

    @staticmethod
    def forward(ctx, keys, values, mask, queries, weight, memory_mb, trained):
        budget = int(memory_mb * 2**20)
        cells = budget // BYTES_PER_CELL
        near = min(cells, CELLS_IN_CACHE) if mask.device.type == "cpu" else cells
        blocks = _pool_blocks(_read_lengths(mask), len(queries), near, cells)
        keep = trained and any(ctx.needs_input_grad) and 8 * len(queries) * mask.numel() <= budget
        shape, wide = (len(queries), len(mask)), torch.promote_types(keys.dtype, torch.float32)
        highest, total, pooled = (torch.zeros(shape, dtype=wide, device=keys.device) for _ in range(3))
        highest -= torch.inf
        ctx.kept = []
        for block in blocks:
            part = block.labels, block.documents
            scores = _block_scores(keys, mask, queries, block)
            highest[part] = scores.amax(2)
            exponent = _shifted(scores, highest[part]).exp_()
            value = _block_product(weight, values, block)
            total[part], pooled[part] = exponent.sum(2), (exponent * value).sum(2)
            ctx.kept += [(exponent, value)] if keep else []
        ctx.save_for_backward(keys, values, mask, queries, weight, highest)
        ctx.blocks = blocks
        ctx.mark_non_differentiable(highest)
        return highest, total, pooled

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, _, grad_total, grad_pooled):
        keys, values, mask, queries, weight, highest = ctx.saved_tensors
        grads = [torch.zeros_like(t) for t in (keys, values, queries, weight)]
        for number, block in enumerate(ctx.blocks):
            part = block.labels, block.documents
            if ctx.kept:
                exponent, value = ctx.kept[number]
            else:
                exponent = _shifted(_block_scores(keys, mask, queries, block), highest[part]).exp_()
                value = _block_product(weight, values, block)
            grad_value = exponent * grad_pooled[part][..., None]
            grad_score = (exponent * grad_total[part][..., None]).addcmul_(grad_value, value)
            _add_gradients(grad_score.to(keys.dtype), keys, queries, block, grads[0], grads[2])
            _add_gradients(grad_value.to(values.dtype), values, weight, block, grads[1], grads[3])
        return grads[0], grads[1], None, grads[2], grads[3], None, None


def _block_product(rows: Tensor, tokens: Tensor, block: _Block) -> Tensor:
    """One product for all documents of a block: `[L, H]`, `[B, T, H]` -> `[l, b, t]`, float32 or wider."""
    words = tokens[block.documents, : block.width]
    found = rows[block.labels] @ words.flatten(0, 1).T
    return found.view(-1, *words.shape[:2]).to(torch.promote_types(found.dtype, torch.float32))


def _block_scores(keys: Tensor, mask: Tensor, queries: Tensor, block: _Block) -> Tensor:
    """Attention scores `[l, b, t]`; minus infinity at padding."""
    scores, seen = _block_product(queries, keys, block), mask[block.documents, : block.width]
    return scores if seen.all() else scores.masked_fill_(~seen, -torch.inf)


def _add_gradients(grad: Tensor, tokens: Tensor, rows: Tensor, block: _Block, of_tokens: Tensor, of_rows: Tensor):
    """The gradients of `_block_product`, added where its inputs' gradients are gathered."""
    words, grad = tokens[block.documents, : block.width], grad.flatten(1)
    of_tokens[block.documents, : block.width] += (grad.T @ rows[block.labels]).view_as(words)
    of_rows[block.labels].addmm_(grad, words.flatten(0, 1))


def _shifted(scores: Tensor, highest: Tensor) -> Tensor:
    """Scores relative to their maximum; a row of padding only stays at minus infinity instead of NaN."""
    return scores.sub_(highest.clamp(min=torch.finfo(scores.dtype).min)[..., None])


def label_pool(
    keys: Tensor, values: Tensor, mask: Tensor, queries: Tensor, weight: Tensor, memory_mb: int = 256
) -> tuple[Tensor, Tensor, Tensor]:
    """Label-wise attention over one window, as the three numbers per label that merge exactly with other windows.

    Args:
        keys: `[B, T, K]` what attention scores are computed from.
        values: `[B, T, H]` what is averaged.
        mask: `[B, T]` real tokens.
        queries: `[L, K]` label queries.
        weight: `[L, H]` label weights that score the average.
        memory_mb: Budget for the scores; labels are taken in chunks that fit it.

    Returns:
        The highest score, the sum of exponents relative to it, and the sum of exponent × (value · weight), `[B, L]`
        each, float32. Third over second is the label's score.
    """
    queries, weight = queries.to(keys.dtype), weight.to(values.dtype)
    with torch.autocast(keys.device.type, enabled=False):
        # Inside the function gradients are always off, and its inputs ask for them even where nothing is trained.
        given = keys, values, mask, queries, weight, memory_mb, torch.is_grad_enabled()
        return tuple(part.T for part in _LabelPool.apply(*given))


def label_vectors(
    keys: Tensor, values: Tensor, mask: Tensor, queries: Tensor, memory_mb: int = 256
) -> tuple[Tensor, Tensor, Tensor]:
    """Label-wise attention over one window that keeps a vector per label; merges exactly with other windows.

    Args:
        keys: `[B, T, K]` what attention scores are computed from.
        values: `[B, T, H]` what is averaged.
        mask: `[B, T]` real tokens.
        queries: `[L, K]` label queries.
        memory_mb: Budget for the scores; in training, chunks of labels that fit it are computed again backward.

    Returns:
        The highest score and the sum of exponents relative to it, `[B, L]` in float32; the sum of exponent × value,
        `[B, L, H]`.
    """
    # While a graph is exported, the batch has no size yet.
    tokens = mask.shape[1] if torch.compiler.is_compiling() else mask.numel()
    chunks = label_chunks(len(queries), 12 * tokens, memory_mb)
    if len(chunks) == 1:
        return _vector_chunk(keys, values, mask, queries)
    again = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    parts = [
        checkpoint(_vector_chunk, keys, values, mask, queries[c], use_reentrant=False)
        if again
        else _vector_chunk(keys, values, mask, queries[c])
        for c in chunks
    ]
    return tuple(torch.cat(part, 1) for part in zip(*parts, strict=True))


def _vector_chunk(keys: Tensor, values: Tensor, mask: Tensor, queries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scores = label_scores(keys, mask, queries)  # [B, l, T]
    highest = scores.amax(2).detach()
    weights = (scores - highest.clamp(min=torch.finfo(scores.dtype).min)[..., None]).exp()
    return highest, weights.sum(2), weights.to(values.dtype) @ values


def merge_pools(first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Join the pools of two windows (the online softmax): exact, in any order.

    >>> empty = (torch.tensor([-torch.inf]), torch.zeros(1), torch.zeros(1))
    >>> [t.item() for t in merge_pools(empty, (torch.tensor([2.0]), torch.ones(1), torch.ones(1)))]
    [2.0, 1.0, 1.0]
    """
    highest = torch.maximum(first[0], second[0])
    floor = highest.clamp(min=torch.finfo(highest.dtype).min)
    scales = [(part[0] - floor).exp() for part in (first, second)]
    total = first[1] * scales[0] + second[1] * scales[1]
    wide = [s.reshape(*s.shape, *[1] * (first[2].dim() - s.dim())).to(first[2].dtype) for s in scales]
    return highest, total, first[2] * wide[0] + second[2] * wide[1]
