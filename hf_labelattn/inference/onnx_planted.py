"""The planted decoder for one chunk of fixed width, as plain tensor operations that ONNX can hold.

The same numbers as `planted_logits`, without its sparse search: per block of labels all attentions are made whole.
"""

import torch
from torch import Tensor, nn

from ..models.functional_inattention import safe_softmax, zeroed_softmax

MAX_PAIRS = 2**24  # up to as many scores of (token, label) pairs, 64 MB, are stored instead of computed


class PlantedChunk(nn.Module):
    """Label scores `[B, L]` of chunks `[B, T]`, without the bias.

    Args:
        decoder: The `PlantedDecoder` of a trained model.
        width: T.
    """

    def __init__(self, decoder: nn.Module, width: int):
        super().__init__()
        self.decoder, self.width, self.options = decoder, width, decoder.options
        labels = self._labels_of_tokens() if decoder.use_static or decoder.evidence is not None else None
        for name, table in zip(("starts", "counts", "labels", "values"), labels or [None] * 4, strict=True):
            self.register_buffer(f"relevance_{name}", table)
        self.most_labels = 0 if labels is None else int(labels[1].max())
        ranker = decoder.ranker
        stored = ranker is not None and len(ranker.token_known) * len(ranker.label_known) <= MAX_PAIRS
        self.register_buffer("pair_table", ranker.scores().detach().T.contiguous() if stored else None)  # [V, L]

    def _labels_of_tokens(self) -> tuple[Tensor, ...] | None:
        """The static relevance by token: where each token's entries begin, their number, labels and values."""
        by_label, decoder = self.decoder.relevance_starts, self.decoder
        if not len(decoder.relevance_values):
            return None
        tokens, order = decoder.relevance_tokens.sort(stable=True)
        labels = torch.arange(len(by_label) - 1).repeat_interleave(by_label.diff())[order]
        counts = torch.bincount(tokens, minlength=decoder.vocab_size)
        return counts.cumsum(0) - counts, counts, labels, decoder.relevance_values[order]

    def forward(self, hidden: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        hidden = torch.where(mask[..., None], hidden, 0.0)
        found = self._relevance(ids, mask) if self.relevance_starts is not None else None
        static = self._normalised(found) if found is not None and self.decoder.use_static else None
        ranker = self.decoder.ranker
        pairs = None if ranker is None else self._pair_inputs(ids)
        parts = []
        for rows in self._blocks():
            values = (hidden @ self.decoder.weight[rows].T).transpose(1, 2)  # [B, l, T]
            weights = 0.0 if static is None else static[:, rows]
            if self.decoder.query is not None:
                scores = (hidden @ self.decoder.query[rows].T).transpose(1, 2)
                weights = weights + safe_softmax(scores.masked_fill(~mask[:, None], -torch.inf))
            if ranker is not None:
                ranked = mask & ranker.token_known[ids]
                scores = self._pair_scores(rows, *pairs).masked_fill(~ranked[:, None], -torch.inf)
                weights = weights + self._survivors(scores, ranked) * ranker.label_known[rows][:, None]
            parts.append((weights * values).sum(2))
        scores = torch.cat(parts, 1)
        return scores if found is None or self.decoder.evidence is None else scores + self._evidence(found)

    def _evidence(self, found: Tensor) -> Tensor:
        return found.sum(2) * self.decoder.evidence

    def _blocks(self) -> list[slice]:
        """Labels whose pair scores for one document fit the model's budget."""
        config = None if self.decoder.ranker is None else self.decoder.ranker.config
        units = config.hidden_size if self.pair_table is None and config and config.l2r_scorer == "mlp" else 1
        labels = len(self.decoder.bias)
        size = max(1, int(self.options.max_memory_mb * 2**20) // (4 * self.width * (units + 8)))
        return [slice(i, min(i + size, labels)) for i in range(0, labels, size)]

    def _pair_inputs(self, ids: Tensor) -> tuple[Tensor, ...]:
        """What the pair scores of a chunk are made of."""
        if self.pair_table is not None:
            return (self.pair_table[ids].transpose(1, 2),)  # [B, L, T]
        ranker = self.decoder.ranker
        return ranker.project_labels(), ranker.project_tokens(ids), first_places(ids)

    def _pair_scores(self, rows: slice, labels: Tensor, tokens: Tensor | None = None, first: Tensor | None = None):
        """The ranker's scores `[B, l, T]`."""
        if tokens is None:
            return labels[:, rows]
        if self.decoder.ranker.config.l2r_scorer == "mlp":
            scores = (tokens[:, None] + labels[rows][:, None]).relu() @ self.decoder.ranker.output
        else:
            scores = (tokens @ labels[rows].T).transpose(1, 2)
        # A word that stands twice must score exactly the same twice, or rounding would choose which one survives.
        return scores.gather(2, first[:, None].expand_as(scores))

    def _relevance(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Relevance `[B, L, T]`: the entries of each token spread over the labels."""
        entry = torch.arange(self.most_labels)
        valid = (entry < self.relevance_counts[ids][..., None]) & mask[..., None]  # [B, T, entries]
        place = (self.relevance_starts[ids][..., None] + entry).clamp(max=len(self.relevance_values) - 1)
        labels = len(self.decoder.bias)
        target = torch.where(valid, self.relevance_labels[place], labels)
        table = torch.zeros(*ids.shape, labels + 1)
        table = table.scatter(2, target, torch.where(valid, self.relevance_values[place], 0.0))
        return table[..., :labels].transpose(1, 2)

    def _normalised(self, table: Tensor) -> Tensor:
        """S `[B, L, T]`."""
        if self.options.static_norm == "none":
            return table
        return table / table.sum(2, keepdim=True).clamp(min=torch.finfo(table.dtype).tiny)

    def _survivors(self, scores: Tensor, ranked: Tensor) -> Tensor:
        """Softmax over the tokens that inattention lets through; of equal ones the earlier, as ONNX defines TopK."""
        k, zero = self.options.top_k, self.options.inattention_mode == "zero"
        if k is None or k > self.width or (k == self.width and not zero):
            return safe_softmax(scores)
        best, places = scores.topk(k, dim=2)
        if not zero:
            return torch.zeros_like(scores).scatter(2, places, safe_softmax(best))
        weight, floor = zeroed_softmax(best, ranked.sum(1)[:, None])
        spread = floor[..., None] * ranked[:, None]
        return spread.scatter(2, places, torch.where(weight > 0, weight, spread.gather(2, places)))


def first_places(ids: Tensor) -> Tensor:
    """For each token `[B, T]` the place where it stands first in its row.

    >>> first_places(torch.tensor([[7, 3, 7, 7]]))
    tensor([[0, 1, 0, 0]])
    """
    same = ids[:, :, None] == ids[:, None, :]
    places = torch.arange(ids.shape[1])
    return torch.where(same, places, ids.shape[1]).amin(2)
