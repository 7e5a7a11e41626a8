"""Pure kernels of LEAM (Wang et al. 2018, "Joint Embedding of Words and Labels for Text Classification", eq. 2-6).

B documents of N tokens, K labels, P dimensions. A batch is `words [U, P]`, its different words (or, after an encoder,
its tokens), and `positions [B, N]`, which of them stands where. `phrase_weight` is `[2r+1]` (shared), `[K, 2r+1]`
(depthwise), `[K, K, 2r+1]` (full: every label sees every other) or None (linear: the cosine itself is the score).

Exact rewrites make them fast. A cosine depends on word and label only, so it is computed once per different word, and
divided by the word's norm after the product. The shared convolution is a product with a banded matrix. The weighted
mean gathers and sums in one step. And for more labels than dimensions the convolution moves from the K similarities to
the P dimensions of the words, `conv(C v) = C conv(v)`, where only the winning label of a token needs a gradient.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .functional import label_chunks, masked_softmax

EPSILON = 1e-8
# Tokens per block of the banded product: a wider block multiplies more zeros, a narrower one wastes small products.
BLOCK = 64
# Labels per slice: larger products gain nothing, and their scores no longer stay near the processor.
SLICE = 512
# Scores of a slice beyond which a slice gets fewer labels, down to a number that still makes a good product.
SLICE_CELLS, FEWEST = 2**20, 64
# Float32 arrays of [B, K, N] that one label slice holds at most at once, in the backward pass.
LIVE_ARRAYS = 6


def different_words(ids: Tensor, vocab_size: int) -> tuple[Tensor, Tensor]:
    """The different ids of a batch, ascending, and where each token's id stands among them.

    >>> different_words(torch.tensor([[5, 2, 5]]), vocab_size=7)
    (tensor([2, 5]), tensor([[1, 0, 1]]))
    """
    seen = torch.zeros(vocab_size, dtype=torch.bool, device=ids.device)
    seen[ids.flatten()] = True
    words = seen.nonzero()[:, 0]
    rank = torch.zeros(vocab_size, dtype=torch.long, device=ids.device)
    rank[words] = torch.arange(len(words), device=ids.device)
    return words, rank[ids]


def inverse_norms(rows: Tensor) -> Tensor:
    """One over the length of each row `[..., P]`, in float32 or wider; 0 for a row of zeros."""
    norms = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.promote_types(rows.dtype, torch.float32))
    return norms.clamp_min(EPSILON).reciprocal() * (norms > EPSILON)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows scaled to length one; a row of zeros stays zero.

    >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return (rows * inverse_norms(rows)[..., None]).to(rows.dtype)


def word_cosines(words: Tensor, label_embeddings: Tensor) -> Tensor:
    """Eq. (2) for every different word: `[U, P]`, `[K, P]` -> `[K, U]`, float32 or wider."""
    return (unit_rows(label_embeddings) @ words.T) * inverse_norms(words)


def spread(cosines: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
    """The columns of `[K, U]` laid out as the documents read, `[B, K, N]`, 0 at padding: G of eq. (2)."""
    looked_up = cosines.index_select(1, positions.flatten()).view(-1, *positions.shape)  # [K, B, N]
    return looked_up.mul_(mask).transpose(0, 1)


def banded_matrix(weight: Tensor, size: int) -> Tensor:
    """The matrix `[size + 2r, size]` whose column o holds `weight` from row o on, zeros elsewhere.

    >>> banded_matrix(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[1., 0.],
            [2., 1.],
            [3., 2.],
            [0., 3.]])
    """
    rows = size + weight.numel() - 1
    return F.pad(weight, (0, size)).repeat(size)[: size * rows].view(size, rows).T.contiguous()


def _blocks(length: int, radius: int) -> Iterator[tuple[slice, slice, slice, slice]]:
    """For every block of outputs: its inputs, itself, and the rows and columns of the banded matrix between them."""
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        low, high = max(0, start - radius), min(length, stop + radius)
        shift = radius - start
        yield slice(low, high), slice(start, stop), slice(low + shift, high + shift), slice(0, stop - start)


def _slide(rows: Tensor, weight: Tensor) -> Tensor:
    band, out = banded_matrix(weight, BLOCK), torch.empty_like(rows)
    for inputs, outputs, band_rows, band_columns in _blocks(rows.shape[1], weight.numel() // 2):
        torch.mm(rows[:, inputs], band[band_rows, band_columns], out=out[:, outputs])
    return out


class _Correlate(torch.autograd.Function):
    """One kernel `[2r+1]` over contiguous rows `[R, N]`, block by block without copies of the overlaps."""

    @staticmethod
    def forward(ctx, rows, weight):
        """Zeros beyond both ends, same length out."""
        ctx.save_for_backward(rows, weight)
        return _slide(rows, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        """The rows get the mirrored kernel; each tap of the kernel gets its diagonal of the banded gradient."""
        rows, weight = ctx.saved_tensors
        grad, radius = grad.contiguous(), weight.numel() // 2
        band = grad.new_zeros(BLOCK + 2 * radius, BLOCK)
        for inputs, outputs, band_rows, band_columns in _blocks(rows.shape[1], radius):
            band[band_rows, band_columns].addmm_(rows[:, inputs].T, grad[:, outputs])
        diagonals = band.as_strided((weight.numel(), BLOCK), (BLOCK, BLOCK + 1))
        return _slide(grad, weight.flip(0)), diagonals.sum(1)


def correlate(signal: Tensor, weight: Tensor) -> Tensor:
    """Slide one kernel `[2r+1]` over the last axis of `[..., N]`, zeros beyond both ends, same length out.

    >>> correlate(torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([10.0, 1.0, 100.0]))
    tensor([[  1., 210.,   2.]])
    """
    rows = signal.reshape(-1, signal.shape[-1]).contiguous()
    return _Correlate.apply(rows, weight.to(signal.dtype)).view(signal.shape)


def phrase_scores(similarity: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Eq. (3): phrase-label compatibility `[B, K, N]`; without a kernel, the similarity itself (linear LEAM)."""
    if weight is None:
        return similarity
    weight, bias = weight.to(similarity.dtype), bias.to(similarity.dtype)
    if weight.dim() == 1:
        return F.relu_(correlate(similarity, weight).add_(bias[:, None]))  # in place: memory costs more than the sums
    kernel = weight[:, None] if weight.dim() == 2 else weight  # [K, 1 or K, 2r+1]
    groups = similarity.shape[1] if weight.dim() == 2 else 1
    return F.relu(F.conv1d(similarity, kernel, bias, padding=weight.shape[-1] // 2, groups=groups))


def token_weights(scores: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Eq. (4, 5): softmax over real tokens of the best label's score `[B, 1, N]`, or of each label's `[B, K, N]`."""
    if pooling == "max":
        scores = scores.amax(1, keepdim=True)
    return masked_softmax(scores, mask[:, None])


def weighted_sum(words: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
    """Eq. (6): `[U, P]`, `[B, N]` and weights `[B, Q, N]` -> `[B, Q, P]`."""
    weights = weights.to(words.dtype)
    if weights.shape[1] == 1 and positions.numel():
        # Gathers and sums in one step, without the documents' vectors in memory.
        return F.embedding_bag(positions, words, per_sample_weights=weights[:, 0], mode="sum")[:, None]
    return torch.bmm(weights, F.embedding(positions, words))


def phrase_vectors(words: Tensor, positions: Tensor, mask: Tensor, weight: Tensor | None) -> Tensor:
    """Words normalised and then convolved `[B, N, P]`: their product with unit labels is eq. (3) before the bias."""
    unit = F.embedding(positions, unit_rows(words)).mul_(mask[..., None])
    return unit if weight is None else correlate(unit.transpose(1, 2), weight).transpose(1, 2).contiguous()


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
    size = min(SLICE, max(FEWEST, SLICE_CELLS // max(1, len(rows))))
    fitting = max(1, max_memory_mb * 2**20 // max(1, 8 * len(rows)))
    for part in label_chunks(len(labels), 2**20, min(size, fitting)):
        scores = rows @ labels[part].T
        yield scores if bias is None else scores.add_(bias[part])


def sliced_best_scores(
    words: Tensor,
    positions: Tensor,
    mask: Tensor,
    label_embeddings: Tensor,
    weight: Tensor,
    bias: Tensor,
    max_memory_mb: int,
) -> Tensor:
    """Eq. (2)-(4) for one kernel per label, slice of labels by slice, recomputed in backward: `[B, N]`."""

    def best(part: slice) -> Tensor:
        similarity = spread(word_cosines(words, label_embeddings[part]), positions, mask)
        return phrase_scores(similarity, weight[part], bias[part]).amax(1)

    slices = label_slices(len(bias), 4 * LIVE_ARRAYS * mask.numel(), max_memory_mb)
    return torch.stack([_recomputed(best, part, when=len(slices) > 1) for part in slices]).amax(0)


def mean_by_best_label(
    words: Tensor,
    positions: Tensor,
    mask: Tensor,
    label_embeddings: Tensor,
    phrase_weight: Tensor | None,
    phrase_bias: Tensor | None,
    max_memory_mb: int,
) -> tuple[Tensor, Tensor]:
    """Eq. (2)-(6): document vectors `[B, P]` and token weights `[B, 1, N]`, in bounded memory.

    Args:
        words: Different words of the batch `[U, P]`.
        positions: Which of them stands where, `[B, N]`.
        mask: Real tokens, boolean `[B, N]`.
        label_embeddings: `[K, P]`.
        phrase_weight: Kernel of eq. (3) in one of the forms above.
        phrase_bias: `[K]`, or None for the linear model.
        max_memory_mb: Budget for the arrays of labels × tokens.
    """
    if _at_once(words, mask, label_embeddings, phrase_weight, max_memory_mb):
        similarity = spread(word_cosines(words, label_embeddings), positions, mask)
        weights = token_weights(phrase_scores(similarity, phrase_weight, phrase_bias), mask, "max")
    else:
        scores = _best_scores_of_many(
            words, positions, mask, label_embeddings, phrase_weight, phrase_bias, max_memory_mb
        )
        weights = masked_softmax(scores, mask)[:, None]
    return weighted_sum(words, positions, weights)[:, 0], weights


def _best_scores_of_many(words, positions, mask, label_embeddings, weight, bias, max_memory_mb) -> Tensor:
    """Eq. (2)-(4) for more labels than can be held at once, or than there are dimensions: `[B, N]`."""
    if weight is not None and weight.dim() == 2:
        return sliced_best_scores(words, positions, mask, label_embeddings, weight, bias, max_memory_mb)
    phrases = phrase_vectors(words, positions, mask, weight)
    scores = best_label_scores(phrases, unit_rows(label_embeddings), bias, max_memory_mb)
    return scores if weight is None else F.relu(scores)


def logits_by_label(
    words: Tensor,
    positions: Tensor,
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
        words: Different words of the batch `[U, P]`.
        positions: Which of them stands where, `[B, N]`.
        mask: Real tokens, boolean `[B, N]`.
        label_embeddings: `[K, P]`.
        phrase_weight: Kernel of eq. (3) in one of the forms above.
        phrase_bias: `[K]`, or None for the linear model.
        readout: Means `[B, S, P]` of a slice of labels -> their logits `[B, S]`.
        max_memory_mb: Budget for the arrays of labels × tokens.
        keep_weights: Also return the token weights `[B, K, N]`, which the budget then cannot bound.
    """
    score = _slice_scorer(words, positions, mask, label_embeddings, phrase_weight, phrase_bias)
    values = F.embedding(positions, words)  # [B, N, P]

    def pool(part: slice) -> tuple[Tensor, Tensor | None]:
        weights = token_weights(score(part), mask, "label")
        mean = torch.bmm(weights.to(values.dtype), values)  # [B, S, P]
        return readout(mean, part), weights if keep_weights else None

    slices = _pooling_slices(mask, label_embeddings, phrase_weight, max_memory_mb)
    logits, weights = zip(*[_recomputed(pool, part, when=len(slices) > 1) for part in slices], strict=True)
    return torch.cat(logits, 1), torch.cat(weights, 1) if keep_weights else None


def _slice_scorer(words, positions, mask, label_embeddings, weight, bias) -> Callable[[slice], Tensor]:
    """A function from a slice of labels to eq. (3), `[B, S, N]`."""
    if weight is not None and weight.dim() > 1 or len(label_embeddings) <= words.shape[1]:
        per_label = weight is not None and weight.dim() == 2

        def score(part: slice) -> Tensor:
            similarity = spread(word_cosines(words, label_embeddings[part]), positions, mask)
            return phrase_scores(
                similarity, weight[part] if per_label else weight, None if bias is None else bias[part]
            )

        return score
    phrases = phrase_vectors(words, positions, mask, weight).transpose(1, 2)  # [B, P, N]

    def score_phrases(part: slice) -> Tensor:
        scores = torch.matmul(unit_rows(label_embeddings[part]), phrases)
        return scores if bias is None else F.relu(scores + bias[part, None])

    return score_phrases


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


def _pooling_slices(mask: Tensor, labels: Tensor, weight: Tensor | None, max_memory_mb: int) -> list[slice]:
    """Slices of labels for one softmax per label; a full kernel needs all labels at once."""
    if weight is not None and weight.dim() == 3:
        return [slice(0, len(labels))]
    batch, tokens = mask.shape
    slices = label_slices(len(labels), 4 * LIVE_ARRAYS * batch * (tokens + labels.shape[1]), max_memory_mb)
    if len(slices) == 1 and torch.is_grad_enabled():
        return slices  # whole, so that nothing is computed twice
    size = max(FEWEST, SLICE_CELLS // max(1, mask.numel()))
    return slices if slices[0].stop <= size else label_chunks(len(labels), 2**20, size)


def _at_once(words: Tensor, mask: Tensor, labels: Tensor, weight: Tensor | None, max_memory_mb: int) -> bool:
    """Whether all similarities are held together: cheaper for few labels, and unavoidable for a full kernel."""
    if weight is not None and weight.dim() == 3:
        return True
    fits = 4 * LIVE_ARRAYS * len(labels) * mask.numel() <= max_memory_mb * 2**20
    return fits and len(labels) <= words.shape[1]


def _recomputed(function: Callable, *arguments, when: bool):
    """Call a function; in training, drop what it computed and compute it again in the backward pass."""
    if when and torch.is_grad_enabled():
        return checkpoint(function, *arguments, use_reentrant=False)
    return function(*arguments)
