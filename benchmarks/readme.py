"""Write the README's table of speed from benchmarks/results.json: `python -m benchmarks.readme`."""

import json
import re
from pathlib import Path

from benchmarks.run import RESULTS, number

README = Path(__file__).parent.parent / "README.md"
MARKS = re.compile(r"(<!-- bench -->\n).*?(<!-- end bench -->)", re.S)


def markdown(rows: list[dict]) -> str:
    """The rows as a table; what is missed says why.

    >>> row = {"name": "kernel", "ratio": 1.234, "goal": 1.5, "unit": "× limit", "ours_s": 2, "peak_mb": None}
    >>> print(markdown([row]).splitlines()[2])
    | kernel | 1.23 × limit | 1.5 | 2 | – | yes |
    """
    lines = ["| what | measured | goal | seconds | MB | met |", "|---|---|---|---|---|---|"]
    for row in rows:
        met = "–" if row["goal"] is None else f"no: {row['note']}" if "note" in row else "yes"
        cells = [row["name"], f"{number(row['ratio'])} {row['unit']}", number(row["goal"])]
        lines.append(f"| {' | '.join([*cells, number(row['ours_s']), number(row['peak_mb']), met])} |")
    return "\n".join(lines)


def with_table(readme: str, rows: list[dict]) -> str:
    """The README with the table between its marks."""
    if not MARKS.search(readme):
        raise ValueError("README.md has no lines `<!-- bench -->` and `<!-- end bench -->`: add them for the table.")
    return MARKS.sub(lambda found: f"{found[1]}{markdown(rows)}\n{found[2]}", readme)


def write_readme() -> None:
    """Renew the table."""
    README.write_text(with_table(README.read_text(encoding="utf-8"), json.loads(RESULTS.read_text())), "utf-8")


if __name__ == "__main__":
    write_readme()
