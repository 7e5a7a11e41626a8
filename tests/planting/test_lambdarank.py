"""LambdaRank against its definition, pair by pair."""

import math

import pytest
import torch
from sklearn.metrics import ndcg_score

from hf_labelattn.planting.lambdarank import gains, lambda_gradients, ndcg_at_k


def lists(labels=6, tokens=15, seed=0, repeated=False):
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(labels, tokens, generator=draw, dtype=torch.float64)
    grades = torch.rand(labels, tokens, generator=draw, dtype=torch.float64)
    grades *= torch.rand(labels, tokens, generator=draw) < 0.4
    return (scores.mul(2).round().div(2) if repeated else scores), grades


def literal_ndcg(scores, grades, k):
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))
    dcg = lambda ranking: sum((2 ** grades[j] - 1) / math.log2(r + 2) for r, j in enumerate(ranking[:k]))  # noqa: E731
    return dcg(order) / dcg(sorted(range(len(grades)), key=lambda j: -grades[j]))


def literal_lambdas(scores, grades, k, sigma):
    """Every pair: swap the two tokens, measure how much nDCG@k changes."""
    gradient = [0.0] * len(scores)
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))

    def swapped_ndcg(a, b):
        ranking = [b if j == a else a if j == b else j for j in order]
        places = {j: -float(rank) for rank, j in enumerate(ranking)}
        return literal_ndcg([places[j] for j in range(len(scores))], grades, k)

    now = literal_ndcg(scores, grades, k)
    for j in range(len(scores)):
        for m in range(len(scores)):
            if grades[j] > grades[m]:
                change = abs(swapped_ndcg(j, m) - now)
                pull = -sigma / (1 + math.exp(sigma * (scores[j] - scores[m]))) * change
                gradient[j] += pull
                gradient[m] -= pull
    return gradient


@pytest.mark.parametrize("k", [1, 4, 15, 40])
@pytest.mark.parametrize("sigma", [1.0, 2.5])
@pytest.mark.parametrize("repeated", [False, True])
def test_limited_pairs_equal_all_pairs(k, sigma, repeated):
    scores, grades = lists(labels=3, repeated=repeated)
    found = lambda_gradients(scores, grades, k, sigma)
    for row in range(len(scores)):
        expected = literal_lambdas(scores[row].tolist(), grades[row].tolist(), k, sigma)
        torch.testing.assert_close(found[row], torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("k", [1, 5, 15, 99])
def test_ndcg_is_the_definition_and_scikit_learns(k):
    scores, grades = lists()
    found = ndcg_at_k(scores, grades, k)
    for row in range(len(scores)):
        assert found[row] == pytest.approx(literal_ndcg(scores[row].tolist(), grades[row].tolist(), k), rel=1e-5)
    mean = ndcg_score(gains(grades).numpy(), scores.numpy(), k=k)
    assert found.mean() == pytest.approx(mean, rel=1e-5)


def test_a_label_without_relevant_tokens_pulls_nowhere():
    scores, grades = lists()
    grades[2] = 0
    assert not lambda_gradients(scores, grades, 5)[2].any()
    assert ndcg_at_k(scores, grades, 5)[2].isnan()


def test_following_the_gradient_raises_ndcg():
    scores, grades = lists()
    before = ndcg_at_k(scores, grades, 5).mean()
    for _ in range(200):
        scores = scores - lambda_gradients(scores, grades, 5)
    assert before < 0.6 and ndcg_at_k(scores, grades, 5).mean() > 0.99
