"""How much of a training epoch is spent waiting for data: `python -m benchmarks.run --only epoch`.

One epoch of the Trainer for caml, plant, interaction and leam; `python -m benchmarks.profile_epoch` prints the other
parts, and torch's costliest operators.
"""

import tempfile
from collections.abc import Iterator

from benchmarks.measuring import each_in_own_process, make_row, peak_mb
from benchmarks.profile_epoch import GOAL, MODELS, prepare, profile


def epoch_row(name: str, documents: int) -> dict:
    """The share of the data path, and where the rest went."""
    data, _ = prepare(documents)
    with tempfile.TemporaryDirectory() as folder:
        parts, total = profile(name, data, folder)
    shares = ", ".join(f"{part} {parts[part] / total:.0%}" for part in ("step", "optimizer"))
    name = f"Training epoch of {name}, {data.labels.num_labels} labels: data path ({shares})"
    return make_row(name, parts["data"] / total, GOAL, "of the epoch", total, None, peak_mb())


def rows(quick: bool = False) -> Iterator[dict]:
    """A row per model."""
    return each_in_own_process([(epoch_row, (name, 60 if quick else 160)) for name in MODELS])
