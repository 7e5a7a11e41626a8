"""What the stages work on: small tables, documents and commands, and how two runs are compared."""

import csv
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import tiny
from ..data.mimic_tables import write_mimic3
from .forked import compute

LM = {"embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2}
QUIET = ["--use_cpu", "True", "--disable_tqdm", "True"]
WORDS = [*(f"sign0{k}" for k in range(5)), *(f"word{k}" for k in range(20))]
SMALL = [*QUIET, "--per_device_train_batch_size", "8", "--learning_rate", "0.01"]


@dataclass(frozen=True)
class Job:
    """A command that leaves files in a folder.

    Attributes:
        name: Of the job.
        script: The script.
        words: Arguments, given the folder.
        same: Patterns of the files that must be equal whatever happened on the way.
        landmarks: Names of what it writes, one for each of its stages, in that order.
    """

    name: str
    script: str
    words: Callable[[Path], list]
    same: tuple[str, ...]
    landmarks: tuple[str, ...] = ()

    def differs(self, folder: Path, whole: Path) -> list[str]:
        """Files that are not those of an uninterrupted run; what is left over counts too."""
        wanted = self.files(whole)
        assert wanted, f"{self.name} left nothing in {whole}"
        names = sorted(wanted | self.files(folder))
        return [n for n in names if not (folder / n).is_file() or content(folder / n) != content(whole / n)]

    def files(self, folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for pattern in self.same for path in folder.glob(pattern)}


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def make_material(folder: Path) -> dict[str, Path]:
    """Write documents, tables of two hospitals and a text for the language model."""
    folder.mkdir(parents=True)
    tiny.write_sign_documents(folder)
    write_clinic(folder)
    write_descriptions(folder)
    mimic = folder / "mimic3"
    compute(lambda: tiny.save_bert(folder / "bert", WORDS), folder / "bert.log")
    compute(lambda: write_mimic3(mimic, 60, length_scale=0.05, num_labels=40), folder / "mimic.log")
    return {"files": folder, "mimic3": mimic}


def write_clinic(folder: Path, stays: int = 400) -> None:
    """Two tables as a hospital exports them."""
    draw = random.Random(0)
    with open(folder / "notes.csv", "w", newline="") as notes, open(folder / "codes.csv", "w", newline="") as codes:
        note, code = csv.writer(notes), csv.writer(codes)
        note.writerow(["stay", "person", "text"])
        code.writerow(["stay", "code"])
        for stay in range(stays):
            chosen = draw.sample(["E119", "I10", "J449", "N390", "A419"], draw.randint(1, 3))
            text = " ".join(f"sign{c.lower()} word{draw.randint(0, 30)}" for c in chosen for _ in range(40))
            note.writerow([stay, stay // 2, text])
            code.writerows([stay, c] for c in chosen)


def write_descriptions(folder: Path) -> None:
    """Descriptions of the labels, and vectors of most words."""
    labels = [{"label": f"0{k}", "description": f"sign0{k} word{k}"} for k in range(5)]
    (folder / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    draw = random.Random(1)
    lines = [" ".join([word, *(f"{draw.gauss(0, 1):.4f}" for _ in range(8))]) for word in WORDS[1:]]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n")


def jobs(material: dict[str, Path]) -> dict[str, Job]:
    """Every stage between tables and predictions."""
    files = material["files"]
    data = ["--train_file", files / "train.jsonl", "--test_file", files / "test.jsonl"]
    model = ("results.json", "model.safetensors", "config.json", "tokenizer.json")
    caml = ["--preset", "caml", "--num_train_epochs", 4, "--overrides", json.dumps({"hidden_size": 16}), *SMALL]
    lm = ["--overrides", json.dumps(LM), "--use_cpu", "True", "--num_train_epochs", 2, "--batch_size", 4, "--bptt", 10]
    lm += ["--save_steps", 7, "--learning_rate", "0.03", "--train_file", files / "train.jsonl"]
    ranker = ["--ndcg_k", 3, "--ranking_epochs", 4, "--embedding_size", 6, "--hidden_size", 8, "--baseline", "False"]
    plant = ["--lm_epochs", 1, "--embedding_size", 8, "--hidden_size", 12, "--num_hidden_layers", 2]
    plant += ["--l2r_hidden_size", 8, "--ranking_epochs", 2, "--num_train_epochs", 3, "--chunk_size", 8, *SMALL]
    clinic = ["--notes_file", files / "notes.csv", "--codes_file", files / "codes.csv", "--patient_column", "person"]
    mimic = ["--mimic3", material["mimic3"], "--subset", "mimic3-full", "mimic3-50"]
    made = ("**/*.jsonl*", "**/dataset.json", "**/.*")
    ranked = ["--train_file", files / "train.jsonl"]
    described = ["--label_file", files / "labels.jsonl", "--word_vectors", files / "vectors.txt"]
    leam = [*data, *described, "--num_train_epochs", 2, *SMALL]
    matching = [*data, *described, "--base", "linear", "--folds", 2, "--num_train_epochs", 2, *SMALL]
    hybrid = [*data, *described, "--backbone", files / "bert", "--num_train_epochs", 2, *SMALL]
    scored = (*model, "scores_test.npz", "labels_test.csv")
    stages = (*model, "*/model.safetensors", "relevance/relevance.safetensors")
    parts = ("parts/*/model.safetensors", "parts/words/results.json", "tokenizer_match.json")
    # name, script, arguments, what must be equal, landmarks
    rows = [
        ("language model", "pretrain_lm", lm, model, ("checkpoint-", "model.safetensors")),
        ("ranker", "rank_tokens", [*ranker, *ranked], (*model, "relevance.safetensors"), ("relevance", "config.json")),
        ("classifier", "run_label_attention", [*data, *caml], scored, ("trainer_state.json", "results.json")),
        ("plant", "run_plant", [*data, *plant], stages, ("language_model", "relevance", "ranker", "state.json")),
        ("leam", "run_leam", leam, scored, ("trainer_state.json",)),
        ("interaction", "run_interaction", matching, scored, ("checkpoint-", "results.json")),
        ("hybrid", "run_long_tail", hybrid, (*scored, *parts), ("parts/words", "parts/sentence", "results.json")),
        ("tables", "prepare_tables", clinic, made, ("dataset.json",)),
        ("mimic", "prepare_mimic", mimic, made, ("train.jsonl", "dataset.json")),
    ]
    found = [
        Job(name, f"{script}.py", lambda f, words=words: [*words, "--output_dir", f], same, marks)
        for name, script, words, same, marks in rows
    ]
    return {job.name: job for job in found}


def predict_job(model: Path, files: Path) -> Job:
    """Codes and their evidence for the test documents."""
    words = [model, "--input", files / "test.jsonl", "--evidence", "True", "--use_cpu", "True", "--batch_size", 4]
    return Job(
        "predict", "predict.py", lambda f: [*words, "--output", f / "codes.parquet"], ("**/*",), ("codes.parquet",)
    )
