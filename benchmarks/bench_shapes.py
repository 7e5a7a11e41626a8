"""No shape cliff: labels, tokens and batch grown one at a time: `python -m benchmarks.run --only shapes`.

The decoder, the matcher, LEAM and label-wise attention are timed along each axis. A row's ratio is the worst step: how
much the time grew between two neighbouring shapes, relative to how much the shape grew, where the step is long enough
to be timed. With a cliff (a chunk of one label, a tensor that no longer fits a budget) it is far above one.
"""

import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.measuring import each_in_own_process, make_row, peak_mb
from hf_labelattn.models.functional import label_pool
from hf_labelattn.models.functional_leam import mean_by_best_label
from hf_labelattn.models.functional_matching import LabelWords, soft_ngram_match
from hf_labelattn.models.functional_planted import (
    PairRanker,
    PlantedOptions,
    StaticRelevance,
    index_tokens,
    planted_logits,
)

SIZE, VOCAB, BUDGET_MB = 32, 5_000, 64
AXES = {
    "labels": (1, 10, 100, 1_000, 5_000, 10_000, 20_000, 40_000),
    "tokens": (1, 10, 100, 1_000, 10_000, 30_000, 100_000),
    "batch": (1, 2, 4, 8, 16, 32, 64),
}
MIDDLE = {"labels": 500, "tokens": 200, "batch": 2}
GOAL, LONG_ENOUGH = 2.0, 0.02


def decoder(labels: int, tokens: int, batch: int) -> Callable[[], None]:
    """The planted decoder, all three attentions."""
    ids = torch.randint(1, VOCAB, (batch, tokens))
    index = index_tokens(ids, torch.ones_like(ids))
    ranker = PairRanker(torch.randn(labels, SIZE), torch.randn(len(index.unique), SIZE), torch.randn(SIZE))
    relevance = StaticRelevance(
        torch.arange(0, 20 * labels + 1, 20), torch.randint(1, VOCAB, (20 * labels,)), torch.rand(20 * labels), VOCAB
    )
    hidden, weights = torch.randn(batch, tokens, SIZE), torch.randn(2, labels, SIZE)
    options = PlantedOptions(max_memory_mb=BUDGET_MB)
    parts = {"query": weights[0], "ranker": ranker, "relevance": relevance, "options": options}
    return lambda: planted_logits(hidden, index, weights[1], **parts)


def matcher(labels: int, tokens: int, batch: int) -> Callable[[], None]:
    """Interaction matching with descriptions of four words."""
    words = LabelWords.pack(torch.randint(0, 3000, (labels, 4)))
    columns = torch.randint(0, VOCAB, (batch, tokens))
    label_vectors, vectors = torch.randn(len(words.keys), SIZE), torch.randn(VOCAB, SIZE)
    return lambda: soft_ngram_match(
        label_vectors, vectors, columns, torch.full((batch,), tokens), words, max_memory_mb=BUDGET_MB
    )


def leam(labels: int, tokens: int, batch: int) -> Callable[[], None]:
    """LEAM with a window of 51 words."""
    given = torch.randn(VOCAB, SIZE), torch.randint(0, VOCAB, (batch, tokens))
    mask, classes = torch.ones(batch, tokens, dtype=torch.bool), torch.randn(labels, SIZE)
    return lambda: mean_by_best_label(*given, mask, classes, torch.randn(51), torch.zeros(labels), BUDGET_MB)


def attention(labels: int, tokens: int, batch: int) -> Callable[[], None]:
    """Label-wise attention, as in CAML."""
    hidden, weights = torch.randn(batch, tokens, SIZE), torch.randn(2, labels, SIZE)
    mask = torch.ones(batch, tokens, dtype=torch.bool)
    return lambda: label_pool(hidden, hidden, mask, *weights, BUDGET_MB)


def seconds(function: Callable[[], None], repeats: int = 3) -> float:
    """Best processor seconds of a few calls."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


@torch.no_grad()
def axis_row(make: Callable, axis: str, shapes: tuple[int, ...]) -> dict:
    """The worst step along an axis."""
    times, before, added = [], peak_mb(), 0.0
    for shape in shapes:
        function = make(**{**MIDDLE, axis: shape})
        before = peak_mb()
        times.append(seconds(function))
        added = max(added, peak_mb() - before)
    steps = zip(shapes[:-1], shapes[1:], times[:-1], times[1:], strict=True)
    worst = max([(later / earlier) / (b / a) for a, b, earlier, later in steps if earlier > LONG_ENOUGH] or [1.0])
    name = f"{make.__name__}, {shapes[0]:,} to {shapes[-1]:,} {axis}: worst step, time over size"
    return make_row(f"Shapes: {name}", worst, GOAL, "× linear", times[-1], None, added)


def rows(quick: bool = False) -> Iterator[dict]:
    """Four kernels, three axes."""
    axes = {axis: shapes[: 4 if quick else None] for axis, shapes in AXES.items()}
    return each_in_own_process(
        [(axis_row, (make, *axis)) for make in (decoder, matcher, leam, attention) for axis in axes.items()]
    )
