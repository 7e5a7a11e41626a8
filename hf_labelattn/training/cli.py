"""What the scripts share: one way to read arguments and one way to end on an error."""

import inspect
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from transformers import HfArgumentParser
from transformers.utils import logging as transformers_logging

from .watchdog import PredictionsCollapsed, TrainingDiverged


def parse_arguments(*classes: type) -> tuple:
    """Parse the command line, or the one JSON file named on it, into dataclasses.

    A field called `overrides` or `learning_rates` may be given as JSON text. The caller's module docstring is shown by
    `--help`.
    """
    module = inspect.getmodule(inspect.stack()[1].frame)
    parser = HfArgumentParser(classes, description=(module.__doc__ or "").split("\n\n")[0])
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        if not Path(sys.argv[1]).is_file():
            parser.error(f"there is no file {sys.argv[1]}")
        parsed = parser.parse_json_file(sys.argv[1], allow_extra_keys=False)
    else:
        parsed = parser.parse_args_into_dataclasses()
    for arguments in parsed:
        if isinstance(getattr(arguments, "overrides", None), str):
            arguments.overrides = _json(arguments.overrides)
    return parsed


def _json(text: str) -> dict:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"`--overrides` is not JSON ({error}). Write it like '{{\"hidden_size\": 200}}'.") from None


def run(main: Callable[[], None]) -> None:
    """Run a script; an error the user can mend is one line on stderr and exit code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()  # of loading and saving; training keeps its own
    try:
        main()
    except (ValueError, FileNotFoundError, TrainingDiverged, PredictionsCollapsed) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
