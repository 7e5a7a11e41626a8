"""What the scripts share: one way to read arguments and one way to end on an error."""

import inspect
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from transformers import HfArgumentParser
from transformers.utils import logging as transformers_logging

from ..storage import is_disk_full
from .watchdog import PredictionsCollapsed, TrainingDiverged


def parse_arguments(*classes: type) -> tuple:
    """Parse the command line into dataclasses; its first word may name a JSON file, which the others override.

    A field called `overrides`, `learning_rates`, `published` or `search_space` may be given as JSON text. The caller's
    module docstring is shown by `--help`.
    """
    module = inspect.getmodule(inspect.stack()[1].frame)
    parser = HfArgumentParser(classes, description=(module.__doc__ or "").split("\n\n")[0])
    words = sys.argv[1:]
    if words and words[0].endswith(".json"):
        words = [*_words(words[0], parser), *words[1:]]
    parsed = parser.parse_args_into_dataclasses(words)
    for arguments in parsed:
        for name in ("overrides", "published", "search_space"):
            if isinstance(getattr(arguments, name, None), str):
                setattr(arguments, name, _json(getattr(arguments, name), name))
    return parsed


def _words(path: str, parser: HfArgumentParser) -> list[str]:
    """A JSON file as the words of a command line."""
    if not Path(path).is_file():
        parser.error(f"there is no file {path}")
    try:
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        parser.error(f"{path} is not JSON ({error})")
    known = {action.dest for action in parser._actions}
    if unknown := [name for name in fields if name not in known]:
        parser.error(f"{path} has {', '.join(unknown)}, which this script does not know; see `--help`")
    words = []
    for name, value in fields.items():
        if value is not None:
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}", *(v if isinstance(v, str) else json.dumps(v) for v in values)]
    return words


def _json(text: str, name: str) -> dict:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        example = "'{\"hidden_size\": 200}'"
        raise ValueError(f"`--{name}` is not JSON ({error}). Write it like {example}.") from None


def run(main: Callable[[], None]) -> None:
    """Run a script; an error the user can mend is one line on stderr and exit code 2."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()  # of loading and saving; training keeps its own
    try:
        main()
    except (ValueError, FileNotFoundError, TrainingDiverged, PredictionsCollapsed) as error:
        _end(str(error))
    except Exception as error:  # a full disk speaks with the voice of whoever was writing
        if not is_disk_full(error):
            raise
        _end("The disk is full. Free some space and type the same command again: it goes on from what is whole.")


def _end(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)
