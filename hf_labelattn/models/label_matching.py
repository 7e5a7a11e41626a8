"""The parts of interaction matching: descriptions against documents, and their match against a base's score."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init

from .functional_matching import LabelWords, add_probabilities, append_identity, left_aligned, soft_ngram_match

# The logit of no opinion where probabilities are joined: 1e-13, and the loss stays finite.
IMPOSSIBLE = -30.0


@dataclass(frozen=True)
class InteractionState:
    """What a document carries to its next part.

    Attributes:
        base: The base's own state.
        width: Tokens read so far, padding included.
        keys: `[B, N]` words of the last part, and of as much before it as a window can still reach.
        places: `[B, N]` which token of the document each of them is.
        lengths: `[B]` how many of them are real.
        scores: `[B, L]` best match of the windows that start before the first of `keys`; minus infinity for none.
        positions: `[B, L, 2]` that window.
    """

    base: Any
    width: int
    keys: Tensor
    places: Tensor
    lengths: Tensor
    scores: Tensor
    positions: Tensor

    def __getitem__(self, row: int) -> "InteractionState":
        """The state of one document of the batch (pipelines take outputs apart row by row)."""
        base = None if self.base is None else self.base[row]
        tensors = {name: getattr(self, name)[row] for name in ("keys", "places", "lengths", "scores", "positions")}
        return replace(self, base=base, **tensors)

    def detach(self) -> "InteractionState":
        """Stop every gradient, to keep the state beyond one forward pass."""
        base = self.base.detach() if hasattr(self.base, "detach") else self.base
        return replace(self, base=base, scores=self.scores.detach())

    def behind(self, first: Tensor) -> "InteractionState":
        """Forget the first words, a number `[B]` per document."""
        index = torch.arange(self.keys.shape[1], device=self.keys.device)
        kept = (index >= first[:, None]) & (index < self.lengths[:, None])
        keys, lengths, source = left_aligned(self.keys, kept)
        width = int(lengths.max()) if len(lengths) else 0
        return replace(self, keys=keys[:, :width], places=self.places.gather(1, source)[:, :width], lengths=lengths)


class LabelMatcher(nn.Module):
    """Soft n-gram matching of descriptions with one word embedding for labels and documents (eq. 1-2)."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        num_labels: int,
        num_words: int,
        num_terms: int,
        unk_token_id: int | None = None,
        weighting: str = "uniform",
        memory_mb: int = 256,
    ):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, embedding_size)
        self.unk_token_id, self.weighting, self.memory_mb = unk_token_id, weighting, memory_mb
        if self.weighting == "learned":
            self.term_weights = nn.Parameter(torch.empty(vocab_size))
        elif self.weighting == "idf":
            self.register_buffer("term_weights", torch.empty(vocab_size))
        self.register_buffer("label_keys", torch.zeros(num_words, dtype=torch.long))
        self.register_buffer("label_rows", torch.zeros(num_terms, dtype=torch.long))
        self.register_buffer("label_lengths", torch.zeros(num_labels, dtype=torch.long))

    def reset_weights(self) -> None:
        """All words weigh the same, and there are no descriptions until they are given."""
        if self.weighting == "learned":
            init.constant_(self.term_weights, math.log(math.expm1(1.0)))  # softplus gives 1
        elif self.weighting == "idf":
            init.ones_(self.term_weights)
        for buffer in (self.label_keys, self.label_rows, self.label_lengths):
            init.zeros_(buffer)

    @property
    def words(self) -> LabelWords:
        """The descriptions of the labels."""
        return LabelWords(self.label_keys, self.label_rows, self.label_lengths)

    def set_words(self, words: LabelWords) -> None:
        """Replace the descriptions of all labels."""
        device = self.label_keys.device
        self.label_keys, self.label_rows, self.label_lengths = (t.to(device) for t in words)

    def forward(
        self, keys: Tensor, lengths: Tensor, words: LabelWords | None = None, num_windows: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Match documents with descriptions.

        Args:
            keys: `[B, N]` words of the documents (see `word_keys`).
            lengths: `[B]` how many of them are real.
            words: Descriptions to match with instead of the labels' own.
            num_windows: `[B]` try only windows that start before this word.

        Returns:
            Mean cosine `[B, L]` of the best window (0 where there is none) and its first word `[B, L]` (then -1).
        """
        words = self.words if words is None else words
        distinct, columns = keys.unique(return_inverse=True)
        # One lookup for both sides: its gradient is one table, not two.
        vectors = self._vectors(torch.cat([words.keys, distinct]))
        sides = vectors[: len(words.keys)], vectors[len(words.keys) :]
        label_vectors, document_vectors = append_identity(sides[0], words.keys, sides[1], distinct)
        weights = self._weights(words.keys)
        total = words.sum_terms(weights).clamp(min=torch.finfo(weights.dtype).tiny)
        label_vectors = label_vectors * weights[:, None]
        inputs = (label_vectors, document_vectors, columns, lengths, words, self.memory_mb, num_windows)
        sums, start = soft_ngram_match(*inputs)
        return sums / total, start

    def _vectors(self, keys: Tensor) -> Tensor:
        """Unit vectors `[U, D]` in float32; zero for words outside the vocabulary, which match nothing."""
        known = keys >= 0 if self.unk_token_id is None else (keys >= 0) & (keys != self.unk_token_id)
        return F.normalize(self.embeddings(keys.clamp(min=0)).float(), dim=1) * known[:, None]

    def _weights(self, keys: Tensor) -> Tensor:
        """Weights `[U]` of label words in float32; words outside the vocabulary share the unknown word's."""
        if self.weighting == "uniform":
            return torch.ones(len(keys), device=keys.device)
        weights = self.term_weights[torch.where(keys < 0, self.unk_token_id or 0, keys)].float()
        return F.softplus(weights) if self.weighting == "learned" else weights


class ScoreCombination(nn.Module):
    """The base's logit and the match of a label as one logit; all parameters are shared by all labels."""

    def __init__(self, combine: str, score_scale: str, starts: dict[str, float]):
        super().__init__()
        self.combine, self.affine = combine, score_scale == "affine"
        self.starts = {}
        if self.affine:
            self.starts |= {"log_temperature": math.log(starts["temperature"]), "bias": starts["bias"]}
        if combine == "sum":
            self.starts |= {"weight": starts["weight"], "unseen_logit": starts["unseen_logit"]}
        for name in self.starts:
            setattr(self, name, nn.Parameter(torch.empty(())))

    def reset_weights(self) -> None:
        """The starting values."""
        for name, value in self.starts.items():
            init.constant_(getattr(self, name), value)

    def match_logits(self, scores: Tensor) -> Tensor:
        """The logit of the matcher's probability, from mean cosines."""
        return scores * self.log_temperature.float().exp() + self.bias.float() if self.affine else scores

    def forward(self, base: Tensor, known: Tensor, scores: Tensor, described: Tensor) -> Tensor:
        """Logits `[B, L]`.

        Args:
            base: `[B, L]` logits of the base.
            known: `[1 or B, L]` where the base has an opinion.
            scores: `[B, L]` mean cosines.
            described: `[L]` labels that have a description; the others have the base's score.
        """
        match = self.match_logits(scores)
        base = torch.where(known, base, self.unseen_logit.float() if self.combine == "sum" else IMPOSSIBLE)
        if self.combine == "sum":
            return base + torch.where(described, self.weight.float() * match.sigmoid(), 0.0)
        match = torch.where(described, match, IMPOSSIBLE)
        return torch.maximum(base, match) if self.combine == "max" else add_probabilities(base, match)


def window_positions(start: Tensor, words: LabelWords, places: Tensor, lengths: Tensor) -> Tensor:
    """First token and number of tokens `[B, L, 2]` of the windows that start at these words; (-1, 0) for none."""
    if not places.shape[1]:
        return torch.stack([start, torch.zeros_like(start)], 2)
    last = torch.minimum(start + words.lengths, lengths[:, None]).clamp(min=1) - 1
    first = places.gather(1, start.clamp(min=0))
    positions = torch.stack([first, places.gather(1, last) + 1 - first], 2)
    return torch.where(start[..., None] < 0, positions.new_tensor([-1, 0]), positions)


def better_windows(state: InteractionState, scores: Tensor, start: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Of the windows of the state and later ones, the better; of equal ones, the first."""
    scores = scores.masked_fill(start < 0, -torch.inf)
    later = scores > state.scores
    return torch.where(later, scores, state.scores), torch.where(later[..., None], positions, state.positions)


def window_weights(positions: Tensor, width: int, num_tokens: int) -> Tensor:
    """Equal weights `[B, L, N]` over each label's window, for the last `num_tokens` of `width` tokens."""
    tokens = torch.arange(width - num_tokens, width, device=positions.device)
    first, length = positions[..., :1], positions[..., 1:]
    return ((tokens >= first) & (tokens < first + length)) / length.clamp(min=1)
