"""Label-wise attention pooling against the attention as one writes it down."""

import pytest
import torch

from hf_labelattn.models import functional
from hf_labelattn.models.functional import label_pool, merge_pools

LENGTHS = (7, 0, 12, 1, 12, 5)


def literal(keys, values, mask, queries, weight):
    """Softmax over real tokens, mean, product; zero for a document without a token."""
    scores = (keys @ queries.T).transpose(1, 2).masked_fill(~mask[:, None], -torch.inf)
    return ((scores.softmax(2).nan_to_num(0.0) @ values) * weight).sum(2)


def pooled(keys, values, mask, queries, weight, memory_mb=256):
    """The kernel's three numbers as a label score."""
    _, total, score = label_pool(keys, values, mask, queries, weight, memory_mb)
    return score / total.masked_fill(total == 0, 1.0)


def inputs(labels=9, key_size=3, size=4, lengths=LENGTHS, dtype=torch.float64):
    """Random texts of unequal length, one of them empty, and one with a hole."""
    torch.manual_seed(0)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    mask[0, 2] = False
    shapes = (
        (len(lengths), max(lengths), key_size),
        (len(lengths), max(lengths), size),
        (labels, key_size),
        (labels, size),
    )
    keys, values, queries, weight = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return keys, values, mask, queries, weight


def gradients(function, given, **options):
    """Scores and the gradients of everything that has one."""
    scores = function(*given, **options)
    return [scores, *torch.autograd.grad(scores.sin().sum(), [x for x in given if x.requires_grad])]


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    """Blocks of everything, and blocks that cut labels and documents."""
    if request.param == "many blocks":
        monkeypatch.setattr(functional, "CELLS_IN_CACHE", 26)
        monkeypatch.setattr(functional, "TOKENS_IN_CACHE", 14)
        monkeypatch.setattr(functional, "FEWEST_LABELS", 1)


@pytest.mark.parametrize("memory_mb", [256, 0.001], ids=["kept", "computed again"])
def test_pooling_is_attention_written_out(blocks, memory_mb):
    given = inputs()
    for found, expected in zip(gradients(pooled, given, memory_mb=memory_mb), gradients(literal, given), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("memory_mb", [256, 0.001], ids=["kept", "computed again"])
def test_gradients_of_all_three_numbers(blocks, memory_mb):
    keys, values, mask, queries, weight = inputs(labels=3, lengths=(4, 2, 3))

    def exact(*given):
        # Relative to a fixed reference: the highest score itself is said to have no gradient.
        highest, total, score = label_pool(given[0], given[1], mask, *given[2:], memory_mb)
        return highest.detach().exp() * total, highest.detach().exp() * score

    def plain(keys, values, queries, weight):
        exponent = (keys @ queries.T).transpose(1, 2).masked_fill(~mask[:, None], -torch.inf).exp()
        return exponent.sum(2), (exponent * (values @ weight.T).transpose(1, 2)).sum(2)

    given = keys, values, queries, weight
    for found, expected in zip(exact(*given), plain(*given), strict=True):
        torch.testing.assert_close(found, expected)
        wanted = torch.autograd.grad(
            expected.sum(), given, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for mine, theirs in zip(torch.autograd.grad(found.sum(), given, retain_graph=True), wanted, strict=True):
            torch.testing.assert_close(mine, theirs)


def test_gradcheck(blocks):
    keys, values, mask, queries, weight = inputs(labels=3, lengths=(4, 0, 3))
    given = keys, values, queries, weight
    assert torch.autograd.gradcheck(lambda k, v, q, w: pooled(k, v, mask, q, w), given)


def test_a_second_backward_pass_gives_the_same():
    given = inputs()
    scores, wanted = pooled(*given).sum(), [x for x in given if x.requires_grad]
    first = torch.autograd.grad(scores, wanted, retain_graph=True)
    for one, two in zip(first, torch.autograd.grad(scores, wanted), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_windows_merge_to_the_whole(blocks):
    keys, values, mask, queries, weight = inputs()
    parts = [label_pool(keys[:, s], values[:, s], mask[:, s], queries, weight) for s in (slice(0, 5), slice(5, None))]
    _, total, score = merge_pools(*parts)
    expected = literal(keys, values, mask, queries, weight)
    torch.testing.assert_close(score / total.masked_fill(total == 0, 1.0), expected)


@pytest.mark.parametrize("length", [0, 1])
def test_texts_without_words(length):
    keys, values, mask, queries, weight = inputs(lengths=(3, 3))
    given = keys[:, :length], values[:, :length], mask[:, :length] & False, queries, weight
    assert pooled(*given).eq(0).all() and not label_pool(*given)[1].any()
    assert label_pool(*given)[0].eq(-torch.inf).all()


def test_half_precision_trains_under_autocast():
    given = inputs(dtype=torch.float32)
    expected = gradients(literal, given)
    with torch.autocast("cpu", torch.bfloat16):
        halves = [x.bfloat16() if i < 2 else x for i, x in enumerate(given)]
        found = pooled(*halves)
    assert found.dtype == torch.float32
    wanted = torch.autograd.grad(found.sin().sum(), [x for x in given if x.requires_grad])
    for mine, theirs in zip([found, *wanted], expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.15)


def test_what_is_kept_for_the_backward_pass_stays_within_the_budget():
    keys, values, mask, queries, weight = inputs(labels=400, lengths=(600,) * 6, dtype=torch.float32)
    kept = label_pool(keys, values, mask, queries, weight, 256)[1].grad_fn.next_functions[0][0].kept
    again = label_pool(keys, values, mask, queries, weight, 1)[1].grad_fn.next_functions[0][0].kept
    assert sum(t.numel() for pair in kept for t in pair) == 2 * 400 * 6 * 600
    assert again == []


def test_nothing_is_kept_where_nothing_is_trained(monkeypatch):
    given, kept = inputs(), []
    plain = functional._LabelPool.forward

    def watched(ctx, *arguments):
        found = plain(ctx, *arguments)
        kept.append(len(ctx.kept))
        return found

    monkeypatch.setattr(functional._LabelPool, "forward", staticmethod(watched))
    pooled(*given)
    with torch.no_grad():
        pooled(*given)
    assert kept == [1, 0]


def test_blocks_of_a_long_document_keep_some_labels_together_within_the_budget():
    widths = {
        most: functional._pool_blocks([1000], 40, cells=2000, most=most)[0].labels.stop for most in (0, 8000, 10**6)
    }
    assert widths == {0: 2, 8000: 8, 10**6: functional.FEWEST_LABELS}
