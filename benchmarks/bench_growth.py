"""How time and memory grow with words, labels and documents: `python -m benchmarks.run --only growth`.

Whole models score documents, each point in a process of its own. Time should grow linearly with all three; memory
should not grow with the documents or, beyond the first windows, with their length. Pictures go to
benchmarks/growth_*.png. A row's ratio is the last step: time over size (1 is linear), memory over memory (1 is flat).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.bench_memory import chunked, make_plant
from benchmarks.measuring import in_own_process, make_row, peak_mb
from hf_labelattn import (
    InteractionForMultiLabel,
    LabelAttentionConfig,
    LabelAttentionForMultiLabel,
    LEAMConfig,
    LEAMForSequenceClassification,
)
from hf_labelattn.models.functional_matching import LabelWords

HERE = Path(__file__).parent
VOCAB, BATCH = 10_000, 2
AXES = {
    "length": (500, 1_000, 2_000, 4_000, 8_000),
    "labels": (500, 1_000, 2_000, 4_000, 8_000),
    "documents": (2, 4, 8, 16, 32),
}
TITLES = {"length": "words in a document", "labels": "labels", "documents": "documents"}
MIDDLE = {"length": 1_000, "labels": 1_000, "documents": 4}
MODELS = ("caml", "plant", "interaction", "leam")
TIME_GOAL, MEMORY_GOAL = 1.3, 1.2


def make_model(name: str, labels: int):
    """A model with random weights, in evaluation."""
    if name == "plant":
        return make_plant(labels, VOCAB, embedding_size=64, hidden_size=96, num_hidden_layers=1).eval()
    if name == "leam":
        return LEAMForSequenceClassification(
            LEAMConfig(vocab_size=VOCAB, num_labels=labels, embedding_size=100)
        ).eval()
    caml = LabelAttentionForMultiLabel(LabelAttentionConfig.preset("caml", vocab_size=VOCAB, num_labels=labels))
    if name == "caml":
        return caml.eval()
    joint = InteractionForMultiLabel.from_base(caml)
    joint._set_words(LabelWords.pack(torch.randint(2, VOCAB, (labels, 5))).unpack())
    return joint.eval()


@torch.no_grad()
def point(name: str, length: int, labels: int, documents: int) -> tuple[float, float]:
    """Processor seconds, and memory at its highest beyond the model and one short document."""
    model = make_model(name, labels)
    size = model.config.chunk_size if model.config.reads_chunks else length
    ids, mask = chunked(min(BATCH, documents), length, size, VOCAB)
    model(ids[:, :1, :64], mask[:, :1, :64])
    before, started = peak_mb(), time.process_time()
    for _ in range(max(1, documents // BATCH)):
        model(ids, mask)
    return time.process_time() - started, peak_mb() - before


def draw(axis: str, shapes: tuple[int, ...], found: dict[str, list[tuple[float, float]]]) -> None:
    """Time and memory of all models along one axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for panel, unit, axes in zip((0, 1), ("seconds", "MB beyond the model"), figure.subplots(1, 2), strict=True):
        for name, points in found.items():
            axes.plot(shapes, [values[panel] for values in points], marker="o", label=name)
        axes.set(xlabel=TITLES[axis], ylabel=unit, xlim=(0, None), ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(HERE / f"growth_{axis}.png", dpi=110)


def whole_document(name: str, megabytes: float) -> str | None:
    """Why memory grows with the words of a document, `megabytes` for each."""
    if name != "leam":
        return None
    return f"LEAM holds slices of labels × all words: {1000 * megabytes:.0f} MB per 1,000 words, up to its budget."


def rows(quick: bool = False) -> Iterator[dict]:
    """One row per model and axis for time, and for memory where it should be flat."""
    for axis, shapes in AXES.items():
        shapes, found = shapes[: 2 if quick else None], {}
        for name in MODELS:
            found[name] = [in_own_process(point, name, *{**MIDDLE, axis: shape}.values()) for shape in shapes]
            (earlier, less), (later, more) = found[name][-2:]
            what = f"Growth of {name}, {shapes[-2]:,} to {shapes[-1]:,} {TITLES[axis]}"
            step = (later / earlier) / (shapes[-1] / shapes[-2])
            yield make_row(f"{what}: time over size", step, TIME_GOAL, "× linear", later, earlier, more)
            if axis != "labels":
                flat = (more + 50) / (less + 50)  # 50 MB: what the allocator holds back, more or less
                why = whole_document(name, (more - less) / (shapes[-1] - shapes[-2]) / BATCH)
                yield make_row(f"{what}: memory", flat, MEMORY_GOAL, "× before", later, earlier, more, why)
        if not quick:
            draw(axis, shapes, found)
