"""Planting: a ranker and its relevance table become the attention of a PLANT decoder, aligned by words and labels."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..models.modeling_l2r import TokenRankerModel
from ..models.modeling_plant import PlantedDecoder, PlantForICDCoding
from .mutual_information import TokenRelevance


@dataclass(frozen=True)
class PlantingReport:
    """How much of a classifier the ranker knows; what it does not know gets no planted attention."""

    tokens: int
    known_tokens: int
    labels: int
    known_labels: int

    def __str__(self) -> str:
        return (
            f"planted attention for {self.known_labels:,} of {self.labels:,} labels and {self.known_tokens:,} of "
            f"{self.tokens:,} tokens; the others rely on the other attentions"
        )


def align(wanted: list[str], known: list[str]) -> np.ndarray:
    """Where each wanted name stands among the known ones; -1 where it does not.

    >>> align(["b", "x", "a"], ["a", "b"]).tolist()
    [1, -1, 0]
    """
    place = {name: i for i, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in wanted], dtype=np.int64)


def words_of(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens of a tokenizer by id."""
    return tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))


@torch.no_grad()
def plant_attention(
    model: PlantForICDCoding,
    ranker: TokenRankerModel,
    relevance: TokenRelevance,
    tokenizer: PreTrainedTokenizerBase,
    ranker_tokenizer: PreTrainedTokenizerBase | None = None,
) -> PlantingReport:
    """Put a trained ranker and its relevance table into a classifier, in place.

    Args:
        model: The classifier; its `id2label` says which labels it has.
        ranker: The learning-to-rank model; its `id2label` says which labels it knows.
        relevance: Mutual information over the ranker's vocabulary and labels.
        tokenizer: The classifier's.
        ranker_tokenizer: The ranker's, if another.
    """
    tokens = align(words_of(tokenizer), words_of(ranker_tokenizer or tokenizer))
    labels = align(names_of(model), names_of(ranker))
    aligned = align_relevance(relevance, tokens, labels)
    for reader in (model.reader, model.backward_reader):
        if reader is not None:
            if reader.decoder.ranker is not None:
                reader.decoder.ranker = align_ranker(ranker, tokens, labels)
            set_relevance(reader.decoder, aligned)
    model.config.relevance_size = len(aligned.values)
    if model.config.use_planted:
        model.config.ranker_config = model.reader.decoder.ranker.config
    known = ranker.token_known.cpu().numpy()[tokens[tokens >= 0]].sum()
    has_label = ranker.label_known.cpu().numpy()[labels[labels >= 0]].sum()
    return PlantingReport(len(tokens), int(known), len(labels), int(has_label))


def names_of(model) -> list[str]:
    """A model's labels by id."""
    return [model.config.id2label[i] for i in range(model.config.num_labels)]


def align_ranker(ranker: TokenRankerModel, tokens: np.ndarray, labels: np.ndarray) -> TokenRankerModel:
    """The ranker over another vocabulary and label set; unknown rows are marked so and never planted."""
    fields = {**ranker.config.to_dict(), "vocab_size": len(tokens), "num_labels": len(labels)}
    for name in ("id2label", "label2id", "label_descriptions"):  # the classifier's own config holds them
        fields.pop(name, None)
    result = TokenRankerModel(type(ranker.config)(**fields))
    own = ranker.state_dict()
    rows = {"token_embedding.weight": tokens, "label_embedding.weight": labels}
    rows |= {"token_known": tokens, "label_known": labels}
    result.load_state_dict({name: _rows(own[name], rows[name]) if name in rows else own[name] for name in own})
    return result


def _rows(table: Tensor, index: np.ndarray) -> Tensor:
    place = torch.from_numpy(index).to(table.device)
    chosen = table[place.clamp(min=0)]
    missing = (place < 0).view(-1, *[1] * (chosen.dim() - 1))
    return chosen.masked_fill(missing, 0)


def align_relevance(relevance: TokenRelevance, tokens: np.ndarray, labels: np.ndarray) -> TokenRelevance:
    """The table over another vocabulary and label set; entries of unknown tokens fall away."""
    place = np.full(relevance.vocab_size, -1, dtype=np.int64)
    place[tokens[tokens >= 0]] = np.flatnonzero(tokens >= 0)
    indptr, ids, values = [0], [], []
    bounds = list(pairwise(relevance.indptr))
    for label in labels:
        start, stop = bounds[label] if label >= 0 else (0, 0)
        moved = place[relevance.token_ids[start:stop]]
        ids.append(moved[moved >= 0])
        values.append(relevance.values[start:stop][moved >= 0])
        indptr.append(indptr[-1] + len(ids[-1]))
    joined = np.concatenate(ids) if ids else np.zeros(0, np.int64)
    return TokenRelevance(
        np.array(indptr, dtype=np.int64),
        joined.astype(relevance.token_ids.dtype),
        np.concatenate(values) if values else np.zeros(0, np.float32),
        len(tokens),
        relevance.num_documents,
    )


def set_relevance(decoder: PlantedDecoder, relevance: TokenRelevance) -> None:
    """Store a relevance table in a decoder's buffers."""
    device = decoder.relevance_values.device
    decoder.relevance_starts = torch.from_numpy(relevance.indptr.astype(np.int64)).to(device)
    decoder.relevance_tokens = torch.from_numpy(relevance.token_ids.astype(np.int64)).to(device)
    decoder.relevance_values = torch.from_numpy(relevance.values.astype(np.float32)).to(device)
