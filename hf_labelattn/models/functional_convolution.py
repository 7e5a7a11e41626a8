"""Convolution over words, and convolution followed by a maximum over them (Kim 2014; XML-CNN).

Of all tokens only the winner of each filter receives a gradient, and of all hidden states only its own is needed. So
the two are one kernel: some documents' windows of words times the filters, the best of each filter and its place, and
nothing else is kept. The backward pass visits documents × filters cells, where the plain one multiplies matrices of
documents × tokens × filters; the product of copied windows takes half the time of `conv1d` at these sizes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Words whose windows are laid out at once, and numbers of winning windows: what stays near the processor.
WORDS_AT_ONCE, CELLS_AT_ONCE = 1024, 2**20


def same_convolution(convolution: nn.Conv1d, hidden: Tensor) -> Tensor:
    """Convolve `[B, T, C]` with zero padding so that T stays the same, for odd and even widths.

    >>> convolution = nn.Conv1d(1, 1, 2, bias=False)
    >>> _ = nn.init.ones_(convolution.weight)
    >>> same_convolution(convolution, torch.tensor([[[1.0], [2.0], [4.0]]])).flatten().tolist()
    [3.0, 6.0, 4.0]
    """
    return convolution(F.pad(hidden.transpose(1, 2), _sides(convolution.kernel_size[0]))).transpose(1, 2)


def _sides(width: int) -> tuple[int, int]:
    """Zeros before and behind a text."""
    return (width - 1) // 2, width // 2


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
    if parts == 1:
        return hidden.masked_fill((part != 0)[..., None], -torch.inf).amax(1, keepdim=True)
    start = hidden.new_full((hidden.shape[0], parts, hidden.shape[2]), -torch.inf)
    index = part.clamp_min(0)[..., None].expand_as(hidden)
    return start.scatter_reduce(1, index, hidden.masked_fill((part < 0)[..., None], -torch.inf), "amax")


def convolution_maxima(convolution: nn.Conv1d, hidden: Tensor, part: Tensor, parts: int) -> Tensor:
    """`part_maxima` of `same_convolution`, without the hidden states between them.

    Args:
        convolution: The filters.
        hidden: `[B, T, C]` words, zero at padding.
        part: `[B, T]` as in `part_maxima`.
        parts: How many there are.

    Returns:
        `[B, parts, F]`; minus infinity for a part without tokens.
    """
    plain = hidden.device.type != "cpu" or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()
    if plain or hidden.dtype != convolution.weight.dtype or hidden.dtype not in (torch.float32, torch.float64):
        return part_maxima(same_convolution(convolution, hidden), part, parts)
    best = _ConvolutionMaxima.apply(hidden, part, parts, convolution.weight)
    return best if convolution.bias is None else best + convolution.bias


class _ConvolutionMaxima(torch.autograd.Function):
    """The best window of each filter in each part of a document, and gradients of the best only."""

    @staticmethod
    def forward(ctx, hidden, part, parts, weight):
        filters, _, width = weight.shape
        text = F.pad(hidden, (0, 0, *_sides(width))).contiguous()
        best = hidden.new_full((len(hidden), parts, filters), -torch.inf)
        place = torch.full(best.shape, -1)
        taps, which, row = _taps(weight).T, part.tolist(), 0
        for windows in _windows(text, width).split(max(1, WORDS_AT_ONCE // max(1, part.shape[1]))):
            found = (windows.flatten(0, 1) @ taps).view(*windows.shape[:2], filters)
            for states in found:
                for number, (start, stop) in _stretches(which[row]):
                    best[row, number], place[row, number] = states[start:stop].max(0)
                    place[row, number] += start
                row += 1
        ctx.save_for_backward(text, weight, place)
        return best

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        text, weight, place = ctx.saved_tensors
        filters, size, width = weight.shape
        taps, windows = _taps(weight), _windows(text, width)
        of_taps, of_text = torch.zeros_like(taps), torch.zeros_like(text) if ctx.needs_input_grad[0] else None
        documents = torch.arange(len(text)).repeat_interleave(place.shape[1])
        grad = (grad * (place >= 0)).flatten(0, 1)  # [B * parts, F]
        lists = documents, place.clamp_min(0).flatten(0, 1), grad
        rows = max(1, CELLS_AT_ONCE // max(1, taps.numel()))
        for document, winner, value in zip(*(x.split(rows) for x in lists), strict=True):
            of_taps += torch.bmm(value.T[:, None], windows[document, winner.T])[:, 0]
            if of_text is not None:
                words = (document[:, None] * text.shape[1] + winner)[..., None] + torch.arange(width)
                moved = (taps * value[..., None]).view(-1, size)
                of_text.view(-1, size).index_add_(0, words.flatten(), moved)
        if of_text is not None:
            before = _sides(width)[0]
            of_text = of_text[:, before : before + text.shape[1] - width + 1]
        return of_text, None, None, of_taps.view(filters, width, size).transpose(1, 2)


def _taps(weight: Tensor) -> Tensor:
    """Filters `[F, C, k]` as rows `[F, k * C]`, in the order in which a window of words lies in memory."""
    return weight.transpose(1, 2).flatten(1)


def _windows(text: Tensor, width: int) -> Tensor:
    """The windows `[B, T, k * C]` of a contiguous padded text `[B, T + k - 1, C]`, without copying them."""
    batch, length, size = text.shape
    return text.as_strided((batch, length - width + 1, width * size), (length * size, size, 1))


def _stretches(which: list[int]) -> list[tuple[int, tuple[int, int]]]:
    """Where each part stands among the tokens; -1 belongs to none.

    >>> _stretches([0, 0, 1, -1])
    [(0, (0, 2)), (1, (2, 3))]
    """
    borders = [i for i in range(len(which)) if i == 0 or which[i] != which[i - 1]] + [len(which)]
    spans = zip(borders[:-1], borders[1:], strict=True)
    return [(which[start], (start, stop)) for start, stop in spans if which[start] >= 0]
