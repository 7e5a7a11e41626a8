"""Compare models over datasets, training fractions and seeds: tables, JSON and pictures.

    python run_scripts/compare.py run_scripts/configs/compare_reuters.json --set data=../shared/data --jobs 2

A finished cell is kept under `--results` and never run again while its arguments stay the same, so an interrupted
comparison goes on where it stopped. `--report_only` draws the tables of what is there. `{name}` in the config stands
for what `--set name=value` says.
"""

import argparse
from pathlib import Path

from hf_labelattn import (
    Comparison,
    Workshop,
    collect,
    draw_cost_scatter,
    draw_frequency_bars,
    draw_gains,
    draw_learning_curves,
    markdown_tables,
    put_into_readme,
    read_external,
    run,
    run_comparison,
    write_text,
)


def parse() -> argparse.Namespace:
    """The command line."""
    first, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="JSON of a comparison: datasets, models, seeds, fractions, metrics, reference")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="fills {NAME} in the config")
    parser.add_argument("--results", help="folder of kept cells (default: benchmarks/results/CONFIG)")
    parser.add_argument("--runs", help="folder of runs in progress (default: runs/compare/CONFIG)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each run")
    parser.add_argument("--readme", help="also put the tables into this file, under <!-- compare:CONFIG -->")
    parser.add_argument("--report_only", action="store_true", help="run nothing, report what is there")
    parser.add_argument(
        "--external", action="append", default=[], metavar="ROW:DATASET=SCORES",
        help="add a row from a scores file (.npz as scores_test.npz, or .parquet with id, label, score)",
    )  # fmt: skip
    return parser.parse_args()


def pairs(texts: list[str]) -> dict[str, str]:
    """NAME=VALUE texts as a dictionary."""
    for text in texts:
        if "=" not in text:
            raise ValueError(f"{text!r} is not NAME=VALUE. Write it like `--set data=../shared/data`.")
    return dict(text.split("=", 1) for text in texts)


def draw(comparison: Comparison, found: dict, folder: Path) -> list[str]:
    """Draw what the comparison can show; returns the names of the pictures."""
    drawn = []
    if len(comparison.fractions) > 1:
        for name in (m for m in comparison.metrics if "/" not in m):
            draw_learning_curves(comparison, found, name, folder / f"curve_{name}.png")
            drawn.append(f"curve_{name}.png")
    if "average_precision_macro" in comparison.metrics:
        draw_frequency_bars(comparison, found, folder / "frequency.png")
        drawn.append("frequency.png")
    if comparison.gains:
        draw_gains(comparison, found, folder / "gains.png")
        drawn.append("gains.png")
    draw_cost_scatter(comparison, found, folder / "cost.png")
    return [*drawn, "cost.png"]


def main() -> None:
    """Config → cells → tables and pictures."""
    args = parse()
    comparison, name = Comparison.from_file(args.config), Path(args.config).stem.removeprefix("compare_")
    results = Path(args.results or f"benchmarks/results/{name}")
    runs = Path(args.runs or f"runs/compare/{name}")
    workshop = Workshop(Path(__file__).parent, runs, results, pairs(args.set), args.threads)
    errors = [] if args.report_only else run_comparison(comparison, workshop, args.jobs)
    found = collect(comparison, workshop, read_external(comparison, workshop, pairs(args.external)))
    if not found:
        raise ValueError("\n".join([f"No cell of {args.config} is finished.", *errors]))
    results.mkdir(parents=True, exist_ok=True)
    tables = markdown_tables(comparison, found)
    write_text(results / "README.md", f"# {name}\n\n{tables}")
    if args.readme:
        put_into_readme(args.readme, name, tables)
    print(tables)
    for picture in draw(comparison, found, results):
        print(results / picture)
    if errors:
        raise ValueError("\n".join(["Some cells failed:", *errors]))


if __name__ == "__main__":
    run(main)
