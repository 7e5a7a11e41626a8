"""Equations (2)-(9) of the LEAM paper, one document and one loop at a time, as they are printed."""

import math

import torch
from torch import Tensor


def similarity(values: Tensor, labels: Tensor) -> Tensor:
    """Eq. (2) for one document: `[N, P]`, `[K, P]` -> `[K, N]`."""
    out = values.new_zeros(len(labels), len(values))
    for k, label in enumerate(labels):
        for position, word in enumerate(values):
            norm = label.norm() * word.norm()
            out[k, position] = label @ word / norm if norm > 0 else 0.0
    return out


def compatibility(g: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Eq. (3): ReLU(G[l-r : l+r] W1 + b1); a full kernel mixes labels, None keeps G."""
    if weight is None:
        return g
    num_labels, length = g.shape
    radius = weight.shape[-1] // 2
    out = g.new_zeros(num_labels, length)
    for k in range(num_labels):
        for position in range(length):
            total = bias[k]
            for offset in range(-radius, radius + 1):
                if 0 <= position + offset < length:
                    total = total + _tap(g[:, position + offset], weight, k, offset + radius)
            out[k, position] = torch.clamp(total, min=0.0)
    return out


def _tap(column: Tensor, weight: Tensor, k: int, j: int) -> Tensor:
    if weight.dim() == 1:
        return weight[j] * column[k]
    if weight.dim() == 2:
        return weight[k, j] * column[k]
    return sum(weight[k, other, j] * column[other] for other in range(len(column)))


def softmax(scores: Tensor) -> Tensor:
    """Eq. (5)."""
    exponentials = torch.stack([torch.exp(score) for score in scores])
    return exponentials / exponentials.sum()


def attention(values: Tensor, labels: Tensor, weight: Tensor | None, bias: Tensor | None, pooling: str) -> Tensor:
    """Eq. (2)-(5) for the real tokens of one document: `[1, N]`, or `[K, N]` with a softmax per label."""
    u = compatibility(similarity(values, labels), weight, bias)
    if pooling == "label":
        return torch.stack([softmax(row) for row in u])
    return softmax(torch.stack([max(u[:, position]) for position in range(u.shape[1])]))[None]


def mean(values: Tensor, beta: Tensor) -> Tensor:
    """Eq. (6): `[Q, P]`."""
    return torch.stack([sum(row[i] * values[i] for i in range(len(values))) for row in beta])


def cross_entropy(logits: Tensor, target: int) -> Tensor:
    """Eq. (7) for one document."""
    return -torch.log(softmax(logits)[target])


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Eq. (8) for one document, with the sigmoid the text's sign misprints."""
    total = logits.new_zeros(())
    for logit, target in zip(logits, targets, strict=True):
        probability = 1 / (1 + torch.exp(-logit))
        total = total - (target * torch.log(probability) + (1 - target) * torch.log(1 - probability))
    return total / len(logits)


def regulariser(labels: Tensor, classify, problem_type: str) -> Tensor:
    """Eq. (9): every label embedding is classified as its own label."""
    losses = []
    for k, label in enumerate(labels):
        logits = classify(label)
        if problem_type == "single_label_classification":
            losses.append(cross_entropy(logits, k))
        else:
            losses.append(binary_cross_entropy(logits, torch.eye(len(labels), dtype=logits.dtype)[k]))
    return sum(losses) / len(losses)


def parameter_count(num_labels: int, size: int, window: int) -> int:
    """What the paper counts for a shared kernel and a linear classifier: C, W1, b1, W2, b2."""
    return math.prod((2, num_labels, size)) + (2 * window + 1) + 2 * num_labels
