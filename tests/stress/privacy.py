"""A word planted in notes is searched for in all a full run leaves: files, logs, caches, errors, vocabularies."""

import gzip
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .forked import run_script
from .material import QUIET, Job, jobs
from .tally import Tally

CANARY = "zyxcanaryword"


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Every script over notes with the word, from a home of its own."""
    asked, home = folder / "asked", folder / "home"
    for path in (asked, home / "tmp"):
        path.mkdir(parents=True)
    os.environ |= {"HOME": str(home), "HF_HOME": str(home / "hf"), "TMPDIR": str(home / "tmp")}
    notes = write_notes(asked)
    for number, (script, words) in enumerate(commands(asked, folder)):
        with tally.trying(script):
            run_script(script, words, folder / f"{number}_{script}.log")
    for number, (script, words) in enumerate(mistakes(asked, folder)):
        with tally.trying(f"an error of {script}"):
            run_script(script, words, folder / f"error{number}_{script}.log", code=2)
    found = [path for path in search(folder) if asked not in path.parents]
    tally.inputs += sum(1 for path in folder.rglob("*") if path.is_file())
    if found:
        tally.fail("the planted word", f"is in {[str(path.relative_to(folder)) for path in found]}")
    asked_for = {path.name for path in search(asked)}
    if not {"note.html", "codes.jsonl", "train.jsonl"} <= asked_for:
        tally.fail("the search itself", f"does not find the word where it must be: {sorted(asked_for)}")
    tally.notes.append(f"{notes} notes with the planted word; found in the files that were asked for, nowhere else")


def write_notes(folder: Path) -> int:
    """Documents of which two patients' hold the word, in every split, beside words and labels they share."""
    count = 0
    for name, size in (("train", 60), ("validation", 12), ("test", 12)):
        rows = []
        for i in range(size):
            labels = [f"0{k}" for k in range(5) if (i + k * i) % 5 < 2] or ["00"]
            words = [f"sign{label}" for label in labels] + [f"word{(i * k) % 20}" for k in range(1, 16)]
            if i % 30 < 2:
                words.insert(i % 7, CANARY)
                count += 1
            group = f"{name}-p{i % 30}" if i % 30 < 2 else f"{name}-q{i}"
            rows.append({"id": f"{name}{i}", "group": group, "text": " ".join(words), "labels": labels})
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "note.txt").write_text(f"sign00 {CANARY} word1 word2")
    tables(folder)
    return count


def tables(folder: Path) -> None:
    """The same as two tables."""
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    notes = "".join(f"{i},{row['group']},{row['text']}\n" for i, row in enumerate(rows))
    codes = "".join(f"{i},E11{label[1]}\n" for i, row in enumerate(rows) for label in row["labels"])
    (folder / "notes.csv").write_text("stay,person,text\n" + notes)
    (folder / "codes.csv").write_text("stay,code\n" + codes)


def commands(asked: Path, folder: Path) -> Iterator[tuple[str, list]]:
    """From tables to predictions; what holds notes by its nature goes to `asked`."""
    made: dict[str, Job] = jobs({"files": asked, "mimic3": asked})
    splits = [word for name in ("train", "validation", "test") for word in (f"--{name}_file", asked / f"{name}.jsonl")]
    yield "prepare_tables.py", made["tables"].words(asked / "clinic")
    for name in ("language model", "ranker", "plant", "classifier"):
        words = made[name].words(folder / name.replace(" ", "_"))
        yield made[name].script, [*words, "--validation_file", asked / "validation.jsonl"]
    model = folder / "plant"
    yield "run_label_attention.py", ["--preset", "linear", *splits, *QUIET, "--output_dir", folder / "linear"]
    yield "run_leam.py", [*splits, *QUIET, "--num_train_epochs", 1, "--output_dir", folder / "leam"]
    yield "evaluate.py", [model, "--test_file", asked / "test.jsonl", "--use_cpu", "True"]
    yield "measure_evidence.py", [model, *splits]
    codes = ["--input", asked / "test.jsonl", "--use_cpu", "True"]
    yield "predict.py", [model, *codes, "--output", folder / "codes.parquet"]
    yield "predict.py", [model, *codes, "--output", asked / "codes.jsonl", "--evidence", "True", "--top_tokens", 99]
    yield "predict.py", [model, "--input", asked / "note.txt", "--html", asked / "note.html", "--use_cpu", "True"]
    yield "collect_cards.py", [folder, "--output", folder / "cards"]


def mistakes(asked: Path, folder: Path) -> Iterator[tuple[str, list]]:
    """Broken files with the word in them."""
    line = json.dumps({"id": "1", "text": f"a {CANARY} b", "labels": ["x"]})
    broken = {
        "cut.jsonl": line[:-9],
        "list.jsonl": f'["{CANARY}"]',
        "number.jsonl": line.replace('["x"]', "3"),
        "nothing.jsonl": line.replace('"text"', '"body"'),
        "cells.csv": f"text,labels\n{CANARY},a,b\n",
        "quote.csv": f'text,labels\n"{CANARY}"x,a\n',
        "bytes.jsonl": line.replace("a ", "a \udcff"),
        "twice.jsonl": f"{line}\n{line}",
        "half.jsonl": line.replace("a ", "\\ud800"),
    }
    for name, text in broken.items():
        (asked / name).write_bytes(text.encode(errors="surrogateescape"))
        yield "run_label_attention.py", ["--train_file", asked / name, *QUIET, "--output_dir", folder / "never"]
    yield "predict.py", [folder / "plant", "--input", asked / "cut.jsonl", "--output", folder / "never.jsonl"]


def search(folder: Path) -> Iterator[Path]:
    """Files whose name or content has the word, packed content included."""
    needles = [CANARY.encode(), CANARY.encode("utf-16-le"), CANARY.encode("utf-32-le"), CANARY.upper().encode()]
    for path in sorted(folder.rglob("*")):
        if CANARY in path.name or (path.is_file() and any(n in data for data in contents(path) for n in needles)):
            yield path


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is packed in them."""
    data = path.read_bytes()
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    if data[:4] == b"PAR1":
        import pyarrow.parquet as pq

        yield json.dumps(pq.read_table(path, use_threads=False).to_pylist(), default=str).encode()
