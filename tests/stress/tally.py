"""What a stage of the stress test counted, and the table of all stages."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one stage.

    Attributes:
        name: Of the stage.
        faults: Faults injected: kills, full disks, damaged files, lost processes.
        survived: Faults after which everything was as promised.
        inputs: Inputs tried.
        failures: What went wrong, a sentence each.
        notes: Figures worth a line under the table.
        seconds: How long it took.
        cpu: Seconds of the processor in it, of all its processes.
    """

    name: str
    faults: int = 0
    survived: int = 0
    inputs: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    shown: float = 0.0

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        """Count a fault; it is survived if the block ends without an error."""
        self.faults += 1
        try:
            yield
            self.survived += 1
        except Exception as error:
            self.fail(what, error)
        self.progress()

    @contextmanager
    def trying(self, what: str, inputs: int = 1) -> Iterator[None]:
        """Count inputs; an error in the block is a failure."""
        self.inputs += inputs
        try:
            yield
        except Exception as error:
            self.fail(what, error)
        self.progress()

    def fail(self, what: str, error: Exception | str) -> None:
        """Write down a failure."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self.failures.append(f"{what}: {' '.join(reason.split())[:600]}")
        print(f"\n  FAILED {self.failures[-1]}", file=sys.stderr, flush=True)

    def progress(self) -> None:
        """A line that is written over, at most five times a second."""
        if time.monotonic() - self.shown < 0.2:
            return
        self.shown = time.monotonic()
        line = f"{self.name}: {self.survived}/{self.faults} faults survived, {self.inputs:,} inputs"
        end = "\r" if sys.stderr.isatty() else ""
        if end:
            print(f"{line:<78}", end=end, file=sys.stderr, flush=True)


def table(tallies: list[Tally]) -> str:
    """All stages, their sums, and the figures under them."""
    head = f"{'stage':<14}{'faults injected':>16}{'survived':>10}{'inputs tried':>14}{'failures':>10}"
    head += f"{'seconds':>9}{'CPU s':>7}"
    lines = [head, "-" * len(head)]
    total = Tally("all")
    for tally in tallies:
        lines.append(_row(tally))
        for name in ("faults", "survived", "inputs", "seconds", "cpu"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.failures += tally.failures
    lines += ["-" * len(head), _row(total)]
    lines += [f"{tally.name}: {note}" for tally in tallies for note in tally.notes]
    return "\n".join([*lines, *(f"FAILED {failure}" for failure in total.failures)])


def _row(tally: Tally) -> str:
    counts = f"{tally.faults:>16,}{tally.survived:>10,}{tally.inputs:>14,}{len(tally.failures):>10,}"
    return f"{tally.name:<14}{counts}{tally.seconds:>9.0f}{tally.cpu:>7.0f}"
