"""Train the peers on exactly the documents and splits of this library, for comparison.

    make bench-peers                                       # makes .venv-peers
    python -m benchmarks.peers --train_file train.jsonl --test_file test.jsonl --word_vectors glove.npy --epochs 10

Leaves scores (`NAME.npz`) that `compare.py --external` takes as rows, and prints each peer's training documents per
CPU second.
"""

import argparse
import json
import re
import subprocess
from pathlib import Path

from hf_labelattn import DataArguments, load_word_vectors, read_notes, take_fraction

PEERS = ("fastText", "KimCNN", "XMLCNN", "CAML", "BiGRULWAN")


def export(args: argparse.Namespace, folder: Path) -> None:
    """Write the splits as words, and the vectors of the training words."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: getattr(args, name) for name in ("train_file", "validation_file", "test_file")}
    notes, vocabulary = read_notes(DataArguments(**files)), set()
    notes["train"] = take_fraction(notes["train"], args.train_fraction)
    for name, split in notes.items():
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for row in split:
                words = re.findall(r"[^\W\d_]\w*", row["text"].lower())
                vocabulary.update(words if name == "train" else ())
                file.write(json.dumps({"id": row["id"], "words": " ".join(words), "labels": row["labels"]}) + "\n")
    vectors = load_word_vectors(args.word_vectors, vocabulary=vocabulary)
    with open(folder / "vectors.txt", "w", encoding="utf-8") as file:
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            file.write(f"{word} {' '.join(f'{x:.5f}' for x in row)}\n")


def main() -> None:
    """Export, then one process per peer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--train_fraction", type=float, default=1.0, help="share of it, as in the run scripts")
    parser.add_argument("--validation_file")
    parser.add_argument("--test_file", required=True)
    parser.add_argument("--word_vectors", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument("--python", default=".venv-peers/bin/python", help="Python of the peers' environment")
    parser.add_argument("--folder", default="runs/peers", help="where scores are left")
    args = parser.parse_args()
    folder = Path(args.folder)
    export(args, folder)
    for peer in args.peers:
        worker = Path(__file__).with_name("peer_worker.py")
        subprocess.run([args.python, str(worker), str(folder), peer, str(args.epochs)], check=True)


if __name__ == "__main__":
    main()
