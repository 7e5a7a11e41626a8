"""Latency of a single note for each model at 8,929 labels: `python -m benchmarks.run --only serving`.

Each model is saved with random weights and a tokenizer, loaded by `Predictor` in a fresh process, and reads notes of
some 1,500 words one by one, then eight at once. "First result" is loading and the first note together; imports are not
counted. Processor seconds, so that other programs on the machine count little.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.bench_memory import make_plant
from benchmarks.measuring import in_own_process, make_row, peak_mb
from hf_labelattn import (
    InteractionForMultiLabel,
    LabelAttentionConfig,
    LabelAttentionForMultiLabel,
    LEAMConfig,
    LEAMForSequenceClassification,
    Predictor,
    train_word_tokenizer,
)

LABELS, VOCAB, WORDS, TOGETHER = 8_929, 30_000, 1_500, 8
PRESETS = ("caml", "laat", "multirescnn", "cnn", "xmlcnn", "bigru", "fasttext", "swem")
GOAL_SECONDS = 2.0


def vocabulary() -> list[str]:
    """Invented words."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["w" + "".join(letters[(i // 26**k) % 26] for k in range(4)) for i in range(VOCAB - 4)]


def make_notes(count: int, seed: int) -> list[str]:
    """Notes of invented words, the first of the vocabulary more often than the last."""
    draw, words = random.Random(seed), vocabulary()
    return [" ".join(words[int(len(words) * draw.random() ** 4)] for _ in range(WORDS)) for _ in range(count)]


def zoo(preset: str) -> LabelAttentionForMultiLabel:
    """A model of the zoo."""
    return LabelAttentionForMultiLabel(LabelAttentionConfig.preset(preset, vocab_size=VOCAB, num_labels=LABELS))


def leam() -> LEAMForSequenceClassification:
    """LEAM with the defaults."""
    return LEAMForSequenceClassification(LEAMConfig(vocab_size=VOCAB, num_labels=LABELS))


def interaction(tokenizer) -> InteractionForMultiLabel:
    """CAML joined with the matcher; descriptions of five words."""
    draw, words = random.Random(1), vocabulary()
    base = zoo("caml")
    model = InteractionForMultiLabel.from_base(base, unk_token_id=tokenizer.unk_token_id)
    names = [base.config.id2label[i] for i in range(LABELS)]
    model.set_label_descriptions({name: " ".join(draw.choices(words, k=5)) for name in names}, tokenizer)
    return model


def makers(tokenizer) -> dict[str, Callable]:
    """What builds each model."""
    found = {preset: lambda preset=preset: zoo(preset) for preset in PRESETS}
    return (
        {"plant 400/1152×3": lambda: make_plant(LABELS, VOCAB), "leam": leam}
        | found
        | {"interaction over caml": lambda: interaction(tokenizer)}
    )


def serve(folder: str, notes: list[str]) -> tuple[list[float], float, float]:
    """Seconds of loading with the first note, then of each other note; of some together; and the peak memory."""
    times = []
    started = time.process_time()
    predictor = Predictor(folder)
    for note in notes:
        predictor.predict([note], top_k=15)
        times.append(time.process_time() - started)
        started = time.process_time()
    predictor.predict(notes[:TOGETHER], top_k=15)
    return times, time.process_time() - started, peak_mb()


@torch.no_grad()
def bare_lstm_seconds() -> float:
    """What stock recurrent layers of PLANT's size take for a note: each step waits for the one before."""
    sizes, hidden = (400, 1152, 1152, 400), torch.randn(1, WORDS, 400)
    layers = [torch.nn.LSTM(a, b, batch_first=True) for a, b in zip(sizes[:-1], sizes[1:], strict=True)]
    started = time.process_time()
    for layer in layers:
        hidden = layer(hidden)[0]
    return time.process_time() - started


def first_by_the_clock(folder: str, note: str) -> float:
    """Seconds of loading and the first note as a user sees them: with every core, on an idle machine."""
    torch.set_num_threads(os.cpu_count() or 1)
    started = time.perf_counter()
    Predictor(folder).predict([note], top_k=15)
    return time.perf_counter() - started


def reason(name: str, folder: str, note: str) -> str | None:
    """Why a model cannot reach the goal, measured."""
    if not name.startswith("plant"):
        return None
    seconds, clock = in_own_process(bare_lstm_seconds), in_own_process(first_by_the_clock, folder, note)
    why = f"{WORDS:,} steps wait for each other and read 45 MB of weights each: bare nn.LSTMs take {seconds:.1f} s."
    return f"{why} With {os.cpu_count()} threads and by the clock the first result took {clock:.1f} s."


def rows(quick: bool = False) -> Iterator[dict]:
    """Two rows for each model: the first result after loading, and a note after that."""
    notes = make_notes(3 if quick else 21, seed=0)
    tokenizer = train_word_tokenizer([" ".join(vocabulary())], ["all"], min_document_frequency=1)
    chosen = makers(tokenizer)
    for name in ("caml", "leam") if quick else chosen:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            chosen[name]().save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            (first, *rest), together, peak = in_own_process(serve, str(Path(folder)), notes)
            why = reason(name, folder, notes[0]) if first > GOAL_SECONDS else None
        middle, slow = statistics.median(rest), sorted(rest)[int(0.95 * len(rest))]
        what = f"{name}, {LABELS:,} labels"
        yield make_row(f"Serving {what}: first result after load", first, GOAL_SECONDS, "s", first, None, peak, why)
        latency = f"p50 {1000 * middle:.0f} ms, p95 {1000 * slow:.0f} ms"
        throughput = f"{min(TOGETHER, len(notes)) / together:.3g} notes/s when {min(TOGETHER, len(notes))} are given"
        shown = f"Serving {what}: one note of {WORDS:,} words, {latency}; {throughput}"
        yield make_row(shown, middle, None, "s", middle, None, peak)
