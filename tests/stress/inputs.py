"""Generated input through every public entry point: it works, or raises the documented ValueError, and says little."""

import json
import logging
import warnings
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed

from . import (
    odd_files,
    properties,
    properties_evaluation,
    properties_inference,
    properties_models,
    properties_reports,
)
from .forked import compute
from .tally import Tally

ROOMS = (properties, properties_evaluation, properties_inference, properties_models, properties_reports)
PROPERTIES = {name: found for room in ROOMS for name, found in room.ALL.items()}
EXAMPLES = 150
FLOOD = 20  # how often one message may be said over all inputs of a property


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Every property in a process of its own, as the others must be able to fork; then every script on odd files."""
    for name, prove in PROPERTIES.items():
        report = folder / f"{name}.json"
        try:
            compute(lambda p=prove, r=report: try_property(p, folder, seed, r), folder / f"{name}.log")
        except AssertionError as error:
            tally.fail(name, error)
        if report.exists():
            counted = json.loads(report.read_text())
            tally.inputs += counted["inputs"]
            for failure in counted["failures"]:
                tally.fail(name, failure)
        tally.progress()
    odd_files.run(tally, folder / "odd_files")


def try_property(prove, folder: Path, seed: int, report: Path, examples: int = EXAMPLES) -> None:
    """Run a property over generated inputs; write how many, and what went wrong."""
    counted, said = {"inputs": 0, "failures": []}, Counter()
    handler = logging.Handler()
    handler.emit = lambda record: said.update([str(record.msg)])
    logging.getLogger().addHandler(handler)
    check = prove.check(folder)

    def counting(case):
        counted["inputs"] += 1
        check(case)

    limits = settings(
        max_examples=max(2, int(examples * prove.share)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with_seed(seed)(limits(given(prove.cases)(counting)))()
        except BaseException as error:
            counted["failures"].append(f"{type(error).__name__}: {error} {' '.join(getattr(error, '__notes__', []))}")
    said.update(str(warning.message) for warning in warned)
    floods = [f"{message[:200]} (said {n} times)" for message, n in said.items() if n > FLOOD]
    counted["failures"] += floods
    report.write_text(json.dumps(counted))
