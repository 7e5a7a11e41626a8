"""Uploads a checkpoint: private unless told otherwise, and only the files that others need."""

import json
from pathlib import Path

from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi

from .model_card import card_from_folder, read_card_values
from .terms import check_publication

# Scores and predictions name documents, training_args.bin is a pickle, checkpoints and stages are large: none travels.
TRAVELS = (
    *("model*.safetensors", "model.safetensors.index.json", "*.py", "results.json"),
    *("tokenizer*.json", "vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json"),
    *("spiece.model", "tokenizer.model", "chat_template.jinja", "generation_config.json"),
)


def push_folder(
    folder: str | Path,
    repo_id: str,
    *,
    public: bool = False,
    i_have_permission: bool = False,
    commit_message: str = "Upload model",
    token: str | None = None,
) -> CommitInfo:
    """Upload a folder that `save_pretrained` or a `run_*` script wrote, with its card.

    Args:
        folder: The folder. Weights, configuration, tokenizer, code, results and card are uploaded, nothing else.
        repo_id: Where to, as "organisation/name"; created if it does not exist.
        public: Let everybody see it.
        i_have_permission: The owners of credentialed training data allowed publication.
        commit_message: What the Hub's history says.
        token: Access token; by default the one of `hf auth login` or `HF_TOKEN`.
    """
    folder = Path(folder)
    config = read_config(folder)
    check_publication(config.get("training_data"), public, i_have_permission)
    operations = [
        CommitOperationAdd("config.json", json.dumps(without_local_paths(config), indent=2, sort_keys=True).encode()),
        CommitOperationAdd("README.md", card_text(folder, repo_id).encode()),
        *(CommitOperationAdd(path.name, path) for path in files_to_push(folder)),
    ]
    api = HfApi(token=token)
    # A name without an organisation comes back with the user's own.
    repo_id = api.create_repo(repo_id, private=not public, exist_ok=True).repo_id
    check_visibility(api, repo_id, public)
    return api.create_commit(repo_id, operations, commit_message=commit_message)


def read_config(folder: Path) -> dict:
    """The config.json of a folder that is complete enough to be loaded from the Hub."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}. Name the `--output_dir` of a run.")
    if not (folder / "config.json").is_file() or not any(folder.glob("model*.safetensors")):
        missing = "config.json" if not (folder / "config.json").is_file() else "model.safetensors"
        raise FileNotFoundError(
            f"{folder} has no {missing}, so it is not a finished model. Name the `--output_dir` of a run that ended, "
            "or a folder that `save_pretrained` wrote."
        )
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def without_local_paths(config: dict) -> dict:
    """A configuration without the paths of the machine its parts were loaded from.

    >>> without_local_paths({"encoder_config": {"_name_or_path": "/home/me/lm", "hidden_size": 4}})
    {'encoder_config': {'hidden_size': 4}}
    """
    kept = {name: value for name, value in config.items() if name != "_name_or_path"}
    return {name: without_local_paths(value) if isinstance(value, dict) else value for name, value in kept.items()}


def files_to_push(folder: Path) -> list[Path]:
    """The files of the folder itself that others need, besides config.json and README.md."""
    return sorted({path for pattern in TRAVELS for path in folder.glob(pattern) if path.is_file()})


def card_text(folder: Path, repo_id: str) -> str:
    """The card under the name it will have on the Hub; a README.md edited by hand is kept as it is."""
    readme, written = folder / "README.md", str(card_from_folder(folder))
    own = readme.read_text(encoding="utf-8") if readme.is_file() else written
    if own.strip() == written.strip():
        return str(card_from_folder(folder, repo_id))
    terms = read_card_values(folder).terms
    if terms is not None and terms.link not in own:
        raise ValueError(
            f"{readme} does not carry the {terms.name} of the training data. Add a link to {terms.link}, or remove "
            "the file to have the card written anew."
        )
    return own


def check_visibility(api: HfApi, repo_id: str, public: bool) -> None:
    """Refuse to upload to an existing repository that is not as visible as asked for."""
    private = bool(api.model_info(repo_id).private)
    if private and public:
        raise ValueError(
            f"{repo_id} exists and is private. Make it public in its settings on the Hub, or leave out `--public`."
        )
    if not private and not public:
        raise ValueError(
            f"{repo_id} exists and is public, so everybody would see these weights. Push to another name, make it "
            "private in its settings on the Hub, or add `--public`."
        )
