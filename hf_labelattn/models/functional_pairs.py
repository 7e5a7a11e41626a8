"""Scores of every (label, token) pair by a two-layer network, without a tensor of labels x tokens x hidden.

The first layer of `f(e_l, e_t) = w2 . relu(W1 [e_l; e_t] + b1)` splits into a label half `a = W1l e_l` and a token
half `b = W1t e_t + b1`, each computed once. A pair then costs one pass over the hidden units. Two identities help:

    w2 . relu(a + b) = w2 . max(a, -b) + w2 . b                    (one pass less than add and relu)
    sum_lt g relu(a + b) = sum_l a M + sum_t b N                   (the gradient of w2 from those of a and b)

with `M_l = sum_t g_lt [a_l + b_t > 0]` and `N_t = sum_l g_lt [a_l + b_t > 0]`.
"""

import logging
from functools import cache

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

# One block of pairs stays small enough for the processor cache; accelerators want far larger ones.
CPU_BLOCK = 2**19
ACCELERATOR_BLOCK = 2**25


def pair_scores(label: Tensor, token: Tensor, output: Tensor | None = None, compiled: bool = False) -> Tensor:
    """Score every label against every token; gradients reach all three.

    Args:
        label: [l, R] label half of the first layer.
        token: [t, R] token half of the first layer, bias included.
        output: [R] second layer; None scores by the dot product.
        compiled: Use the `torch.compile`d kernel.

    Returns:
        [l, t] scores.

    >>> pair_scores(torch.tensor([[1.0, -2.0]]), torch.tensor([[1.0, 1.0], [0.0, 3.0]]), torch.tensor([1.0, 10.0]))
    tensor([[ 2., 11.]])
    """
    if output is None:
        return label @ token.T
    return _PairScores.apply(label, token, output, compiled)


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, label, token, output, compiled):
        ctx.save_for_backward(label, token, output)
        return (_scores_compiled() if compiled else _scores_blocked)(label, token, output)

    @staticmethod
    def backward(ctx, grad):
        return *pair_gradients(*ctx.saved_tensors, grad), None


def _scores_fused(label: Tensor, token: Tensor, output: Tensor) -> Tensor:
    return ((label[:, None] + token[None]).relu() * output).sum(-1)


@cache
def _scores_compiled():
    """The compiled kernel, made and tried once; the plain one where this machine cannot compile, which is said."""
    compiled = torch.compile(_scores_fused, dynamic=True)
    try:
        compiled(torch.zeros(3, 4), torch.zeros(5, 4), torch.zeros(4))
    except Exception as error:  # whatever a missing or broken compiler raises
        reason = type(error).__name__
        logger.warning(
            "torch.compile does not work here (%s): pair scores use the plain kernel, slower, equal", reason
        )
        return _scores_blocked
    return compiled


def _scores_blocked(label: Tensor, token: Tensor, output: Tensor) -> Tensor:
    scores = label.new_empty(len(label), len(token))
    labels, tokens = _blocks(label, token)
    halves = list(zip(range(0, len(token), tokens), (-token).split(tokens), strict=False))
    buffer = label.new_empty(min(labels, len(label)) * min(tokens, len(token)), label.shape[1])
    for target, half in zip(scores.split(labels), label[:, None].split(labels), strict=True):
        for place, other in halves:
            cells = buffer[: len(half) * len(other)]
            torch.maximum(half, other, out=cells.view(len(half), *other.shape))
            target[:, place : place + len(other)] = torch.mv(cells, output).view(len(half), -1)
    return scores.add_(torch.mv(token, output))


def _blocks(label: Tensor, token: Tensor) -> tuple[int, int]:
    """Choose how many labels and how many tokens make one block."""
    cells = (CPU_BLOCK if label.device.type == "cpu" else ACCELERATOR_BLOCK) // max(label.shape[1], 1)
    tokens = max(1, min(len(token), 64 if label.device.type == "cpu" else 4096))
    return max(1, cells // tokens), tokens


def pair_gradients(
    label: Tensor, token: Tensor, output: Tensor | None, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of the pair scores from those of every pair.

    Args:
        label: [l, R] as in `pair_scores`.
        token: [t, R] as in `pair_scores`.
        output: [R] or None, as in `pair_scores`.
        grad: [l, t] gradient of the scores.

    Returns:
        The gradients of `label`, `token` and `output`.
    """
    if output is None:
        return grad @ token, grad.T @ label, None
    by_label, by_token = torch.zeros_like(label), torch.zeros_like(token)
    labels, tokens = _blocks(label, token)
    buffer = label.new_empty(min(labels, len(label)) * min(tokens, len(token)), label.shape[1])
    for i in range(0, len(label), labels):
        half = label[i : i + labels, None]
        for j in range(0, len(token), tokens):
            other = token[j : j + tokens]
            cells = buffer[: len(half) * len(other)].view(len(half), *other.shape)  # [l, t, R]
            torch.add(half, other, out=cells)
            _keep_positive(grad[i : i + labels, j : j + tokens, None], cells)
            by_label[i : i + labels] += cells.sum(1)
            by_token[j : j + tokens] += cells.sum(0)
    return _from_active(label, token, output, by_label, by_token)


def sparse_pair_gradients(
    label: Tensor, token: Tensor, output: Tensor | None, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The same as `pair_gradients` where most of `grad` is zero: only the pairs that are not cost anything."""
    if output is None:
        return pair_gradients(label, token, None, grad)
    by_label, by_token = torch.zeros_like(label), torch.zeros_like(token)
    rows, columns = grad.nonzero(as_tuple=True)
    values = grad[rows, columns]
    size = max(1, (CPU_BLOCK if label.device.type == "cpu" else ACCELERATOR_BLOCK) // max(label.shape[1], 1))
    for row, column, value in zip(rows.split(size), columns.split(size), values.split(size), strict=True):
        cells = token.index_select(0, column).add_(label.index_select(0, row))  # [pairs, R]
        _keep_positive(value[:, None], cells)
        by_label.index_add_(0, row, cells)
        by_token.index_add_(0, column, cells)
    return _from_active(label, token, output, by_label, by_token)


def _keep_positive(values: Tensor, cells: Tensor) -> None:
    # The gradient of relu in one pass and in place: `values` where `cells` is above zero, else zero.
    torch.ops.aten.threshold_backward.grad_input(values.expand_as(cells), cells, 0, grad_input=cells)


def _from_active(label, token, output, by_label, by_token):
    by_output = (label * by_label).sum(0) + (token * by_token).sum(0)
    return by_label * output, by_token * output, by_output
