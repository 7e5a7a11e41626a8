"""No shape is special: one label or 40,000, one token or 100,000, one document or 64, in any memory budget."""

import pytest
import torch

from hf_labelattn.models.functional import label_pool, label_vectors
from hf_labelattn.models.functional_leam import logits_by_label, mean_by_best_label
from hf_labelattn.models.functional_matching import LabelWords, soft_ngram_match
from hf_labelattn.models.functional_planted import (
    PairRanker,
    PlantedOptions,
    StaticRelevance,
    index_tokens,
    labels_per_chunk,
    planted_logits,
)

SIZE, VOCAB = 3, 50
SHAPES = [(1, 1, 1), (1, 100_000, 1), (40_000, 1, 1), (40_000, 12, 2), (3, 7, 64), (1, 1, 64), (300, 600, 3)]
SHAPE = pytest.mark.parametrize(("labels", "tokens", "batch"), SHAPES)


def planted(labels, tokens, batch, memory_mb):
    ids = torch.randint(1, VOCAB, (batch, tokens))
    index = index_tokens(ids, torch.ones_like(ids))
    relevance = StaticRelevance(
        torch.arange(0, 2 * labels + 1, 2),
        torch.tensor([[4, 9]]).repeat(labels, 1).flatten(),
        torch.ones(2 * labels),
        VOCAB,
    )
    ranker = PairRanker(torch.randn(labels, SIZE), torch.randn(len(index.unique), SIZE), torch.randn(SIZE))
    parts = {"query": torch.randn(labels, SIZE), "ranker": ranker, "relevance": relevance}
    hidden, weight = torch.randn(batch, tokens, SIZE), torch.randn(labels, SIZE)
    return planted_logits(hidden, index, weight, **parts, options=PlantedOptions(max_memory_mb=memory_mb))


def matched(labels, tokens, batch, memory_mb):
    words = LabelWords.pack(torch.randint(0, 20, (labels, 3)))
    columns = torch.randint(0, VOCAB, (batch, tokens))
    vectors = torch.randn(len(words.keys), SIZE), torch.randn(VOCAB, SIZE)
    return soft_ngram_match(*vectors, columns, torch.full((batch,), tokens), words, memory_mb)[0]


def leam_inputs(labels, tokens, batch):
    positions, mask = torch.randint(0, VOCAB, (batch, tokens)), torch.ones(batch, tokens, dtype=torch.bool)
    return torch.randn(VOCAB, SIZE), positions, mask, torch.randn(labels, SIZE), torch.randn(5), torch.zeros(labels)


def best_of_leam(labels, tokens, batch, memory_mb):
    return mean_by_best_label(*leam_inputs(labels, tokens, batch), memory_mb)[0]


def leam_by_label(labels, tokens, batch, memory_mb):
    given = leam_inputs(labels, tokens, batch)
    return logits_by_label(*given, lambda mean, part: mean.sum(-1), memory_mb)[0]


def pooled(labels, tokens, batch, memory_mb):
    hidden, mask = torch.randn(batch, tokens, SIZE), torch.ones(batch, tokens, dtype=torch.bool)
    return torch.stack(label_pool(hidden, hidden, mask, *torch.randn(2, labels, SIZE), memory_mb))


def crossed(labels, tokens, batch, memory_mb):
    hidden, mask = torch.randn(batch, tokens, SIZE), torch.ones(batch, tokens, dtype=torch.bool)
    return torch.cat([p.flatten() for p in label_vectors(hidden, hidden, mask, torch.randn(labels, SIZE), memory_mb)])


@SHAPE
@pytest.mark.parametrize("kernel", [planted, matched, best_of_leam, leam_by_label, pooled, crossed])
def test_the_budget_changes_no_number(kernel, labels, tokens, batch):
    found = []
    for memory_mb in (1, 1024):
        torch.manual_seed(0)
        with torch.no_grad():
            found.append(kernel(labels, tokens, batch, memory_mb))
    assert found[0].isfinite().all()
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_chunked_label_vectors_have_the_same_gradients():
    torch.manual_seed(0)
    given = [torch.randn(2, 40, 4), torch.randn(2, 40, 4), torch.randn(6000, 4)]
    mask = torch.arange(40) < torch.tensor([[40], [17]])
    found = []
    for memory_mb in (1, 1024):
        keys, values, queries = (tensor.clone().requires_grad_() for tensor in given)
        _, total, vectors = label_vectors(keys, values, mask, queries, memory_mb)
        found.append(torch.autograd.grad((vectors / total[..., None]).square().sum(), [keys, values, queries]))
    for chunked, whole in zip(*found, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-4, atol=1e-4 * whole.abs().max().item())


@pytest.mark.parametrize("tokens", [1, 72, 1_152, 24_000, 100_000, 6_400_000])
def test_chunks_of_labels_fit_the_budget(tokens):
    size = labels_per_chunk(tokens, min(tokens, 5000), max_memory_mb=256)
    assert 1 <= size <= 512
    assert size == 1 or size * 48 * tokens <= 256 * 2**20
