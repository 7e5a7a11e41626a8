"""Convolution followed by a maximum over tokens, trained at the cost of its forward pass (Kim 2014; XML-CNN).

Of all tokens only the winner of each filter receives a gradient. The maximum therefore keeps the winners' places
instead of a mask, and the convolution's backward pass visits only the cells whose gradient is not zero: as many as
documents × filters, where the plain one multiplies matrices of documents × tokens × filters.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Above this share of cells with a gradient, the plain backward pass is the faster one.
SPARSE_SHARE = 0.1


def same_convolution(convolution: nn.Conv1d, hidden: Tensor) -> Tensor:
    """Convolve `[B, T, C]` with zero padding so that T stays the same, for odd and even widths.

    >>> convolution = nn.Conv1d(1, 1, 2, bias=False)
    >>> _ = nn.init.ones_(convolution.weight)
    >>> same_convolution(convolution, torch.tensor([[[1.0], [2.0], [4.0]]])).flatten().tolist()
    [3.0, 6.0, 4.0]
    """
    width = convolution.kernel_size[0]
    padded = F.pad(hidden.transpose(1, 2), ((width - 1) // 2, width // 2))
    if _may_skip_cells(padded, convolution.weight):
        return _Convolution.apply(padded, convolution.weight, convolution.bias).transpose(1, 2)
    return convolution(padded).transpose(1, 2)


def _may_skip_cells(padded: Tensor, weight: Tensor) -> bool:
    on_cpu = padded.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and padded.dtype == weight.dtype
    return on_cpu and torch.is_grad_enabled() and weight.requires_grad and not torch.compiler.is_compiling()


class _Convolution(torch.autograd.Function):
    """`conv1d` whose backward pass skips cells without a gradient when they are the rule."""

    @staticmethod
    def forward(ctx, padded, weight, bias):
        ctx.save_for_backward(padded, weight)
        ctx.has_bias = bias is not None
        return F.conv1d(padded, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        padded, weight = ctx.saved_tensors
        rows = grad.transpose(1, 2)  # [B, T, F]
        cells = rows.nonzero(as_tuple=True) if _is_sparse(rows) else None
        if cells is not None:
            found = _cell_gradients(rows[cells], cells, padded, weight)
        else:
            wanted = (*ctx.needs_input_grad[:2], False)
            found = torch.ops.aten.convolution_backward(
                grad.contiguous(), padded, weight, None, [1], [0], [1], False, [0], 1, wanted
            )[:2]
        return *found, grad.sum((0, 2)) if ctx.has_bias else None


def _is_sparse(grad: Tensor) -> bool:
    """Whether few cells have a gradient, judged by the first document."""
    first = grad[0]
    return bool(first.count_nonzero() <= SPARSE_SHARE * first.numel()) and (
        len(grad) == 1 or bool(grad.count_nonzero() <= SPARSE_SHARE * grad.numel())
    )


def _cell_gradients(
    values: Tensor, cells: tuple[Tensor, ...], padded: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of input and weight from single cells (document, token, filter) of the output."""
    document, token, unit = cells
    filters, size, width = weight.shape
    text = padded.transpose(1, 2).contiguous()  # [B, T + k - 1, C]
    windows = text.as_strided((*text.shape[:1], text.shape[1] - width + 1, width * size), (*text.stride()[:2], 1))
    taps = weight.transpose(1, 2).flatten(1)  # [F, k * C]
    of_taps = torch.zeros_like(taps).index_add_(0, unit, windows[document, token] * values[:, None])
    of_text = torch.zeros_like(text)
    start = document * text.shape[1] + token
    moved = (taps[unit] * values[:, None]).view(-1, width, size)
    of_text.view(-1, size).index_add_(0, (start[:, None] + torch.arange(width)).flatten(), moved.flatten(0, 1))
    return of_text.transpose(1, 2), of_taps.view(filters, width, size).transpose(1, 2)


class _PartMaxima(torch.autograd.Function):
    """The maximum of each feature over each part of a document; the gradient goes to the first that reaches it."""

    @staticmethod
    def forward(ctx, hidden, part, parts):
        batch, _, size = hidden.shape
        best = hidden.new_full((batch, parts, size), -torch.inf)
        place = torch.full((batch, parts, size), -1, dtype=torch.long, device=hidden.device)
        for row, which in enumerate(part.tolist()):
            for number, (start, stop) in _stretches(which):
                best[row, number], place[row, number] = hidden[row, start:stop].max(0)
                place[row, number] += start
        ctx.save_for_backward(place)
        ctx.shape = hidden.shape
        return best

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        found = grad.new_zeros(ctx.shape)
        return found.scatter_add_(1, place.clamp_min(0), grad * (place >= 0)), None, None


def _stretches(which: list[int]) -> list[tuple[int, tuple[int, int]]]:
    """Where each part stands among the tokens; -1 belongs to none.

    >>> _stretches([0, 0, 1, -1])
    [(0, (0, 2)), (1, (2, 3))]
    """
    borders = [i for i in range(len(which)) if i == 0 or which[i] != which[i - 1]] + [len(which)]
    spans = zip(borders[:-1], borders[1:], strict=True)
    return [(which[start], (start, stop)) for start, stop in spans if which[start] >= 0]


def part_maxima(hidden: Tensor, part: Tensor, parts: int) -> Tensor:
    """The maximum of each feature over each part of a document.

    Args:
        hidden: `[B, T, H]`.
        part: `[B, T]` which part a token belongs to, each part in one stretch; -1 for none.
        parts: How many there are.

    Returns:
        `[B, parts, H]`; minus infinity for a part without tokens.

    >>> part_maxima(torch.tensor([[[1.0], [3.0], [2.0]]]), torch.tensor([[0, 0, -1]]), 2).flatten().tolist()
    [3.0, -inf]
    """
    trained = hidden.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    if trained and hidden.device.type == "cpu":
        return _PartMaxima.apply(hidden, part, parts)
    if parts == 1:
        return hidden.masked_fill((part != 0)[..., None], -torch.inf).amax(1, keepdim=True)
    start = hidden.new_full((hidden.shape[0], parts, hidden.shape[2]), -torch.inf)
    index = part.clamp_min(0)[..., None].expand_as(hidden)
    return start.scatter_reduce(1, index, hidden.masked_fill((part < 0)[..., None], -torch.inf), "amax")
