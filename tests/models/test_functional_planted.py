"""The chunked kernels of the planted decoder against the paper's equations."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hf_labelattn.models.functional_inattention import order_keys, top_positions
from hf_labelattn.models.functional_planted import (
    PairRanker,
    PlantedOptions,
    StaticRelevance,
    index_tokens,
    planted_attention,
    planted_logits,
)
from tests.models.literal_planted import literal_attention, literal_logits

LABELS, VOCAB, HIDDEN, RANK = 5, 11, 4, 3
LENGTHS = (7, 3, 0, 5)


class Case:
    """A small batch with repeated words, padding and a text of padding only, in double precision."""

    def __init__(self, scorer="mlp", seed=0, dtype=torch.float64):
        draw = torch.Generator().manual_seed(seed)
        make = lambda *shape: torch.randn(*shape, generator=draw, dtype=dtype).requires_grad_()  # noqa: E731
        self.token_ids = torch.randint(0, VOCAB, (len(LENGTHS), max(LENGTHS)), generator=draw)
        self.token_ids[0, 4] = self.token_ids[0, 1]
        self.mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
        self.hidden, self.weight, self.bias = make(*self.mask.shape, HIDDEN), make(LABELS, HIDDEN), make(LABELS)
        self.query, self.label, self.token = make(LABELS, HIDDEN), make(LABELS, RANK), make(VOCAB, RANK)
        self.output = make(RANK) if scorer == "mlp" else None
        self.static = torch.rand(LABELS, VOCAB, generator=draw, dtype=dtype)
        self.static *= torch.rand(LABELS, VOCAB, generator=draw) < 0.4
        self.index = index_tokens(self.token_ids, self.mask)

    def pair_score(self, label, token):
        if self.output is None:
            return self.label[label] @ self.token[token]
        return torch.relu(self.label[label] + self.token[token]) @ self.output

    def ranker(self, **known):
        return PairRanker(self.label, self.token[self.index.unique], self.output, **known)

    def relevance(self):
        rows = [row.nonzero().flatten() for row in self.static]
        indptr = torch.tensor([0, *map(len, rows)]).cumsum(0)
        values = torch.cat([row[ids] for row, ids in zip(self.static, rows, strict=True)])
        return StaticRelevance(indptr, torch.cat(rows), values, VOCAB)

    def parameters(self):
        found = (self.hidden, self.weight, self.bias, self.query, self.label, self.token, self.output)
        return [x for x in found if x is not None]

    def gradients(self, logits):
        towards = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)
        return torch.autograd.grad(logits, self.parameters(), towards, allow_unused=True, materialize_grads=True)


def fast(case, options, learned=True, static=True, planted=True, **known):
    return planted_logits(
        case.hidden,
        case.index,
        case.weight,
        case.bias,
        query=case.query if learned else None,
        ranker=case.ranker(**known) if planted else None,
        relevance=case.relevance() if static else None,
        options=options,
    )


def literal(case, options, learned=True, static=True, planted=True, **known):
    return literal_logits(
        case.hidden,
        case.mask,
        case.token_ids,
        case.weight,
        case.bias,
        LABELS,
        query=case.query if learned else None,
        pair_score=case.pair_score if planted else None,
        static=case.static if static else None,
        options=options,
        **known,
    )


def assert_same(case, options, **parts):
    found, expected = fast(case, options, **parts), literal(case, options, **parts)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(case.gradients(found), case.gradients(expected))


@pytest.mark.parametrize("scorer", ["mlp", "dot"])
@pytest.mark.parametrize("mode", ["mask", "zero"])
@pytest.mark.parametrize("top_k", [1, 2, 5, 7, 8, None])
def test_logits_and_gradients_equal_the_equations(scorer, mode, top_k):
    assert_same(Case(scorer), PlantedOptions(top_k, mode, "l1"))


@pytest.mark.parametrize("norm", ["l1", "none"])
@pytest.mark.parametrize("on", ["learned", "static", "planted"])
def test_each_attention_alone_equals_its_equation(norm, on):
    parts = {name: name == on for name in ("learned", "static", "planted")}
    assert_same(Case(seed=1), PlantedOptions(2, "mask", norm), **parts)


@pytest.mark.parametrize("mode", ["mask", "zero"])
@pytest.mark.parametrize("top_k", [2, None])
def test_what_the_ranker_never_saw_gets_no_planted_attention(mode, top_k):
    case, options = Case(), PlantedOptions(top_k, mode)
    seen = torch.arange(VOCAB) % 3 > 0
    found = fast(case, options, token_known=seen[case.index.unique])
    expected = literal(case, options, known=lambda token: bool(seen[token]))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(case.gradients(found), case.gradients(expected))
    labels = torch.arange(LABELS) != 3
    half = fast(case, options, label_known=labels)
    torch.testing.assert_close(half[:, labels], fast(case, options)[:, labels])
    torch.testing.assert_close(half[:, ~labels], fast(case, options, planted=False)[:, ~labels])


@pytest.mark.parametrize("mode", ["mask", "zero"])
def test_chunks_of_labels_change_nothing(mode):
    case = Case()
    whole, one_by_one = PlantedOptions(2, mode), PlantedOptions(2, mode, max_memory_mb=1e-6)
    found, expected = fast(case, one_by_one), fast(case, whole)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(case.gradients(found), case.gradients(expected))


@pytest.mark.parametrize("mode", ["mask", "zero"])
@pytest.mark.parametrize("top_k", [1, 3, None])
def test_padding_changes_nothing_whatever_stands_in_it(mode, top_k):
    case, options = Case(), PlantedOptions(top_k, mode)
    expected = fast(case, options)
    case.hidden = torch.cat([case.hidden, case.hidden.new_zeros(len(LENGTHS), 9, HIDDEN)], 1)
    case.mask = torch.nn.functional.pad(case.mask, (0, 9))
    case.token_ids = torch.nn.functional.pad(case.token_ids, (0, 9), value=1)
    case.hidden = case.hidden.masked_fill(~case.mask.bool()[..., None], torch.nan)
    case.index = index_tokens(case.token_ids, case.mask)
    torch.testing.assert_close(fast(case, options), expected)


def test_a_text_of_padding_only_scores_exactly_the_bias():
    case = Case()
    logits = fast(case, PlantedOptions(2))
    assert torch.equal(logits[LENGTHS.index(0)], case.bias)
    assert not case.gradients(logits)[0][LENGTHS.index(0)].any()


def test_a_batch_of_padding_only_scores_exactly_the_bias():
    case = Case()
    case.index = index_tokens(case.token_ids, torch.zeros_like(case.mask))
    for mode in ("mask", "zero"):
        assert torch.equal(fast(case, PlantedOptions(2, mode)), case.bias.expand(len(LENGTHS), -1))


def test_of_equal_scores_the_earlier_survive():
    scores = torch.tensor([[0.0, 3.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0], [-1.0, -2.0, -0.5, -torch.inf, -1.0]])
    found = top_positions(order_keys(scores), 2).sort().values
    assert found.tolist() == [[1, 2], [0, 1], [0, 2]]


@pytest.mark.parametrize("length", [32, 33, 47, 200])
def test_long_texts_are_searched_in_blocks_with_the_same_result(length):
    draw = torch.Generator().manual_seed(0)
    token_ids = torch.randint(0, 9, (3, length), generator=draw)
    index = index_tokens(token_ids, torch.arange(length) < torch.tensor([length, 5, 1])[:, None])
    hidden, weight = torch.randn(3, length, 4, generator=draw), torch.randn(LABELS, 4, generator=draw)
    ranker = PairRanker(torch.randn(LABELS, 6, generator=draw), torch.randn(9, 6, generator=draw)[index.unique])
    found = planted_attention(hidden, index, torch.arange(LABELS), ranker=ranker, options=PlantedOptions(2)).planted
    scores = (ranker.label @ ranker.token.T)[:, index.columns.clamp(max=len(index.unique) - 1)].transpose(0, 1)
    scores = scores.masked_fill((index.columns == len(index.unique))[:, None], -torch.inf)
    best = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :2]
    kept = torch.full_like(scores, -torch.inf).scatter(-1, best, scores.gather(-1, best))
    torch.testing.assert_close(found, kept.softmax(-1))
    logits = planted_logits(hidden, index, weight, ranker=ranker, options=PlantedOptions(2))
    torch.testing.assert_close(logits, torch.einsum("blt,bth,lh->bl", found, hidden, weight))


def test_selection_is_that_of_a_stable_sort():
    scores = torch.randint(-4, 4, (50, 33), generator=torch.Generator().manual_seed(0)) / 3
    scores[:, ::2] *= -1  # some zeros are negative
    expected = torch.sort(scores, dim=-1, descending=True, stable=True).indices[:, :6].sort().values
    assert torch.equal(top_positions(order_keys(scores), 6).sort().values, expected)


@pytest.mark.parametrize("mode", ["mask", "zero"])
@pytest.mark.parametrize("top_k", [2, None])
def test_attention_of_selected_labels_equals_the_equations(mode, top_k):
    case, options, wanted = Case(), PlantedOptions(top_k, mode), torch.tensor([3, 0])
    parts = {"query": case.query, "ranker": case.ranker(), "relevance": case.relevance(), "options": options}
    found = planted_attention(case.hidden, case.index, wanted, **parts)
    for text, length in enumerate(LENGTHS):
        tokens = case.token_ids[text, :length].tolist()
        for place, label in enumerate(wanted.tolist()):
            expected = literal_attention(
                case.hidden[text, :length], tokens, label, case.query, case.pair_score, case.static, options
            )
            for source, weights in zip(found, expected, strict=True):
                torch.testing.assert_close(source[text, place, :length], weights.detach())
                assert not source[text, place, length:].any()


def test_masked_inattention_lets_exactly_k_tokens_through():
    case = Case()
    found = planted_attention(
        case.hidden, case.index, torch.arange(LABELS), ranker=case.ranker(), options=PlantedOptions(3, "mask")
    )
    expected = torch.tensor(LENGTHS).clamp(max=3)[:, None].expand(-1, LABELS)
    assert torch.equal((found.planted > 0).sum(-1), expected)
    assert found.learned is None and found.static is None


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the largest tensor any operation made."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("top_k", [2, None])
def test_nothing_of_labels_times_tokens_is_ever_made(top_k, monkeypatch):
    # 120 labels x 240 tokens x 64 hidden units: 1.8 million numbers written out, 28,800 in one attention.
    monkeypatch.setattr("hf_labelattn.models.functional_pairs.CPU_BLOCK", 4096)
    draw = torch.Generator().manual_seed(0)
    token_ids = torch.randint(0, 90, (4, 60), generator=draw)
    index = index_tokens(token_ids, torch.ones_like(token_ids))
    make = lambda *shape: torch.randn(*shape, generator=draw).requires_grad_()  # noqa: E731
    hidden, weight, query, label, token = make(4, 60, 8), make(120, 8), make(120, 8), make(120, 64), make(90, 64)
    options = PlantedOptions(top_k, max_memory_mb=0.2)
    with LargestTensor() as seen:
        ranker = PairRanker(label, token[index.unique], make(64))
        planted_logits(hidden, index, weight, query=query, ranker=ranker, options=options).sum().backward()
    assert seen.numel == label.numel()


def test_frozen_tensors_get_no_gradient_and_the_rest_the_same():
    case, options = Case(), PlantedOptions(2)
    expected = dict(zip("hidden weight bias query label token output".split(), case.gradients(fast(case, options))))  # noqa: B905
    for name in ("hidden", "label", "output"):
        getattr(case, name).requires_grad_(False)
    fast(case, options).backward(torch.linspace(-1, 1, len(LENGTHS) * LABELS).double().view(-1, LABELS))
    for name, gradient in expected.items():
        found = getattr(case, name).grad
        assert found is None if name in ("hidden", "label", "output") else torch.allclose(found, gradient)


def test_half_precision_stays_close_and_returns_single():
    case = Case(dtype=torch.float32)
    expected = fast(case, PlantedOptions(2))
    case.hidden = case.hidden.detach().bfloat16().requires_grad_()
    found = fast(case, PlantedOptions(2))
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < 0.1
    assert torch.autograd.grad(found.sum(), case.hidden)[0].dtype == torch.bfloat16


@pytest.mark.slow
def test_compiled_pairs_equal_the_plain_ones():
    case = Case(dtype=torch.float32)
    found = fast(case, PlantedOptions(2, compile_pairs=True))
    torch.testing.assert_close(found, fast(case, PlantedOptions(2)))


def test_wrong_options_say_what_to_type():
    with pytest.raises(ValueError, match="`inattention_mode` is 'soft'. Pass 'mask' or 'zero'."):
        PlantedOptions(inattention_mode="soft")
    with pytest.raises(ValueError, match="`static_norm` is 'l2'. Pass 'l1' or 'none'."):
        PlantedOptions(static_norm="l2")
    with pytest.raises(ValueError, match="`top_k` is 0; at least one token must survive"):
        PlantedOptions(top_k=0)
    with pytest.raises(ValueError, match="`max_memory_mb` is 0"):
        PlantedOptions(max_memory_mb=0)
    with pytest.raises(ValueError, match="All three attentions are off"):
        fast(Case(), PlantedOptions(2), learned=False, static=False, planted=False)
