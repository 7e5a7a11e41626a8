"""Kill -9 at random moments of every stage, go on, and get what an uninterrupted run gives."""

import random
import time
from pathlib import Path

from .forked import run_script, start_script
from .material import Job, jobs, make_material, predict_job
from .tally import Tally

KILLS = 4  # of each job; every folder is hit up to three times before it is let to end
HITS = 3


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Each job: once whole, then again and again with kills."""
    draw = random.Random(seed)
    material = make_material(folder / "material")
    found = jobs(material)
    for job in found.values():
        kill_job(tally, job, folder / job.name.replace(" ", "_"), draw)
    model = folder / "classifier" / "whole"
    kill_job(tally, predict_job(model, material["files"]), folder / "predict", draw)


def kill_job(tally: Tally, job: Job, folder: Path, draw: random.Random, kills: int = KILLS) -> None:
    """Kill a job `kills` times in all, in several folders."""
    whole, started = folder / "whole", time.monotonic()
    child = start_script(job.script, job.words(whole), folder / "whole.log", below=whole)
    if code := child.wait():
        tally.fail(job.name, f"ended with {code}: {child.words[-800:]}")
        return
    seconds, operations = time.monotonic() - started, int((folder / "whole.count").read_text())
    done = number = 0
    while done < kills and number < 3 * kills:
        life = folder / f"life{number}"
        done += kill_and_finish(tally, job, life, whole, draw, (seconds, operations), min(HITS, kills - done))
        number += 1


def kill_and_finish(tally: Tally, job: Job, life: Path, whole: Path, draw, size: tuple, hits: int) -> int:
    """Kill a run some times, let it end, compare; gives the number of kills that hit."""
    killed = []
    for number in range(hits):
        when = one_kill(job, life, draw, size, life.with_name(f"{life.name}.{number}.log"))
        if when is None:
            break
        killed.append(when)
    name = f"{job.name} killed {', then '.join(killed) or 'never'}"
    tally.faults += len(killed)
    try:
        run_script(job.script, job.words(life), life.with_name(f"{life.name}.end.log"))
        if differs := job.differs(life, whole):
            raise AssertionError(f"other content than an uninterrupted run: {differs}")
        tally.survived += len(killed)
    except Exception as error:
        tally.fail(name, error)
    tally.progress()
    return len(killed)


def one_kill(job: Job, life: Path, draw: random.Random, size: tuple, log: Path) -> str | None:
    """Kill a run at a random moment, or at a random file operation; None if it came to its end before."""
    seconds, operations = size
    if draw.random() < 0.5:
        at = draw.randint(1, max(1, operations))
        child = start_script(job.script, job.words(life), log, die_at=at, below=life)
        return f"at file operation {at}" if child.wait() == -9 else None
    moment = draw.uniform(0.05, 0.95) * seconds
    child = start_script(job.script, job.words(life), log)
    if child.wait(moment) is not None:
        return None
    child.kill()
    return f"after {moment:.2f} s of {seconds:.2f}"
