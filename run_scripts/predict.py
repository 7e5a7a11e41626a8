"""Code any number of documents with a trained model, in constant memory.

    python run_scripts/predict.py runs/caml --input notes.jsonl --output codes.parquet
    python run_scripts/predict.py runs/caml --input note.txt --html note.html

`--input` is JSONL, CSV or TSV (plain or .gz) with a text column, or one .txt file; `--output` is .parquet or .jsonl.
`--evidence True` adds the passages that speak for each code; `--html` shows one .txt note with its codes and evidence.
Several processes share the input: accelerate launch … run_scripts/predict.py writes one numbered file per process.
"""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from accelerate import PartialState
from tqdm.auto import tqdm

from hf_labelattn import PredictionWriter, Predictor, explain, parse_arguments, read_texts_to_code, run, write_page


@dataclass
class PredictionArguments:
    """What to code, with what, and where to."""

    model: str = field(metadata={"help": "Folder or Hub id of a trained model."})
    input: str = field(metadata={"help": "Documents: .jsonl, .csv, .tsv (plain or .gz) or one .txt file."})
    output: str | None = field(default=None, metadata={"help": "Where to write the codes: .parquet or .jsonl."})
    html: str | None = field(default=None, metadata={"help": "Where to write a page of one .txt note: .html."})
    evidence: bool = field(default=False, metadata={"help": "Add the passages that speak for each code."})
    top_tokens: int = field(default=8, metadata={"help": "Words of evidence per code, at most."})
    text_column: str = field(default="text", metadata={"help": "Column with the text."})
    id_column: str = field(default="id", metadata={"help": "Column with the document's name (default: line number)."})
    top_k: int | None = field(default=None, metadata={"help": "The k best labels instead of those above threshold."})
    batch_size: int = field(default=16, metadata={"help": "Documents at once."})
    use_cpu: bool = field(default=False, metadata={"help": "Stay on the CPU."})

    def __post_init__(self):
        if self.output is None and self.html is None:
            raise ValueError("Nothing to write. Pass `--output codes.jsonl`, or `--html note.html` for one .txt note.")
        if self.html is not None and Path(self.input).suffix.lower() != ".txt":
            raise ValueError(f"`--html` shows one note: pass a .txt file as `--input`, not {Path(self.input).name}.")


def main() -> None:
    """Documents → scores → labels (→ evidence) → file."""
    (args,) = parse_arguments(PredictionArguments)
    state = PartialState(cpu=args.use_cpu)
    predictor = Predictor(args.model, batch_size=args.batch_size, device=state.device)
    rows = read_texts_to_code(args.input, args.text_column, args.id_column)
    mine = (row for i, row in enumerate(rows) if i % state.num_processes == state.process_index)
    shard = state.process_index, state.num_processes
    writer = PredictionWriter(args.output, *shard, evidence=args.evidence) if args.output else None
    found = predictor.stream(mine, args.top_k)
    with writer or nullcontext():
        for name, text, predictions in tqdm(found, desc="coding", unit=" documents"):
            evidence = None
            if args.evidence or args.html:
                evidence = explain(predictor, text, [p.label for p in predictions], args.top_tokens)
            if writer:
                writer.write(name, predictions, evidence if args.evidence else None)
            if args.html:
                descriptions = predictor.model.config.label_descriptions
                write_page(args.html, text, predictions, evidence, descriptions, title=name)
                print(f"wrote the page of {len(predictions)} codes to {args.html}")
    if writer:
        print(f"coded {writer.count:,} documents into {writer.path}")


if __name__ == "__main__":
    # The model may be named without a flag, as the first word.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv.insert(1, "--model")
    run(main)
