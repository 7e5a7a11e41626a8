"""The fast LEAM kernels equal the paper's equations, in value and in gradient, for every option."""

import pytest
import torch
from torch.nn import functional as F

from hf_labelattn.models import functional_leam as leam

from . import literal_leam as literal

KINDS = ["shared", "depthwise", "full", None]
FEW, MANY = 3, 7  # labels: fewer and more than the 5 dimensions of a word
SIZE = 5
NUM_WORDS = 8  # fewer than tokens: some words stand in several places
LENGTHS = [6, 9, 1]


def read_out(mean, part):
    return mean.sum(-1)


def make(kind, num_labels, window=2, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    width = 2 * window + 1
    shapes = {"shared": (width,), "depthwise": (num_labels, width), "full": (num_labels, num_labels, width)}
    weight, bias = (None, None) if kind is None else (draw(*shapes[kind]), draw(num_labels))
    words, labels = draw(NUM_WORDS, SIZE), draw(num_labels, SIZE)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    positions = torch.randint(NUM_WORDS, mask.shape, generator=generator)
    return words, positions, mask, labels, weight, bias


def literal_means(words, positions, mask, labels, weight, bias, pooling):
    means, weights = [], []
    for row, real in zip(words[positions], mask, strict=True):
        beta = literal.attention(row[real], labels, weight, bias, pooling)
        means.append(literal.mean(row[real], beta))
        weights.append(F.pad(beta, (0, len(row) - beta.shape[1])))
    return torch.stack(means), torch.stack(weights)


def gradients(output, inputs):
    probe = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    inputs = [x for x in inputs if x is not None]
    return torch.autograd.grad((output * probe).sum(), inputs, retain_graph=True)


def assert_same(actual, expected, inputs):
    # Kernels keep softmax and cosines in float32, so agreement is to its precision.
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4, check_dtype=False)
    for ours, theirs in zip(gradients(actual.double(), inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def differentiable(inputs):
    words, _, _, labels, weight, bias = inputs
    return [words, labels, weight, bias]


def test_similarity_is_equation_2():
    words, positions, mask, labels, _, _ = make(None, FEW)
    expected = torch.stack([literal.similarity(row, labels) for row in words[positions]]) * mask[:, None]
    assert_same(leam.spread(leam.word_cosines(words, labels), positions, mask), expected, [words, labels])


def test_a_word_of_zeros_is_similar_to_nothing():
    words, positions, mask, labels, _, _ = make(None, FEW)
    with torch.no_grad():
        words[positions[0, 1]] = 0.0
    assert leam.word_cosines(words, labels)[:, positions[0, 1]].abs().max() == 0
    mean, _ = leam.mean_by_best_label(words, positions, mask, labels, None, None, 256)
    gradient = torch.autograd.grad(mean.sum(), words)[0]
    # Its direction is undefined; what reaches it comes through the mean alone, and is of the size of a weight.
    assert gradient.abs().max() < 10


def test_different_words_rebuild_the_batch():
    ids = torch.randint(50, (4, 30))
    words, positions = leam.different_words(ids, 50)
    assert torch.equal(words, ids.unique()) and torch.equal(words[positions], ids)


@pytest.mark.parametrize("length", [1, 3, 64, 65, 300])
@pytest.mark.parametrize("window", [0, 2, 50])
def test_correlation_equals_a_convolution(length, window):
    signal = torch.randn(4, length, dtype=torch.float64).requires_grad_()
    weight = torch.randn(2 * window + 1, dtype=torch.float64).requires_grad_()
    expected = F.conv1d(signal[:, None], weight[None, None], padding=window)[:, 0]
    actual = leam.correlate(signal, weight)
    torch.testing.assert_close(actual, expected)
    for ours, theirs in zip(gradients(actual, [signal, weight]), gradients(expected, [signal, weight]), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_phrase_scores_are_equation_3(kind):
    *_, weight, bias = make(kind, FEW)
    g = torch.rand(2, FEW, 8, dtype=torch.float32) * 2 - 1
    expected = torch.stack([literal.compatibility(row.double(), weight, bias) for row in g])
    torch.testing.assert_close(leam.phrase_scores(g, weight, bias).double(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("num_labels", [FEW, MANY])
@pytest.mark.parametrize("kind", KINDS)
def test_max_pooling_is_equations_2_to_6(kind, num_labels):
    inputs = make(kind, num_labels)
    mean, weights = leam.mean_by_best_label(*inputs, max_memory_mb=256)
    expected_mean, expected_weights = literal_means(*inputs, "max")
    assert_same(mean, expected_mean[:, 0], differentiable(inputs))
    assert_same(weights, expected_weights, differentiable(inputs))


@pytest.mark.parametrize("num_labels", [FEW, MANY])
@pytest.mark.parametrize("kind", ["shared", "depthwise", "full"])
def test_words_that_no_label_wants_weigh_the_same(kind, num_labels):
    words, positions, mask, labels, weight, bias = make(kind, num_labels)
    inputs = words, positions, mask, labels, weight, bias.detach() - 100
    for _, weights in (leam.mean_by_best_label(*inputs, 256), leam.logits_by_label(*inputs, read_out, 256, True)):
        uniform = (mask / mask.sum(1, keepdim=True))[:, None]
        torch.testing.assert_close(weights, uniform.expand_as(weights))


@pytest.mark.parametrize("num_labels", [FEW, MANY])
@pytest.mark.parametrize("kind", KINDS)
def test_label_pooling_is_equations_2_to_6_per_label(kind, num_labels):
    inputs = make(kind, num_labels)
    readout = torch.randn(num_labels, SIZE, dtype=torch.float64).requires_grad_()
    logits, weights = leam.logits_by_label(
        *inputs, lambda mean, part: (mean * readout[part]).sum(-1), max_memory_mb=256, keep_weights=True
    )
    expected_mean, expected_weights = literal_means(*inputs, "label")
    assert_same(logits, (expected_mean * readout).sum(-1), [*differentiable(inputs), readout])
    assert_same(weights, expected_weights, differentiable(inputs))


@pytest.mark.parametrize("kind", ["shared", "depthwise", None])
def test_slices_of_labels_change_nothing(kind, monkeypatch):
    inputs = make(kind, MANY)
    whole = leam.mean_by_best_label(*inputs, max_memory_mb=256)[0], label_logits(inputs)
    with torch.no_grad():
        evaluated = leam.mean_by_best_label(*inputs, max_memory_mb=256)[0], label_logits(inputs)
    monkeypatch.setattr(leam, "SLICE", 2)
    sliced = leam.mean_by_best_label(*inputs, max_memory_mb=256)[0], label_logits(inputs)
    for one, other, third in zip(whole, sliced, evaluated, strict=True):
        assert_same(other, one, differentiable(inputs))
        torch.testing.assert_close(third, one.detach(), atol=1e-6, rtol=1e-5)
    monkeypatch.setattr(leam, "SLICE", 512)
    monkeypatch.setattr(leam, "SLICE_CELLS", 1)
    monkeypatch.setattr(leam, "FEWEST", 3)
    with torch.no_grad():
        torch.testing.assert_close(label_logits(inputs), whole[1].detach(), atol=1e-6, rtol=1e-5)


def label_logits(inputs):
    return leam.logits_by_label(*inputs, read_out, max_memory_mb=256)[0]


def test_the_memory_budget_decides_the_slices():
    assert leam.label_slices(1000, 2**20, 100)[0] == slice(0, 100)
    assert leam.label_slices(1000, 1, 100) == [slice(0, 512), slice(512, 1000)]
    assert leam.label_slices(3, 2**40, 1) == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_recomputed_slices_draw_the_same_dropout(monkeypatch):
    monkeypatch.setattr(leam, "SLICE", 2)
    inputs = make("shared", MANY)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    logits, _ = leam.logits_by_label(*inputs, lambda mean, part: scale * F.dropout(mean, 0.5).sum(-1), 256)
    (gradient,) = torch.autograd.grad(logits.sum(), scale)
    torch.testing.assert_close(gradient, logits.sum().detach())


@pytest.mark.parametrize("problem_type", ["single_label_classification", "multi_label_classification"])
def test_label_regulariser_is_equation_9(problem_type, monkeypatch):
    *_, labels, _, bias = make("shared", MANY)
    weight = torch.randn(MANY, SIZE, dtype=torch.float64).requires_grad_()

    def classify(vectors):
        return vectors @ weight.T + bias

    expected = literal.regulariser(labels, classify, problem_type)
    assert_same(leam.label_regulariser(labels, classify, problem_type), expected, [labels, weight, bias])
    monkeypatch.setattr(leam, "SLICE", 3)
    assert_same(leam.label_regulariser(labels, classify, problem_type), expected, [labels, weight, bias])


@pytest.mark.parametrize("num_labels", [FEW, MANY])
@pytest.mark.parametrize("kind", KINDS)
def test_a_document_of_padding_gives_zeros_and_no_nan(kind, num_labels):
    words, positions, mask, labels, weight, bias = make(kind, num_labels)
    mask = mask.clone()
    mask[1] = False
    inputs = words, positions, mask, labels, weight, bias
    mean, weights = leam.mean_by_best_label(*inputs, 256)
    assert mean[1].abs().max() == 0 and weights[1].abs().max() == 0
    logits = label_logits(inputs)
    assert logits[1].abs().max() == 0
    for gradient in torch.autograd.grad(mean.sum() + logits.sum(), [words, labels]):
        assert torch.isfinite(gradient).all()
    empty = torch.autograd.grad(label_logits(inputs)[1].sum(), words)[0]
    assert empty.abs().max() == 0


@pytest.mark.parametrize("num_labels", [FEW, MANY])
def test_half_precision_stays_close(num_labels):
    inputs = make("shared", num_labels)
    halves = [x.detach().bfloat16().requires_grad_() if x.is_floating_point() else x for x in inputs]
    mean, weights = leam.mean_by_best_label(*halves, 256)
    assert mean.dtype == torch.bfloat16 and weights.dtype == torch.float32
    expected = leam.mean_by_best_label(*[x.double() if x.is_floating_point() else x for x in halves], 256)
    torch.testing.assert_close(mean.double(), expected[0], atol=0.05, rtol=0.05)
    assert all(g.dtype == torch.bfloat16 for g in gradients(mean, differentiable(halves)))


def test_autocast_gives_about_the_gradient_of_full_precision():
    inputs = [x.detach().float().requires_grad_() if x.is_floating_point() else x for x in make("shared", FEW)]
    expected = gradients(leam.mean_by_best_label(*inputs, 256)[0], differentiable(inputs))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = gradients(leam.mean_by_best_label(*inputs, 256)[0].float(), differentiable(inputs))
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)
