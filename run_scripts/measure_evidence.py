"""Measure whether the evidence of trained models is what they use, and what a reader would mark.

    python run_scripts/measure_evidence.py runs/caml runs/plant --dataset_name synthetic_notes --num_documents 4000

Prints a Markdown table; `--output evidence.json` also writes every figure. Give the data options the models were
trained with, so that the split is one they have not seen. Span precision is the share of evidence characters inside
true spans, span recall the share of true spans that evidence touches (only for data with a column `evidence`);
comprehensiveness is how far a label's probability drops without its evidence (higher is better), sufficiency how far
with nothing but it (lower is better; below zero where the rest only distracts). In brackets: as many random words.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset

from hf_labelattn import DataArguments, Predictor, evidence_quality, parse_arguments, read_notes, run, write_json

MEASURES = {
    "span_precision": "span precision",
    "span_recall": "span recall",
    "comprehensiveness": "comprehensiveness ↑",
    "sufficiency": "sufficiency ↓",
}


@dataclass
class MeasureArguments:
    """Which models, and how much evidence of how many documents."""

    models: list[str] = field(metadata={"help": "Folders or Hub ids of trained models."})
    split: str = field(default="test", metadata={"help": "Split whose documents are explained."})
    max_documents: int = field(default=50, metadata={"help": "Documents explained, the first of the split."})
    top_tokens: list[int] = field(default_factory=lambda: [8], metadata={"help": "Words of evidence per label."})
    only_recognised: bool = field(
        default=False, metadata={"help": "Explain only those of a document's labels that the model predicts too."}
    )
    output: str | None = field(default=None, metadata={"help": "Where to write all figures: .json."})
    seed: int = field(default=0, metadata={"help": "Seed of the random words."})
    batch_size: int = field(default=16, metadata={"help": "Documents at once."})
    use_cpu: bool = field(default=False, metadata={"help": "Stay on the CPU."})

    def __post_init__(self):
        if min(self.top_tokens, default=0) < 1 or self.max_documents < 1:
            raise ValueError("`--top_tokens` and `--max_documents` must be 1 or more.")
        if self.output is not None and Path(self.output).suffix != ".json":
            raise ValueError(f"`--output` is {Path(self.output).name}, but must end in .json.")


def choose_documents(args: MeasureArguments, data_args: DataArguments) -> Dataset:
    """The first documents of the split."""
    notes = read_notes(data_args)
    if args.split not in notes:
        raise ValueError(f"There is no split {args.split!r} (found: {', '.join(notes)}). Pass `--split` or its file.")
    return notes[args.split].select(range(min(args.max_documents, len(notes[args.split]))))


def measure(args: MeasureArguments, model: str, notes: Dataset) -> list[dict]:
    """The figures of one model, one row per number of words."""
    print(f"measuring {model}", file=sys.stderr)
    predictor = Predictor(model, batch_size=args.batch_size, device="cpu" if args.use_cpu else None)
    texts, labels = list(notes["text"]), list(notes["labels"])
    if args.only_recognised:
        found = [{p.label for p in row} for row in predictor.predict(texts)]
        labels = [[name for name in row if name in own] for row, own in zip(labels, found, strict=True)]
    spans = list(notes["evidence"]) if "evidence" in notes.column_names else None
    rows = []
    for count in args.top_tokens:
        figures = evidence_quality(predictor, texts, labels, spans, count, args.seed)
        if not figures["explained"]:
            raise ValueError(f"{model} knows (or predicts) none of the documents' labels. Pass data of its label set.")
        rows.append({"model_type": predictor.model.config.model_type, "top_tokens": count, **figures})
    return rows


def short_names(models: list[str]) -> list[str]:
    """The folders' own names where they tell the models apart, else as given."""
    names = [Path(model).name for model in models]
    return names if len(set(names)) == len(names) else models


def markdown(rows: list[dict]) -> str:
    """The table."""
    lines = ["| model | words | labels explained | " + " | ".join(MEASURES.values()) + " |"]
    lines.append("|---|---:|---:|" + "---:|" * len(MEASURES))
    for row in rows:
        cells = [cell(row, name) for name in MEASURES]
        lines.append(f"| {row['model']} | {row['top_tokens']} | {row['explained']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(row: dict, name: str) -> str:
    """A figure with that of random words in brackets."""
    return f"{row[name]:.3f} ({row[f'{name}_random']:.3f})" if name in row else "–"


def main() -> None:
    """Documents → evidence of each model → figures → table."""
    args, data_args = parse_arguments(MeasureArguments, DataArguments)
    notes, rows = choose_documents(args, data_args), []
    for name, model in zip(short_names(args.models), args.models, strict=True):
        rows += [{"model": name, **row} for row in measure(args, model, notes)]
    print(markdown(rows))
    if args.output is not None:
        settings = {"split": args.split, "documents": len(notes), "only_recognised": args.only_recognised}
        write_json(args.output, {**settings, "seed": args.seed, "rows": rows})


if __name__ == "__main__":
    # Models may be named without a flag, as the first words.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not sys.argv[1].endswith(".json"):
        sys.argv.insert(1, "--models")
    run(main)
