"""Inattention (PLANT, equation 4 and appendix A.3): which tokens survive, and the softmax over them."""

import torch
from torch import Tensor


def order_keys(scores: Tensor) -> Tensor:
    """Turn scores into integers that sort alike and leave the low 32 bits free for a tie-break.

    The bits of a float, made monotone, become the high half. Selection is done in single precision.

    >>> order_keys(torch.tensor([-1.5, -0.5, 0.5, 1.5])).diff().gt(2**31).all()
    tensor(True)
    """
    bits = (scores.float() + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    bits ^= (bits >> 31).bitwise_and_(0x7FFFFFFF)
    return bits.long().bitwise_left_shift_(32)


def top_positions(keys: Tensor, k: int, ranked: bool = False) -> Tensor:
    """Find the k largest scores of every row; of equal scores the earlier wins, whatever stands behind them.

    `torch.topk` promises no order among equals, so padding a row could change which of two equal tokens survives.
    A text repeats its words, so equal scores are the rule. With the position in the low bits no two keys are equal.

    Args:
        keys: [..., T] from `order_keys`; used up (its memory is reordered in place).
        k: How many, at most T.
        ranked: Return them best first, instead of in no particular order.

    Returns:
        [..., k] positions.

    >>> top_positions(order_keys(torch.tensor([1.0, 5.0, 5.0, 5.0])), 2, ranked=True)
    tensor([1, 2])
    """
    keys = _largest(keys.sub_(torch.arange(keys.shape[-1], device=keys.device)), k)
    return -(keys.sort(-1, descending=True).values if ranked else keys) & 0xFFFFFFFF


def top_positions_in_blocks(scores: Tensor, k: int) -> Tensor:
    """Do the same for long rows, looking at few scores closely.

    The k largest of a row stand in the k blocks with the largest maxima (of equal ones the earlier block): were one of
    them in another block, k maxima would come before it.

    Args:
        scores: [..., size, blocks]; block b holds the positions `size * b` to `size * b + size - 1` of the row, below
            each other, because maxima across rows of memory are fast. What is past the end of the row is -inf.
        k: How many, at most the number of blocks.

    Returns:
        [..., k] positions, in no particular order.

    >>> row = torch.tensor([1.0, 7.0, 3.0, 4.0, 5.0, 6.0])
    >>> top_positions_in_blocks(row.view(3, 2).T, 2).sort().values
    tensor([1, 5])
    """
    size = scores.shape[-2]
    chosen = top_positions(order_keys(scores.amax(-2)), k)[..., None, :]  # [..., 1, k]
    inside = scores.gather(-1, chosen.expand(*scores.shape[:-1], k))  # [..., size, k]
    places = chosen * size + torch.arange(size, device=scores.device)[:, None]
    return -_largest(order_keys(inside).sub_(places).flatten(-2), k) & 0xFFFFFFFF


def _largest(keys: Tensor, k: int) -> Tensor:
    # numpy selects with vector instructions but on one thread, about two and a half times as fast as one of torch's.
    if keys.device.type == "cpu" and torch.get_num_threads() < 3:
        split = keys.shape[-1] - k
        keys.numpy().partition(split, axis=-1)
        return keys[..., split:]
    return keys.topk(k, sorted=False).values


def safe_softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension in which a row without any finite score is all zero."""
    top = scores.amax(-1, keepdim=True).clamp_min_(torch.finfo(scores.dtype).min)
    weights = (scores - top).exp_()
    return weights.div_(weights.sum(-1, keepdim=True).clamp_min_(torch.finfo(scores.dtype).tiny))


def zeroed_softmax(best: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax of the threshold as printed: a score not strictly above the k-th largest becomes 0, and keeps e^0.

    Args:
        best: [..., B, k] the k largest scores of every row; -inf where a row has fewer.
        count: [B] how many tokens a row has.

    Returns:
        The weights of the scores in `best` that are kept (zero for the others), and the weight of every other token.

    >>> few = torch.tensor([[-50.0, -51.0, -torch.inf]])
    >>> zeroed_softmax(few, torch.tensor([2]))[0]
    tensor([[0.7311, 0.2689, 0.0000]])
    """
    kept = best > best.amin(-1, keepdim=True)
    others = count - kept.sum(-1)
    top = best.masked_fill(~kept, -torch.inf).amax(-1)
    top = torch.where(others > 0, top.clamp_min(0), top.clamp_min(torch.finfo(best.dtype).min))
    weight = (best - top[..., None]).exp_() * kept
    floor = (-top).exp().masked_fill(others <= 0, 0)  # where every token is kept, none has the weight e^0
    total = (weight.sum(-1) + floor * others).clamp_min_(torch.finfo(best.dtype).tiny)
    return weight / total[..., None], floor / total
