"""Kernels of the planted decoder (PLANT, equations 3-6 and appendix A.3): pure functions of tensors.

The decoder of the paper adds three attentions over the tokens of a text and reads one number per label from them:

    A = softmax(H U^T),   S = g,   P = softmax(threshold_k(f)),   f(l, t) = w2 . relu(W1 [e_l; e_t] + b1)
    logits_l = b_l + sum_n (A + S + P)[l, n] * (H W^T)[n, l]

Written out, `f` needs labels x tokens x hidden numbers and every attention labels x tokens. Nothing of either size is
made here: labels are walked in chunks that fit `max_memory_mb`, `f` is computed once per distinct token of the batch
(the first layer splits into a label half and a token half), and the backward pass walks the same chunks again. All it
needs from the forward pass is which k tokens survived for each label, and with what weight.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .functional_inattention import order_keys, safe_softmax, top_positions, top_positions_in_blocks, zeroed_softmax
from .functional_pairs import pair_gradients, pair_scores, sparse_pair_gradients
from .functional_relevance import (
    RelevanceCells,
    StaticRelevance,
    TokenIndex,
    TokenPlaces,
    columns_of_tokens,
    index_tokens,
    relevance_cells,
    token_places,
)

__all__ = [
    "PairRanker",
    "PlantedAttention",
    "PlantedOptions",
    "StaticRelevance",
    "TokenIndex",
    "index_tokens",
    "labels_per_chunk",
    "planted_attention",
    "planted_logits",
]


class PairRanker(NamedTuple):
    """The learning-to-rank model, already projected for the labels and the distinct tokens of a batch.

    Attributes:
        label: [L, R] label half of the first layer, `W1l e_l` (or the label embedding of the dot scorer).
        token: [U, R] token half with its bias, `W1t e_t + b1` (or the token embedding).
        output: [R] second layer `w2`; None scores by the dot product.
        label_known: [L] bool; a label that is not known gets no planted attention. None: all are.
        token_known: [U] bool; a token that is not known gets no planted attention. None: all are.
    """

    label: Tensor
    token: Tensor
    output: Tensor | None = None
    label_known: Tensor | None = None
    token_known: Tensor | None = None


@dataclass(frozen=True)
class PlantedOptions:
    """How the attentions are formed.

    Attributes:
        top_k: How many tokens inattention lets through; None switches it off (a plain softmax).
        inattention_mode: "mask": exactly the k best tokens survive (of equal scores the earlier), everything else
            has weight zero. "zero": as printed in the paper, a score not strictly above the k-th largest becomes 0
            and still receives e^0. A text of fewer than k tokens keeps them all in both.
        static_norm: "l1": the static weights of a label sum to one over the tokens of the text; "none": as they are.
        max_memory_mb: What one chunk of labels may take; it sets how many labels are worked on at once.
        compile_pairs: Compile the pair scores with `torch.compile` (half a minute once, then about twice as fast).
    """

    top_k: int | None = 10
    inattention_mode: str = "mask"
    static_norm: str = "l1"
    max_memory_mb: float = 256.0
    compile_pairs: bool = False

    def __post_init__(self):
        """Refuse what no formula covers."""
        for name, allowed in (("inattention_mode", ("mask", "zero")), ("static_norm", ("l1", "none"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` is {getattr(self, name)!r}. Pass {' or '.join(map(repr, allowed))}.")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"`top_k` is {self.top_k}; at least one token must survive. Pass 1 or more, or None.")
        if self.max_memory_mb <= 0:
            raise ValueError(f"`max_memory_mb` is {self.max_memory_mb}. Pass a positive number of megabytes.")


class PlantedAttention(NamedTuple):
    """The three attentions of some labels; a source that is switched off is None.

    Attributes:
        learned: [B, l, T] A.
        static: [B, l, T] S.
        planted: [B, l, T] P.
    """

    learned: Tensor | None
    static: Tensor | None
    planted: Tensor | None


def planted_logits(
    hidden: Tensor,
    index: TokenIndex,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    query: Tensor | None = None,
    ranker: PairRanker | None = None,
    relevance: StaticRelevance | None = None,
    options: PlantedOptions | None = None,
) -> Tensor:
    """Score every label for every text from the sum of its learned, static and planted attention.

    Gradients reach `hidden`, `weight`, `bias`, `query` and the three tensors of `ranker`. Padding takes part in
    nothing: a text of padding only scores exactly `bias`.

    Args:
        hidden: [B, T, H] encoder states.
        index: The tokens of the batch, from `index_tokens`.
        weight: [L, H] W.
        bias: [L] b.
        query: [L, H] U of the learned attention; None switches it off.
        ranker: The planted attention; None switches it off.
        relevance: The static attention; None switches it off.
        options: How the attentions are formed.

    Returns:
        [B, L] logits in single precision (double for double inputs).
    """
    if query is None and ranker is None and relevance is None:
        raise ValueError("All three attentions are off. Pass at least one of `query`, `ranker` and `relevance`.")
    plan = _make_plan(hidden, index, len(weight), ranker, relevance, options or PlantedOptions())
    hidden = hidden.masked_fill(~plan.real[..., None], 0)
    ranking = (ranker.label, ranker.token, ranker.output) if ranker is not None else (None, None, None)
    with torch.autocast(hidden.device.type, enabled=False):
        inputs = [None if x is None else x.to(hidden.dtype) for x in (weight, query, *ranking)]
        logits = _PlantedLogits.apply(plan, hidden.flatten(0, 1), *inputs).T
        return logits if bias is None else logits + bias.to(logits.dtype)


@torch.no_grad()
def planted_attention(
    hidden: Tensor,
    index: TokenIndex,
    label_ids: Tensor,
    *,
    query: Tensor | None = None,
    ranker: PairRanker | None = None,
    relevance: StaticRelevance | None = None,
    options: PlantedOptions | None = None,
) -> PlantedAttention:
    """Return the attentions of a few labels, for explanation (the logits never need them as a tensor).

    Args:
        hidden: [B, T, H] encoder states.
        index: The tokens of the batch.
        label_ids: [l] which labels.
        query: [L, H] as in `planted_logits`.
        ranker: As in `planted_logits`.
        relevance: As in `planted_logits`.
        options: As in `planted_logits`.
    """
    if ranker is not None:
        known = None if ranker.label_known is None else ranker.label_known[label_ids]
        ranker = ranker._replace(label=ranker.label[label_ids].to(hidden.dtype), label_known=known)
    relevance = relevance if relevance is None else relevance.select(label_ids)
    plan = _make_plan(hidden, index, len(label_ids), ranker, relevance, options or PlantedOptions())
    hidden = hidden.masked_fill(~plan.real[..., None], 0).flatten(0, 1)
    rows, real = slice(0, len(label_ids)), plan.real[:, None]
    learned = None if query is None else _learned(plan, query[label_ids].to(hidden.dtype), hidden)
    static = None if relevance is None else _static_dense(plan, rows)
    planted = None
    if ranker is not None:
        output = None if ranker.output is None else ranker.output.to(hidden.dtype)
        planted = _planted_dense(plan, rows, _pair_table(plan, ranker.label, ranker.token.to(hidden.dtype), output))
    parts = (None if x is None else x.transpose(0, 1) * real for x in (learned, static, planted))
    return PlantedAttention(*parts)


class _Plan(NamedTuple):
    """Everything about a batch that no gradient flows through."""

    options: PlantedOptions
    columns: Tensor  # [B, T]
    real: Tensor  # [B, T]
    chunks: list[slice]
    num_unique: int
    blocks: Tensor | None  # [B, size, blocks], `columns` in the order in which long texts are searched
    padding_bias: Tensor | None  # [B, T], -inf at padding; None without padding
    ranked: Tensor  # [B, T], tokens the ranker may look at
    token_bias: Tensor | None  # [U + 1], -inf for tokens it may not; None if it may look at all
    label_known: Tensor | None  # [L]
    relevance: StaticRelevance | None
    column_of_token: Tensor | None  # [V]
    places: TokenPlaces | None
    dtype: torch.dtype
    memory: dict[str, Tensor]

    def buffer(self, name: str, rows: int, width: int, dtype: torch.dtype) -> Tensor:
        """Memory that every chunk uses anew: asking the system for it each time costs as much as filling it."""
        flat = self.memory.get(name)
        if flat is None or len(flat) < rows * width or flat.dtype != dtype:
            flat = self.memory[name] = torch.empty(rows * width, dtype=dtype, device=self.columns.device)
        return flat[: rows * width].view(rows, width)


class _Slots(NamedTuple):
    """The tokens that inattention let through, for every label and text."""

    position: Tensor  # [l, B, k] int32
    weight: Tensor  # [l, B, k], zero where fewer than k tokens survive
    floor: Tensor | None  # [l, B], what every other token gets ("zero" mode)

    def added(self) -> Tensor:
        """Weight on top of the floor."""
        return self.weight if self.floor is None else (self.weight - self.floor[..., None]) * (self.weight > 0)


def _make_plan(hidden, index, num_labels, ranker, relevance, options) -> _Plan:
    real = index.columns < len(index.unique)
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    padding_bias = None
    if not bool(real.all()):
        # A text of padding only keeps a bias of zero: a softmax over nothing would be NaN, and its states are zero.
        hide = ~real & real.any(1, keepdim=True)
        padding_bias = torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill_(hide, -torch.inf)
    ranked, token_bias = real, None
    if ranker is not None and ranker.token_known is not None:
        known = torch.cat([ranker.token_known.bool(), real.new_zeros(1)])
        ranked = known[index.columns]
        token_bias = torch.zeros(known.shape, dtype=dtype, device=real.device).masked_fill_(~known, -torch.inf)
    size = labels_per_chunk(real.numel(), len(index.unique), options.max_memory_mb, real.device.type == "cpu")
    chunks = [slice(start, min(start + size, num_labels)) for start in range(0, num_labels, size)]
    return _Plan(
        options=options,
        columns=index.columns,
        real=real,
        chunks=chunks,
        num_unique=len(index.unique),
        blocks=None if ranker is None else _search_blocks(index, options.top_k),
        padding_bias=padding_bias,
        ranked=ranked,
        token_bias=token_bias,
        label_known=None if ranker is None else ranker.label_known,
        relevance=relevance,
        column_of_token=None if relevance is None else columns_of_tokens(index.unique, relevance.vocab_size),
        places=None if relevance is None else token_places(index),
        dtype=dtype,
        memory={},
    )


def _search_blocks(index: TokenIndex, top_k: int | None) -> Tensor | None:
    """Lay the tokens of long texts out in blocks, so that few of their scores must be looked at closely."""
    length = index.columns.shape[1]
    if top_k is None or length < 16 * top_k:
        return None
    size = int((length / top_k) ** 0.5)
    columns = torch.nn.functional.pad(index.columns, (0, -length % size), value=len(index.unique))
    return columns.unflatten(1, (-1, size)).transpose(1, 2).contiguous()


def labels_per_chunk(num_tokens: int, num_unique: int, max_memory_mb: float, on_cpu: bool = True) -> int:
    """Choose how many labels are worked on at once.

    Args:
        num_tokens: Tokens of the batch, padding included.
        num_unique: Distinct tokens.
        max_memory_mb: What a chunk may take.
        on_cpu: On a processor large chunks only leave the cache; elsewhere memory alone decides.
    """
    bytes_per_label = 48 * num_tokens + 24 * num_unique
    fitting = int(max_memory_mb * 2**20 // max(bytes_per_label, 1))
    in_cache = max(64, min(2**21 // max(num_tokens, 1), 512)) if on_cpu else fitting
    return max(1, min(fitting, in_cache))


class _PlantedLogits(torch.autograd.Function):
    """Chunks of labels forward, the same chunks again backward; between them only the surviving slots are kept."""

    @staticmethod
    def forward(ctx, plan, hidden, weight, query, label, token, output):
        logits = torch.empty(len(weight), len(plan.real), dtype=plan.dtype, device=hidden.device)  # [L, B]
        keep, slots = any(ctx.needs_input_grad), []
        for rows in plan.chunks:
            values = _product(plan, weight[rows], hidden, "values")  # [l, B, T]
            total = logits[rows].zero_()
            if query is not None:
                total += _learned(plan, query[rows], hidden).mul_(values).sum(-1)
            if plan.relevance is not None:
                _add_static(plan, _static(plan, rows), values, total)
            if label is not None:
                kept = _planted(plan, rows, label[rows], token, output)
                total += _planted_sum(plan, kept, values)
                slots.append(kept if keep and isinstance(kept, _Slots) else None)
        plan.memory.clear()
        ctx.plan, ctx.slots = plan, slots
        ctx.save_for_backward(hidden, weight, query, label, token, output)
        return logits

    @staticmethod
    def backward(ctx, grad):
        inputs = ctx.saved_tensors
        grads = [
            torch.zeros_like(x) if need else None for x, need in zip(inputs, ctx.needs_input_grad[1:], strict=True)
        ]
        for number, rows in enumerate(ctx.plan.chunks):
            slots = ctx.slots[number] if ctx.slots else None
            _backward_chunk(ctx.plan, rows, slots, grad[rows, :, None], inputs, grads)
        ctx.plan.memory.clear()
        return None, *grads


def _product(plan: _Plan, rows: Tensor, hidden: Tensor, name: str) -> Tensor:
    shape = len(rows), *plan.real.shape
    if hidden.dtype != plan.dtype:
        return torch.mm(rows, hidden.T).to(plan.dtype).view(shape)
    return torch.mm(rows, hidden.T, out=plan.buffer(name, len(rows), len(hidden), plan.dtype)).view(shape)


def _weighted(weights: Tensor, values: Tensor) -> Tensor:
    return (weights * values).sum(-1)


def _learned(plan: _Plan, query: Tensor, hidden: Tensor) -> Tensor:
    scores = _product(plan, query, hidden, "scores")
    return (scores if plan.padding_bias is None else scores.add_(plan.padding_bias)).softmax(-1)  # [l, B, T]


def _static(plan: _Plan, rows: slice) -> RelevanceCells:
    """Static attention where it is not zero: a label finds few of its words in a text."""
    cells = relevance_cells(plan.relevance, rows, plan.column_of_token, plan.places)
    value = cells.value.to(plan.dtype)
    if plan.options.static_norm == "l1":
        text = _text_of(plan, cells)
        total = value.new_zeros((rows.stop - rows.start) * len(plan.real)).index_add_(0, text, value)
        value = value / total.clamp_min_(torch.finfo(value.dtype).tiny)[text]
    return cells._replace(value=value)


def _text_of(plan: _Plan, cells: RelevanceCells) -> Tensor:
    """Which (label, text), counted through, a cell belongs to."""
    return cells.label * len(plan.real) + cells.position // plan.real.shape[1]


def _add_static(plan: _Plan, cells: RelevanceCells, values: Tensor, total: Tensor) -> None:
    """Add the values [l, B, T] weighed by static attention to a total [l, B]."""
    found = values.view(-1)[cells.label * plan.real.numel() + cells.position]
    total.view(-1).index_add_(0, _text_of(plan, cells), found.mul_(cells.value))


def _static_dense(plan: _Plan, rows: slice) -> Tensor:
    cells = _static(plan, rows)
    dense = cells.value.new_zeros(rows.stop - rows.start, plan.real.numel())
    dense.view(-1)[cells.label * plan.real.numel() + cells.position] = cells.value
    return dense.view(-1, *plan.real.shape)


def _to_positions(plan: _Plan, table: Tensor, columns: Tensor, name: str) -> Tensor:
    """Spread the columns of a table over the places where their tokens stand, [l, *columns]."""
    found, places = plan.buffer(name, len(table), columns.numel(), table.dtype), columns.flatten()
    if table.is_floating_point():
        torch.index_select(table, 1, places, out=found)
    else:  # several times as fast for integers, half as fast for floats
        torch.gather(table, 1, places.expand(len(table), -1), out=found)
    return found.view(len(table), *columns.shape)


def _pair_table(plan: _Plan, label: Tensor, token: Tensor, output: Tensor | None) -> Tensor:
    scores = pair_scores(label, token, output, plan.options.compile_pairs).to(plan.dtype)
    table = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)  # [l, U + 1]
    return table if plan.token_bias is None else table.add_(plan.token_bias)


def _planted(plan: _Plan, rows: slice, label: Tensor, token: Tensor, output: Tensor | None) -> _Slots | Tensor:
    """Return the slots that survive inattention, or the whole softmax where every token does."""
    table = _pair_table(plan, label, token, output)
    return _planted_dense(plan, rows, table) if _everything_survives(plan) else _planted_slots(plan, rows, table)


def _everything_survives(plan: _Plan) -> bool:
    top_k, length = plan.options.top_k, plan.columns.shape[1]
    return top_k is None or (top_k >= length if plan.options.inattention_mode == "mask" else top_k > length)


def _planted_dense(plan: _Plan, rows: slice, table: Tensor) -> Tensor:
    if not _everything_survives(plan):
        slots = _planted_slots(plan, rows, table)
        return _spread(plan, slots, table.new_zeros(len(table), *plan.columns.shape))
    weights = safe_softmax(_to_positions(plan, table, plan.columns, "ranks"))
    return weights if plan.label_known is None else weights * plan.label_known[rows, None, None]


def _planted_slots(plan: _Plan, rows: slice, table: Tensor) -> _Slots:
    if plan.blocks is None:
        keys = _to_positions(plan, order_keys(table), plan.columns, "ranks")
        position = top_positions(keys, plan.options.top_k)
    else:
        scores = _to_positions(plan, table, plan.blocks, "ranks")
        position = top_positions_in_blocks(scores, plan.options.top_k)
    best = table.gather(1, _columns_at(plan, position).flatten(1)).view_as(position)  # [l, B, k]
    if plan.options.inattention_mode == "mask":
        weight, floor = safe_softmax(best), None
    else:
        weight, floor = zeroed_softmax(best, plan.ranked.sum(-1))
    if plan.label_known is not None:
        weight = weight * plan.label_known[rows, None, None]
        floor = floor if floor is None else floor * plan.label_known[rows, None]
    return _Slots(position.to(torch.int32), weight, floor)


def _columns_at(plan: _Plan, position: Tensor) -> Tensor:
    return plan.columns.expand(len(position), -1, -1).gather(-1, position)


def _planted_sum(plan: _Plan, planted: _Slots | Tensor, values: Tensor) -> Tensor:
    if isinstance(planted, Tensor):
        return _weighted(planted, values)
    total = _weighted(planted.added(), values.gather(-1, planted.position.long()))
    return total if planted.floor is None else total + planted.floor * _weighted(plan.ranked.to(plan.dtype), values)


def _spread(plan: _Plan, slots: _Slots, weights: Tensor) -> Tensor:
    """Add the planted weights to a dense [l, B, T] tensor, in place."""
    if slots.floor is not None:
        weights += slots.floor[..., None] * plan.ranked
    return weights.scatter_add_(-1, slots.position.long(), slots.added())


def _backward_chunk(plan, rows, slots, grad, inputs, grads):
    """Add what one chunk of labels contributes to every gradient.

    Args:
        plan: The batch.
        rows: The chunk.
        slots: What its forward pass kept.
        grad: [l, B, 1] gradient of the logits.
        inputs: Tensors given to the function.
        grads: Their gradients, added to in place; None where not wanted.
    """
    hidden, weight, query, label, token, output = inputs
    values = _product(plan, weight[rows], hidden, "values")
    weights = torch.zeros_like(values) if plan.relevance is None else _static_dense(plan, rows)
    if label is not None:
        planted = slots if slots is not None else _planted(plan, rows, label[rows], token, output)
        if any(g is not None for g in grads[3:]):
            _ranker_gradients(plan, rows, planted, grad, values, inputs, grads)
        weights = weights + planted if isinstance(planted, Tensor) else _spread(plan, planted, weights)
    if query is not None:
        learned = _learned(plan, query[rows], hidden)
        weights += learned
        of_scores = learned.mul_(values.sub_(_weighted(learned, values)[..., None]).mul_(grad))
        _product_gradients(of_scores, rows, query, hidden, grads[2], grads[0])
    _product_gradients(weights.mul_(grad), rows, weight, hidden, grads[1], grads[0])


def _product_gradients(grad, rows, matrix, hidden, of_matrix, of_hidden):
    """Gradients of `matrix[rows] @ hidden.T`."""
    grad = grad.flatten(1).to(hidden.dtype)  # [l, B * T]
    if of_matrix is not None:
        torch.mm(grad, hidden, out=of_matrix[rows])
    if of_hidden is not None:
        of_hidden.addmm_(grad.T, matrix[rows])


def _ranker_gradients(plan, rows, planted, grad, values, inputs, grads):
    total = _planted_sum(plan, planted, values)[..., None]
    if isinstance(planted, Tensor):
        of_scores, columns = planted * (values - total) * grad, plan.columns
    else:
        position = planted.position.long()
        of_scores = planted.weight * (values.gather(-1, position) - total) * grad  # [l, B, k]
        columns = _columns_at(plan, position)
    table = torch.zeros(len(values), plan.num_unique + 1, dtype=plan.dtype, device=values.device)
    table.scatter_add_(1, columns.expand_as(of_scores).flatten(1), of_scores.flatten(1))
    label, token, output = inputs[3][rows], inputs[4], inputs[5]
    gradients = pair_gradients if isinstance(planted, Tensor) else sparse_pair_gradients
    found = gradients(label, token, output, table[:, :-1].to(label.dtype))
    for target, part in zip((grads[3] if grads[3] is None else grads[3][rows], *grads[4:]), found, strict=True):
        if target is not None:
            target += part
