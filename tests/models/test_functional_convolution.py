"""Convolution and maximum equal their plain forms, forward and backward."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hf_labelattn.models import functional_convolution as kernels
from hf_labelattn.models.functional_convolution import part_maxima, same_convolution


def plain_convolution(convolution, hidden):
    width = convolution.kernel_size[0]
    return convolution(F.pad(hidden.transpose(1, 2), ((width - 1) // 2, width // 2))).transpose(1, 2)


def plain_maxima(hidden, part, parts):
    chosen = [hidden.masked_fill((part != p)[..., None], -torch.inf).amax(1) for p in range(parts)]
    return torch.stack(chosen, 1)


def gradients(convolve, maxima, hidden, part, parts, width):
    torch.manual_seed(1)
    convolution = nn.Conv1d(3, 6, width).double()
    hidden = hidden.clone().requires_grad_()
    best = maxima(torch.tanh(convolve(convolution, hidden)), part, parts)
    best = best.masked_fill(best == -torch.inf, 0.0)
    found = torch.autograd.grad(best.square().sum(), [hidden, *convolution.parameters()])
    return [best.detach(), *found]


PART = torch.tensor([[0] * 9 + [1] * 11, [0] * 4 + [1] * 5 + [-1] * 11, [-1] * 20])


@pytest.mark.parametrize("width", [1, 2, 3, 8])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0], ids=["plain backward", "as shipped", "single cells"])
def test_gradients_equal_those_of_the_plain_form(width, share, monkeypatch):
    monkeypatch.setattr(kernels, "SPARSE_SHARE", share)
    hidden = torch.randn(3, 20, 3, dtype=torch.float64)
    ours = gradients(same_convolution, part_maxima, hidden, PART, 2, width)
    for mine, plain in zip(ours, gradients(plain_convolution, plain_maxima, hidden, PART, 2, width), strict=True):
        torch.testing.assert_close(mine, plain)


def test_gradients_are_those_of_finite_differences():
    text = torch.randn(2, 3, 9, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.randn(4, 3, 3).double().requires_grad_(), torch.randn(4).double().requires_grad_()
    part = torch.tensor([[0] * 7, [0] * 4 + [-1] * 3])

    def pooled(*tensors):
        return part_maxima(kernels._Convolution.apply(*tensors).transpose(1, 2), part, 1)

    assert torch.autograd.gradcheck(pooled, (text, weight, bias))


def test_maxima_without_gradients_are_the_same():
    hidden = torch.randn(3, 20, 5)
    for parts in (1, 2):
        part = PART.clamp(max=parts - 1)
        trained = part_maxima(hidden.clone().requires_grad_(), part, parts)
        torch.testing.assert_close(part_maxima(hidden, part, parts), trained)


def test_a_pooled_convolution_visits_single_cells(monkeypatch):
    visited = []
    plain = kernels._cell_gradients
    monkeypatch.setattr(kernels, "_cell_gradients", lambda *a: visited.append(len(a[0])) or plain(*a))
    convolution, hidden = nn.Conv1d(3, 6, 3), torch.randn(2, 40, 3, requires_grad=True)
    part_maxima(same_convolution(convolution, hidden), torch.zeros(2, 40, dtype=torch.long), 1).sum().backward()
    assert visited == [2 * 6]
    same_convolution(convolution, hidden).sum().backward()
    assert visited == [2 * 6]
