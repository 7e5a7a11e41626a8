"""Push with the script and with `model.push_to_hub`, then load everything back; run as a script by test_push.py.

python round_trip.py checkpoint path_of_push_to_hub.py org/name        (HF_ENDPOINT names the Hub)
"""

import json
import runpy
import sys
from pathlib import Path

import torch
from huggingface_hub import HfApi
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

import hf_labelattn  # noqa: F401
from hf_labelattn.hub.push import push_folder
from hf_labelattn.registration import register_auto_classes

TEXT = "w3 w4 w5"


@torch.no_grad()
def main(folder: Path, script: str, repo_id: str) -> dict:
    torch.set_num_threads(1)
    register_auto_classes()
    sys.argv = [script, str(folder), repo_id]
    runpy.run_path(script, run_name="__main__")
    inputs = load_file(folder / "inputs.safetensors")
    model = AutoModelForSequenceClassification.from_pretrained(repo_id).eval()
    classify = pipeline(
        "text-classification", model=repo_id, tokenizer=AutoTokenizer.from_pretrained(repo_id), top_k=3
    )
    model.push_to_hub("org/from-model")
    HfApi().create_repo("org/public", private=False)
    return {
        "logits": AutoModel.from_pretrained(repo_id)(**inputs).logits.tolist(),
        "class": type(model).__module__,
        "pipeline": classify([TEXT])[0],
        "refusals": [refusal(folder, "org/public"), refusal(folder, repo_id, public=True)],
    }


def refusal(folder: Path, repo_id: str, **options) -> str:
    try:
        push_folder(folder, repo_id, **options)
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    found = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    print(json.dumps(found))
