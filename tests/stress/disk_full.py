"""A full disk: one clear line, nothing half-written, the last good checkpoint usable; with room, the run goes on."""

import resource
import shutil
import subprocess
from pathlib import Path

from hf_labelattn.training.checkpoints import last_whole_checkpoint

from .forked import compute, run_script, start_script
from .material import Job, jobs, make_material, predict_job
from .tally import Tally

SHARES = (0.3, 0.6, 0.9)
PAGE = 4096


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Each job on disks that hold a third, two thirds and nearly all of what it writes."""
    material = make_material(folder / "material")
    predict = predict_job(folder / "classifier" / "run", material["files"])
    disk = folder / "disk"
    disk.mkdir()
    mounted = mount(disk, 2**20)
    if not mounted:
        tally.notes.append("a small disk cannot be mounted here (needs root); the size of single files was limited")
    try:
        for job in (*jobs(material).values(), predict):
            whole = folder / job.name.replace(" ", "_") / "run"  # of the same name as on the small disk
            run_script(job.script, job.words(whole), whole.with_suffix(".log"))
            for share in SHARES:
                with tally.fault(f"{job.name} on a disk of {share:.0%} of what it writes"):
                    (fill_disk if mounted else limit_files)(job, whole, disk, share)
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=False)


def mount(disk: Path, size: int, *options: str) -> bool:
    """A disk of so many bytes in memory; False where that is not allowed."""
    words = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(disk)]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        return False


def fill_disk(job: Job, whole: Path, disk: Path, share: float) -> None:
    """Run on a small disk, then on the same one enlarged."""
    pages = sum(-(-path.stat().st_size // PAGE) for path in whole.rglob("*") if path.is_file())
    assert mount(disk, max(1, int(share * pages)) * PAGE, "remount")
    folder, log = disk / "run", whole.with_suffix(".full.log")
    words = refused(start_script(job.script, job.words(folder), log))
    assert_whole(folder, log.with_suffix(".check"))
    assert mount(disk, 2**28, "remount")
    run_script(job.script, job.words(folder), log)
    differs = job.differs(folder, whole)
    shutil.rmtree(folder)
    assert not differs, f"other content than on a large disk: {differs}; it had said: {words[-200:]}"


def limit_files(job: Job, whole: Path, disk: Path, share: float) -> None:
    """No file may grow beyond a share of the largest."""
    folder, log = disk / f"{job.name}{share}" / "run", whole.with_suffix(".full.log")
    limit = int(share * max(path.stat().st_size for path in whole.rglob("*") if path.is_file()))

    def main() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        run_script(job.script, job.words(folder), log, code=2)

    compute(main, log.with_suffix(".limit"))
    assert "The disk is full" in log.read_text()
    run_script(job.script, job.words(folder), log)
    assert not (differs := job.differs(folder, whole)), differs


def refused(child) -> str:
    """What a run says that found no room."""
    code, words = child.wait(), child.words
    assert code == 2, f"ended with {code}: {words[-1200:]}"
    assert "error: The disk is full" in words and "Traceback" not in words, words[-1200:]
    return words


def assert_whole(folder: Path, log: Path) -> None:
    """No half file under a final name; what looks like a model is one, and the last good checkpoint loads."""
    compute(lambda: check_whole(folder), log)


def check_whole(folder: Path) -> None:
    import json

    from safetensors import safe_open

    import hf_labelattn

    whole = [path for path in folder.rglob("*") if ".partial" not in str(path) and "checkpoint" not in str(path)]
    for path in whole:
        if path.suffix == ".json":
            json.loads(path.read_text())
        if path.suffix == ".safetensors":
            with safe_open(path, "np"):
                pass
    models = [path.parent for path in whole if path.name == "config.json"]
    last = last_whole_checkpoint(folder)
    for model in models if last is None else [*models, last]:
        name = json.loads((model / "config.json").read_text())["architectures"][0]
        hf_labelattn.load_model(getattr(hf_labelattn, name), model)
