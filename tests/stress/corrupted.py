"""Damaged checkpoints: flipped bits, cut files, wrong label counts, missing parts, each refused in one sentence."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from .forked import compute, run_script
from .material import jobs, make_material
from .tally import Tally

FLIPS = 60


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Train a model with checkpoints, then damage copies of it."""
    found = jobs(make_material(folder / "material"))["classifier"]
    run_script(found.script, found.words(folder / "model"), folder / "model.log")
    report = folder / "report.json"
    compute(lambda: damage_all(folder / "model", folder / "copy", seed, report), folder / "damage.log")
    counted = json.loads(report.read_text())
    tally.faults, tally.survived = counted["faults"], counted["faults"] - len(counted["failures"])
    for failure in counted["failures"]:
        tally.fail("damaged", failure)


def damage_all(model: Path, copy: Path, seed: int, report: Path) -> None:
    """All kinds of damage, in a process of its own."""
    counted = {"faults": 0, "failures": []}
    for name, harm, check in [*serving_faults(seed), *training_faults(model, seed)]:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(model, copy)
        counted["faults"] += 1
        try:
            harm(copy)
            check(copy)
        except Exception as error:
            counted["failures"].append(f"{name}: {type(error).__name__}: {error}")
    report.write_text(json.dumps(counted))


def flip(path: Path, draw: random.Random) -> None:
    """Turn over one bit."""
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random) -> None:
    """Keep only the beginning, or nothing."""
    data = path.read_bytes()
    path.write_bytes(data[: draw.choice([0, draw.randrange(len(data))])])


def one_label_more(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    number = len(config["id2label"])
    config["id2label"][str(number)] = "more"
    config["label2id"]["more"] = number
    (folder / "config.json").write_text(json.dumps(config))


def refuses(folder: Path) -> None:
    """Loading ends in one sentence."""
    from hf_labelattn import Predictor

    try:
        Predictor(str(folder), device="cpu")
    except ValueError as error:
        said = str(error)
        assert "\n" not in said and len(said) < 600 and said.endswith("."), said
        return
    raise AssertionError("it was loaded")


def loads_or_refuses(folder: Path) -> None:
    """A changed letter of a text file may be harmless; what is not is refused in one sentence."""
    try:
        refuses(folder)
    except AssertionError as error:
        assert str(error) == "it was loaded", error


def serving_faults(seed: int) -> list[tuple[str, Callable, Callable]]:
    """Damage to a finished model."""
    draw = random.Random(seed)
    weights = "model.safetensors"
    faults = [(f"flipped bit {i} of the weights", lambda f: flip(f / weights, draw), refuses) for i in range(FLIPS)]
    faults += [(f"cut weights {i}", lambda f: cut(f / weights, draw), refuses) for i in range(10)]
    for name in ("config.json", "tokenizer.json"):
        faults += [(f"cut {name} {i}", lambda f, n=name: cut(f / n, draw), refuses) for i in range(5)]
        faults += [(f"flipped {name} {i}", lambda f, n=name: flip(f / n, draw), loads_or_refuses) for i in range(20)]
        faults.append((f"no {name}", lambda f, n=name: (f / n).unlink(), refuses))
    faults.append(("no weights", lambda f: (f / weights).unlink(), refuses))
    faults.append(("no weights, no digest", lambda f: [p.unlink() for p in f.glob("model.safetensors*")], refuses))
    faults.append(("a label more", one_label_more, refuses))

    def cut_without_digest(folder: Path) -> None:
        (folder / f"{weights}.sha256").unlink()
        (folder / weights).write_bytes((folder / weights).read_bytes()[:-100])

    faults.append(("cut weights without a digest", cut_without_digest, refuses))
    return faults


def training_faults(model: Path, seed: int) -> list[tuple[str, Callable, Callable]]:
    """Damage to the newest checkpoint of a training: it is left out, and the one before is taken."""
    draw, faults = random.Random(seed + 1), []
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"):
        faults += [(f"cut {name}", lambda f, n=name: cut(newest(f) / n, draw), takes_the_one_before)] * 3
        faults.append((f"no {name}", lambda f, n=name: (newest(f) / n).unlink(), takes_the_one_before))
    harm = ("model.safetensors", "optimizer.pt")
    return faults + [(f"flip {n}", lambda f, n=n: flip(newest(f) / n, draw), flip_is_harmless) for n in harm * 10]


def newest(folder: Path) -> Path:
    return max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))


def takes_the_one_before(folder: Path) -> None:
    from hf_labelattn.training.checkpoints import last_whole_checkpoint

    found = last_whole_checkpoint(folder)
    assert found is not None and found != newest(folder), found


def flip_is_harmless(folder: Path) -> None:
    """The checkpoint is left out, or the bit was one that carries nothing."""
    import torch

    from hf_labelattn.training.checkpoints import last_whole_checkpoint

    if (found := last_whole_checkpoint(folder)) != newest(folder):
        return
    original = folder.parent / "model" / found.name / "optimizer.pt"
    states = [torch.load(path, weights_only=True)["state"] for path in (original, found / "optimizer.pt")]
    for name, values in states[0].items():
        for key, value in values.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(states[1][name][key])), (name, key)
