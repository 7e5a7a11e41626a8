"""Which checkpoint of an interrupted training can be gone on from."""

import json
import logging
import re
from pathlib import Path

from safetensors import SafetensorError, safe_open

from ..storage import check_archive, check_weights

logger = logging.getLogger(__name__)


def last_whole_checkpoint(folder: str | Path, world_size: int = 1) -> Path | None:
    """The newest `checkpoint-<step>` that is complete and undamaged; others are left out, and said so.

    Args:
        folder: Output folder of a training.
        world_size: Processes that train; each has written its random state.
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    for path in sorted(found, key=lambda path: int(path.name.split("-")[1]), reverse=True):
        if (damage := what_is_wrong(path, world_size)) is None:
            return path
        logger.warning("%s is left out: %s", path.name, damage)
    return None


def what_is_wrong(checkpoint: Path, world_size: int = 1) -> str | None:
    """Why a checkpoint of the Trainer cannot be used; None if it can. Its trainer_state.json is written last."""
    states = ["rng_state.pth"] if world_size == 1 else [f"rng_state_{i}.pth" for i in range(world_size)]
    for name in ("trainer_state.json", "config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", *states):
        if not (checkpoint / name).is_file():
            return f"it has no {name}; writing it was interrupted"
    try:
        for name in ("trainer_state.json", "config.json"):
            json.loads((checkpoint / name).read_text(encoding="utf-8"))
        with safe_open(checkpoint / "model.safetensors", "pt"):
            check_weights(checkpoint)
        for name in ("optimizer.pt", "scheduler.pt", *states):
            check_archive(checkpoint / name)
    except (ValueError, OSError, SafetensorError) as error:
        return str(error)
    return None
