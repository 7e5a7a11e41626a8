"""Convolution and maximum equal their plain forms, forward and backward."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hf_labelattn.models import functional_convolution as kernels
from hf_labelattn.models.configuration_label_attention import LabelAttentionConfig
from hf_labelattn.models.functional_convolution import convolution_maxima, part_maxima
from hf_labelattn.models.modeling_label_attention import LabelAttentionForMultiLabel

PART = torch.tensor([[0] * 9 + [1] * 11, [0] * 4 + [1] * 5 + [-1] * 11, [-1] * 20, [-1] * 2 + [1] * 3 + [-1] * 15])


def plain_maxima(convolution, hidden, part, parts):
    width = convolution.kernel_size[0]
    states = convolution(F.pad(hidden.transpose(1, 2), ((width - 1) // 2, width // 2))).transpose(1, 2)
    return torch.stack([states.masked_fill((part != p)[..., None], -torch.inf).amax(1) for p in range(parts)], 1)


def gradients(maxima, width, parts, bias=True):
    torch.manual_seed(1)
    convolution = nn.Conv1d(3, 6, width, bias=bias).double()
    hidden = torch.randn(4, 20, 3, dtype=torch.float64, requires_grad=True)
    best = maxima(convolution, hidden, PART.clamp(max=parts - 1), parts)
    found = torch.autograd.grad(best.exp().square().sum(), [hidden, *convolution.parameters()])
    return [best.detach(), *found]


@pytest.mark.parametrize("width", [1, 2, 3, 8])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("at_once", [None, 1], ids=["all at once", "one by one"])
def test_gradients_equal_those_of_the_plain_form(width, parts, at_once, monkeypatch):
    if at_once:
        monkeypatch.setattr(kernels, "WORDS_AT_ONCE", at_once)
        monkeypatch.setattr(kernels, "CELLS_AT_ONCE", at_once)
    ours, plain = gradients(convolution_maxima, width, parts), gradients(plain_maxima, width, parts)
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs)
    for mine, theirs in zip(
        gradients(convolution_maxima, 3, 1, False), gradients(plain_maxima, 3, 1, False), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_gradients_are_those_of_finite_differences():
    text = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    convolution, part = nn.Conv1d(3, 4, 3).double(), torch.tensor([[0] * 7, [0] * 4 + [-1] * 3])

    def pooled(text, weight, bias):
        parameters = {"weight": weight, "bias": bias}
        for name, value in parameters.items():
            delattr(convolution, name)
            setattr(convolution, name, value)
        return convolution_maxima(convolution, text, part, 1)

    given = text, *(p.detach().requires_grad_() for p in convolution.parameters())
    assert torch.autograd.gradcheck(pooled, given)


def test_words_that_are_not_trained_get_no_gradient():
    convolution, hidden = nn.Conv1d(3, 6, 3), torch.randn(4, 20, 3)
    convolution_maxima(convolution, hidden, PART, 2).exp().sum().backward()
    assert hidden.grad is None and convolution.weight.grad.any()


def test_texts_without_words():
    convolution, part = nn.Conv1d(3, 6, 3), torch.zeros(2, 0, dtype=torch.long)
    assert convolution_maxima(convolution, torch.zeros(2, 0, 3), part, 2).eq(-torch.inf).all()


def test_half_precision_takes_the_plain_form():
    convolution, hidden = nn.Conv1d(3, 6, 3), torch.randn(4, 20, 3)
    with torch.autocast("cpu", torch.bfloat16):
        best = convolution_maxima(convolution, hidden, PART, 2)
    assert best.dtype == torch.bfloat16
    torch.testing.assert_close(best.float(), convolution_maxima(convolution, hidden, PART, 2), rtol=0.05, atol=0.05)


def test_maxima_of_parts_are_those_of_each():
    hidden = torch.randn(4, 20, 5)
    whole = part_maxima(hidden, PART, 2)
    for number in (0, 1):
        alone = part_maxima(hidden, torch.where(PART == number, 0, -1), 1)
        torch.testing.assert_close(whole[:, number], alone[:, 0])


@pytest.mark.parametrize("preset", ["cnn", "xmlcnn"])
@pytest.mark.parametrize("chunk", [512, 4])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_models_score_the_same_with_and_without_hidden_states(preset, chunk, activation):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "num_labels": 5, "embedding_size": 6, "hidden_size": 4, "activation": activation}
    config = LabelAttentionConfig.preset(preset, **sizes, chunk_size=chunk, bptt_chunks=1, dropout=0.0)
    model, ids = LabelAttentionForMultiLabel(config), torch.randint(2, 30, (3, 21))
    mask = torch.arange(21) < torch.tensor([[21], [9], [0]])
    found = []
    for hidden in (False, True):
        output = model(ids, mask, labels=torch.ones(3, 5), output_hidden_states=hidden)
        assert (output.hidden_states is not None) is hidden
        found.append([output.logits, *torch.autograd.grad(output.loss, [*model.parameters()], allow_unused=True)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
