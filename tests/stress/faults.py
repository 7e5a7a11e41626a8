"""Kill -9 at random moments of every stage, go on, and get what an uninterrupted run gives."""

import random
import time
from collections import Counter
from pathlib import Path

from .forked import run_script, start_script
from .material import Job, jobs, make_material, predict_job
from .tally import Tally

KILLS = 3  # of each job at random; every folder is hit up to twice before it is let to end
HITS = 2
LEAST = 20  # kills of all jobs together, or the loop has proved too little


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Each job: once whole, then again and again with kills."""
    draw, hit = random.Random(seed), Counter()
    material = make_material(folder / "material")
    for job in jobs(material).values():
        hit[job.name] = kill_job(tally, job, folder / job.name.replace(" ", "_"), draw)
    model = folder / "classifier" / "whole" / "run"
    hit["predict"] = kill_job(tally, predict_job(model, material["files"]), folder / "predict", draw)
    if sum(hit.values()) < LEAST or not all(hit.values()):
        tally.fail("kills", f"too few hit: {dict(hit)}")
    tally.notes.append("killed " + ", ".join(f"{name} {count} times" for name, count in hit.items()))


def kill_job(tally: Tally, job: Job, folder: Path, draw: random.Random, kills: int = KILLS) -> int:
    """Kill a job once as it writes each of its landmarks, and `kills` times at random; gives how many hit."""
    whole, started = folder / "whole" / "run", time.monotonic()  # all of one name, which some write down
    child = start_script(job.script, job.words(whole), folder / "whole.log", below=whole)
    if code := child.wait():
        tally.fail(job.name, f"ended with {code}: {child.words[-800:]}")
        return 0
    size = time.monotonic() - started, int((folder / "whole.count").read_text())
    moments = [lambda life, log, mark=mark: kill_at(job, life, mark, log) for mark in job.landmarks]
    done = kill_and_finish(tally, job, folder / "marked" / "run", whole, moments)
    if done < len(moments):
        tally.fail(job.name, f"wrote only {done} of {job.landmarks}")
    number, aim = 0, done + kills
    while done < aim and number < 3 * kills:
        moments = [lambda life, log: one_kill(job, life, draw, size, log)] * min(HITS, aim - done)
        done += kill_and_finish(tally, job, folder / f"life{number}" / "run", whole, moments)
        number += 1
    return done


def kill_and_finish(tally: Tally, job: Job, life: Path, whole: Path, moments: list) -> int:
    """Kill a run some times, let it end, compare; gives the number of kills that hit."""
    killed = []
    for number, moment in enumerate(moments):
        when = moment(life, life.with_name(f"{number}.log"))
        if when is None:
            break
        killed.append(when)
    name = f"{job.name} killed {', then '.join(killed) or 'never'}"
    tally.faults += len(killed)
    try:
        run_script(job.script, job.words(life), life.with_name("end.log"))
        if differs := job.differs(life, whole):
            raise AssertionError(f"other content than an uninterrupted run: {differs}")
        tally.survived += len(killed)
    except Exception as error:
        tally.fail(name, error)
    tally.progress()
    return len(killed)


def kill_at(job: Job, life: Path, moment: int | str, log: Path) -> str | None:
    """Kill a run at a file operation; None if it came to its end before."""
    child = start_script(job.script, job.words(life), log, die_at=moment, below=life)
    return f"at file operation {moment}" if child.wait() == -9 else None


def one_kill(job: Job, life: Path, draw: random.Random, size: tuple, log: Path) -> str | None:
    """Kill a run at a random moment, or at a random file operation; None if it came to its end before."""
    seconds, operations = size
    if draw.random() < 0.5:
        return kill_at(job, life, draw.randint(1, max(1, operations)), log)
    moment = draw.uniform(0.05, 0.95) * seconds
    child = start_script(job.script, job.words(life), log)
    if child.wait(moment) is not None:
        return None
    child.kill()
    return f"after {moment:.2f} s of {seconds:.2f}"
