"""Train without some labels, add them by their descriptions alone, and see how well they are found.

    python -m benchmarks.new_labels --data ../shared/data/debtags --word_vectors glove.npy --description_column name \
        --trained benchmarks/results/interaction_linear/debtags/linear_sum_fraction1_seed0.json

`--trained` is a cell of compare.py whose model was trained on every label.
"""

import argparse
import csv
import gzip
import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from hf_labelattn import InteractionForMultiLabel, read_label_file, write_json

SCRIPTS = Path(__file__).parent.parent / "run_scripts"


def read(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def choose(rows: list[dict], descriptions: dict[str, str], count: int, at_least: int) -> list[str]:
    """Labels to leave out, by hash of their name, among those with enough test documents to measure."""
    present = Counter(label for row in rows for label in row["labels"])
    fit = [label for label, number in present.items() if number >= at_least and descriptions.get(label)]
    return sorted(fit, key=lambda label: hashlib.sha256(label.encode()).hexdigest())[:count]


def write_without(rows: list[dict], labels: set[str], path: Path) -> None:
    """The same documents without those labels; a document that has no other label stays, without any."""
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, "labels": [label for label in row["labels"] if label not in labels]}) + "\n")


def script(name: str, **options) -> None:
    """Run a script of this library."""
    words = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    subprocess.run([sys.executable, str(SCRIPTS / f"{name}.py"), *words], check=True, stdout=subprocess.DEVNULL)


def train(args: argparse.Namespace, folder: Path, labels: list[str]) -> Path:
    """The linear model joined with a matcher, both of which have never seen the labels."""
    data, left_out = Path(args.data), set(labels)
    for name in ("train", "dev"):
        write_without(read(data / f"{name}.jsonl.gz"), left_out, folder / f"{name}.jsonl")
    known = [json.loads(line) for line in open(data / "labels.jsonl", encoding="utf-8")]
    rows = [json.dumps(row) for row in known if row["label"] not in left_out]
    (folder / "labels.jsonl").write_text("\n".join(rows), encoding="utf-8")
    common = {"train_file": folder / "train.jsonl", "validation_file": folder / "dev.jsonl"}
    common |= {"label_file": folder / "labels.jsonl", "description_column": args.description_column}
    common |= {"use_cpu": True, "disable_tqdm": True}
    script("run_label_attention", preset="linear", output_dir=folder / "linear", **common)
    joint = {"base": folder / "linear", "freeze_base": True, "freeze_vectors": True, "term_weighting": "idf"}
    joint |= {"word_vectors": args.word_vectors, "num_train_epochs": 10, "per_device_train_batch_size": 32}
    script("run_interaction", output_dir=folder / "joint", **joint, **common)
    return folder / "joint"


def main() -> None:
    """Choose labels → train without them → add them → average precision of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", required=True, help="folder with train, dev, test .jsonl.gz and labels.jsonl")
    parser.add_argument("--word_vectors", required=True)
    parser.add_argument("--description_column", default="description")
    parser.add_argument("--labels", type=int, default=60, help="how many to leave out")
    parser.add_argument("--at_least", type=int, default=3, help="test documents a label must have")
    parser.add_argument("--trained", help="cell of compare.py trained on every label")
    parser.add_argument("--folder", default="runs/new_labels")
    args = parser.parse_args()
    folder, data = Path(args.folder), Path(args.data)
    folder.mkdir(parents=True, exist_ok=True)
    test = read(data / "test.jsonl.gz")
    descriptions = read_label_file(data / "labels.jsonl", description_column=args.description_column)
    labels = choose(test, descriptions, args.labels, args.at_least)
    model = InteractionForMultiLabel.from_pretrained(train(args, folder, labels))
    model.add_labels({label: descriptions[label] for label in labels})
    report(args, test, labels, average_precision(model, folder, data, labels), folder)


def average_precision(
    model: InteractionForMultiLabel, folder: Path, data: Path, labels: list[str]
) -> dict[str, float]:
    """Average precision of the added labels on the test documents, as evaluate.py measures it."""
    model.save_pretrained(folder / "grown")
    for file in (folder / "joint").glob("tokenizer*"):
        (folder / "grown" / file.name).write_bytes(file.read_bytes())
    script("evaluate", model=folder / "grown", test_file=data / "test.jsonl.gz", use_cpu=True)
    with open(folder / "grown" / "labels_evaluate.csv", newline="", encoding="utf-8") as file:
        found = {row["label"]: row["average_precision"] for row in csv.DictReader(file)}
    return {label: float(found[label]) for label in labels}


def report(args: argparse.Namespace, test: list[dict], labels: list[str], found: dict, folder: Path) -> None:
    """Print means: added, by chance, trained."""
    present = Counter(label for row in test for label in row["labels"])
    means = {"added by description": np.mean([found[label] for label in labels])}
    means["by chance"] = np.mean([present[label] / len(test) for label in labels])
    if args.trained:
        trained = json.loads(Path(args.trained).read_text(encoding="utf-8"))["label_average_precision"]
        means["trained on them"] = np.mean([trained[label] for label in labels])
    write_json(folder / "results.json", {"labels": found, "macro_ap": {k: float(v) for k, v in means.items()}})
    print(f"macro-AP of {len(labels)} labels: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items()))


if __name__ == "__main__":
    main()
