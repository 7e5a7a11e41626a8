"""Functions raced against each other, and the memory they take: what the benchmarks share.

A row is `{"name", "ratio", "goal", "unit", "ours_s", "reference_s", "peak_mb"}`; it is met when `ratio <= goal`.
"""

import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Clock = dict[str, float]
Case = tuple[Callable[..., dict], tuple]
PRELOADED = ["torch", "transformers", "hf_labelattn"]


def race(functions: dict[str, Callable], rounds: int) -> Clock:
    """Median processor seconds of each function, run in turn after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def make_row(
    name: str,
    ratio: float,
    goal: float | None,
    unit: str,
    ours_s: float | None = None,
    reference_s: float | None = None,
    peak_mb: float | None = None,
    why: str | None = None,
) -> dict:
    """One row of the table.

    Args:
        name: What was measured.
        ratio: The measurement; at most `goal` is met.
        goal: None for a row that is only shown.
        unit: Of the ratio.
        ours_s: Our seconds.
        reference_s: The other side's seconds.
        peak_mb: Memory at its highest.
        why: The reason, in one sentence, that is kept as `note` where the goal is missed.
    """
    rounded = {"ratio": _significant(ratio), "goal": goal, "unit": unit}
    seconds = {"ours_s": _significant(ours_s), "reference_s": _significant(reference_s)}
    found = {"name": name, **rounded, **seconds, "peak_mb": None if peak_mb is None else round(peak_mb)}
    if is_met(found):
        return found
    return {**found, "note": " ".join(filter(None, [why or "The reason is not known.", busy()]))}


def busy() -> str | None:
    """A sentence for a machine with more to do than it has processors: memory-bound work then slows down most."""
    running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])  # now; the average lags by a minute
    load, processors = min(os.getloadavg()[0], running), os.cpu_count()
    return f"Measured at a load of {load:.0f} on {processors} processors." if load > processors + 1 else None


def row(name: str, clock: Clock, goal: float, ours: str = "ours", reference: str = "limit", peak_mb=None, why=None):
    """One row from two entries of a clock."""
    times = clock[ours], clock[reference]
    return make_row(name, times[0] / times[1], goal, f"× {reference}", *times, peak_mb, why)


def is_met(found: dict) -> bool:
    """Whether a row reaches its goal."""
    return found["goal"] is None or found["ratio"] <= found["goal"]


def _significant(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


@contextmanager
def growth_mb():
    """Yields a list that gets the largest growth of resident memory inside the block, in MB."""
    start, seen, done = _resident_mb(), [0.0], threading.Event()

    def watch():
        while not done.wait(0.002):
            seen[0] = max(seen[0], _resident_mb() - start)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def peak_mb() -> float:
    """Highest resident memory of this process so far; `getrusage` would count what the parent held when it forked."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _answer(function: Callable, arguments: tuple, answers) -> None:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    answers.put(function(*arguments))


def in_own_process(function: Callable, *arguments):
    """What a function returns, run on one thread in a fresh process, so that its peak memory is its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    answers = context.SimpleQueue()
    process = context.Process(target=_answer, args=(function, arguments, answers))
    process.start()
    while process.is_alive() and answers.empty():
        time.sleep(0.05)
    if answers.empty():
        process.join()
        raise RuntimeError(f"measuring {function.__name__}{arguments} ended with exit code {process.exitcode}")
    found = answers.get()
    process.join()
    return found


def each_in_own_process(cases: list[Case]) -> Iterator[dict]:
    """The rows of cases (function, arguments), one after another."""
    for function, arguments in cases:
        found = in_own_process(function, *arguments)
        yield from found if isinstance(found, list) else [found]


def say(text: str) -> None:
    """Print at once, on the side of the table."""
    print(text, file=sys.stderr, flush=True)
