"""Code any number of documents with a trained model, in constant memory.

    python run_scripts/predict.py runs/caml --input notes.jsonl --output codes.parquet

`--input` is JSONL, CSV or TSV (plain or .gz) with a text column, or one .txt file; `--output` is .parquet or .jsonl.
Several processes share the input: accelerate launch … run_scripts/predict.py writes one numbered file per process.
"""

import sys
from dataclasses import dataclass, field

from accelerate import PartialState
from tqdm.auto import tqdm

from hf_labelattn import PredictionWriter, Predictor, parse_arguments, read_texts_to_code, run


@dataclass
class PredictionArguments:
    """What to code, with what, and where to."""

    model: str = field(metadata={"help": "Folder or Hub id of a trained model."})
    input: str = field(metadata={"help": "Documents: .jsonl, .csv, .tsv (plain or .gz) or one .txt file."})
    output: str = field(metadata={"help": "Where to write the codes: .parquet or .jsonl."})
    text_column: str = field(default="text", metadata={"help": "Column with the text."})
    id_column: str = field(default="id", metadata={"help": "Column with the document's name (default: line number)."})
    top_k: int | None = field(default=None, metadata={"help": "The k best labels instead of those above threshold."})
    batch_size: int = field(default=16, metadata={"help": "Documents at once."})
    use_cpu: bool = field(default=False, metadata={"help": "Stay on the CPU."})


def main() -> None:
    """Documents → scores → labels → file."""
    (args,) = parse_arguments(PredictionArguments)
    state = PartialState(cpu=args.use_cpu)
    predictor = Predictor(args.model, batch_size=args.batch_size, device=state.device)
    rows = read_texts_to_code(args.input, args.text_column, args.id_column)
    mine = (row for i, row in enumerate(rows) if i % state.num_processes == state.process_index)
    with PredictionWriter(args.output, state.process_index, state.num_processes) as writer:
        for name, predictions in tqdm(predictor.stream(mine, args.top_k), desc="coding", unit=" documents"):
            writer.write(name, predictions)
    print(f"coded {writer.count:,} documents into {writer.path}")


if __name__ == "__main__":
    # The model may be named without a flag, as the first word.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv.insert(1, "--model")
    run(main)
