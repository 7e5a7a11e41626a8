"""Try for minutes what the tests try for seconds: faults, bad input, numbers, processes, privacy, load.

    python -m tests.stress.run                      # everything, what `make stress` runs
    python -m tests.stress.run --only faults --seed 7

Prints one table: faults injected and survived, inputs tried, failures. Ends with an error if there is any failure.
"""

import argparse
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

STAGES = ("faults", "disk_full", "corrupted", "inputs", "numbers", "distributed", "privacy", "load")
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONPATH": str(Path(__file__).parents[2]),
}


def cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    return sum(os.times()[:4])


def main() -> int:
    """Stages → tallies → table."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.run", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=STAGES, default=STAGES, help="run these stages (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of kills and generated input (default: 0)")
    parser.add_argument("--keep", help="work in this folder and leave it (default: a temporary one)")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    from .tally import Tally, table  # after the environment, which torch reads when it is imported

    tallies = []
    with tempfile.TemporaryDirectory(prefix="stress-") as temporary:
        for name in options.only:
            tally, started, worked = Tally(name), time.monotonic(), cpu_seconds()
            print(f"{name} …", file=sys.stderr, flush=True)
            folder = Path(options.keep or temporary).resolve() / name
            folder.mkdir(parents=True)
            try:
                importlib.import_module(f"tests.stress.{name}").run(tally, folder, options.seed)
            except Exception as error:
                tally.fail(name, error)
            tally.seconds, tally.cpu = time.monotonic() - started, cpu_seconds() - worked
            tallies.append(tally)
            print(table([tally]).splitlines()[2], file=sys.stderr, flush=True)
    print(table(tallies))
    return 1 if any(tally.failures for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
