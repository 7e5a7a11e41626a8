"""Training against other libraries, same network, same documents: `python -m benchmarks.run --only programs`.

Documents of the embedded corpus, short ones and long ones, 500 words at most, batches of 16, one epoch, random word
vectors of 50 dimensions. Each program runs in a process of its own with its own data path, on one thread; processor
seconds of its training alone are compared (reading files and importing libraries are not counted). Ours and
libmultilabel's evaluate and keep a checkpoint after the epoch; fastText does neither, and beside it ours does not
either. `make bench-peers` installs the others.
"""

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.bench_memory import chunked, make_plant
from benchmarks.measuring import in_own_process, make_row, peak_mb
from hf_labelattn import synthetic_notes

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".venv-peers" / "bin" / "python"
DOCUMENTS, SLOW_DOCUMENTS, EPOCHS_OF_BAGS = 1_600, 120, 3
BATCH = 16
CONVOLUTIONS = {"kernel_sizes": [2, 4, 8], "hidden_size": 128, "dropout": 0.2}
# libmultilabel's name of a network: our preset, its sizes, documents
NETWORKS = {
    "KimCNN": ("cnn", CONVOLUTIONS, DOCUMENTS),
    "XMLCNN": ("xmlcnn", {**CONVOLUTIONS, "pool_parts": 2}, DOCUMENTS),
    "CAML": ("caml", {"dropout": 0.2}, DOCUMENTS),
    "BiGRULWAN": ("bigru", {"attention": "caml", "dropout": 0.2}, SLOW_DOCUMENTS),
}
ONLY_TRAINING = ("--save_strategy", "no", "--eval_strategy", "no", "--load_best_model_at_end", "False")
ABSENT = "other libraries are not installed: `make bench-peers`, then `python -m benchmarks.run --only programs`"


def write_documents(folder: Path, count: int) -> None:
    """Files for both sides: rows with `words` for the peers are rows with `text` for us."""
    draw = random.Random(0)
    notes = synthetic_notes(count + 64, 0, length_scale=0.4)
    found, vocabulary = [], set()
    for row in (row for split in notes.values() for row in split):
        words = re.findall(r"[^\W\d_]\w*", row["text"].lower())[: draw.choice((60, 100, 150, 300, 500))]
        vocabulary.update(words)
        found.append({"id": row["id"], "text": " ".join(words), "words": " ".join(words), "labels": row["labels"]})
    splits = {"train": found[64:], "validation": found[:32], "test": found[32:64]}
    for name, rows in splits.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with open(folder / "vectors.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{word} {' '.join(f'{draw.gauss(0, 0.3):.4f}' for _ in range(50))}\n" for word in vocabulary)


def ours(folder: Path, preset: str, overrides: dict, epochs: int, batch: int = BATCH, more: tuple = ()) -> dict:
    """CPU seconds of our training, from the run's own record."""
    words = [sys.executable, ROOT / "run_scripts" / "run_label_attention.py", "--preset", preset, "--use_cpu", "True"]
    words += [word for split in ("train", "validation") for word in (f"--{split}_file", folder / f"{split}.jsonl")]
    words += ["--output_dir", folder / preset, "--overrides", json.dumps(overrides), "--max_tokens", 500]
    words += ["--per_device_train_batch_size", batch, "--num_train_epochs", epochs, "--disable_tqdm", "True"]
    words += ["--overwrite", "True", *more]
    words += [] if preset == "fasttext" else ["--word_vectors", folder / "vectors.txt"]
    run_quietly(words)
    return json.loads((folder / preset / "run.json").read_text())


def theirs(*words) -> dict:
    """What a peer's worker prints."""
    return json.loads(run_quietly([PEERS, Path(__file__).with_name("peer_worker.py"), *words]).splitlines()[-1])


def run_quietly(words: list) -> str:
    """Standard output of a program on one thread; its errors where it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{Path(str(words[1])).name} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def network_row(network: str, count: int | None = None) -> dict:
    """A network of libmultilabel's against ours."""
    preset, overrides, documents = NETWORKS[network]
    documents = count or documents
    with tempfile.TemporaryDirectory() as folder:
        write_documents(Path(folder), documents)
        run = ours(Path(folder), preset, overrides, 1)
        other = theirs(folder, network, 1, "speed")["cpu_seconds"]
    mine = run["train_cpu_seconds"]
    speeds = f"{documents / mine:,.0f} against {documents / other:,.0f} documents/s"
    name = f"Training {network}: {speeds}"
    return make_row(name, mine / other, 0.5, "× libmultilabel", mine, other, run["peak_memory_mb"])


def fasttext_row(documents: int) -> dict:
    """Our fastText against fastText."""
    with tempfile.TemporaryDirectory() as folder:
        write_documents(Path(folder), documents)
        runs = [ours(Path(folder), "fasttext", {}, EPOCHS_OF_BAGS, n, ONLY_TRAINING) for n in (BATCH, 4 * BATCH)]
        other = theirs(folder, "fastText", EPOCHS_OF_BAGS, "speed")["cpu_seconds"]
    (mine, larger), read = [run["train_cpu_seconds"] for run in runs], documents * EPOCHS_OF_BAGS
    fixed = (mine - larger) / (read / BATCH * 3 / 4)  # a quarter of the steps are left
    why = (
        f"fastText updates in C++ after each document; a step of ours costs {1000 * fixed:.1f} ms whatever it reads, "
        f"{fixed * read / BATCH / mine:.0%} of its time. In batches of {4 * BATCH}: {read / larger:,.0f} documents/s."
    )
    name = f"Training fastText: {read / mine:,.0f} against {read / other:,.0f} documents/s"
    return make_row(name, mine / other, 1.0, "× fastText", mine, other, runs[0]["peak_memory_mb"], why)


def plant_step(batch: int, length: int, labels: int, steps: int) -> tuple[float, float]:
    """CPU seconds of a training step of PLANT, and its memory."""
    model = make_plant(labels, 20_000).train()
    ids, mask = chunked(batch, length, model.config.chunk_size, 20_000)
    optimizer, times = torch.optim.AdamW(model.parameters(), 1e-4, fused=True), []
    for _ in range(steps + 1):
        started = time.process_time()
        optimizer.zero_grad()
        model(ids, mask, labels=torch.zeros(batch, labels)).loss.backward()
        optimizer.step()
        times.append(time.process_time() - started)
    return statistics.median(times[1:]), peak_mb()


def plant_row(batch: int = 8, length: int = 288, labels: int = 100, steps: int = 2) -> dict:
    """PLANT against fastai's classifier over the same AWD-LSTM."""
    mine, peak = in_own_process(plant_step, batch, length, labels, steps)
    other = theirs("fastai", batch, length, labels, steps)["cpu_seconds"]
    name = f"Training step of PLANT, 400/1152×3, B={batch}, {length} tokens, {labels} labels"
    return make_row(name, mine / other, 1.25, "× fastai's classifier", mine, other, peak)


def rows(quick: bool = False) -> Iterator[dict]:
    """All rows, or one line on how to get them."""
    if not PEERS.exists():
        print(f"  {ABSENT}", flush=True)
        return
    for network in ("KimCNN",) if quick else NETWORKS:
        yield network_row(network, 64 if quick else None)
    if not quick:
        yield fasttext_row(DOCUMENTS)
        yield plant_row()
