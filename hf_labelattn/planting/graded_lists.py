"""Lists of tokens with their grades for every label, and how well a scorer ranks them."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..models.functional_relevance import StaticRelevance, columns_of_tokens, relevance_table
from .lambdarank import ndcg_at_k
from .mutual_information import TokenRelevance

# From label ids [l] and token ids [t] to scores [l, t].
Scorer = Callable[[Tensor, Tensor], Tensor]


class GradedLists:
    """The grades some tokens have for the labels, as dense blocks on demand.

    Attributes:
        tokens: [t] ids of the tokens that may stand in a list, ascending.
        labels: [l] ids of the labels to which at least one of them is relevant.
    """

    def __init__(self, relevance: TokenRelevance, tokens: np.ndarray, device: torch.device | str = "cpu"):
        """Scale relevance to grades.

        Args:
            relevance: Mutual information, best token first in every row.
            tokens: [t] ids of the tokens that may stand in a list.
            device: Where the blocks are wanted.
        """
        graded = relevance.grades()
        arrays = (torch.as_tensor(a, device=device) for a in (graded.indptr, graded.token_ids, graded.values))
        self.rows = StaticRelevance(*arrays, relevance.vocab_size)
        self.tokens = torch.as_tensor(np.unique(tokens).astype(np.int64), device=device)
        self.allowed = torch.zeros(relevance.vocab_size, dtype=torch.bool, device=device)
        self.allowed[self.tokens] = True
        self.labels = self._labels_with_relevant_tokens()

    def _labels_with_relevant_tokens(self) -> Tensor:
        relevant = self.allowed[self.rows.token_ids.long()].long().cumsum(0)
        before = torch.cat([relevant.new_zeros(1), relevant])[self.rows.indptr]
        return (before.diff() > 0).nonzero().flatten()

    def best_tokens(self, labels: Tensor, count: int) -> Tensor:
        """Unite the `count` best tokens of each of some labels; distinct ids, ascending."""
        rows = self.rows.select(labels)
        keep = self.allowed[rows.token_ids.long()]
        number = keep.long().cumsum(0)  # [nnz] how many were kept so far, over all rows
        before = torch.cat([number.new_zeros(1), number])[rows.indptr[:-1]].repeat_interleave(rows.indptr.diff())
        return rows.token_ids[keep & (number - before <= count)].long().unique()

    def grades(self, labels: Tensor, tokens: Tensor) -> Tensor:
        """Grades [l, t] of distinct tokens for labels."""
        columns = columns_of_tokens(tokens, self.rows.vocab_size)
        return relevance_table(self.rows.select(labels), slice(0, len(labels)), columns, len(tokens))[:, :-1]


@torch.no_grad()
def ranker_ndcg(
    scores: Scorer, lists: GradedLists, k: int, max_labels: int | None = None, progress: bool = False
) -> float:
    """Mean nDCG@k over the labels to which some token of the list is relevant; NaN if there is none.

    Args:
        scores: Such as `model.scores`.
        lists: The tokens and their grades.
        k: The k of nDCG@k.
        max_labels: Measure on this many labels, evenly spread, instead of all.
        progress: Whether to show a progress bar when it takes more than two seconds.
    """
    labels = lists.labels
    if max_labels is not None and len(labels) > max_labels:
        labels = labels[torch.linspace(0, len(labels) - 1, max_labels, device=labels.device).long()]
    batches = labels.split(max(1, 2**22 // max(len(lists.tokens), 1)))
    bar = tqdm(batches, desc=f"nDCG@{k}", unit=" batches", delay=2, disable=None if progress else True)
    found = [ndcg_at_k(scores(batch, lists.tokens), lists.grades(batch, lists.tokens), k) for batch in bar]
    return float(torch.cat(found).mean()) if len(labels) else float("nan")


def random_ndcg(lists: GradedLists, k: int, seed: int = 0) -> float:
    """nDCG@k of scores that know nothing: what every ranker must beat."""
    generator = torch.Generator().manual_seed(seed)

    def draw(labels: Tensor, tokens: Tensor) -> Tensor:
        return torch.rand(len(labels), len(tokens), generator=generator).to(labels.device)

    return ranker_ndcg(draw, lists, k)
