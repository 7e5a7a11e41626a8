"""Pair scores of the two-layer network without the concatenation, against the concatenation."""

import pytest
import torch
from torch import nn

from hf_labelattn.models import functional_pairs
from hf_labelattn.models.functional_pairs import pair_gradients, pair_scores, sparse_pair_gradients


def halves(labels=7, tokens=9, width=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*shape, generator=draw, dtype=torch.float64)
        for shape in ((labels, width), (tokens, width), (width,))
    ]


def literal_scores(label, token, output):
    return torch.stack([torch.stack([torch.relu(a + b) @ output for b in token]) for a in label])


def test_split_first_layer_equals_the_network_on_concatenated_embeddings():
    torch.manual_seed(0)
    first, second = nn.Linear(8, 5).double(), nn.Linear(5, 1, bias=False).double()
    labels, tokens = torch.randn(3, 4).double(), torch.randn(6, 4).double()
    pairs = torch.cat([labels[:, None].expand(-1, 6, -1), tokens[None].expand(3, -1, -1)], -1)
    expected = second(torch.relu(first(pairs)))[..., 0]
    found = pair_scores(labels @ first.weight[:, :4].T, tokens @ first.weight[:, 4:].T + first.bias, second.weight[0])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("block", [1, 64, 2**19])
def test_scores_and_gradients_do_not_depend_on_the_block(block, monkeypatch):
    monkeypatch.setattr(functional_pairs, "CPU_BLOCK", block)
    inputs = [x.requires_grad_() for x in halves()]
    found, expected = pair_scores(*inputs), literal_scores(*inputs)
    torch.testing.assert_close(found, expected)
    towards = torch.linspace(-1, 1, found.numel()).double().view_as(found)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, towards), torch.autograd.grad(expected, inputs, towards)
    )


@pytest.mark.parametrize("scorer", ["mlp", "dot"])
def test_sparse_gradients_equal_dense_ones(scorer):
    label, token, output = halves()
    output = output if scorer == "mlp" else None
    grad = torch.linspace(-1, 1, 63).double().view(7, 9) * (torch.arange(63).view(7, 9) % 4 == 0)
    torch.testing.assert_close(
        sparse_pair_gradients(label, token, output, grad), pair_gradients(label, token, output, grad)
    )


def test_no_tokens_give_no_scores():
    label, token, output = halves(tokens=0)
    assert pair_scores(label, token, output).shape == (7, 0)


def test_without_a_compiler_the_plain_kernel_serves_and_says_so_once(monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: broken)
    functional_pairs._scores_compiled.cache_clear()
    label, token, output = torch.randn(3, 4), torch.randn(5, 4), torch.randn(4)
    try:
        found = [functional_pairs.pair_scores(label, token, output, compiled=True) for _ in range(2)]
    finally:
        functional_pairs._scores_compiled.cache_clear()
    torch.testing.assert_close(found, [functional_pairs.pair_scores(label, token, output)] * 2)
    assert sum("torch.compile does not work here" in message for message in caplog.messages) == 1
