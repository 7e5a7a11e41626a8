"""Load checkpoints where hf_labelattn cannot be imported; run as a script by the tests of this folder.

    python -I load_without_package.py folder_of_checkpoints
    python -I load_without_package.py checkpoint org/name          # the same checkpoint, from the Hub

A checkpoint's folder holds `inputs.safetensors`, the arguments of `forward`; `<Auto class>.safetensors` is written
beside it.
"""

import importlib.abc
import json
import sys
from pathlib import Path


class HidePackage(importlib.abc.MetaPathFinder):
    """Makes hf_labelattn look as if it were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_labelattn":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def load(source: str, folder: Path) -> None:
    """Load a model under each of its Auto classes and keep what it answers."""
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    for auto_class in auto_map.keys() - {"AutoConfig"}:
        model = getattr(transformers, auto_class).from_pretrained(source, trust_remote_code=True).eval()
        with torch.no_grad():
            output = model(**load_file(folder / "inputs.safetensors"))[0]
        save_file({"output": output.contiguous()}, folder / f"{auto_class}.safetensors")


def main(root: Path, repo_id: str | None = None) -> None:
    folders = [path.parent for path in sorted(root.glob("*/config.json"))] if repo_id is None else [root]
    for folder in folders:
        load(repo_id or str(folder), folder)
    assert "hf_labelattn" not in sys.modules


if __name__ == "__main__":
    sys.meta_path.insert(0, HidePackage())
    try:
        import hf_labelattn  # noqa: F401
    except ModuleNotFoundError:
        main(Path(sys.argv[1]), *sys.argv[2:])
