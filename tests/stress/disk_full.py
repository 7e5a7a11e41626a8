"""A full disk: one clear line, nothing half-written, the last good checkpoint usable; with room, the run goes on."""

import resource
import shutil
import subprocess
from pathlib import Path

from hf_labelattn.training.checkpoints import last_whole_checkpoint

from .forked import compute, run_script, start_script
from .material import Job, jobs, make_material
from .tally import Tally

SHARES = (0.3, 0.6, 0.9)
TRIED = ("classifier", "language model", "ranker", "tables")


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Each job on disks that hold a third, two thirds and nearly all of what it writes."""
    found = jobs(make_material(folder / "material"))
    disk = folder / "disk"
    disk.mkdir()
    mounted = mount(disk, 2**20)
    if not mounted:
        tally.notes.append("a small disk cannot be mounted here (needs root); the size of single files was limited")
    try:
        for name in TRIED:
            whole = folder / name.replace(" ", "_")
            run_script(found[name].script, found[name].words(whole), whole.with_suffix(".log"))
            for share in SHARES:
                with tally.fault(f"{name} on a disk of {share:.0%} of what it writes"):
                    (fill_disk if mounted else limit_files)(found[name], whole, disk, share)
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
    size = sum(-(-path.stat().st_size // 4096) * 4096 for path in whole.rglob("*") if path.is_file())
    assert mount(disk, max(16384, int(share * size)), "remount")
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
    folder, log = disk / f"{job.name}{share}", whole.with_suffix(".full.log")
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
    """No half JSON, no half safetensors under a final name; a checkpoint that is whole loads."""

    def main() -> None:
        import json

        from safetensors import safe_open

        from hf_labelattn import AwdLstmForCausalLM, LabelAttentionForMultiLabel, load_model

        for name in ("results.json", "config.json", "dataset.json"):
            for path in folder.glob(name):
                json.loads(path.read_text())
        for path in folder.glob("*.safetensors"):
            with safe_open(path, "np"):
                pass
        if (last := last_whole_checkpoint(folder)) is not None:
            load_model(LabelAttentionForMultiLabel, last)
        if (folder / "config.json").exists() and "awd_lstm" in (folder / "config.json").read_text():
            load_model(AwdLstmForCausalLM, folder)

    compute(main, log)
