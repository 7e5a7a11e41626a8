"""Speed and memory of the planted decoder: `python -m benchmarks.run --only decoder`.

The limit is the matrix products nothing can avoid (two forward, six with the backward), done in the same chunks into
memory that is already there. "Literal" is the decoder as the paper writes it, with a tensor of labels × tokens ×
hidden; it is timed on a slice of the labels, which is all that fits, and scaled up by their number. Words are drawn so
that a batch has as many distinct ones as real medical notes have. Each case runs in a process of its own.
"""

import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import each_in_own_process, make_row, peak_mb, race, row
from hf_labelattn.models.functional_pairs import pair_scores
from hf_labelattn.models.functional_planted import (
    PairRanker,
    PlantedOptions,
    StaticRelevance,
    index_tokens,
    labels_per_chunk,
    planted_logits,
)

VOCAB, LABELS, BATCH, HIDDEN, RANK, EMBEDDING = 60_000, 8_929, 16, 400, 256, 100
RELEVANT = 200
SLICE = 16
WHY = "Pair scores, ranking and softmax are passes over labels × tokens beside the products, bound by memory."


def draw_words(size, seed: int = 0) -> np.ndarray:
    """Word ids by the Zipf-Mandelbrot law; 16 notes of 72, 512, 1,500 words have some 470, 2,000, 4,000 distinct."""
    share = np.cumsum((np.arange(VOCAB) + 6.0) ** -1.3)
    return np.searchsorted(share / share[-1], np.random.default_rng(seed).random(size)).astype(np.int32)


class DecoderCase:
    """One batch with random weights, read by the planted decoder and by bare products."""

    def __init__(self, length: int, labels: int, compiled: bool = False, batch: int = BATCH, memory_mb: int = 256):
        self.ids = torch.from_numpy(draw_words((batch, length))).long()
        self.index = index_tokens(self.ids, torch.ones_like(self.ids))
        self.options = PlantedOptions(compile_pairs=compiled, max_memory_mb=memory_mb)
        unique = len(self.index.unique)
        shapes = {"hidden": (batch, length, HIDDEN), "query": (labels, HIDDEN), "weight": (labels, HIDDEN)}
        shapes |= {"label": (labels, RANK), "token": (unique, RANK), "output": (RANK,)}
        self.tensors = {name: torch.randn(shape).mul_(0.1) for name, shape in shapes.items()}
        self.embeddings = {"label": torch.randn(labels, EMBEDDING), "token": torch.randn(unique, EMBEDDING)}
        self.first = torch.randn(RANK, 2 * EMBEDDING).mul_(0.05)
        for name, half in zip(("label", "token"), self.first.split(EMBEDDING, 1), strict=True):
            torch.mm(self.embeddings[name], half.T, out=self.tensors[name])
        for tensor in self.tensors.values():
            tensor.requires_grad_()
        self.relevance = StaticRelevance(
            torch.arange(0, labels * RELEVANT + 1, RELEVANT),
            torch.from_numpy(np.random.default_rng(1).integers(0, VOCAB, labels * RELEVANT)),
            torch.rand(labels * RELEVANT),
            VOCAB,
        )
        self.chunk = labels_per_chunk(self.ids.numel(), unique, self.options.max_memory_mb)
        self.products = torch.empty(self.chunk, self.ids.numel())

    def forward(self) -> Tensor:
        t = self.tensors
        ranker = PairRanker(t["label"], t["token"], t["output"])
        parts = {"query": t["query"], "ranker": ranker, "relevance": self.relevance, "options": self.options}
        return planted_logits(t["hidden"], self.index, t["weight"], **parts)

    @torch.no_grad()
    def evaluate(self) -> None:
        self.forward()

    def train(self) -> None:
        for tensor in self.tensors.values():
            tensor.grad = None
        self.forward().sum().backward()

    @torch.no_grad()
    def two_products(self) -> None:
        hidden = self.tensors["hidden"].flatten(0, 1)
        for name in ("query", "weight"):
            for rows in self.tensors[name].split(self.chunk):
                torch.mm(rows, hidden.T, out=self.products[: len(rows)])

    @torch.no_grad()
    def six_products(self) -> None:
        self.two_products()
        hidden = self.tensors["hidden"].flatten(0, 1)
        gradient = torch.zeros_like(hidden)
        for name in ("query", "weight"):
            for rows in self.tensors[name].split(self.chunk):
                torch.mm(self.products[: len(rows)], hidden)
                gradient.addmm_(self.products[: len(rows)].T, rows)

    def literal(self, labels: int = SLICE) -> Tensor:
        """Equations 3-6 and A.3 for the first labels as one writes them in torch: [B, l] logits."""
        t = {name: tensor[:labels] if len(tensor) == len(self.tensors["label"]) else tensor
             for name, tensor in self.tensors.items()}  # fmt: skip
        hidden, (batch, length) = t["hidden"], self.ids.shape
        learned = torch.softmax(hidden @ t["query"].T, 1)  # [B, T, l]
        pairs = torch.cat([
            self.embeddings["label"][:labels].expand(batch, length, -1, -1),
            self.embeddings["token"][self.index.columns][:, :, None].expand(-1, -1, labels, -1),
        ], -1)  # fmt: skip
        scores = torch.relu(pairs @ self.first.T) @ t["output"]  # [B, T, l], from [B, T, l, R]
        order = scores.sort(dim=1, descending=True, stable=True).indices[:, :10]
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True)
        planted = torch.softmax(scores.masked_fill(~kept, -torch.inf), 1)
        table = torch.zeros(labels, VOCAB)
        table.scatter_(1, self.relevance.token_ids[: labels * RELEVANT].view(labels, -1),
                       self.relevance.values[: labels * RELEVANT].view(labels, -1))  # fmt: skip
        static = table[:, self.ids].permute(1, 2, 0)
        static = static / static.sum(1, keepdim=True).clamp_min(1e-20)
        context = sum((a[..., None] * hidden[:, :, None]).sum(1) for a in (learned, static, planted))  # [B, l, H]
        return (context * t["weight"]).sum(-1)


def limit_row(length: int, labels: int, compiled: bool, train: bool, goal: float, repeats: int) -> dict:
    """The decoder against its limit."""
    case = DecoderCase(length, labels, compiled)
    case.six_products()
    ours, limit = (case.train, case.six_products) if train else (case.evaluate, case.two_products)
    before = peak_mb()
    ours()
    added = peak_mb() - before
    clock = race({"ours": ours, "products": limit}, repeats)
    name = f"PLANT decoder {'forward + backward' if train else 'forward'}, {'compiled' if compiled else 'plain'} pairs"
    name = f"{name}, B={BATCH}, T={length}, {labels:,} labels, d={HIDDEN}, h={RANK}"
    found = row(name, clock, goal, reference="products", peak_mb=added, why=WHY)
    return {**found, "unit": f"× the {6 if train else 2} products"}


def literal_rows(length: int, repeats: int) -> list[dict]:
    """The decoder against the paper's form, whose time and memory are scaled up from a slice of the labels."""
    case, found = DecoderCase(length, LABELS, compiled=True), []
    with torch.no_grad():
        clock = race({"ours": case.evaluate, "literal": case.literal}, repeats)
    clock |= race({"ours both": case.train, "literal both": lambda: case.literal().sum().backward()}, repeats)
    clock |= {name: clock[name] * LABELS / SLICE for name in ("literal", "literal both")}
    for name, ours, reference in (("forward", "ours", "literal"), ("forward + backward", "ours both", "literal both")):
        name = f"PLANT decoder {name}, compiled pairs, B={BATCH}, T={length}, {LABELS:,} labels (literal from {SLICE})"
        found.append({**row(name, clock, 0.02, ours, reference), "unit": "× literal"})
    return found


def compile_row() -> dict:
    """What the first use of the compiled pair kernel costs in a fresh process, with whatever the disk cache holds."""
    label, token, output = torch.randn(64, RANK), torch.randn(500, RANK), torch.randn(RANK)
    started = time.perf_counter()
    pair_scores(label, token, output, compiled=True)
    seconds = time.perf_counter() - started
    return make_row("PLANT, compiled pairs: first call in a new process", seconds, None, "s", seconds)


def rows(quick: bool = False) -> Iterator[dict]:
    """All cases."""
    repeats = 1 if quick else 5
    few = 1024 if quick else 2048
    cases = [(compile_row, ())]
    cases += [(limit_row, (72, LABELS, True, False, 2.5, repeats)), (limit_row, (512, few, True, False, 1.7, repeats))]
    cases += [(limit_row, (1500, few, True, False, 1.5, repeats)), (limit_row, (72, LABELS, True, True, 4.0, repeats))]
    cases += [(limit_row, (512, few, True, True, 4.0, repeats)), (limit_row, (72, LABELS, False, True, 4.0, repeats))]
    cases += [(limit_row, (72, 40_000, True, False, 2.5, 1)), (literal_rows, (72, 1 if quick else 3))]
    return each_in_own_process(cases)
