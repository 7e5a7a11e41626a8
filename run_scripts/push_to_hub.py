"""Upload a trained model with its card, code and tokenizer; private unless told otherwise.

    python run_scripts/push_to_hub.py runs/demo org/plant-demo
    python run_scripts/push_to_hub.py runs/demo org/plant-demo --public

Log in first with `hf auth login`, or set HF_TOKEN. Weights trained on credentialed data (MIMIC) go public only with
`--i_have_permission`. Scores, predictions and checkpoints stay here.
"""

import sys
from dataclasses import dataclass, field

from hf_labelattn import parse_arguments, push_folder, run


@dataclass
class PushArguments:
    """What to upload, and where to."""

    folder: str = field(metadata={"help": "Output folder of a run, or what `save_pretrained` wrote."})
    repo_id: str = field(metadata={"help": "Where to, as organisation/name; created if it does not exist."})
    public: bool = field(default=False, metadata={"help": "Let everybody see it."})
    i_have_permission: bool = field(
        default=False, metadata={"help": "The owners of credentialed training data allowed publication."}
    )
    commit_message: str = field(default="Upload model", metadata={"help": "What the Hub's history says."})


def main() -> None:
    """Folder → card → repository."""
    (args,) = parse_arguments(PushArguments)
    options = {"public": args.public, "i_have_permission": args.i_have_permission}
    commit = push_folder(args.folder, args.repo_id, commit_message=args.commit_message, **options)
    print(f"uploaded {args.folder} to {commit.repo_url} ({'public' if args.public else 'private'})")


if __name__ == "__main__":
    # Folder and repository may be named without flags, as the first two words.
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        sys.argv[1:3] = ["--folder", sys.argv[1], "--repo_id", sys.argv[2]]
    run(main)
