"""A word planted in notes is searched for in all a full run leaves: files, logs, caches, errors, vocabularies."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ..data.mimic_tables import write_mimic3
from ..hub.hub_server import HubServer
from ..tiny import save_bert
from .forked import SCRIPTS, compute, run_script
from .load import Refused, application, button, press
from .material import QUIET, WORDS, Job, jobs, write_descriptions
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
    with tally.trying("push_to_hub.py"):
        push(folder / "plant", folder / "hub", folder / "push.log")
    with tally.trying("app.py"):
        serve(folder / "plant", folder)
    for number, (script, words) in enumerate(mistakes(asked, folder)):
        with tally.trying(f"an error of {script}"):
            run_script(script, words, folder / f"error{number}_{script}.log", code=2)
    found = [path for path in search(folder) if asked not in path.parents]
    tally.inputs += sum(1 for path in folder.rglob("*") if path.is_file())
    if found:
        tally.fail("the planted word", f"is in {[str(path.relative_to(folder)) for path in found]}")
    with tally.trying("nothing that runs code when it is read"):
        compute(lambda: assert_no_pickle(folder), folder / "pickles.log")
    asked_for = {path.name for path in search(asked)}
    if not {"note.html", "codes.jsonl", "train.jsonl"} <= asked_for:
        tally.fail("the search itself", f"does not find the word where it must be: {sorted(asked_for)}")
    tally.notes.append(f"{notes} notes with the planted word; found in the files that were asked for, nowhere else")


def push(model: Path, hub_files: Path, log: Path) -> None:
    """Upload a model to a Hub on loopback; what arrives there is searched too."""

    def main() -> None:
        with HubServer() as hub:
            known = {"HF_ENDPOINT": hub.url, "HF_TOKEN": hub.token, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
            command = [sys.executable, str(SCRIPTS / "push_to_hub.py"), str(model), "org/model"]
            subprocess.run(command, env={**os.environ, **known}, check=True)
            files = hub.repositories["org/model"].files
        assert "model.safetensors" in files and "README.md" in files, sorted(files)
        for name, content in files.items():
            path = hub_files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    compute(main, log)


def serve(model: Path, folder: Path) -> None:
    """A visitor pastes a note with the word, and one that is too long: the application's log and home are searched."""
    with application(model, folder / "app.log", folder, max_characters=300) as (port, _):
        call = button(port)
        page = press(port, call, "once", f"sign00 {CANARY} word1")
        assert CANARY in page, "the visitor does not see the note"
        try:
            press(port, call, "long", f"{CANARY} " * 100)
            raise AssertionError("a note beyond the limit was taken")
        except Refused:
            pass


def assert_no_pickle(folder: Path) -> None:
    """Archives of torch are read with `weights_only`, and lie in checkpoints only; there is no other pickle."""
    import torch
    from transformers.trainer_pt_utils import safe_globals

    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert path.suffix not in (".bin", ".pkl", ".pickle", ".joblib"), path
        if path.suffix in (".pt", ".pth"):
            assert any(part.startswith("checkpoint-") for part in path.parts), path
            with safe_globals():  # the arrays of numpy's random state, as the Trainer reads them
                torch.load(path, weights_only=True)
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                assert not [name for name in archive.namelist() if name.endswith(".pkl")], path


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
    write_descriptions(folder)
    compute(lambda: save_bert(folder / "bert", WORDS), folder / "bert.log")
    compute(lambda: write_mimic3(folder / "mimic3", 60, length_scale=0.05, num_labels=40), folder / "mimic.log")
    for path in (folder / "mimic3").glob("NOTEEVENTS*"):
        packed = path.suffix == ".gz"
        text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
        text = text.replace("Admission", f"Admission {CANARY}")
        assert CANARY in text
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
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
    made: dict[str, Job] = jobs({"files": asked, "mimic3": asked / "mimic3"})
    splits = [word for name in ("train", "validation", "test") for word in (f"--{name}_file", asked / f"{name}.jsonl")]
    yield "prepare_tables.py", made["tables"].words(asked / "clinic")
    yield "prepare_mimic.py", made["mimic"].words(asked / "mimic_sets")
    for name in ("language model", "ranker", "plant", "classifier", "leam", "interaction", "hybrid"):
        words = made[name].words(folder / name.replace(" ", "_"))
        yield made[name].script, [*words, "--validation_file", asked / "validation.jsonl"]
    model = folder / "plant"
    yield "run_label_attention.py", ["--preset", "linear", *splits, *QUIET, "--output_dir", folder / "linear"]
    yield "evaluate.py", [model, "--test_file", asked / "test.jsonl", "--use_cpu", "True"]
    yield "measure_evidence.py", [model, *splits]
    codes = ["--input", asked / "test.jsonl", "--use_cpu", "True"]
    yield "predict.py", [model, *codes, "--output", folder / "codes.parquet"]
    yield "predict.py", [model, *codes, "--output", asked / "codes.jsonl", "--evidence", "True", "--top_tokens", 99]
    yield "predict.py", [model, "--input", asked / "note.txt", "--html", asked / "note.html", "--use_cpu", "True"]
    yield "export_onnx.py", [folder / "classifier", "--output", folder / "step.onnx"]
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
