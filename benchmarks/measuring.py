"""Functions raced against each other, and the memory they take: what the benchmarks share."""

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

Clock = dict[str, float]


def race(functions: dict[str, Callable], rounds: int) -> Clock:
    """Best processor seconds of each function, run in turn."""
    best = dict.fromkeys(functions, float("inf"))
    for turn in range(rounds + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            if turn:
                best[name] = min(best[name], time.process_time() - start)
    return best


def row(name: str, clock: Clock, goal: float, ours: str = "ours", reference: str = "limit", peak_mb=None) -> dict:
    """One line of the table."""
    ratio = clock[ours] / clock[reference]
    times = {"ours_s": clock[ours], "reference_s": clock[reference]}
    return {"name": name, "ratio": ratio, "goal": goal, "unit": f"× {reference}", **times, "peak_mb": peak_mb}


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
