"""Two processes: the same training as one, ragged data, a process that dies, all of PLANT's stages."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .forked import SCRIPTS, compute, run_script
from .material import SMALL, jobs, make_material
from .tally import Tally

LAUNCH = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
MINUTE = 60.0


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Equality first, then the death of a process."""
    material = make_material(folder / "material")
    files = write_ragged(folder / "ragged")
    with tally.trying("one process of 8 and two of 4 give the same weights", 2):
        one_equals_two(folder, files)
    with tally.trying("PLANT end to end in two processes", 2):
        plant_in_two(folder, material)
    with tally.fault("a process dies"):
        tally.notes.append(one_dies(folder, files))


def write_ragged(folder: Path) -> Path:
    """Documents of all lengths, so that one process has fewer chunks to read than the other; none divides evenly."""
    folder.mkdir()
    for name, count in (("train", 61), ("validation", 13), ("test", 17)):
        rows = []
        for i in range(count):
            labels = [f"0{k}" for k in range(5) if (i * 7 + k * 3) % 5 < 2]
            words = [f"sign{label}" for label in labels] + [f"word{(i * k) % 20}" for k in range(i * 37 % 120)]
            rows.append({"id": f"{name}{i}", "text": " ".join(words) if i % 11 else "", "labels": labels})
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def caml(files: Path, output: Path, batch: int, epochs: int = 2) -> list:
    data = [word for name in ("train", "validation", "test") for word in (f"--{name}_file", files / f"{name}.jsonl")]
    overrides = json.dumps({"hidden_size": 16, "dropout": 0.0, "chunk_size": 8, "bptt_chunks": 2})
    words = [*data, "--preset", "caml", "--overrides", overrides, *SMALL, "--output_dir", output]
    # Adam divides by the gradient's own size: with its usual epsilon, a gradient of mere rounding is a full step.
    words += ["--adam_epsilon", "1e-4"]
    return [*words, "--per_device_train_batch_size", batch, "--num_train_epochs", epochs]


def launch(script: str, words: list, log: Path) -> subprocess.Popen:
    command = [sys.executable, *LAUNCH, "--main_process_port", "0", SCRIPTS / script, *words]
    with open(log, "w") as out:
        return subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, start_new_session=True)


def finish(process: subprocess.Popen, log: Path, seconds: float = 600) -> None:
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        end(process)
        raise AssertionError(f"not done after {seconds:.0f} s: {log.read_text()[-800:]}") from None
    assert code == 0, f"ended with {code}: {log.read_text()[-1200:]}"


def one_equals_two(folder: Path, files: Path) -> None:
    """61 documents in batches of 8: the last one has 5, three for one process and two for the other."""
    log = folder / "two.log"
    process = launch("run_label_attention.py", caml(files, folder / "two", 4), log)
    run_script("run_label_attention.py", caml(files, folder / "one", 8), folder / "one.log")
    finish(process, log)
    compute(lambda: assert_near(folder / "one", folder / "two"), folder / "near.log")


def assert_near(one: Path, two: Path) -> None:
    """Weights and metrics of two runs are the same but for rounding."""
    import numpy as np
    from safetensors.numpy import load_file

    first, second = (load_file(path / "model.safetensors") for path in (one, two))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, atol=2e-6, err_msg=name)
    first, second = (json.loads((path / "results.json").read_text())["metrics"]["test"] for path in (one, two))
    first.pop("loss")  # the Trainer's mean over batches; the last is filled up with documents that count twice
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, atol=1e-6, err_msg=name)


def plant_in_two(folder: Path, material: dict) -> None:
    """Language model, relevance, ranker and classifier, all by two processes at once."""
    job, log, output = jobs(material)["plant"], folder / "plant.log", folder / "plant"
    finish(launch(job.script, job.words(output), log), log)
    for name in ("results.json", "model.safetensors", "ranker/stage.json", "relevance/stage.json"):
        assert (output / name).is_file(), f"no {name}"
    again = folder / "plant_again.log"
    finish(launch(job.script, job.words(output), again), again)
    assert "holds a finished run" in again.read_text()


def one_dies(folder: Path, files: Path) -> str:
    """Kill one of two processes in training: the other ends in an error within a minute, and the run can go on."""
    output, log = folder / "dies", folder / "dies.log"
    process = launch("run_label_attention.py", caml(files, output, 4, epochs=200), log)
    try:
        wait_for(lambda: has_checkpoint(output) or process.poll() is not None)
        other, killed = worker(process.pid, rank=0), time.monotonic()
        os.kill(worker(process.pid, rank=1), signal.SIGKILL)
        code = process.wait(MINUTE)
        seconds = time.monotonic() - killed
        assert not Path(f"/proc/{other}").exists(), "the other process runs on"
    finally:
        end(process)
    assert code != 0, "it ended as if nothing had happened"
    compute(lambda: assert_resumable(output), folder / "whole.log")
    return f"after one of two processes was killed, the other ended with code {code} in {seconds:.1f} s"


def has_checkpoint(output: Path) -> bool:
    """Whether both processes have written all of one."""
    return any((p.parent / "rng_state_1.pth").exists() for p in output.glob("checkpoint-*/trainer_state.json"))


def assert_resumable(output: Path) -> None:
    from hf_labelattn import LabelAttentionForMultiLabel, load_model
    from hf_labelattn.training.checkpoints import last_whole_checkpoint

    last = last_whole_checkpoint(output, world_size=2)
    assert last is not None, sorted(path.name for path in output.rglob("*"))
    load_model(LabelAttentionForMultiLabel, last)


def worker(launcher: int, rank: int) -> int:
    """The process of a rank below a launcher."""
    for process in children(launcher):
        if f"RANK={rank}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            return process
    raise AssertionError(f"there is no process of rank {rank}")


def children(process: int) -> list[int]:
    """The processes a process has started; torch gives each a session of its own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended in the meantime
            continue
        found += [int(path.parent.name)] if parent == process else []
    return found


def end(process: subprocess.Popen) -> None:
    """Kill a launcher and what it started, if it still runs."""
    if process.poll() is None:
        for number in (*children(process.pid), process.pid):
            os.kill(number, signal.SIGKILL)


def wait_for(condition, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
