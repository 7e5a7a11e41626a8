"""Pure kernels shared by the models. Softmax is computed in float32; padding is masked before it."""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


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


class _LabelPool(torch.autograd.Function):
    """Label-wise attention pooling without storing labels × tokens: the backward pass computes the scores again."""

    @staticmethod
    def forward(ctx, keys, values, mask, queries, weight, memory_mb):
        chunks = label_chunks(len(queries), 12 * mask.numel(), memory_mb)
        parts = [_pool_chunk(keys, values, mask, queries[c], weight[c]) for c in chunks]
        highest, total, pooled = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        ctx.save_for_backward(keys, values, mask, queries, weight, highest)
        ctx.chunks = chunks
        ctx.mark_non_differentiable(highest)
        return highest, total, pooled

    @staticmethod
    def backward(ctx, _, grad_total, grad_pooled):
        keys, values, mask, queries, weight, highest = ctx.saved_tensors
        grads = [torch.zeros_like(t) for t in (keys, values, queries, weight)]
        for c in ctx.chunks:
            exponent = _shifted(label_scores(keys, mask, queries[c]), highest[:, c]).exp_()  # [B, l, T]
            score = (values @ weight[c].T).transpose(1, 2)  # [B, l, T]
            grad_score = (exponent * grad_pooled[:, c, None]).to(values.dtype)
            grad_exponent = (exponent * (grad_total[:, c, None] + grad_pooled[:, c, None] * score)).to(keys.dtype)
            grads[0] += grad_exponent.transpose(1, 2) @ queries[c]
            grads[1] += grad_score.transpose(1, 2) @ weight[c]
            grads[2][c] = torch.einsum("blt,bth->lh", grad_exponent, keys)
            grads[3][c] = torch.einsum("blt,bth->lh", grad_score, values)
        return grads[0], grads[1], None, grads[2], grads[3], None


def _shifted(scores: Tensor, highest: Tensor) -> Tensor:
    """Scores relative to their maximum; a row of padding only stays at minus infinity instead of NaN."""
    return scores.sub_(highest.clamp(min=torch.finfo(scores.dtype).min)[..., None])


def _pool_chunk(keys: Tensor, values: Tensor, mask: Tensor, queries: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    scores = label_scores(keys, mask, queries)
    highest = scores.amax(2)
    exponent = _shifted(scores, highest).exp_()
    pooled = (exponent * (values @ weight.T).transpose(1, 2)).sum(2)
    return highest, exponent.sum(2), pooled


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
    return _LabelPool.apply(keys, values, mask, queries, weight, memory_mb)


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
