"""LambdaRank on nDCG@k for many labels at once (Burges 2010; PLANT, appendix A.2).

Discounts stop at rank k, so swapping two tokens that both stand below it changes nothing: of the n^2 pairs only those
with a member in the current top k count, and leaving out the others is exact, not an approximation.
"""

import torch
from torch import Tensor

from ..models.functional_inattention import order_keys, top_positions


def gains(grades: Tensor) -> Tensor:
    """What a token of a grade is worth, `2^g - 1`."""
    return torch.exp2(grades) - 1


def discounts(k: int, like: Tensor) -> Tensor:
    """What a rank is worth, `1 / log2(1 + rank)` for the ranks 1 to k, in the type and place of another tensor."""
    return 1 / torch.log2(torch.arange(2, k + 2, dtype=like.dtype, device=like.device))


def ideal_dcg(grades: Tensor, k: int) -> Tensor:
    """DCG@k of the best possible ranking, [l]."""
    best = gains(grades).topk(min(k, grades.shape[-1])).values
    return best @ discounts(best.shape[-1], grades)


def ndcg_at_k(scores: Tensor, grades: Tensor, k: int) -> Tensor:
    """NDCG@k of every label; NaN where no token is relevant.

    Args:
        scores: [l, t].
        grades: [l, t] in [0, 1].
        k: How far down the list counts.

    >>> ndcg_at_k(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0.0, 1.0, 0.0]]), 2)
    tensor([0.6309])
    """
    k = min(k, scores.shape[-1])
    top = top_positions(order_keys(scores), k, ranked=True)
    return gains(grades).gather(-1, top) @ discounts(k, grades) / ideal_dcg(grades, k)


def lambda_gradients(scores: Tensor, grades: Tensor, k: int, sigma: float = 1.0) -> Tensor:
    """Gradient of the LambdaRank loss with respect to the scores.

    For tokens j, m with `g_j > g_m`: `-sigma / (1 + exp(sigma (z_j - z_m))) |change of nDCG@k if they swap|` is added
    to the gradient of `z_j` and taken from that of `z_m`.

    Args:
        scores: [l, t] z.
        grades: [l, t] g in [0, 1].
        k: The k of nDCG@k.
        sigma: Steepness of the pair probability.

    Returns:
        [l, t] gradient; descending it raises nDCG@k. Zero for a label without a relevant token.
    """
    k = min(k, scores.shape[-1])
    top = top_positions(order_keys(scores), k, ranked=True)  # [l, k]
    worth, by_rank = gains(grades), discounts(k, scores)
    by_place = torch.zeros_like(scores).scatter_(1, top, by_rank.expand_as(top))
    gradient = torch.zeros_like(scores)
    for rank in range(k):
        place = top[:, rank : rank + 1]
        push = _pushes(scores, worth, by_place, place, sigma).mul_((by_rank[rank] - by_place).abs_())
        # A pair inside the top k was counted at its better rank.
        push.scatter_(1, top[:, : rank + 1], 0)
        gradient += push
        gradient.scatter_add_(1, place, -push.sum(1, keepdim=True))
    ideal = ideal_dcg(grades, k)[:, None]
    return gradient.mul_(sigma / ideal.clamp_min(torch.finfo(scores.dtype).tiny))


def _pushes(scores: Tensor, worth: Tensor, by_place: Tensor, place: Tensor, sigma: float) -> Tensor:
    """How hard every token is pushed down by the one at `place` (up, if it is worth more), without the discount."""
    more = worth.gather(1, place) - worth  # [l, t]
    wrong = (scores.gather(1, place) - scores).mul_(more.sign()).mul_(-sigma).sigmoid_()
    return wrong.mul_(more)
