"""Where a model starts: label priors, word vectors, parents of labels. From the training split only."""

import re

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.vectors import embedding_matrix, load_word_vectors


@torch.no_grad()
def set_label_prior(model: PreTrainedModel, label_counts: np.ndarray, num_documents: int) -> None:
    """Start each label's bias at the logit of its training frequency (add-half smoothed)."""
    rate = (np.asarray(label_counts, dtype=np.float64) + 0.5) / (num_documents + 1.0)
    bias = torch.from_numpy(np.log(rate / (1 - rate)))
    model.label_bias.copy_(bias.to(model.label_bias))


def load_embeddings(path: str, tokenizer: PreTrainedTokenizerBase, seed: int = 0) -> torch.Tensor:
    """Word vectors for a tokenizer's vocabulary, as a tensor; prints how much of it they cover."""
    matrix, coverage = embedding_matrix(tokenizer, load_word_vectors(path), seed=seed)
    print(coverage)
    return torch.from_numpy(matrix)


def label_parents(names: list[str] | tuple[str, ...]) -> list[int]:
    """The index of each label's parent: what stands before the first `.`, `::` or `/` of its name.

    >>> label_parents(["428.0", "428.1", "V10", "role::program"])
    [0, 0, 1, 2]
    """
    parents = [re.split(r"::|\.|/", name, maxsplit=1)[0] for name in names]
    index = {parent: i for i, parent in enumerate(dict.fromkeys(parents))}
    return [index[parent] for parent in parents]
