"""Speed and memory of what PLANT needs: mutual information, LambdaRank, and the planted decoder.

    python -m benchmarks.bench_planting

The decoder is compared with its limit, the matrix products nothing can avoid (two forward, six with the backward),
done in the same chunks into memory that is already there. Both are measured in alternation in one process, on one
thread, in CPU seconds (so that other programs on the machine count less); the lowest of the repeats counts. Words are
drawn so that a batch has as many distinct ones as real medical notes have. Each case runs in a process of its own, so
that its peak memory (beyond its inputs) is its own.
"""

import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np
import torch
from tqdm.auto import tqdm

from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.functional_planted import (
    PairRanker,
    PlantedOptions,
    StaticRelevance,
    index_tokens,
    labels_per_chunk,
    planted_logits,
)
from hf_labelattn.models.modeling_l2r import TokenRankerModel
from hf_labelattn.planting.graded_lists import GradedLists
from hf_labelattn.planting.mutual_information import RelevanceCounter, TokenRelevance
from hf_labelattn.planting.ranker_training import RankerTraining, RankingArguments

VOCAB, LABELS, BATCH, HIDDEN, RANK = 60_000, 8_929, 16, 400, 256
RELEVANT = 200
REPEATS = 3
MUTUAL_INFORMATION_SECONDS = 30


def draw_words(size, seed: int = 0) -> np.ndarray:
    """Word ids by the Zipf-Mandelbrot law; 16 notes of 72, 512, 1,500 words have some 470, 2,000, 4,000 distinct."""
    share = np.cumsum((np.arange(VOCAB) + 6.0) ** -1.3)
    return np.searchsorted(share / share[-1], np.random.default_rng(seed).random(size)).astype(np.int32)


def best_times(ours: Callable[[], None], reference: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Lowest CPU seconds of each, measured in turn after a warm-up."""
    times: tuple[list, list] = ([], [])
    for _ in range(repeats + 1):
        for found, step in zip(times, (ours, reference), strict=True):
            started = time.process_time()
            step()
            found.append(time.process_time() - started)
    return min(times[0][1:]), min(times[1][1:])


def peak_mb() -> float:
    """Highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class DecoderCase:
    """One batch with random weights, read by the planted decoder and by bare products."""

    def __init__(self, length: int, labels: int, compiled: bool):
        torch.manual_seed(0)
        ids = torch.from_numpy(draw_words((BATCH, length))).long()
        self.index = index_tokens(ids, torch.ones_like(ids))
        self.options = PlantedOptions(compile_pairs=compiled)
        unique = len(self.index.unique)
        shapes = {"hidden": (BATCH, length, HIDDEN), "query": (labels, HIDDEN), "weight": (labels, HIDDEN)}
        shapes |= {"label": (labels, RANK), "token": (unique, RANK), "output": (RANK,)}
        self.tensors = {name: torch.randn(shape).mul_(0.1).requires_grad_() for name, shape in shapes.items()}
        self.relevance = StaticRelevance(
            torch.arange(0, labels * RELEVANT + 1, RELEVANT),
            torch.from_numpy(np.random.default_rng(1).integers(0, VOCAB, labels * RELEVANT)),
            torch.rand(labels * RELEVANT),
            VOCAB,
        )
        self.chunk = labels_per_chunk(ids.numel(), unique, self.options.max_memory_mb)
        self.products = torch.empty(self.chunk, ids.numel())

    def forward(self) -> torch.Tensor:
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


def decoder_row(length: int, labels: int, compiled: bool, train: bool, goal: float, repeats: int) -> dict:
    """The decoder against its limit."""
    case = DecoderCase(length, labels, compiled)
    case.six_products()
    before = peak_mb()
    (case.train if train else case.evaluate)()
    added = peak_mb() - before
    ours = case.train if train else case.evaluate
    times = best_times(ours, case.six_products if train else case.two_products, repeats)
    what = "forward + backward" if train else "forward"
    how = "compiled pairs" if compiled else "plain pairs"
    name = f"PLANT decoder {what}, {how}, B={BATCH}, T={length}, {labels:,} labels, d={HIDDEN}, h={RANK}"
    return row(name, *times, goal, f"time / time of the {6 if train else 2} products", added)


def row(name: str, ours_s: float, reference_s: float, goal: float, unit: str, added_mb: float) -> dict:
    """One line of benchmarks/results.json."""
    figures = {"ratio": round(ours_s / reference_s, 3), "goal": goal, "unit": unit}
    return {"name": name, **figures, "ours_s": round(ours_s, 4), "reference_s": round(reference_s, 4)} | {
        "peak_mb": round(added_mb)
    }


def information_row(documents: int = 52_723, labels: int = LABELS) -> dict:
    """Mutual information of a corpus of the size of MIMIC-III."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(7.15, 0.5, documents), 50, 8000).astype(np.int64)
    tokens = []
    for seed, part in enumerate(np.array_split(lengths, 50)):  # in parts, so that counting has the highest peak
        tokens += np.split(draw_words(part.sum(), seed), np.cumsum(part)[:-1])
    share = np.cumsum(1 / (np.arange(labels) + 4.0))
    carried = [np.searchsorted(share / share[-1], draw.random(count)) for count in draw.poisson(15, documents) + 1]
    before, started = peak_mb(), time.process_time()
    counter = RelevanceCounter(VOCAB, labels, (0, 1)).add_all(tokens, carried, progress=False)
    counter.relevance(top_k=1000, progress=False)
    seconds = time.process_time() - started
    name = f"mutual information, {documents:,} documents x {VOCAB:,} tokens x {labels:,} labels"
    return row(name, seconds, MUTUAL_INFORMATION_SECONDS, 1.0, "CPU seconds / 30", peak_mb() - before)


def ranking_row(list_size: int, labels_per_second: float, labels: int) -> dict:
    """LambdaRank steps, optimizer included, against the labels per second the design page asks for."""
    draw = np.random.default_rng(0)
    ids = np.concatenate([draw.choice(VOCAB, RELEVANT, replace=False) for _ in range(labels)]).astype(np.int32)
    values = np.tile(np.linspace(1, 0.01, RELEVANT, dtype=np.float32), labels)
    relevance = TokenRelevance(np.arange(0, labels * RELEVANT + 1, RELEVANT), ids, values, VOCAB, 50_000)
    model = TokenRankerModel(TokenRankerConfig(vocab_size=VOCAB, num_labels=labels, hidden_size=RANK))
    args = RankingArguments(list_size=list_size, labels_per_step=32 if list_size else 64)
    lists = GradedLists(relevance, np.arange(2, VOCAB))
    training, before = RankerTraining(model, {"train": lists}, args, progress=False), peak_mb()
    batches = lists.labels.split(args.labels_per_step)
    training._label_batches = lambda draw: batches
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        training._train_epoch()
        times.append(time.process_time() - started)
    name = f"LambdaRank@{args.ndcg_k}, lists of {list_size or VOCAB:,} tokens, {labels / min(times):,.0f} labels/s"
    unit = f"time / time at {labels_per_second} labels/s"
    return row(name, min(times), labels / labels_per_second, 1.0, unit, peak_mb() - before)


CASES = [
    (information_row, ()),
    (ranking_row, (1000, 754, 512)),
    (ranking_row, (0, 22.7, 64)),
    (decoder_row, (72, LABELS, True, False, 2.5, REPEATS)),
    (decoder_row, (512, 2048, True, False, 1.7, REPEATS)),
    (decoder_row, (1500, 2048, True, False, 1.5, REPEATS)),
    (decoder_row, (72, LABELS, True, True, 4.0, REPEATS)),
    (decoder_row, (512, 2048, True, True, 4.0, REPEATS)),
    (decoder_row, (72, LABELS, False, False, 2.5, REPEATS)),
    (decoder_row, (72, LABELS, False, True, 4.0, REPEATS)),
    (decoder_row, (72, 40_000, False, False, 2.5, 1)),
]


def _measure(case: int, answers) -> None:
    torch.set_num_threads(1)
    function, arguments = CASES[case]
    answers.put(function(*arguments))


def in_own_process(case: int) -> dict:
    """Run a case in a fresh process."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_measure, args=(case, answers))
    process.start()
    found = answers.get()
    process.join()
    return found


def rows() -> list[dict]:
    """All cases."""
    return [in_own_process(case) for case in tqdm(range(len(CASES)), desc="planting", leave=False)]


if __name__ == "__main__":
    for line in rows():
        print(line)
