"""Every script on documents and labels as nobody would write them: it trains, predicts, and offsets fit the text."""

import csv
import json
import random
from pathlib import Path

from .. import tiny
from .forked import compute, run_script
from .material import QUIET, SMALL
from .strategies import ODD, WORDS
from .tally import Tally

NAMES = ("a;b", "a > b", 'say "x"', "it's", "two\nlines", "tab\there", "ünï 🏥", "../up", "<i>", "401.9", " x", "a,b")
LONG = ("x" * 2**20, f"{WORDS[3]} " * 3000)
PLANT = ["--lm_epochs", 1, "--embedding_size", 8, "--hidden_size", 8, "--num_hidden_layers", 1, "--chunk_size", 8]


def run(tally: Tally, folder: Path) -> None:
    """Train each kind of model on odd files, and code the same documents with it."""
    folder.mkdir()
    texts = write_odd(folder)
    compute(lambda: tiny.save_bert(folder / "bert", WORDS), folder / "bert.log")
    for name, (script, words) in commands(folder).items():
        with tally.trying(f"{name} on odd files", len(texts)):
            run_script(script, [*words, "--output_dir", folder / name], folder / f"{name}.log")
            known = label_names(folder / name)
            assert known == set(NAMES), f"{name} knows {sorted(known)}"
            output = folder / f"{name}.codes.jsonl"
            coded = ["--input", folder / "test.jsonl", "--output", output, "--evidence", "True", "--top_k", 3]
            run_script("predict.py", [folder / name, *coded, "--use_cpu", "True"], folder / f"{name}.predict.log")
            assert_offsets(output, texts)
    single = [*splits(folder, "single"), "--preset", "caml", "--num_train_epochs", 1, *SMALL]
    with tally.trying("one label only"):
        run_script("run_label_attention.py", [*single, "--output_dir", folder / "single"], folder / "single.log")


def splits(folder: Path, start: str = "") -> list:
    return ["--train_file", folder / f"{start}train.jsonl", "--test_file", folder / f"{start}test.jsonl"]


def commands(folder: Path) -> dict[str, tuple[str, list]]:
    """Each kind of model."""
    data = [*splits(folder), "--num_train_epochs", 1]
    described = ["--label_file", folder / "labels.jsonl"]
    return {
        "linear": ("run_label_attention.py", [*data, "--preset", "linear", *QUIET]),
        "caml": ("run_label_attention.py", [*data, "--preset", "caml", *SMALL]),
        "leam": ("run_leam.py", [*data, *described, *SMALL]),
        "interaction": ("run_interaction.py", [*data, *described, "--base", "caml", *SMALL]),
        "plant": ("run_plant.py", [*data, *PLANT, "--ranking_epochs", 1, *SMALL]),
        "hybrid": ("run_long_tail.py", [*data, *described, "--backbone", folder / "bert", *SMALL]),
    }


def write_odd(folder: Path) -> dict[str, str]:
    """Odd documents with odd labels; gives the text of each test document by its id."""
    draw, texts = random.Random(0), {}
    for name, count in (("train", 90), ("test", 20)):
        rows = []
        for i in range(count):
            pieces = draw.sample([*ODD, *WORDS], draw.randint(0, 20))
            text = LONG[i] if i < len(LONG) else ODD[i] if i < len(ODD) else " ".join([*pieces, WORDS[i % 12]])
            rows.append({"id": f"{name}/../{i}", "text": text, "labels": [NAMES[i % 12], NAMES[(i + i // 12) % 12]]})
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        one = [{**row, "labels": ["only"] if i % 2 else []} for i, row in enumerate(rows)]
        (folder / f"single{name}.jsonl").write_text("\n".join(map(json.dumps, one)))
        texts = {row["id"]: row["text"] for row in rows}
    labels = [{"label": name, "description": f"{name} {WORDS[i]}"} for i, name in enumerate(NAMES)]
    (folder / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    return texts


def label_names(model: Path) -> set[str]:
    """The labels a finished run reports, by its config and by its table."""
    with open(model / "labels_test.csv", newline="", encoding="utf-8") as file:
        reported = {row["label"] for row in csv.DictReader(file)}
    known = set(json.loads((model / "config.json").read_text())["label2id"])
    assert reported <= known and len(reported) > 1, reported ^ known
    return known


def assert_offsets(path: Path, texts: dict[str, str]) -> None:
    """Every passage is where it says it is in the original text."""
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    assert [row["id"] for row in rows] == list(texts)
    spans = [(row["id"], span) for row in rows for found in row["evidence"] for span in found]
    assert spans, "no passage at all"
    for name, span in spans:
        assert texts[name][span["start"] : span["end"]] == span["text"] != "", (name, span)
