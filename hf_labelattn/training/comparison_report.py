"""Tables and pictures of a comparison, from the figures that were kept."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..evaluation.significance import randomization_test_values
from ..storage import replacing, write_text
from .comparison import Comparison, Workshop

SHORT = {
    "f1_micro": "micro-F1",
    "f1_macro": "macro-F1",
    "f1_macro_all": "macro-F1 (all)",
    "average_precision_macro": "macro-AP",
    "precision_macro": "macro-P",
    "recall_macro": "macro-R",
    "num_perfect_average_precision": "perfect AP",
}
BINS = {f"count_{name}": name for name in ("0", "1-10", "11-50", "51-100", "101-500", ">500")}
Found = dict[tuple[str, str, float], list[dict]]  # (dataset, model, fraction) → figures of its seeds


def column_name(metric: str) -> str:
    """A metric's name at the head of a column.

    >>> column_name("precision_at_5"), column_name("average_precision_macro/quarter_1")
    ('P@5', 'macro-AP, rarest quarter')
    """
    name, _, group = metric.partition("/")
    name = SHORT.get(name, name.replace("precision_at_", "P@").replace("recall_at_", "R@"))
    group = {"quarter_1": "rarest quarter", "count_0": "unseen"}.get(
        group, group.replace("count_", "train documents ")
    )
    return f"{name}, {group}" if group else name


def collect(comparison: Comparison, workshop: Workshop, external: dict[str, dict] | None = None) -> Found:
    """The kept figures of every cell, seeds together; `external` maps a row to its figures by dataset."""
    found: Found = {}
    for cell in comparison.cells():
        figures = workshop.kept(cell)
        if figures is not None:
            found.setdefault((cell.dataset, cell.model, cell.fraction), []).append(figures)
    for row, by_dataset in (external or {}).items():
        for dataset, figures in by_dataset.items():
            found[dataset, row, 1.0] = [figures]
    return found


def label_values(seeds: list[dict]) -> dict[str, float]:
    """Average precision of each label, mean over seeds."""
    names = set.intersection(*(set(figures.get("label_average_precision", {})) for figures in seeds))
    return {name: float(np.mean([f["label_average_precision"][name] for f in seeds])) for name in names}


def p_value(seeds: list[dict], reference: list[dict]) -> float | None:
    """Paired randomisation test over labels of the difference in macro-AP; None without label figures."""
    a, b = label_values(seeds), label_values(reference)
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    return randomization_test_values([a[n] for n in shared], [b[n] for n in shared], unit="label").p_value


def cell_text(values: Sequence[float]) -> str:
    """Mean, and standard deviation over seeds where there are several.

    >>> cell_text([0.5]), cell_text([0.5, 0.6])
    ('.500', '.550 ± .071')
    """
    values = [value for value in values if value is not None and not np.isnan(value)]
    if not values:
        return "–"
    texts = [f"{np.mean(values):.3f}"] + ([f"{np.std(values, ddof=1):.3f}"] if len(values) > 1 else [])
    return " ± ".join(text.removeprefix("0") if text.startswith("0.") else text for text in texts)


def markdown_tables(comparison: Comparison, found: Found) -> str:
    """One table per dataset; with several fractions one per dataset and metric, a column for each fraction."""
    parts = [headline_table(comparison, found)] if comparison.headline else []
    for dataset in comparison.datasets:
        rows = {(m, f): seeds for (d, m, f), seeds in found.items() if d == dataset}
        if rows and len(comparison.fractions) > 1:
            parts.append(f"### {dataset}, by share of the training documents")
            parts += [fraction_table(comparison, rows, metric) for metric in comparison.metrics]
        elif rows:
            parts.append(f"### {dataset}\n\n{one_table(comparison, {m: seeds for (m, _), seeds in rows.items()})}")
    return "\n\n".join(parts) + "\n"


def headline_table(comparison: Comparison, found: Found) -> str:
    """A Markdown table with one line per dataset: the reference and the first row of `headline` that is there."""
    heads = ["set", "labels", "row"]
    heads += [f"{column_name(metric)}, {comparison.reference} → row" for metric in comparison.metrics]
    lines = ["### All sets", "", "| " + " | ".join([*heads, "p (macro-AP)"]) + " |", "|---" * (len(heads) + 1) + "|"]
    for dataset in comparison.datasets:
        reference = found.get((dataset, comparison.reference, 1.0))
        row = next((name for name in comparison.headline if (dataset, name, 1.0) in found), None)
        if reference and row:
            seeds = found[dataset, row, 1.0]
            cells = [_change(reference, seeds, metric) for metric in comparison.metrics]
            cells = [dataset, str(seeds[0]["num_labels"]), row, *cells, _p_text(seeds, reference)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _change(reference: list[dict], seeds: list[dict], metric: str) -> str:
    """Two means and the relative change between them."""
    pair = [[f["metrics"].get(metric) for f in part] for part in (reference, seeds)]
    if any(value is None or np.isnan(value) for part in pair for value in part):
        return "–"
    before, after = (float(np.mean(part)) for part in pair)
    change = f" ({100 * (after / before - 1):+.0f} %)" if before > 0.01 else ""
    return f"{cell_text([before])} → {cell_text([after])}{change}"


def fraction_table(comparison: Comparison, rows: dict[tuple[str, float], list[dict]], metric: str) -> str:
    """A Markdown table of one metric: a row per model, a column per fraction, significance under macro-AP."""
    models = [m for m in comparison.models if any(m == name for name, _ in rows)]
    heads = [column_name(metric), *(f"{fraction:g}" for fraction in comparison.fractions), "seeds"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for model in models:
        seeds = [rows.get((model, f), []) for f in comparison.fractions]
        counts = sorted({len(part) for part in seeds if part})
        cells = [cell_text([figures["metrics"].get(metric) for figures in part]) for part in seeds]
        lines.append("| " + " | ".join([model, *cells, "-".join(map(str, counts))]) + " |")
    if metric == "average_precision_macro" and comparison.reference in models:
        lines += [_p_row(comparison, rows, model) for model in models if model != comparison.reference]
    return "\n".join(lines)


def _p_row(comparison: Comparison, rows: dict[tuple[str, float], list[dict]], model: str) -> str:
    pairs = [(rows.get((model, f)), rows.get((comparison.reference, f))) for f in comparison.fractions]
    cells = [_p_text(*pair) if all(pair) else "–" for pair in pairs]
    return "| " + " | ".join([f"p, {model} against {comparison.reference}", *cells, ""]) + " |"


def one_table(comparison: Comparison, rows: dict[str, list[dict]]) -> str:
    """A Markdown table: a row per model, then seeds, time, memory and significance against the reference."""
    order = [m for m in comparison.models if m in rows] + [m for m in rows if m not in comparison.models]
    heads = ["model", *map(column_name, comparison.metrics), "seeds", "CPU s", "MB"]
    tested = tested_rows(comparison, rows)
    if tested:
        heads.append("p" if comparison.against else f"p against {comparison.reference}")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for model in order:
        seeds = rows[model]
        cells = [cell_text([f["metrics"].get(metric) for f in seeds]) for metric in comparison.metrics]
        cost = [_mean([_cpu_seconds(f) for f in seeds]), _mean([f.get("peak_memory_mb") for f in seeds])]
        test = [tested.get(model, "")] if tested else []
        lines.append("| " + " | ".join([model, *cells, str(len(seeds)), *cost, *test]) + " |")
    return "\n".join(lines)


def tested_rows(comparison: Comparison, rows: dict[str, list[dict]]) -> dict[str, str]:
    """What the last column says of each row that is tested against another."""
    texts = {}
    for model, seeds in rows.items():
        other = comparison.against.get(model, comparison.reference)
        if other in rows and other != model:
            texts[model] = _p_text(seeds, rows[other]) + (f" ({other})" if comparison.against else "")
    return texts


def _cpu_seconds(figures: dict) -> float | None:
    """CPU seconds of training: a busy machine stretches the others, which only the oldest cells have instead."""
    return figures.get("train_cpu_seconds", figures.get("train_seconds"))


def _mean(values: list[float | None]) -> str:
    values = [value for value in values if value is not None]
    return f"{np.mean(values):.0f}" if values else "–"


def _p_text(seeds: list[dict], reference: list[dict]) -> str:
    value = p_value(seeds, reference)
    return "–" if value is None else "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def put_into_readme(path: str | Path, name: str, tables: str) -> None:
    """Replace what stands between `<!-- compare:NAME -->` and `<!-- end -->` in a Markdown file by the tables."""
    path = Path(path)
    text, start = path.read_text(encoding="utf-8"), f"<!-- compare:{name} -->"
    head, found, tail = text.partition(start)
    _, closed, rest = tail.partition("<!-- end -->")
    if not found or not closed:
        raise ValueError(f"{path} has no place for the tables. Write {start} and, under it, <!-- end -->.")
    write_text(path, f"{head}{start}\n{tables.strip()}\n{closed}{rest}")


def draw_learning_curves(comparison: Comparison, found: Found, metric: str, path: str | Path) -> None:
    """Draw the metric against the share of training documents, one panel per dataset."""
    figure, panels = _panels(len(comparison.datasets))
    for panel, dataset in zip(panels, comparison.datasets, strict=True):
        for number, model in enumerate(comparison.models):
            seeds = {f: found.get((dataset, model, f), []) for f in sorted(comparison.fractions)}
            points = [(f, [s["metrics"][metric] for s in part]) for f, part in seeds.items() if part]
            if points:
                panel.errorbar(
                    [f for f, _ in points],
                    [np.mean(values) for _, values in points],
                    [np.std(values) for _, values in points],
                    color=f"C{number}",
                    marker="o",
                    capsize=3,
                    label=model,
                )
        panel.set(xscale="log", title=dataset, xlabel="share of training documents", ylabel=column_name(metric))
        panel.set_xticks(comparison.fractions, [f"{f:g}" for f in comparison.fractions])
        panel.minorticks_off()
    _finish(figure, panels, path)


def draw_frequency_bars(comparison: Comparison, found: Found, path: str | Path) -> None:
    """Draw macro-AP by training frequency of the labels, one panel per dataset, one bar per model."""
    bins = list(BINS)
    figure, panels = _panels(len(comparison.datasets))
    for panel, dataset in zip(panels, comparison.datasets, strict=True):
        models = list(comparison.models)
        for number, model in enumerate(models):
            seeds = found.get((dataset, model, 1.0), [])
            heights = [_bin_height(seeds, f"average_precision_macro/{name}") for name in bins]
            width = 0.8 / max(1, len(models))
            panel.bar(np.arange(len(bins)) + (number - (len(models) - 1) / 2) * width, heights, width, label=model)
        panel.set(title=dataset, xlabel="training documents of the label", ylabel="macro-AP")
        panel.set_xticks(range(len(bins)), BINS.values())
    _finish(figure, panels, path)


def draw_gains(comparison: Comparison, found: Found, path: str | Path) -> None:
    """Draw how much macro-AP the rows of `gains` add to what they are tested against, by frequency of the labels."""
    figure, panels = _panels(len(comparison.datasets))
    for panel, dataset in zip(panels, comparison.datasets, strict=True):
        for number, model in enumerate(comparison.gains):
            base = comparison.against.get(model, comparison.reference)
            pair = [found.get((dataset, name, 1.0)) for name in (base, model)]
            if all(pair):
                less, more = (_bin_values(seeds) for seeds in pair)
                panel.plot(range(len(BINS)), more - less, marker="o", color=f"C{number}", label=f"{model} − {base}")
        panel.axhline(0, color="grey", linewidth=1)
        panel.set(title=dataset, xlabel="training documents of the label", ylabel="gain in macro-AP")
        panel.set_xticks(range(len(BINS)), BINS.values())
    _finish(figure, panels, path)


def _bin_values(seeds: list[dict]) -> np.ndarray:
    """Macro-AP of each frequency bin, NaN where there is no label."""
    values = [
        [figures["metrics"].get(f"average_precision_macro/{name}", np.nan) for name in BINS] for figures in seeds
    ]
    return np.mean(np.array(values, dtype=float), 0)


def _bin_height(seeds: list[dict], metric: str) -> float:
    values = [figures["metrics"][metric] for figures in seeds if metric in figures["metrics"]]
    return float(np.mean(values)) if values else 0.0


def draw_cost_scatter(comparison: Comparison, found: Found, path: str | Path) -> None:
    """Draw quality against training time; the size of a point is the model's number of parameters.

    Quality is the first of the comparison's metrics that the dataset has.
    """
    figure, panels = _panels(len(comparison.datasets))
    for panel, dataset in zip(panels, comparison.datasets, strict=True):
        metric = _first_metric(comparison, found, dataset)
        for number, model in enumerate(comparison.models):
            seeds = [s for s in found.get((dataset, model, 1.0), []) if metric in s["metrics"]]
            if seeds:
                x = max(1.0, np.mean([_cpu_seconds(s) for s in seeds]))
                y = np.mean([s["metrics"][metric] for s in seeds])
                size = 20 + 60 * np.log10(1 + seeds[0].get("num_parameters", 0) / 1e4)
                panel.scatter(x, y, size, color=f"C{number}", alpha=0.6, label=model)
        panel.set(xscale="log", title=dataset, xlabel="CPU seconds of training", ylabel=column_name(metric))
        panel.margins(0.15)
    _finish(figure, panels, path)


def _first_metric(comparison: Comparison, found: Found, dataset: str) -> str:
    present = {name for (d, _, _), seeds in found.items() if d == dataset for name in seeds[0]["metrics"]}
    return next((metric for metric in comparison.metrics if metric in present), comparison.metrics[0])


def _panels(count: int):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("Pictures need matplotlib. Type: pip install 'hf_labelattn[demo]'") from None
    columns = min(3, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def _finish(figure, panels, path: str | Path) -> None:
    """One legend under all panels: every model has the same colour everywhere."""
    shown = {}
    for panel in panels:
        panel.grid(alpha=0.3)
        shown |= {label: handle for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=5, fontsize=8, markerscale=0.7)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110)
