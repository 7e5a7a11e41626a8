"""Speed and memory of LEAM, as ratios: `python -m benchmarks.run --only leam`.

    python -m benchmarks.bench_leam       # the paper's table 4 alone: 1,000 iterations and parameters of four models

"Limit" is the products of the equations, timed alone: labels × tokens, weights × tokens, and in training their
gradients. (The kernels multiply each different word of a batch once, so they can beat it.) Words are drawn from Zipf's
law, as in text. Variants alternate in one process on one thread; times are processor seconds, the median of some
rounds, so other load on the machine distorts them little.
"""

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from benchmarks.measuring import each_in_own_process, in_own_process, make_row, peak_mb, race, row
from hf_labelattn.models.configuration_label_attention import LabelAttentionConfig
from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.functional_leam import different_words, mean_by_best_label
from hf_labelattn.models.modeling_label_attention import LabelAttentionForMultiLabel
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification

SIZE, WINDOW, VOCABULARY, BATCH = 300, 50, 30_000, 100
WHY = "At so few labels the products take about a millisecond, and some twenty small operators beside them count."
SMALL = ((4, 40), (14, 100))  # labels and words of AG News and, generously, DBPedia


def text(batch: int, words: int) -> tuple[Tensor, Tensor]:
    """Ids `[B, N]` after Zipf's law and a mask; documents have half to full length, padding is 0."""
    generator = torch.Generator().manual_seed(0)
    frequency = 1 / torch.arange(1, VOCABULARY - 1, dtype=torch.float32)
    ids = 2 + torch.multinomial(frequency, batch * words, replacement=True, generator=generator).view(batch, words)
    mask = torch.arange(words) < torch.randint(words // 2, words + 1, (batch, 1), generator=generator)
    return ids * mask, mask


def inputs(batch: int, words: int, labels: int) -> list[Tensor]:
    """What the kernel takes: different words, positions, mask, label embeddings, kernel, bias."""
    ids, mask = text(batch, words)
    different, positions = different_words(ids, VOCABULARY)
    kernel = 0.1 * torch.randn(2 * WINDOW + 1)
    return [torch.randn(len(different), SIZE), positions, mask, torch.randn(labels, SIZE), kernel, torch.zeros(labels)]


def plain(words: Tensor, positions: Tensor, mask: Tensor, labels: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Eq. (2)-(6) as one would write them down."""
    values = words[positions]
    similarity = F.normalize(labels, dim=-1) @ (F.normalize(values, dim=-1) * mask[..., None]).transpose(1, 2)
    rows = similarity.flatten(0, 1)[:, None]  # [B * K, 1, N]
    scores = F.relu(F.conv1d(rows, kernel[None, None], padding=WINDOW).view_as(similarity) + bias[:, None]).amax(1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return (weights[..., None] * values).sum(1)


def forward_rows(batch: int, words: int, labels: int, goal: float, rounds: int, against_plain: bool) -> list[dict]:
    """The kernel alone, in evaluation."""
    given = inputs(batch, words, labels)
    values, weights = torch.randn(batch, words, SIZE), torch.rand(batch, 1, words)
    slices = given[3].split(512)

    def limit():
        for part in slices:
            torch.bmm(part.expand(batch, -1, -1), values.transpose(1, 2))
        torch.bmm(weights, values)

    functions = {"ours": lambda: mean_by_best_label(*given, 256), "limit": limit}
    functions |= {"plain": lambda: plain(*given)} if against_plain else {}
    before = peak_mb()
    with torch.no_grad():
        mean_by_best_label(*given, 256)
        added = peak_mb() - before
        clock = race(functions, rounds)
    shape = f"LEAM forward, B={batch}, {labels:,} labels, {words} words"
    out = [row(shape, clock, goal, peak_mb=added, why=WHY)]
    return [*out, row(shape, clock, 0.6, reference="plain")] if against_plain else out


def backward_row(batch: int, words: int, labels: int, goal: float, rounds: int) -> dict:
    """The kernel with its gradients; the limit has the five products."""
    given = [x.requires_grad_() if x.is_floating_point() else x for x in inputs(batch, words, labels)]
    values, weights = torch.randn(batch, words, SIZE), torch.rand(batch, 1, words)
    grad, similarity = torch.randn(batch, 1, SIZE), torch.randn(batch, labels, words)

    def ours():
        mean, _ = mean_by_best_label(*given, 256)
        torch.autograd.grad(mean.sum(), [x for x in given if x.requires_grad])

    def limit():
        every = given[3].detach().expand(batch, -1, -1)
        torch.bmm(every, values.transpose(1, 2))
        torch.bmm(weights, values)
        torch.bmm(grad, values.transpose(1, 2))
        torch.bmm(similarity, values).sum(0)
        torch.bmm(similarity.transpose(1, 2), every).baddbmm_(weights.transpose(1, 2), grad)

    clock = race({"ours": ours, "limit": limit}, rounds)
    return row(f"LEAM forward + backward, B={batch}, {labels:,} labels, {words} words", clock, goal, why=WHY)


def models_of_table_4(labels: int) -> dict[str, PreTrainedModel]:
    """LEAM and what the paper times it against, at its sizes."""
    base = {"vocab_size": VOCABULARY, "num_labels": labels, "embedding_size": SIZE}
    base |= {"problem_type": "single_label_classification"}
    lstm = {"encoder": "lstm", "attention": "last", "hidden_size": 300, "bidirectional": False}
    return {
        "LEAM": LEAMForSequenceClassification(LEAMConfig(**base)),
        "SWEM": LabelAttentionForMultiLabel(LabelAttentionConfig.preset("swem", dropout=0.0, **base)),
        "CNN": LabelAttentionForMultiLabel(LabelAttentionConfig.preset("cnn", **base)),
        "LSTM": LabelAttentionForMultiLabel(LabelAttentionConfig(**lstm, **base)),
    }


def training_rows(labels: int, words: int, rounds: int) -> list[dict]:
    """Whole training steps (look-up, model, gradient, Adam over the word table) against the models of table 4."""
    clock = race(steps_of(models_of_table_4(labels), labels, words), rounds)
    clock = {name: 1000 * seconds for name, seconds in clock.items()}
    shape = f"1,000 training steps ({rounds} timed), B={BATCH}, {labels} labels, {words} words: LEAM"
    goals = {"SWEM": 1.3, "CNN": 1.0, "LSTM": 1.0}
    return [row(shape, clock, goal, ours="LEAM", reference=name) for name, goal in goals.items()]


def steps_of(models: dict[str, PreTrainedModel], labels: int, words: int) -> dict[str, Callable[[], None]]:
    """One training step of each model, on the same documents."""
    (ids, mask), truth = text(BATCH, words), torch.randint(0, labels, (BATCH,))
    return {name: trainer(model.train(), ids, mask, truth) for name, model in models.items()}


def trainer(model, ids: Tensor, mask: Tensor, truth: Tensor) -> Callable[[], None]:
    """One step of the paper's training."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def step():
        optimizer.zero_grad()
        model(ids, mask, labels=truth).loss.backward()
        optimizer.step()

    return step


def cache_row(labels: int, words: int, rounds: int) -> dict:
    """Evaluation with and without the vocabulary tables."""
    config = LEAMConfig(vocab_size=VOCABULARY, num_labels=labels, embedding_size=SIZE)
    model = LEAMForSequenceClassification(config).eval()
    ids, mask = text(BATCH, words)

    def score(cached: bool):
        config.cache_similarity = cached
        model(ids, mask)

    with torch.no_grad():
        clock = race({"ours": lambda: score(True), "uncached": lambda: score(False)}, rounds)
    return row(f"LEAM evaluation, {labels} labels, {words} words: cached G", clock, 0.5, reference="uncached")


def memory_row(labels: int, words: int, goal_mb: int) -> dict:
    """A training step with one softmax per label on one long document, in the memory budget."""
    config = LEAMConfig(vocab_size=1000, num_labels=labels, embedding_size=SIZE, max_kernel_memory_mb=64)
    model = LEAMForSequenceClassification(config).train()
    ids, truth = torch.randint(2, 1000, (1, words)), torch.zeros(1, labels)
    model(ids[:, :10], labels=truth).loss.backward()
    before, start = peak_mb(), time.process_time()
    model(ids, labels=truth).loss.backward()
    seconds, added = time.process_time() - start, peak_mb() - before
    name = f"LEAM training, label pooling, {labels:,} labels, {words:,} words: memory"
    return make_row(name, added, goal_mb, "MB", seconds, None, added)


def rows(quick: bool = False) -> Iterator[dict]:
    """All measurements."""
    few, many = (2, 5) if quick else (5, 30)
    cases = [(forward_rows, (BATCH, 40, 4, 2.0, many, True)), (forward_rows, (BATCH, 100, 14, 2.0, many, True))]
    cases += [(forward_rows, (4, 1500, 50, 2.0, few, True)), (forward_rows, (4, 500, 8929, 1.3, few, False))]
    cases += [(backward_row, (BATCH, words, labels, 2.0, many)) for labels, words in SMALL]
    cases += [(cache_row, (28, 40, few)), (memory_row, (8929, 2000, 256))]
    cases += [(training_rows, (labels, words, few)) for labels, words in SMALL]
    return each_in_own_process(cases)


def table_4(labels: int, words: int, iterations: int, slow_iterations: int) -> list[str]:
    """Lines of the paper's table 4; the slow models take fewer iterations and are scaled up, as the line says.

    Each model is alone in its process: beside others, whose gradient of the word table finds memory that is already
    mapped is luck, and mapping it costs as much as the model.
    """
    taken = {"LEAM": iterations, "SWEM": iterations, "CNN": slow_iterations, "LSTM": slow_iterations}
    found = {name: in_own_process(time_steps, name, labels, words, count) for name, count in taken.items()}
    limit = found["SWEM"][1]
    return [
        f"{name:6}{size:>12,}{1000 * seconds:>10.1f}{seconds / limit:>9.2f}{taken[name]:>12,}"
        for name, (size, seconds) in found.items()
    ]


def time_steps(name: str, labels: int, words: int, count: int) -> tuple[int, float]:
    """Parameters of a model beyond its word table, and processor seconds of one of its training steps."""
    model = models_of_table_4(labels)[name]
    step = steps_of({name: model}, labels, words)[name]
    step()
    start = time.process_time()
    for _ in range(count):
        step()
    return beyond_words(model), (time.process_time() - start) / count


def beyond_words(model: PreTrainedModel) -> int:
    """Parameters a model has besides its word table."""
    return model.num_parameters() - model.get_input_embeddings().weight.numel()


def main() -> None:
    """Print table 4 for the shapes of AG News and DBPedia."""
    for labels, words in SMALL:
        print(f"\n{labels} labels, {words} words, batches of {BATCH}, {SIZE} dimensions, {VOCABULARY:,} words")
        print(f"{'':6}{'parameters':>12}{'CPU s':>10}{'× SWEM':>9}{'iterations':>12}   (s per 1,000 iterations)")
        print("\n".join(table_4(labels, words, iterations=1000, slow_iterations=20)), flush=True)


if __name__ == "__main__":
    main()
