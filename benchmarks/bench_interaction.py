"""Speed and memory of interaction matching, as ratios: `python -m benchmarks.bench_interaction`.

"Limit" is the one product the literal form cannot avoid, timed alone: distinct label words × document words. Words are
drawn by Zipf's law, as in text, so documents repeat theirs. Variants alternate in one process on one thread; times are
processor seconds, the median of some rounds, so other load on the machine distorts them little.
"""

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.measuring import each_in_own_process, make_row, peak_mb, race, row
from hf_labelattn.models.functional_matching import LabelWords, soft_ngram_match

VOCABULARY = 60_000
WHY = "Window sums and their maxima are passes over labels × tokens beside the one product, bound by memory."
Case = tuple[Tensor, Tensor, Tensor, Tensor, LabelWords]


def zipf(count: int, size: int, power: float, generator: torch.Generator) -> Tensor:
    """Words `[count]` of a vocabulary whose n-th word is drawn as n to minus `power`."""
    weights = (torch.arange(size, dtype=torch.float64) + 2.7) ** -power
    return torch.multinomial(weights, count, replacement=True, generator=generator)


def make_case(labels: int, label_words: int, batch: int, tokens: int, size: int, mean_length: float = 5.5) -> Case:
    """Descriptions of 1 to 12 words and documents of equal length, with random unit vectors."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.poisson(torch.full((labels,), mean_length - 1), generator).long().add(1).clamp(max=12)
    rows = zipf(int(lengths.sum()), label_words, 0.6, generator)
    ids = zipf(batch * tokens, VOCABULARY, 1.05, generator).view(batch, tokens)
    distinct, columns = ids.unique(return_inverse=True)
    label_vectors = F.normalize(torch.randn(label_words, size, generator=generator), dim=1)
    document_vectors = F.normalize(torch.randn(len(distinct), size, generator=generator), dim=1)
    words = LabelWords(torch.arange(label_words), rows, lengths)
    return label_vectors, document_vectors, columns, torch.full((batch,), tokens), words


def literal(label_vectors: Tensor, document_vectors: Tensor, columns: Tensor, lengths: Tensor, words: LabelWords):
    """Eq. (1)-(2) label by label: a similarity matrix, its shifted rows added, the maximum of each document."""
    documents = document_vectors[columns]  # [B, N, D]
    best = []
    for rows in words.rows.split(words.lengths.tolist()):
        similarity = F.pad(label_vectors[rows] @ documents.transpose(1, 2), (0, len(rows)))  # [B, m, N + m]
        shifted = [similarity[:, j, j : j + columns.shape[1]] for j in range(len(rows))]
        best.append(torch.stack(shifted).sum(0).amax(1))
    return torch.stack(best, 1)


def with_gradient(match: Callable, case: Case) -> Callable[[], None]:
    """The match and the gradient of both sides' vectors."""
    vectors = [t.clone().requires_grad_() for t in case[:2]]

    def run():
        result = match(*vectors, *case[2:])
        torch.autograd.grad((result[0] if isinstance(result, tuple) else result).sum(), vectors)

    return run


def kernel_rows(batch: int, rounds: int) -> list[dict]:
    """1,159 labels × 700 tokens × 300 dimensions, as in the paper's medical task."""
    case = make_case(labels=1159, label_words=1500, batch=batch, tokens=700, size=300)
    tokens = case[1][case[2].flatten()]
    both, before = with_gradient(soft_ngram_match, case), peak_mb()
    both()
    added = peak_mb() - before
    functions = {"limit": lambda: case[0] @ tokens.T, "forward": lambda: soft_ngram_match(*case), "both": both}
    clock = race(functions, rounds)
    clock |= race({"literal": lambda: literal(*case), "literal both": with_gradient(literal, case)}, rounds=1)
    shape = f"B={batch}, 1,159 labels × 700 tokens × 300"
    return [
        row(f"Interaction forward, {shape}", clock, 1.3, "forward", why=WHY),
        row(f"Interaction forward + backward, {shape}", clock, 1.6, "both", peak_mb=added, why=WHY),
        row(f"Interaction forward, {shape}", clock, 0.2, "forward", "literal"),
        row(f"Interaction forward + backward, {shape}", clock, 0.2, "both", "literal both"),
    ]


def large_row(labels: int = 40_000, tokens: int = 2_500, goal_seconds: float = 5.0) -> dict:
    """One long document against a whole code system: processor seconds, no less than wall seconds on one thread."""
    case = make_case(labels, label_words=15_000, batch=1, tokens=tokens, size=100, mean_length=8.0)
    soft_ngram_match(*case[:2], case[2][:, :50], torch.tensor([50]), case[4])
    before, start = peak_mb(), time.process_time()
    soft_ngram_match(*case)
    seconds = time.process_time() - start
    name = f"Interaction, {labels:,} labels × a {tokens:,}-token document"
    return make_row(name, seconds, goal_seconds, "s", seconds, None, peak_mb() - before)


def rows(quick: bool = False) -> Iterator[dict]:
    """All rows."""
    rounds = 3 if quick else 15
    return each_in_own_process([(large_row, ()), (kernel_rows, (1, rounds)), (kernel_rows, (8, rounds))])
