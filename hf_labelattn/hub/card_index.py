"""A folder of model cards with an index: one file per run, one table per dataset."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import ModelCard

from ..storage import write_text
from .model_card import card_from_folder

HEADLINE = ("f1_micro", "f1_macro", "average_precision_macro", "precision_at_5", "accuracy")
DESCRIPTION = re.compile(r"chooses among ([\d,]+) labels: (.+?), made with hf_labelattn")
HEADING = """# Model cards

Cards of the configurations that were run, rendered from what each run left. Figures are those of the test split, under
their exact names; each card has all of them, also by frequency of the label, with data, settings and limits.
"""
CREDENTIALED = "\n\\* under the terms of credentialed data: see the card.\n"


def collect_cards(runs: Iterable[str | os.PathLike], output: str | os.PathLike, prefix: str = "") -> list[Path]:
    """Write the card of every run into one folder, and an index of all cards in it.

    Args:
        runs: Folders of runs, or folders that hold such folders at any depth.
        output: Where to; cards of other runs that are there stay, and stay in the index.
        prefix: Put before the names the cards give to the models, such as "org/".

    Returns:
        The files written, without the index.
    """
    output, written = Path(output), []
    output.mkdir(parents=True, exist_ok=True)
    for name, folder in name_runs(runs).items():
        written.append(output / f"{name}.md")
        _write(written[-1], str(card_from_folder(folder, f"{prefix}{name}")))
    _write(output / "README.md", render_index(output))
    return written


def name_runs(runs: Iterable[str | os.PathLike]) -> dict[str, Path]:
    """A name for each finished run: its folder's, or its path below the folder it was found in, joined by dashes."""
    found: dict[str, Path] = {}
    for root in map(Path, runs):
        folders = finished_runs(root)
        if not folders:
            raise ValueError(
                f"{root} holds no finished run (a folder with config.json and results.json). Name the `--output_dir` "
                "of a run that ended, or a folder of such folders."
            )
        for folder in folders:
            name = "-".join(folder.relative_to(root).parts) or root.resolve().name
            if name in found:
                raise ValueError(f"{found[name]} and {folder} would both become {name}.md. Rename one of them.")
            found[name] = folder
    return found


def finished_runs(root: Path) -> list[Path]:
    """The folders of finished runs at or under a folder; stages and checkpoints of a run are none."""
    if (root / "config.json").is_file() and (root / "results.json").is_file():
        return [root]
    if not root.is_dir():
        return []
    return [run for folder in sorted(root.iterdir()) if folder.is_dir() for run in finished_runs(folder)]


def render_index(folder: Path) -> str:
    """The index of the cards in a folder, read from the cards themselves."""
    entries: dict[str, list[Entry]] = {}
    for path in sorted(folder.glob("*.md")):
        if path.name != "README.md":
            entry = Entry.read(path)
            entries.setdefault(entry.dataset, []).append(entry)
    credentialed = any(entry.terms for rows in entries.values() for entry in rows)
    parts = [HEADING, *(_table(dataset, entries[dataset]) for dataset in sorted(entries))]
    return "\n".join(parts) + (CREDENTIALED if credentialed else "")


@dataclass(frozen=True)
class Entry:
    """What the index says of a card."""

    path: Path
    model: str
    labels: str
    dataset: str
    figures: dict[str, float]
    terms: bool

    @classmethod
    def read(cls, path: Path) -> "Entry":
        """From the card itself."""
        card = ModelCard.load(path)
        described = DESCRIPTION.search(card.content)
        labels, model = described.groups() if described else ("–", "–")
        return cls(path, model, labels, *headline_split(card), bool(card.data.to_dict().get("license_name")))

    @property
    def order(self) -> tuple[float, str]:
        """Best first."""
        return -self.figures.get("f1_micro", self.figures.get("accuracy", 0.0)), self.path.stem


def headline_split(card: ModelCard) -> tuple[str, dict[str, float]]:
    """Name of the dataset and metrics of the test split (or the last there is) a card's `model-index` holds."""
    results = card.data.eval_results or []
    if not results:
        return "no figures", {}
    split = "test" if any(r.dataset_split == "test" for r in results) else results[-1].dataset_split
    chosen = {r.metric_type: float(r.metric_value) for r in results if r.dataset_split == split}
    return results[-1].dataset_name, chosen


def _table(dataset: str, entries: list[Entry]) -> str:
    columns = [name for name in HEADLINE if any(name in entry.figures for entry in entries)]
    lines = [f"## {dataset}", "", "| card | model | labels |" + "".join(f" `{name}` |" for name in columns)]
    lines.append("|---|---|---:|" + "---:|" * len(columns))
    for entry in sorted(entries, key=lambda entry: entry.order):
        link = f"[{entry.path.stem}]({entry.path.name}){' *' if entry.terms else ''}"
        cells = [f" {entry.figures[name]:.4f} |" if name in entry.figures else " – |" for name in columns]
        lines.append(f"| {link} | {entry.model} | {entry.labels} |{''.join(cells)}")
    return "\n".join([*lines, ""])


def _write(path: Path, text: str) -> None:
    """So that a reader sees the old file or the new one."""
    write_text(path, text.rstrip() + "\n")
