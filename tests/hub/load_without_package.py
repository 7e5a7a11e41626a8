"""Load every checkpoint below a folder where hf_labelattn cannot be imported; run as a script by test_remote_code.py.

Each folder holds `inputs.safetensors`, the arguments of `forward`; `<Auto class>.safetensors` is written beside it.
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


def main(root: Path) -> None:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    for path in sorted(root.glob("*/config.json")):
        inputs = load_file(path.parent / "inputs.safetensors")
        for auto_class in json.loads(path.read_text())["auto_map"].keys() - {"AutoConfig"}:
            model = getattr(transformers, auto_class).from_pretrained(path.parent, trust_remote_code=True).eval()
            with torch.no_grad():
                output = {"output": model(**inputs)[0].contiguous()}
            save_file(output, path.parent / f"{auto_class}.safetensors")
    assert "hf_labelattn" not in sys.modules


if __name__ == "__main__":
    sys.meta_path.insert(0, HidePackage())
    try:
        import hf_labelattn  # noqa: F401
    except ModuleNotFoundError:
        main(Path(sys.argv[1]))
