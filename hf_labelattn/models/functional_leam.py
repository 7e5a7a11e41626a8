"""Pure kernels of LEAM (Wang et al. 2018, "Joint Embedding of Words and Labels for Text Classification", eq. 2-6).

B documents of N tokens, K labels, P dimensions. `phrase_weight` is `[2r+1]` (shared), `[K, 2r+1]` (depthwise),
`[K, K, 2r+1]` (full: every label sees every other) or None (the linear model: the cosine itself is the score).

Three exact rewrites make them fast. Cosines are divided by the token norm after the product with the labels, so no
normalised copy of the document exists. The shared convolution is one product with a banded (Toeplitz) matrix. And for
many labels the convolution moves from the K similarities to the P dimensions of the words, because both are linear in
the tokens: `conv(C v) = C conv(v)`; only the winning label of a token then needs a gradient.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .functional import label_chunks, masked_softmax

EPSILON = 1e-8
# Tokens per block of the banded product: a wider block wastes zeros, a narrower one repeats more of the margins.
BLOCK = 128
# Labels per slice: larger products gain nothing, and their scores no longer stay near the processor.
SLICE = 512
# Float32 arrays of [B, K, N] that one label slice holds at most at once, in the backward pass.
LIVE_ARRAYS = 6


def inverse_norms(rows: Tensor) -> Tensor:
    """One over the length of each row `[..., P]`, in float32 or wider; 0 for a row of zeros."""
    norms = torch.linalg.vector_norm(rows, dim=-1, dtype=_wide(rows))
    return norms.clamp_min(EPSILON).reciprocal() * (norms > EPSILON)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows scaled to length one; a row of zeros stays zero.

    >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return (rows * inverse_norms(rows)[..., None]).to(rows.dtype)


def cosine_similarity(values: Tensor, mask: Tensor, label_embeddings: Tensor) -> Tensor:
    """Eq. (2): the cosine of every label and token, 0 at padding: `[B, K, N]`, float32 or wider."""
    products = torch.matmul(unit_rows(label_embeddings), values.transpose(1, 2))  # [B, K, N]
    return products * (inverse_norms(values) * mask)[:, None]


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def banded_matrix(weight: Tensor, size: int) -> Tensor:
    """The matrix `[size + 2r, size]` whose column o holds `weight` from row o on, zeros elsewhere.

    >>> banded_matrix(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[1., 0.],
            [2., 1.],
            [3., 2.],
            [0., 3.]])
    """
    rows = size + weight.numel() - 1
    return F.pad(weight, (0, size)).repeat(size)[: size * rows].view(size, rows).T


def correlate(signal: Tensor, weight: Tensor) -> Tensor:
    """Slide one kernel `[2r+1]` over the last axis of `[..., N]`, zeros beyond both ends, same length out.

    >>> correlate(torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([10.0, 1.0, 100.0]))
    tensor([[  1., 210.,   2.]])
    """
    length, radius = signal.shape[-1], weight.numel() // 2
    rows = signal.reshape(-1, length)
    if length <= BLOCK + 2 * radius:
        return (rows @ banded_matrix(weight, length)[radius : radius + length]).view(signal.shape)
    blocks = -(-length // BLOCK)
    padded = F.pad(rows, (radius, radius + blocks * BLOCK - length))
    windows = padded.unfold(-1, BLOCK + 2 * radius, BLOCK)  # [rows, blocks, BLOCK + 2r]
    out = windows @ banded_matrix(weight, BLOCK)  # [rows, blocks, BLOCK]
    return out.flatten(1)[:, :length].view(signal.shape)


def correlate_tokens(values: Tensor, weight: Tensor) -> Tensor:
    """Slide one kernel over the tokens of `[B, N, P]`: the same as `correlate`, along the second axis."""
    length, radius = values.shape[1], weight.numel() // 2
    if length <= BLOCK + 2 * radius:
        return banded_matrix(weight, length)[radius : radius + length].T @ values
    blocks = -(-length // BLOCK)
    padded = F.pad(values, (0, 0, radius, radius + blocks * BLOCK - length))
    windows = padded.unfold(1, BLOCK + 2 * radius, BLOCK)  # [B, blocks, P, BLOCK + 2r]
    out = banded_matrix(weight, BLOCK).T @ windows.transpose(2, 3)  # [B, blocks, BLOCK, P]
    return out.flatten(1, 2)[:, :length]


def phrase_scores(similarity: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Eq. (3): phrase-label compatibility `[B, K, N]`; without a kernel, the similarity itself (linear LEAM)."""
    if weight is None:
        return similarity
    weight, bias = weight.to(similarity.dtype), bias.to(similarity.dtype)
    if weight.dim() == 1:
        return F.relu(correlate(similarity, weight) + bias[:, None])
    kernel = weight[:, None] if weight.dim() == 2 else weight  # [K, 1 or K, 2r+1]
    groups = similarity.shape[1] if weight.dim() == 2 else 1
    return F.relu(F.conv1d(similarity, kernel, bias, padding=weight.shape[-1] // 2, groups=groups))


def token_weights(scores: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Eq. (4, 5): softmax over real tokens of the best label's score `[B, 1, N]`, or of each label's `[B, K, N]`."""
    if pooling == "max":
        scores = scores.amax(1, keepdim=True)
    return masked_softmax(scores, mask[:, None])


class _AttentiveMean(torch.autograd.Function):
    """Eq. (2) and (6) around a given `attend(similarity, *parameters) -> weights [B, Q, N]`.

    Plain differentiation would pass over the document (`[B, N, P]`, by far the largest array) about fifteen times;
    here its gradient is one product and one addition. `attend` works on small arrays and is run again in backward.
    """

    @staticmethod
    def forward(ctx, values, mask, labels, attend, *parameters):
        """Weighted means `[B, Q, P]` and weights `[B, Q, N]`; `labels` are unit rows `[K, P]`."""
        with torch.autocast(values.device.type, enabled=False):
            inverse = inverse_norms(values) * mask
            # A batched product writes [B, K, N] directly; folded into one tall product it is several times slower.
            products = torch.bmm(labels.expand(len(values), -1, -1), values.transpose(1, 2))
            similarity = products.to(inverse.dtype).mul_(inverse[:, None])  # [B, K, N]
            weights = attend(similarity, *parameters)
            ctx.attend = attend
            ctx.save_for_backward(values, labels, inverse, similarity, weights, *parameters)
            return torch.bmm(weights.to(values.dtype), values), weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_mean, grad_weights):
        """Chain rule through both uses of the document at once."""
        values, labels, inverse, similarity, weights, *parameters = ctx.saved_tensors
        with torch.autocast(values.device.type, enabled=False):
            grad_weights = grad_weights + torch.bmm(grad_mean, values.transpose(1, 2))  # [B, Q, N]
            leaves = [tensor.detach().requires_grad_() for tensor in (similarity, *parameters)]
            with torch.enable_grad():
                again = ctx.attend(*leaves)
            grad_similarity, *grad_parameters = torch.autograd.grad(again, leaves, grad_weights.to(again.dtype))
            grad_products = (grad_similarity * inverse[:, None]).to(values.dtype)  # [B, K, N]
            left = torch.cat([weights.to(values.dtype), grad_products], 1).transpose(1, 2)  # [B, N, Q + K]
            right = torch.cat([grad_mean, labels.expand(len(values), -1, -1)], 1)  # [B, Q + K, P]
            # d cos / d v = (c/|c| - cos v/|v|) / |v|: the second term only rescales the token itself.
            radial = (grad_similarity * similarity).sum(1).mul_(inverse.square()).to(values.dtype)  # [B, N]
            grad_values = torch.bmm(left, right).addcmul_(values, radial[..., None], value=-1)
            grad_labels = grad_products.transpose(0, 1).flatten(1) @ values.flatten(0, 1)  # [K, P]
        return grad_values, None, grad_labels, None, *grad_parameters


def attentive_mean(
    values: Tensor,
    mask: Tensor,
    label_embeddings: Tensor,
    phrase_weight: Tensor | None,
    phrase_bias: Tensor | None,
    pooling: str,
) -> tuple[Tensor, Tensor]:
    """Eq. (2)-(6) with all labels at once: means `[B, Q, P]` and weights `[B, Q, N]`, Q = 1 or (by label) K."""
    parameters = () if phrase_weight is None else (phrase_weight, phrase_bias)

    def attend(similarity: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return token_weights(phrase_scores(similarity, weight, bias), mask, pooling)

    return _AttentiveMean.apply(values, mask, unit_rows(label_embeddings), attend, *parameters)


def phrase_vectors(values: Tensor, mask: Tensor, weight: Tensor | None) -> Tensor:
    """Words normalised and then convolved `[B, N, P]`: their product with unit labels is eq. (3) before the bias."""
    unit = unit_rows(values) * mask[..., None]
    return unit if weight is None else correlate_tokens(unit, weight.to(values.dtype))


def label_slices(num_labels: int, bytes_per_label: int, max_memory_mb: int) -> list[slice]:
    """Slices of labels that fit the budget, and are short enough for their scores to stay near the processor."""
    slices = label_chunks(num_labels, bytes_per_label, max_memory_mb)
    return slices if slices[0].stop <= SLICE else label_chunks(num_labels, 2**20, SLICE)


def best_label_scores(phrases: Tensor, labels: Tensor, bias: Tensor | None, max_memory_mb: int) -> Tensor:
    """The score of each token's best label, `[B, N, P]` and unit `[K, P]` -> `[B, N]`, slice of labels by slice.

    With gradients, the winners are found first, and only their scores enter the graph.
    """
    if not torch.is_grad_enabled():
        slices = _score_slices(phrases, labels, bias, max_memory_mb)
        return torch.stack([scores.amax(-1) for scores in slices]).amax(0).view(phrases.shape[:2])
    winner = find_best_labels(phrases, labels, bias, max_memory_mb)
    scores = (phrases * F.embedding(winner, labels)).sum(-1)
    return scores if bias is None else scores + bias[winner]


@torch.no_grad()
def find_best_labels(phrases: Tensor, labels: Tensor, bias: Tensor | None, max_memory_mb: int) -> Tensor:
    """The index of each token's best label, `[B, N]`; of equals, the first."""
    tops, winners, start = [], [], 0
    for scores in _score_slices(phrases, labels, bias, max_memory_mb):
        top, winner = scores.max(-1)
        tops.append(top)
        winners.append(winner + start)
        start += scores.shape[-1]
    which = torch.stack(tops).argmax(0, keepdim=True)
    return torch.stack(winners).gather(0, which).view(phrases.shape[:2])


def _score_slices(phrases: Tensor, labels: Tensor, bias: Tensor | None, max_memory_mb: int) -> Iterator[Tensor]:
    """Scores of all tokens `[B * N, S]` for one slice of labels after another."""
    rows = phrases.flatten(0, 1)
    for part in label_slices(len(labels), 8 * len(rows), max_memory_mb):
        scores = rows @ labels[part].T
        yield scores if bias is None else scores.add_(bias[part])


def sliced_best_scores(
    values: Tensor, mask: Tensor, label_embeddings: Tensor, weight: Tensor, bias: Tensor, max_memory_mb: int
) -> Tensor:
    """Eq. (2)-(4) for one kernel per label, slice of labels by slice, recomputed in backward: `[B, N]`."""

    def best(values: Tensor, *label_parameters: Tensor) -> Tensor:
        labels, weight, bias = label_parameters
        return phrase_scores(cosine_similarity(values, mask, labels), weight, bias).amax(1)

    slices = label_slices(len(bias), 4 * LIVE_ARRAYS * mask.numel(), max_memory_mb)
    parts = [(label_embeddings[part], weight[part], bias[part]) for part in slices]
    return torch.stack([_recomputed(best, values, *part) for part in parts]).amax(0)


def mean_by_best_label(
    values: Tensor,
    mask: Tensor,
    label_embeddings: Tensor,
    phrase_weight: Tensor | None,
    phrase_bias: Tensor | None,
    max_memory_mb: int,
) -> tuple[Tensor, Tensor]:
    """Eq. (2)-(6): document vectors `[B, P]` and token weights `[B, 1, N]`, in bounded memory.

    Args:
        values: Word vectors `[B, N, P]`.
        mask: Real tokens, boolean `[B, N]`.
        label_embeddings: `[K, P]`.
        phrase_weight: Kernel of eq. (3) in one of the forms above.
        phrase_bias: `[K]`, or None for the linear model.
        max_memory_mb: Budget for the arrays of labels × tokens.
    """
    if _at_once(values, label_embeddings, phrase_weight, max_memory_mb):
        mean, weights = attentive_mean(values, mask, label_embeddings, phrase_weight, phrase_bias, "max")
        return mean[:, 0], weights
    if phrase_weight is not None and phrase_weight.dim() == 2:
        scores = sliced_best_scores(values, mask, label_embeddings, phrase_weight, phrase_bias, max_memory_mb)
    else:
        phrases = phrase_vectors(values, mask, phrase_weight)
        scores = best_label_scores(phrases, unit_rows(label_embeddings), phrase_bias, max_memory_mb)
        scores = scores if phrase_weight is None else F.relu(scores)
    weights = masked_softmax(scores, mask)[:, None]
    return torch.bmm(weights.to(values.dtype), values)[:, 0], weights


def logits_by_label(
    values: Tensor,
    mask: Tensor,
    label_embeddings: Tensor,
    phrase_weight: Tensor | None,
    phrase_bias: Tensor | None,
    readout: Callable[[Tensor, slice], Tensor],
    max_memory_mb: int,
    keep_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Eq. (2)-(6) with one softmax and one mean per label: `readout` of the means, in bounded memory.

    Args:
        values: Word vectors `[B, N, P]`.
        mask: Real tokens, boolean `[B, N]`.
        label_embeddings: `[K, P]`.
        phrase_weight: Kernel of eq. (3) in one of the forms above.
        phrase_bias: `[K]`, or None for the linear model.
        readout: Means `[B, S, P]` of a slice of labels -> their logits `[B, S]`.
        max_memory_mb: Budget for the arrays of labels × tokens.
        keep_weights: Also return the token weights `[B, K, N]`, which the budget then cannot bound.
    """
    phrases = None
    if len(label_embeddings) > values.shape[-1] and (phrase_weight is None or phrase_weight.dim() == 1):
        phrases = phrase_vectors(values, mask, phrase_weight)

    def pool(part: slice) -> tuple[Tensor, Tensor | None]:
        bias = None if phrase_bias is None else phrase_bias[part]
        if phrases is None:
            weight = phrase_weight[part] if phrase_weight is not None and phrase_weight.dim() == 2 else phrase_weight
            mean, weights = attentive_mean(values, mask, label_embeddings[part], weight, bias, "label")
        else:
            scores = torch.matmul(unit_rows(label_embeddings[part]), phrases.transpose(1, 2))  # [B, S, N]
            scores = scores if bias is None else F.relu(scores + bias[:, None])
            weights = token_weights(scores, mask, "label")
            mean = torch.bmm(weights.to(values.dtype), values)
        return readout(mean, part), weights if keep_weights else None

    slices = _slices(values, label_embeddings, phrase_weight, max_memory_mb)
    logits, weights = zip(*[_recomputed(pool, part, when=len(slices) > 1) for part in slices], strict=True)
    return torch.cat(logits, 1), torch.cat(weights, 1) if keep_weights else None


def label_regulariser(label_embeddings: Tensor, classify: Callable[[Tensor], Tensor], problem_type: str) -> Tensor:
    """Eq. (9): the loss of classifying every label embedding as its own label, slice of labels by slice."""

    def loss(part: slice) -> Tensor:
        logits = classify(label_embeddings[part]).float()  # [S, K]
        own = torch.arange(part.start, part.stop, device=logits.device)
        if problem_type == "single_label_classification":
            return F.cross_entropy(logits, own, reduction="sum")
        return F.softplus(logits).sum(1).sub(logits.gather(1, own[:, None])[:, 0]).sum() / logits.shape[1]

    slices = label_slices(len(label_embeddings), 1, 1)
    return sum(_recomputed(loss, part, when=len(slices) > 1) for part in slices) / len(label_embeddings)


def _slices(values: Tensor, labels: Tensor, weight: Tensor | None, max_memory_mb: int) -> list[slice]:
    """Slices of labels for one softmax per label; a full kernel needs all labels at once."""
    if weight is not None and weight.dim() == 3:
        return [slice(0, len(labels))]
    batch, tokens, size = values.shape
    return label_slices(len(labels), 4 * LIVE_ARRAYS * batch * (tokens + size), max_memory_mb)


def _at_once(values: Tensor, labels: Tensor, weight: Tensor | None, max_memory_mb: int) -> bool:
    """Whether all similarities are held together: cheaper for few labels, and unavoidable for a full kernel."""
    if weight is not None and weight.dim() == 3:
        return True
    fits = 4 * LIVE_ARRAYS * len(labels) * values[..., 0].numel() <= max_memory_mb * 2**20
    return fits and len(labels) <= values.shape[-1]


def _recomputed(function: Callable, *arguments, when: bool = True):
    """Call a function; in training, drop what it computed and compute it again in the backward pass."""
    if when and torch.is_grad_enabled():
        return checkpoint(function, *arguments, use_reentrant=False)
    return function(*arguments)
