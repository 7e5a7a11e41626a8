"""Label-wise attention (CAML, LAAT) against its products: `python -m benchmarks.run --only pooling`.

The limit is the matrix products nothing can avoid (two forward, six with the backward), for real tokens only and in
chunks of labels into memory that is already there. "Literal" is softmax, mean and product as one writes them down.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.measuring import each_in_own_process, peak_mb, race, row
from hf_labelattn.models.functional import label_pool

CHUNK = 512
SHAPES = ((16, 222, 1_300, 50), (16, 222, 1_300, 512), (8, 1_500, 8_929, 50))  # documents, words, labels, features
WHY = "Exponents and sums are passes over labels × tokens beside the products, and count most where those are short."


def literal(states: Tensor, mask: Tensor, queries: Tensor, weight: Tensor) -> Tensor:
    """CAML's equations: `[B, L]` scores."""
    scores = (states @ queries.T).transpose(1, 2).masked_fill(~mask[:, None], -torch.inf)
    return ((scores.softmax(2) @ states) * weight).sum(2)


def ours(states: Tensor, mask: Tensor, queries: Tensor, weight: Tensor) -> Tensor:
    """The kernel."""
    _, total, pooled = label_pool(states, states, mask, queries, weight)
    return pooled / total


@torch.no_grad()
def products(states: Tensor, mask: Tensor, queries: Tensor, weight: Tensor, backward: bool) -> None:
    """The products of all real tokens."""
    tokens, buffer = states[mask], torch.empty(CHUNK, int(mask.sum()))
    gradient = torch.zeros_like(tokens)
    for rows in (*queries.split(CHUNK), *weight.split(CHUNK)):
        found = torch.mm(rows, tokens.T, out=buffer[: len(rows)])
        if backward:
            torch.mm(found, tokens)
            gradient.addmm_(found.T, rows)


def pooling_rows(batch: int, words: int, labels: int, size: int, repeats: int) -> list[dict]:
    """Forward, and forward with backward."""
    mask = torch.arange(words) < torch.linspace(0.9 * words, words, batch).long()[:, None]
    given = torch.randn(batch, words, size), torch.randn(labels, size) / size**0.5, torch.randn(labels, size)
    states, queries, weight = (x.requires_grad_() for x in given)
    inputs, found = (states, mask, queries, weight), []
    shape = f"B={batch}, {labels:,} labels × {words:,} tokens × {size}"

    def train(function):
        torch.autograd.grad(function(*inputs).sum(), [states, queries, weight])

    before = peak_mb()
    with torch.no_grad():
        clock = race({"ours": lambda: ours(*inputs), "2": lambda: products(*inputs, False)}, repeats)
    clock |= race({"both": lambda: train(ours), "6": lambda: products(*inputs, True)}, repeats)
    added = peak_mb() - before
    clock |= race({"literal": lambda: train(literal)}, 1 if labels > 5_000 else repeats)
    for name, mine, limit, goal in (("forward", "ours", "2", 2.0), ("forward + backward", "both", "6", 1.6)):
        name = f"Label-wise attention {name}, {shape}"
        found.append(row(name, clock, goal, mine, limit, added, WHY) | {"unit": f"× the {limit} products"})
    return [*found, row(f"Label-wise attention forward + backward, {shape}", clock, 0.9, "both", "literal")]


def rows(quick: bool = False) -> Iterator[dict]:
    """All shapes."""
    return each_in_own_process([(pooling_rows, (*shape, 1 if quick else 5)) for shape in SHAPES[: 1 if quick else 3]])
