"""One harness over models × datasets × training fractions × seeds; every finished cell is kept and not run again."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from tqdm.auto import tqdm

from ..storage import write_json

NO_ARGUMENTS = ("script", "stages_of")
KEPT_OF_RUN = ("train_seconds", "train_cpu_seconds", "peak_memory_mb", "train_documents", "environment")
KEPT_OF_RESULTS = ("num_parameters", "num_labels", "documents", "vocabulary", "threshold")


@dataclass(frozen=True)
class Comparison:
    """What a comparison's JSON file says.

    Attributes:
        datasets: Name of a set to the data arguments of the scripts; `stages_of` names a set whose stages it shares.
        models: Name of a row to its `script` and that script's arguments. `{run:NAME}` in a value is the folder of row
            NAME in the same cell, which is then trained first; `{stage:NAME}` the folder of a stage.
        stages: Name to script and arguments of work done once per dataset, such as a language model.
        common: Arguments of every model.
        fractions: Shares of the training documents.
        by_fraction: Share to further arguments of its cells, such as more epochs for fewer documents.
        seeds: Training seeds.
        metrics: Columns of the table.
        reference: The row every other is tested against.
        against: Row to the row it is tested against instead, such as its base.
        skip: `[dataset, model]` pairs to leave out.
        gains: Rows whose gain over the row they are tested against is drawn by the labels' frequency.
        headline: Rows to set beside the reference in one line per dataset; the first of them that is there counts.
    """

    datasets: dict[str, dict]
    models: dict[str, dict]
    stages: dict[str, dict] = field(default_factory=dict)
    common: dict = field(default_factory=dict)
    fractions: list[float] = field(default_factory=lambda: [1.0])
    by_fraction: dict[str, dict] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0])
    metrics: list[str] = field(
        default_factory=lambda: ["f1_micro", "f1_macro", "average_precision_macro", "precision_at_1"]
    )
    reference: str | None = None
    against: dict[str, str] = field(default_factory=dict)
    skip: list[list[str]] = field(default_factory=list)
    gains: list[str] = field(default_factory=list)
    headline: list[str] = field(default_factory=list)

    @classmethod
    def from_file(cls, path: str | Path) -> "Comparison":
        """Read and check a comparison."""
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"There is no comparison {path}. Write one like run_scripts/configs/compare_*.json."
            )
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
        unknown = sorted(set(fields) - set(cls.__dataclass_fields__))
        if unknown or not {"datasets", "models"} <= set(fields):
            known = ", ".join(cls.__dataclass_fields__)
            raise ValueError(f"{path} has {sorted(fields)}; expected `datasets` and `models`, and perhaps: {known}.")
        found = cls(**fields)
        for name, arguments in {**found.models, **found.stages}.items():
            if "script" not in arguments:
                raise ValueError(f'Row {name} of {path} has no "script", such as "run_label_attention".')
        for name in {found.reference, *found.against, *found.against.values(), *found.gains, *found.headline} - {None}:
            if name not in found.models:
                raise ValueError(
                    f"There is no row {name!r} to test or to test against: rows are {', '.join(found.models)}."
                )
        return found

    def cells(self) -> Iterator["Cell"]:
        """Every cell: rows that others are built from come first, and all of one seed before the next."""
        written = {name: json.dumps(arguments) for name, arguments in self.models.items()}
        needed = {n for n in self.models if any(f"{{run:{n}}}" in text for text in written.values())}
        order = sorted(self.models, key=lambda name: name not in needed)
        for seed, name, dataset, fraction in product(self.seeds, order, self.datasets, self.fractions):
            if [dataset, name] not in self.skip:
                yield self.cell(dataset, name, fraction, seed, keep=name in needed)

    def cell(self, dataset: str, model: str, fraction: float, seed: int, keep: bool = False) -> "Cell":
        """One cell with the arguments its script gets, placeholders still in them."""
        arguments = {**self.common, **self.by_fraction.get(f"{fraction:g}", {})}
        arguments |= {**self.datasets[dataset], **self.models[model], "seed": seed}
        return Cell(dataset, model, fraction, seed, arguments | _share(fraction), keep)


@dataclass(frozen=True)
class Cell:
    """One training run of a comparison."""

    dataset: str
    model: str
    fraction: float
    seed: int
    arguments: dict
    keep: bool = False

    @property
    def name(self) -> str:
        """Its place in the tree of results."""
        return f"{self.dataset}/{self.model}_fraction{self.fraction:g}_seed{self.seed}"


def _share(fraction: float) -> dict:
    return {"train_fraction": fraction} if fraction < 1 else {}


@dataclass(frozen=True)
class Workshop:
    """Where and how cells are run.

    Attributes:
        scripts: Folder of the `run_*` scripts.
        runs: Folder of the runs; a run is removed once its figures are kept, unless another row needs it.
        results: Folder of the kept figures.
        values: What `{name}` in an argument stands for.
        threads: Threads of each run.
    """

    scripts: Path
    runs: Path
    results: Path
    values: dict[str, str]
    threads: int = 1

    def kept(self, cell: Cell) -> dict | None:
        """The figures of a finished cell; None where there are none or its arguments have changed."""
        path = self.results / f"{cell.name}.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if found["arguments"] == json.loads(json.dumps(cell.arguments)) else None

    def is_done(self, cell: Cell) -> bool:
        """Whether nothing is left to do for a cell."""
        return self.kept(cell) is not None and (not cell.keep or (self.runs / cell.name / "results.json").exists())

    def run_cell(self, cell: Cell) -> dict:
        """Run a cell and keep its figures."""
        folder = self.runs / cell.name
        self.run_script(cell.arguments, folder, cell)
        figures = read_run(folder) | {"arguments": cell.arguments}
        write_json(self.results / f"{cell.name}.json", figures)
        if not cell.keep:
            shutil.rmtree(folder)
        return figures

    def run_stage(self, name: str, dataset: str, arguments: dict) -> None:
        """Run a stage of a dataset, unless it is finished."""
        folder = self.runs / dataset / f"stage_{name}"
        if not (folder / "results.json").exists():
            self.run_script(arguments, folder)

    def run_script(self, arguments: dict, folder: Path, cell: Cell | None = None) -> None:
        """Run a script in a process of its own; what it prints goes to a log beside its folder."""
        script = self.scripts / f"{arguments['script']}.py"
        if not script.is_file():
            raise FileNotFoundError(f"There is no script {script.name} in {self.scripts}.")
        given = {name: self.fill(value, folder, cell) for name, value in arguments.items() if name not in NO_ARGUMENTS}
        options, log = (folder.parent / f"{folder.name}{end}" for end in (".arguments.json", ".log"))
        write_json(options, given | {"output_dir": str(folder)})
        environment = os.environ | {
            "OMP_NUM_THREADS": str(self.threads),
            "TQDM_DISABLE": "1",
            "THP_MEM_ALLOC_ENABLE": "1",
        }
        with open(log, "w", encoding="utf-8") as out:
            code = subprocess.run(
                [sys.executable, str(script), str(options)], stdout=out, stderr=subprocess.STDOUT, env=environment
            ).returncode
        if code:
            raise RuntimeError(f"{folder.name} ended with exit code {code}; its log is {log}")

    def fill(self, value, folder: Path | None = None, cell: Cell | None = None):
        """What a value of the config stands for."""
        if isinstance(value, dict):
            return {name: self.fill(part, folder, cell) for name, part in value.items()}
        if not isinstance(value, str) or "{" not in value:
            return value
        for name, filling in self.values.items():
            value = value.replace(f"{{{name}}}", filling)
        while "{run:" in value and cell is not None:
            name = value.split("{run:", 1)[1].split("}", 1)[0]
            value = value.replace(
                f"{{run:{name}}}", str(self.runs / cell.name.replace(f"/{cell.model}_", f"/{name}_"))
            )
        while "{stage:" in value:
            name = value.split("{stage:", 1)[1].split("}", 1)[0]
            dataset = folder.parent.name if cell is None else cell.arguments.get("stages_of", cell.dataset)
            value = value.replace(f"{{stage:{name}}}", str(self.runs / dataset / f"stage_{name}"))
        return value


def read_run(folder: Path) -> dict:
    """The figures of a finished run that a comparison keeps."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    figures = {name: results[name] for name in KEPT_OF_RESULTS if name in results}
    figures |= {name: run[name] for name in KEPT_OF_RUN if name in run}
    figures["metrics"] = results["metrics"]["test"]
    figures["validation"] = {k: v for k, v in results["metrics"]["validation"].items() if "/" not in k}
    if (folder / "labels_test.csv").exists():
        with open(folder / "labels_test.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        figures["label_average_precision"] = {
            row["label"]: round(float(row["average_precision"]), 5) for row in rows if row["average_precision"]
        }
    return figures


def run_comparison(comparison: Comparison, workshop: Workshop, jobs: int = 1) -> list[str]:
    """Run every cell that is not finished, `jobs` at a time; returns what went wrong."""
    cells = [cell for cell in comparison.cells() if not workshop.is_done(cell)]
    for dataset in {cell.arguments.get("stages_of", cell.dataset): None for cell in cells}:
        for name, arguments in comparison.stages.items():
            workshop.run_stage(name, dataset, {**comparison.datasets[dataset], **arguments})
    errors = []
    with tqdm(total=len(cells), desc="cells", unit=" cells", disable=None) as bar:
        for wave in ([c for c in cells if c.keep], [c for c in cells if not c.keep]):
            with ThreadPoolExecutor(jobs) as pool:
                running = {pool.submit(workshop.run_cell, cell): cell for cell in wave}
                for done in as_completed(running):
                    if done.exception() is not None:
                        errors.append(f"{running[done].name}: {done.exception()}")
                    bar.update()
    return errors
