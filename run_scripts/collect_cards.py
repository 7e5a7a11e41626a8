"""Collect the model cards of finished runs in one folder, with an index.

    python run_scripts/collect_cards.py runs/caml runs/plant --output model_cards
    python run_scripts/collect_cards.py runs --output model_cards          # every finished run under runs/

Cards are rendered anew from config.json, results.json and run.json of each run; they hold counts and figures, never
text. Cards that are in the folder already stay in the index until they are removed.
"""

import sys
from dataclasses import dataclass, field

from hf_labelattn import collect_cards, parse_arguments, run


@dataclass
class CollectArguments:
    """Which runs, and where to."""

    runs: list[str] = field(metadata={"help": "Folders of runs, or folders that hold them."})
    output: str = field(default="model_cards", metadata={"help": "Folder for the cards and their index, README.md."})
    prefix: str = field(default="", metadata={"help": "Put before the models' names in the cards, such as org/."})


def main() -> None:
    """Runs → cards → index."""
    (args,) = parse_arguments(CollectArguments)
    written = collect_cards(args.runs, args.output, args.prefix)
    for path in written:
        print(path)
    print(f"wrote {len(written)} cards and {args.output}/README.md")


if __name__ == "__main__":
    # Runs may be named without a flag, as the first words.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not sys.argv[1].endswith(".json"):
        sys.argv.insert(1, "--runs")
    run(main)
