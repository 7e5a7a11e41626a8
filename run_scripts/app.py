"""Serve a trained model as a web page: paste a note, see its codes with their evidence.

    python run_scripts/app.py runs/plant
    python run_scripts/app.py runs/caml_interaction --port 8000       # also scores labels that nobody has trained

It listens on 127.0.0.1 unless `--host` says otherwise, writes nothing to disk and asks nothing of other servers. As a
Space on the Hub (SDK gradio): this file as app.py, `hf_labelattn[demo]` in requirements.txt, and the variable
`CODING_MODEL` with the Hub id of the model. Needs `pip install "hf_labelattn[demo]"`.
"""

import os
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec

from hf_labelattn import Predictor, build_app, launch_app, parse_arguments, run, synthetic_notes


@dataclass
class AppArguments:
    """What to serve, and where."""

    model: str | None = field(
        default_factory=lambda: os.environ.get("CODING_MODEL"),
        metadata={"help": "Folder or Hub id of a trained model (default: the variable CODING_MODEL)."},
    )
    host: str = field(
        default_factory=lambda: os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"),  # a Space sets it
        metadata={"help": "Address to listen on; 0.0.0.0 lets other machines in (default: 127.0.0.1)."},
    )
    port: int | None = field(default=None, metadata={"help": "Port (default: the first free one from 7860)."})
    examples: int = field(default=3, metadata={"help": "Notes of the embedded corpus offered to try."})
    max_characters: int = field(default=100_000, metadata={"help": "Longest note taken."})
    use_cpu: bool = field(default=False, metadata={"help": "Stay on the CPU."})

    def __post_init__(self):
        if not self.model:
            raise ValueError("There is no model to serve. Type `python run_scripts/app.py runs/plant`.")
        if find_spec("gradio") is None:
            raise ValueError('The application needs Gradio. Type `pip install "hf_labelattn[demo]"`.')


def example_notes(count: int) -> list[str]:
    """Short invented notes, of a seed that no training set of these scripts has."""
    if not count:
        return []
    notes = synthetic_notes(max(20, 8 * count), seed=2026, num_labels=200, length_scale=0.15, codes_per_note=5)
    return sorted(notes["test"]["text"], key=len)[:count]


def main() -> None:
    """Model → application → served until interrupted."""
    (args,) = parse_arguments(AppArguments)
    predictor = Predictor(args.model, device="cpu" if args.use_cpu else None)
    app = build_app(predictor, example_notes(args.examples), args.max_characters)
    print(f"serving {args.model} at {launch_app(app, args.host, args.port)} (Ctrl+C ends it)", flush=True)
    app.block_thread()


if __name__ == "__main__":
    # The model may be named without a flag, as the first word.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not sys.argv[1].endswith(".json"):
        sys.argv.insert(1, "--model")
    run(main)
