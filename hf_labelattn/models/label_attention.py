"""Hidden states to label scores. Layers take plain numbers.

Every layer is a reduction over tokens that can be taken window by window: `start` gives the empty state, `update`
folds in another window, `logits` reads the labels off. Attention over a document therefore never needs all of its
tokens at once, and a document of padding only yields the label bias.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init

from .functional import label_pool, label_scores, label_vectors, merge_pools
from .functional_convolution import part_maxima

State = tuple[Tensor, ...]


class Pooling(nn.Module):
    """Base of the layers that make one vector per document and classify it."""

    has_attention = False

    def __init__(self, feature_size: int, num_labels: int, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(feature_size, num_labels)

    def logits(self, state: State) -> Tensor:
        """Label scores `[B, L]` of what has been read."""
        return self.classifier(self.dropout(self.features(state)))


class MaxPooling(Pooling):
    """The strongest activation of each feature over the document (Kim 2014)."""

    parts = 1

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        return (hidden.new_full((hidden.shape[0], hidden.shape[2]), -torch.inf),)

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        return self.join(state, part_maxima(hidden, self.part_of(mask, offset, lengths), 1))

    def part_of(self, mask: Tensor, offset: int, lengths: Tensor) -> Tensor:
        """Which part of the document each token belongs to, -1 for padding."""
        return mask.long() - 1

    def join(self, state: State, best: Tensor) -> State:
        """Fold in the maxima `[B, 1, H]` of another window."""
        return (torch.maximum(state[0], best[:, 0]),)

    def features(self, state: State) -> Tensor:
        return state[0].masked_fill(state[0] == -torch.inf, 0.0)


class MeanPooling(Pooling):
    """The mean over the document (SWEM-aver, Shen et al. 2018; fastText)."""

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        return hidden.new_zeros(hidden.shape[0], hidden.shape[2]), hidden.new_zeros(hidden.shape[0])

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        total = torch.bmm(mask[:, None].to(hidden.dtype), hidden)[:, 0]
        return state[0] + total, state[1] + mask.sum(1)

    def features(self, state: State) -> Tensor:
        return state[0] / state[1].clamp(min=1)[:, None]


class UnitMeanPooling(MeanPooling):
    """The direction of the mean: documents and descriptions read by the same encoder are then points of one sphere."""

    def features(self, state: State) -> Tensor:
        return F.normalize(super().features(state), dim=1)


class LastPooling(Pooling):
    """The final state of each direction of a recurrent encoder."""

    def __init__(self, feature_size: int, num_labels: int, dropout: float, bidirectional: bool):
        super().__init__(feature_size, num_labels, dropout)
        self.bidirectional = bidirectional

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        started = torch.zeros(hidden.shape[0], 1, dtype=torch.bool, device=hidden.device)
        return hidden.new_zeros(hidden.shape[0], hidden.shape[2]), started

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        features, started = state
        half = hidden.shape[2] // 2 if self.bidirectional else hidden.shape[2]
        last = (mask.sum(1) - 1).clamp(min=0)
        forward = hidden[torch.arange(len(hidden), device=hidden.device), last, :half]
        forward = torch.where(mask.any(1)[:, None], forward, features[:, :half])
        backward = torch.where(started, features[:, half:], hidden[:, 0, half:] * mask[:, :1])
        return torch.cat([forward, backward], dim=1), started | mask.any(1)[:, None]

    def features(self, state: State) -> Tensor:
        return state[0]


class DynamicMaxPooling(Pooling):
    """Maxima over equal parts of the document, then a bottleneck (XML-CNN, Liu et al. 2017, section 3.2)."""

    needs_length = True

    def __init__(self, feature_size: int, num_labels: int, dropout: float, parts: int, bottleneck_size: int):
        super().__init__(bottleneck_size, num_labels, dropout)
        self.parts = parts
        self.bottleneck = nn.Linear(feature_size * parts, bottleneck_size)

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        return (hidden.new_full((hidden.shape[0], self.parts, hidden.shape[2]), -torch.inf),)

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        return self.join(state, part_maxima(hidden, self.part_of(mask, offset, lengths), self.parts))

    def part_of(self, mask: Tensor, offset: int, lengths: Tensor) -> Tensor:
        """Which part of the document each token belongs to, -1 for padding."""
        positions = torch.arange(offset, offset + mask.shape[1], device=mask.device)
        part = (positions[None] * self.parts // lengths.clamp(min=1)[:, None]).clamp(max=self.parts - 1)
        return part.masked_fill(~mask, -1)

    def join(self, state: State, best: Tensor) -> State:
        """Fold in the maxima `[B, parts, H]` of another window."""
        return (torch.maximum(state[0], best),)

    def features(self, state: State) -> Tensor:
        pooled = state[0].masked_fill(state[0] == -torch.inf, 0.0)
        features = torch.relu(self.bottleneck(pooled.flatten(1)))
        return features * (state[0] > -torch.inf).any(2).any(1)[:, None]


class LabelWiseAttention(nn.Module):
    """One attention distribution per label, one dot product per label (CAML, Mullenbach 2018; LAAT, Vu 2021).

    `A = softmax(Z Uᵀ)` with `Z = H` (CAML) or `Z = tanh(H Wᵀ)` (LAAT, `attention_size` given);
    `logits_l = w_l · Σ_t A_tl h_t + b_l`. No label vectors are made: `w_l · h_t` is averaged instead.
    """

    has_attention = True

    def __init__(self, feature_size: int, num_labels: int, attention_size: int | None = None, memory_mb: int = 256):
        super().__init__()
        self.projection = nn.Linear(feature_size, attention_size, bias=False) if attention_size else None
        self.queries = nn.Parameter(torch.empty(num_labels, attention_size or feature_size))
        self.weight = nn.Parameter(torch.empty(num_labels, feature_size))
        self.bias = nn.Parameter(torch.empty(num_labels))
        self.memory_mb = memory_mb

    def reset_weights(self) -> None:
        """Xavier for the label vectors, zero bias."""
        init.xavier_uniform_(self.queries)
        init.xavier_uniform_(self.weight)
        init.zeros_(self.bias)

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        zeros = torch.zeros(hidden.shape[0], len(self.bias), dtype=torch.float32, device=hidden.device)
        return zeros - torch.inf, zeros, zeros

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        pooled = label_pool(self._keys(hidden), hidden, mask, self.queries, self.weight, self.memory_mb)
        return merge_pools(state, pooled)

    def logits(self, state: State) -> Tensor:
        """Label scores `[B, L]` of what has been read."""
        return state[2] / state[1].masked_fill(state[1] == 0, 1.0) + self.bias

    def attention_scores(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores `[B, L, T]` before the softmax over tokens."""
        return label_scores(self._keys(hidden), mask, self.queries)

    def _keys(self, hidden: Tensor) -> Tensor:
        return hidden if self.projection is None else torch.tanh(self.projection(hidden))


class JointLabelWiseAttention(nn.Module):
    """JointLAAT (Vu et al. 2021, section 3.5): parents are predicted first, and their prediction informs the codes."""

    has_attention = True

    def __init__(
        self,
        feature_size: int,
        num_labels: int,
        attention_size: int,
        num_parents: int,
        parent_size: int,
        memory_mb: int,
    ):
        super().__init__()
        self.parents = LabelWiseAttention(feature_size, num_parents, attention_size, memory_mb)
        self.labels = LabelWiseAttention(feature_size, num_labels, attention_size, memory_mb)
        self.parent_projection = nn.Linear(num_parents, parent_size)
        self.parent_weight = nn.Linear(parent_size, num_labels, bias=False)

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        return self.parents.start(hidden, lengths) + self.labels.start(hidden, lengths)

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        parents = self.parents.update(state[:3], hidden, mask, offset, lengths)
        return parents + self.labels.update(state[3:], hidden, mask, offset, lengths)

    def logits(self, state: State) -> Tensor:
        """Label scores `[B, L]` of what has been read."""
        found = torch.sigmoid(self.parent_logits(state)).to(self.parent_projection.weight.dtype)
        parents = torch.sigmoid(self.parent_projection(found))
        # A document without a word has no parents to speak of: only the bias is left.
        return self.labels.logits(state[3:]) + self.parent_weight(parents) * (state[1].amax(1) > 0)[:, None]

    def parent_logits(self, state: State) -> Tensor:
        """Scores `[B, P]` of the parents."""
        return self.parents.logits(state[:3])

    def attention_scores(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores `[B, L, T]` of the codes before the softmax over tokens."""
        return self.labels.attention_scores(hidden, mask)


class CrossAttention(nn.Module):
    """Label queries attend to keys and values of the tokens; one shared output vector (PLM-CA, Edin 2024)."""

    has_attention = True

    def __init__(self, feature_size: int, num_labels: int, memory_mb: int = 256):
        super().__init__()
        self.memory_mb = memory_mb
        self.queries = nn.Parameter(torch.empty(num_labels, feature_size))
        self.keys = nn.Linear(feature_size, feature_size, bias=False)
        self.values = nn.Linear(feature_size, feature_size)
        self.norm = nn.LayerNorm(feature_size)
        self.output = nn.Linear(feature_size, 1, bias=False)
        # One bias per label instead of the published single one: labels differ in frequency by orders of magnitude.
        self.bias = nn.Parameter(torch.empty(num_labels))

    def reset_weights(self) -> None:
        """Small random label queries, zero bias."""
        init.normal_(self.queries, std=self.queries.shape[1] ** -0.5)
        init.zeros_(self.bias)

    def start(self, hidden: Tensor, lengths: Tensor) -> State:
        zeros = torch.zeros(hidden.shape[0], len(self.queries), dtype=torch.float32, device=hidden.device)
        return zeros - torch.inf, zeros, hidden.new_zeros(*zeros.shape, hidden.shape[2])

    def update(self, state: State, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor) -> State:
        pooled = label_vectors(self.keys(hidden), self.values(hidden), mask, self.queries, self.memory_mb)
        return merge_pools(state, pooled)

    def logits(self, state: State) -> Tensor:
        """Label scores `[B, L]` of what has been read."""
        vectors = state[2] / state[1].masked_fill(state[1] == 0, 1.0)[..., None].to(state[2].dtype)
        scores = self.output(self.norm(vectors))[..., 0]
        return torch.where(state[1] > 0, scores.float(), 0.0) + self.bias

    def attention_scores(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores `[B, L, T]` before the softmax over tokens."""
        return label_scores(self.keys(hidden), mask, self.queries)


def description_penalty(weight: Tensor, descriptions: Tensor, labels: Tensor) -> Tensor:
    """DR-CAML's regulariser: squared distance of a document's true label weights to their encoded descriptions.

    Args:
        weight: `[L, H]` label weights.
        descriptions: `[L, H]` encoded descriptions.
        labels: `[B, L]` multi-hot truth.
    """
    distance = (weight - descriptions).pow(2).sum(1)  # [L]
    per_document = labels.to(distance.dtype) @ distance
    return (per_document / labels.sum(1).clamp(min=1)).mean()


def parent_targets(labels: Tensor, parents: Tensor, num_parents: int) -> Tensor:
    """A parent is present when any of its labels is.

    >>> parent_targets(torch.tensor([[0., 1., 1.]]), torch.tensor([0, 1, 1]), 2)
    tensor([[0., 1.]])
    """
    one_hot = F.one_hot(parents, num_parents).to(labels.dtype)
    return (labels @ one_hot).clamp(max=1.0)
