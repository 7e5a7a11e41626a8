"""Measure speed and memory as ratios, side by side: `make bench`, or `python -m benchmarks.run leam planting`."""

import importlib
import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent


def collect(names: list[str]) -> list[dict]:
    """Rows of each benchmark, as they are measured."""
    found = []
    for name in names:
        print(f"measuring {name} …", flush=True)
        found += importlib.import_module(f"benchmarks.bench_{name}").rows()
    return found


def table(rows: list[dict]) -> str:
    """Rows as an aligned table: what was measured, the goal, and whether it is met."""
    lines = [f"{'':<84}{'measured':>10}{'goal':>9}  unit"]
    for row in rows:
        met = "" if row["goal"] is None or row["ratio"] <= row["goal"] else "  MISSED"
        goal = "–" if row["goal"] is None else f"{row['goal']:g}"
        lines.append(f"{row['name'][:82]:<84}{row['ratio']:>10.3g}{goal:>9}  {row['unit']}{met}")
    return "\n".join(lines)


def main() -> None:
    """Measure what is named on the command line, or everything, and keep it in results.json."""
    torch.set_num_threads(1)
    every = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    names = sys.argv[1:] or every
    if unknown := set(names) - set(every):
        sys.exit(f"error: there is no benchmark {', '.join(sorted(unknown))}. Choose from: {', '.join(every)}.")
    rows = collect(names)
    path = HERE / "results.json"
    kept = [] if names == every or not path.exists() else json.loads(path.read_text())
    measured = {row["name"] for row in rows}
    path.write_text(json.dumps([r for r in kept if r["name"] not in measured] + rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
