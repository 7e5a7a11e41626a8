"""Scripts as processes that can be killed, started by forking, since importing torch anew takes seconds each time.

The process that forks computes nothing itself: threads do not survive a fork.
"""

import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "run_scripts"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FILE_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")


@dataclass
class Child:
    """A forked process, and where its words go."""

    process: int
    log: Path

    def wait(self, seconds: float | None = None) -> int | None:
        """Its exit code (negative: the signal that ended it), or None if it is still running after `seconds`."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            found, status = os.waitpid(self.process, 0 if end is None else os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        return None

    def kill(self) -> None:
        """Kill -9."""
        os.kill(self.process, signal.SIGKILL)
        self.wait()

    @property
    def words(self) -> str:
        """What it printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def start(function: Callable[[], None], log: Path) -> Child:
    """Run a function in a process of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return Child(process, log)
    code = 1
    try:
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        function()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start_script(
    script: str, words: list, log: Path, die_at: int | str | None = None, below: Path | None = None
) -> Child:
    """Run one of the scripts.

    Args:
        script: Its name.
        words: Its arguments.
        log: Where its words go.
        die_at: Kill it from inside at this file operation below `below`, or at the first of a path with this word.
        below: The folder whose operations count; their number is written to `<log>.count` at the end.
    """

    def main() -> None:
        sys.argv = [str(SCRIPTS / script), *map(str, words)]
        counter = FileOperations(below, die_at) if below is not None else None
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            if counter is not None:
                log.with_suffix(".count").write_text(str(counter.count))

    return start(main, log)


class FileOperations:
    """Counts what this process opens to write, renames or removes below a folder, and dies at one of them."""

    def __init__(self, folder: Path, die_at: int | str | None):
        self.folder, self.die_at, self.count = str(folder), die_at, 0
        sys.addaudithook(self.seen)

    def seen(self, event: str, arguments: tuple) -> None:
        """Called by Python before each such operation."""
        if event == "open":
            path, _, flags = arguments
            counts = isinstance(flags, int) and flags & WRITES
        else:
            counts = event in FILE_EVENTS
            path = arguments[0] if counts else None
        if counts and str(path).startswith(self.folder):
            self.count += 1
            named = isinstance(self.die_at, str) and self.die_at in str(path).removeprefix(self.folder)
            if named or self.count == self.die_at:
                os.kill(os.getpid(), signal.SIGKILL)


def run_script(script: str, words: list, log: Path, code: int = 0) -> str:
    """Run one to its end, which must be with this exit code; gives what it printed."""
    child = start_script(script, words, log)
    found = child.wait()
    if found != code:
        raise AssertionError(f"{script} ended with {found} instead of {code}: {child.words[-1500:]}")
    return child.words


def compute(function: Callable[[], None], log: Path) -> str:
    """Run a function in a process of its own, to its end."""
    child = start(function, log)
    if code := child.wait():
        raise AssertionError(f"ended with {code}: {child.words[-1500:]}")
    return child.words
