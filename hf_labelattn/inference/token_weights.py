"""How much each token of one document speaks for a label, whatever the model is.

Models are told apart by `config.model_type`, so that a class loaded from a checkpoint's own code is known too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..models.encoders import reverse_rows
from ..models.modeling_plant import reverse_chunks

WINDOW = 512  # tokens whose scores for all labels are held at once


class MatchWords(NamedTuple):
    """One document in words of a matcher that does not read the base's tokens."""

    inputs: dict[str, Tensor]  # `match_input_ids` and what belongs to it, as the model takes them
    tokens: Tensor  # [words, 2] the first and the last of the base's tokens that each word is made of


@torch.no_grad()
def token_weights(
    model: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor,
    label_ids: Tensor,
    match_words: MatchWords | None = None,
) -> Tensor:
    """Shares `[l, N]` of the tokens of one document in what speaks for each of some labels.

    A row sums to one, or is zero where nothing speaks for the label. Label-wise attention gives its own weights, PLANT
    learned and planted ones together (a bidirectional pair the mean of its two readers), the linear model what each
    word adds, interaction matching the window that matches; models that pool words before labels come in are asked by
    gradient times input.

    Args:
        model: A classifier in evaluation mode.
        input_ids: `[1, chunks, T]`.
        attention_mask: Same shape.
        label_ids: `[l]`.
        match_words: For interaction matching over words of its own.
    """
    read = {
        "tfidf_linear": _linear,
        "label_attention": _zoo,
        "leam": _leam,
        "plant": _plant,
        "interaction": partial(_interaction, match_words=match_words),
        "hybrid": partial(_hybrid, match_words=match_words),
    }.get(model.config.model_type, input_gradients)
    return shares(read(model, input_ids, attention_mask, label_ids).float() * attention_mask.flatten())


def shares(weights: Tensor) -> Tensor:
    """The positive part of each row, scaled to sum to one; a row without any stays zero.

    >>> shares(torch.tensor([[3.0, -2.0, 1.0], [-1.0, 0.0, 0.0]]))
    tensor([[0.7500, 0.0000, 0.2500],
            [0.0000, 0.0000, 0.0000]])
    """
    positive = weights.clamp(min=0)
    total = positive.sum(1, keepdim=True)
    return positive / total.masked_fill(total == 0, 1.0)


def mixed(first: Tensor, second: Tensor, part: Tensor) -> Tensor:
    """Two kinds of evidence `[l, N]` as one, with `part` `[l]` of the second."""
    return (1 - part)[:, None] * shares(first) + part[:, None] * shares(second)


def _linear(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    return model.token_contributions(ids, mask, labels)[0]


def _zoo(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    if model.config.encoder == "ngram_hash":
        return _ngrams(model, ids, labels)
    if not model.attention.has_attention:
        return input_gradients(model, ids, mask, labels)
    hidden, real = model(ids, mask, output_hidden_states=True).hidden_states, mask.flatten(1).bool()
    parts = zip(hidden.split(WINDOW, 1), real.split(WINDOW, 1), strict=True)
    return torch.cat([model.attention.attention_scores(*part)[0, labels] for part in parts], 1).softmax(1)


def _ngrams(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
    """What the n-grams of a hashed bag add to the logits, each divided among its words: sums to logit - bias."""
    words, longest = ids.flatten(), min(model.encoder.max_ngram, ids.numel())
    count = sum(len(words) - n for n in range(longest))
    readout = model.attention.classifier.weight[labels].T  # [D, l]
    result, shorter = torch.zeros(len(words), len(labels), device=ids.device), None
    for n in range(1, longest + 1):
        rows = words.unfold(0, n, 1)  # [R, n]
        ending, _ = model.encoder(rows, torch.ones_like(rows).bool(), context=n - 1)  # all n-grams that end a row
        added = (ending if shorter is None else ending - shorter[1:]) @ readout / (n * count)
        for place in range(n):
            result[place : place + len(rows)] += added
        shorter = ending
    return result.T


def _leam(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    shared = model.config.pooling == "max"
    output = model(ids, mask, output_attentions=True, output_hidden_states=shared)
    weights = output.label_attentions[0, labels]
    if not shared:
        return weights
    # All labels share these weights: what tells labels apart is what a word, so weighted, adds to each.
    words = output.hidden_states[0].to(weights)
    mean = (weights[:1] @ words).detach().requires_grad_()
    with torch.enable_grad():
        logits = model._classify(mean.to(model.dtype))[0, labels]
        slopes = [torch.autograd.grad(logit, mean, retain_graph=True)[0] for logit in logits]
    return weights * (torch.cat(slopes) @ words.T)


def _plant(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Attention of the reader, or the mean of both readers, joined with what the linear prior's words add."""
    output = model(ids, mask, output_attentions=True, attention_labels=labels)
    weights = output.label_attentions[0]
    if model.backward_reader is not None:
        weights = (weights + _backward_attention(model, ids, mask.bool(), labels)) / 2
    if model.prior is None:
        return weights
    added = model.prior.token_contributions(ids, mask, labels)[0]
    by_reader = (output.logits - model.prior(ids, mask).logits - model.label_bias)[0, labels].clamp(min=0)
    by_prior = added.sum(1).clamp(min=0)
    return mixed(weights, added, by_prior / (by_prior + by_reader).clamp(min=1e-9))


def _backward_attention(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Attention `[l, N]` of the reader that starts at the document's end, in the order of the document."""
    weights = model._read(model.backward_reader, *reverse_chunks(ids, mask), None, labels)[2]
    return reverse_rows(weights.transpose(1, 2), mask.flatten(1))[0].T


def _interaction(
    model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor, match_words: MatchWords | None = None
) -> Tensor:
    output = model(ids, mask, return_dict=True, **({} if match_words is None else match_words.inputs))
    first, length = output.match_position[0, labels].T  # [l] each
    found, last = length > 0, first + length - 1
    if match_words is not None and len(match_words.tokens):
        first, last = (match_words.tokens[end.clamp(min=0), side] for side, end in enumerate((first, last)))
    tokens = torch.arange(ids.numel(), device=ids.device)
    window = ((tokens >= first[:, None]) & (tokens <= last[:, None]) & found[:, None]).float()
    matched = model.combination.match_logits(output.match_scores[0, labels]).sigmoid() * found
    columns = model.base_columns[labels]
    if model.base is None or not (columns >= 0).any():
        return window
    base = torch.zeros_like(window)
    base[columns >= 0] = token_weights(model.base, ids, mask, columns[columns >= 0])
    return mixed(base, window, torch.where(columns >= 0, matched, 1.0))


def _hybrid(
    model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor, match_words: MatchWords | None = None
) -> Tensor:
    """What the parts that read words point at, each with its weight times the probability it gives."""
    inputs = {} if match_words is None else match_words.inputs
    output = model(ids, mask, return_dict=True, **inputs)
    speaks = model.part_weights[:, None] * output.part_logits[0][:, labels].sigmoid()  # [parts, l]
    hashes = {"match_hash": inputs["match_hash"]} if "match_hash" in inputs else {}
    words = (ids, mask) if match_words is None else (inputs["match_input_ids"], inputs["match_attention_mask"])
    total = torch.zeros(len(labels), words[0].numel(), device=ids.device)
    for part, pieces, spoken in zip(model.parts, model.config.reads_pieces, speaks, strict=True):
        known = labels < part.config.num_labels
        if pieces or not known.any():
            continue
        own = MatchWords(hashes, torch.zeros(0, 2)) if hashes and part.config.model_type == "interaction" else None
        total[known] += spoken[known, None] * token_weights(part, *words, labels[known], own)
    return total if match_words is None else _spread(total, match_words.tokens, ids.numel())


def _spread(weights: Tensor, tokens: Tensor, count: int) -> Tensor:
    """Weights `[l, words]` of words as weights `[l, count]` of the tokens they are made of."""
    result = torch.zeros(len(weights), count, device=weights.device)
    for word, (first, last) in enumerate(tokens.tolist()):
        result[:, first : last + 1] += weights[:, word : word + 1] / (last + 1 - first)
    return result


def input_gradients(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """The slope of each label's logit along each word vector, times that vector `[l, N]`."""
    foreign = not hasattr(model, "document_view")
    inputs = (ids[0], mask[0]) if foreign else (ids, mask)
    vectors: list[Tensor] = []
    # Without cuDNN, whose recurrent layers refuse gradients in evaluation mode.
    with torch.enable_grad(), one_window(model.config, ids.numel()), torch.backends.cudnn.flags(enabled=False):
        with captured(model.get_input_embeddings(), vectors.append):
            logits = model(*inputs).logits.amax(0)[labels]
        slopes = [torch.autograd.grad(logit, vectors, retain_graph=True) for logit in logits]
    rows = [[(g * v).sum(-1).flatten() for g, v in zip(row, vectors, strict=True)] for row in slopes]
    weights = torch.stack([torch.cat(row) for row in rows]).detach()
    return F.pad(weights, (0, ids.numel() - weights.shape[1]))  # chunks the model does not read say nothing


@contextmanager
def captured(embeddings: nn.Module, keep: Callable[[Tensor], None]) -> Iterator[None]:
    """Hand the word vectors of a forward pass to `keep`, as leaves of the graph."""

    def hook(module, inputs, output):
        leaf = output.detach().requires_grad_()
        keep(leaf)
        return leaf

    handle = embeddings.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def one_window(config, num_tokens: int) -> Iterator[None]:
    """Let the model read the whole document at once, so that every word is embedded exactly once."""
    before = getattr(config, "bptt_chunks", None)
    if before is not None:
        config.bptt_chunks = max(1, num_tokens)
    try:
        yield
    finally:
        if before is not None:
            config.bptt_chunks = before
