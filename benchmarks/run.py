"""Measure speed and memory as ratios, side by side.

    make bench                                        # everything, some twenty minutes on two cores
    python -m benchmarks.run --only leam planting     # some benchmarks; the other rows of results.json stay
    python -m benchmarks.run --quick                  # fewer repeats and smaller cases, written nowhere

A row compares us with a limit (the matrix products nothing can avoid), with another way of writing it, with another
program, or with a budget in seconds or megabytes; it is met when its ratio is at most its goal. What a ratio compares
is measured in turn in one process, on one thread, in processor seconds, median of the repeats; programs that cannot
share a process are compared by their processor seconds. Rows go to benchmarks/results.json and from there to the
README, pictures to benchmarks/growth_*.png. Other libraries are measured when `make bench-peers` has installed them.
"""

import argparse
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import busy

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def measure(names: list[str], quick: bool) -> Iterator[list[dict]]:
    """Rows of one benchmark after another, each said as soon as it is measured."""
    started = time.perf_counter()
    for name in names:
        print(f"measuring {name} …", flush=True)
        found = []
        for row in importlib.import_module(f"benchmarks.bench_{name}").rows(quick):
            minutes, seconds = divmod(int(time.perf_counter() - started), 60)
            print(f"  [{minutes:02d}:{seconds:02d}] {line(row)}", flush=True)
            found.append({"bench": name, **row})
        yield found


def line(row: dict) -> str:
    """A row in a few words."""
    return f"{row['name']}: {row['ratio']:.3g} {row['unit']} ({verdict(row)})"


def verdict(row: dict) -> str:
    """Whether a row reaches its goal."""
    if row["goal"] is None:
        return "no goal"
    return f"met, goal {row['goal']:g}" if row["ratio"] <= row["goal"] else f"MISSED, goal {row['goal']:g}"


def table(rows: list[dict]) -> str:
    """Rows as an aligned table, each missed one with its reason underneath."""
    width = max((len(row["name"]) for row in rows), default=0) + 2
    lines = [f"{'':<{width}}{'ratio':>8}{'goal':>7}  {'unit':<26}{'ours s':>10}{'theirs s':>10}{'peak MB':>9}"]
    for row in rows:
        numbers = [number(row[key]) for key in ("ratio", "goal", "ours_s", "reference_s", "peak_mb")]
        cells = f"{numbers[0]:>8}{numbers[1]:>7}  {row['unit']:<26}"
        cells += f"{numbers[2]:>10}{numbers[3]:>10}{numbers[4]:>9}"
        lines.append(f"{row['name']:<{width}}{cells}  {verdict(row).split(',')[0]}")
        lines += [f"    missed because: {row['note']}"] if "note" in row else []
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Three digits, or a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def keep(rows: list[dict], path: Path = RESULTS) -> list[dict]:
    """Put rows in the place of earlier ones of the same benchmarks; gives all that are now on record."""
    renewed = {row["bench"] for row in rows}
    kept = [] if not path.exists() else [row for row in json.loads(path.read_text()) if row["bench"] not in renewed]
    every = sorted([*kept, *rows], key=lambda row: row["bench"])
    path.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return every


def read_arguments() -> argparse.Namespace:
    """What the command line asks for."""
    every = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=every, default=every, metavar="NAME", help=", ".join(every))
    parser.add_argument("--quick", action="store_true", help="fewer repeats, smaller cases, no results.json")
    return parser.parse_args()


def main() -> None:
    """Measure, tabulate, keep."""
    args = read_arguments()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.perf_counter()
    rows = []
    for found in measure(args.only, args.quick):
        rows += found
        if not args.quick:
            keep(found)
    print(f"\n{table(rows)}\n")
    missed = sum("note" in row for row in rows)
    print(f"{len(rows)} rows, {missed} missed, in {(time.perf_counter() - started) / 60:.1f} minutes")
    if (note := busy()) is not None:
        print(f"{note} Processor seconds count, but memory-bound rows come out slower than on an idle machine.")
    if not args.quick:
        from benchmarks.readme import write_readme

        write_readme()
        print("written: benchmarks/results.json, the README's table")


if __name__ == "__main__":
    main()
