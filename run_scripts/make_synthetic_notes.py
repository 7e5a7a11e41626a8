"""Write the embedded corpus of invented discharge notes as JSONL, and print its figures.

    python run_scripts/make_synthetic_notes.py --num_documents 4000 --seed 0 --output_dir out

leaves `train.jsonl`, `validation.jsonl`, `test.jsonl` (rows id, group, text, labels, evidence) and `labels.jsonl`
(rows label, description) in the output folder; the same command writes the same bytes. `--linear_model False` skips
the slowest figure.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from transformers import HfArgumentParser

from hf_labelattn import corpus_statistics, format_statistics, replacing, synthetic_label_descriptions, synthetic_notes


@dataclass
class CorpusArguments:
    """What to write, and where."""

    output_dir: str = field(metadata={"help": "Folder for the four files; made if it is not there."})
    num_documents: int = field(default=4000, metadata={"help": "Number of notes in all splits together."})
    seed: int = field(default=0, metadata={"help": "Another seed gives other patients with codes of the same pool."})
    num_labels: int = field(default=1500, metadata={"help": "Number of codes to draw from, most frequent first."})
    codes_per_note: float = field(default=14, metadata={"help": "Median number of codes a note."})
    length_scale: float = field(default=1.0, metadata={"help": "Note length; 1 is a median of 1,490 words."})
    validation_fraction: float = field(default=0.1, metadata={"help": "Share of the notes for validation."})
    test_fraction: float = field(default=0.15, metadata={"help": "Share of the notes for test."})
    linear_model: bool = field(
        default=True, metadata={"help": "Fit a TF-IDF linear SVM and print its F1 (half a minute for 4,000 notes)."}
    )


def write_jsonl(path: Path, rows: Iterable[dict]) -> None:
    """One JSON object a line; no half-written file ever has the final name."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main() -> None:
    """Sizes → notes → files → figures."""
    parser = HfArgumentParser(CorpusArguments, description=__doc__.split("\n\n")[0])
    (args,) = parser.parse_args_into_dataclasses()
    sizes = {name: value for name, value in vars(args).items() if name not in ("output_dir", "linear_model")}
    folder = Path(args.output_dir)
    try:
        dataset = synthetic_notes(**sizes)
        folder.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    descriptions = synthetic_label_descriptions(args.num_labels)
    for split, rows in dataset.items():
        write_jsonl(folder / f"{split}.jsonl", rows)
    write_jsonl(folder / "labels.jsonl", ({"label": k, "description": v} for k, v in descriptions.items()))
    print(f"wrote {', '.join(f'{split}.jsonl' for split in dataset)} and labels.jsonl to {folder}", flush=True)
    print(format_statistics(corpus_statistics(dataset, descriptions, linear_model=args.linear_model)))


if __name__ == "__main__":
    main()
