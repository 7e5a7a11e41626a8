"""Speed and memory of what PLANT computes before training: `python -m benchmarks.run --only planting`.

Mutual information at the size of MIMIC-III, and LambdaRank steps (optimizer included) against the labels per second
the prototypes reached. Processor seconds; each case runs in a process of its own, so that its peak memory (beyond its
inputs) is its own.
"""

import statistics
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bench_decoder import LABELS, RANK, RELEVANT, VOCAB, draw_words
from benchmarks.measuring import each_in_own_process, make_row, peak_mb
from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.modeling_l2r import TokenRankerModel
from hf_labelattn.planting.graded_lists import GradedLists
from hf_labelattn.planting.mutual_information import RelevanceCounter, TokenRelevance
from hf_labelattn.planting.ranker_training import RankerTraining, RankingArguments

DOCUMENTS = 52_723


def information_rows(documents: int = DOCUMENTS, labels: int = LABELS) -> list[dict]:
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
    seconds, added = time.process_time() - started, peak_mb() - before
    name = f"Mutual information, {documents:,} documents × {VOCAB:,} tokens × {labels:,} labels"
    goals = ((seconds, 30, "s"), (added, 2048, "MB"))
    return [make_row(name, value, goal, unit, seconds, None, added) for value, goal, unit in goals]


def ranking_row(list_size: int, labels_per_second: float, labels: int, repeats: int) -> dict:
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
    for _ in range(repeats):
        started = time.process_time()
        training._train_epoch()
        times.append(time.process_time() - started)
    seconds = statistics.median(times)
    name = f"LambdaRank@{args.ndcg_k}, lists of {list_size or VOCAB:,} tokens, {labels / seconds:,.0f} labels/s"
    wanted = labels / labels_per_second
    return make_row(
        name, seconds / wanted, 1.0, f"× {labels_per_second:g} labels/s", seconds, wanted, peak_mb() - before
    )


def rows(quick: bool = False) -> Iterator[dict]:
    """All cases."""
    repeats, documents = (1, 2000) if quick else (3, DOCUMENTS)
    cases = [(information_rows, (documents,))]
    cases += [(ranking_row, (1000, 754, 256, repeats)), (ranking_row, (0, 22.7, 64, repeats))]
    return each_in_own_process(cases)
