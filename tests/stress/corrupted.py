"""Damaged checkpoints: flipped bits, cut files, wrong label counts, missing parts, each refused in one sentence."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from .faults import kill_at
from .forked import compute, run_script, start_script
from .material import Job, jobs, make_material
from .tally import Tally

FLIPS = {"classifier": 60, "plant": 15, "leam": 15, "interaction": 15, "hybrid": 15}
# Where a run is killed, and the files of it that are damaged before the same command is typed again.
UNFINISHED = {
    "language model": ("model.safetensors", ("checkpoint-*/shared.pt", "checkpoint-*/process-0.pt")),
    "ranker": ("refit.pt", ("checkpoint-ranker/*.pt",)),
    "plant": ("trainer_state.json", ("*/model.safetensors", "relevance/relevance.safetensors", "*/stage.json")),
    "hybrid": ("results.json", ("parts/*/model.safetensors", "parts/*/config.json")),
}


def run(tally: Tally, folder: Path, seed: int) -> None:
    """Train models, then damage copies of them, finished and unfinished."""
    found = jobs(make_material(folder / "material"))
    for name, flips in FLIPS.items():
        model, report = folder / name, folder / f"{name}.json"
        run_script(found[name].script, found[name].words(model), model.with_suffix(".log"))
        faults = [*serving_faults(model, seed, flips), *(training_faults(seed) if name == "classifier" else ())]
        compute(lambda f=faults, m=model, r=report: damage_all(f, m, folder / "copy", r), folder / "damage.log")
        counted = json.loads(report.read_text())
        tally.faults += counted["faults"]
        tally.survived += counted["faults"] - len(counted["failures"])
        for failure in counted["failures"]:
            tally.fail(f"damaged {name}", failure)
    for name, (moment, patterns) in UNFINISHED.items():
        damage_unfinished(
            tally, found[name], folder / f"unfinished_{name.replace(' ', '_')}", (moment, patterns), seed
        )


def damage_all(faults: list[tuple], model: Path, copy: Path, report: Path) -> None:
    """All kinds of damage, in a process of its own."""
    counted = {"faults": 0, "failures": []}
    for name, harm, check in faults:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(model, copy)
        counted["faults"] += 1
        try:
            harm(copy)
            check(copy, model)
        except Exception as error:
            counted["failures"].append(f"{name}: {type(error).__name__}: {error}")
    report.write_text(json.dumps(counted))


def damage_unfinished(tally: Tally, job: Job, folder: Path, where: tuple, seed: int) -> None:
    """Kill a run, damage one file, go on: the result is that of an uninterrupted run, or the answer one sentence."""
    moment, patterns = where
    whole, killed, draw = folder / "whole", folder / "killed", random.Random(seed)
    run_script(job.script, job.words(whole), folder / "whole.log")
    if kill_at(job, killed, moment, folder / "killed.log") is None:
        tally.fail(job.name, f"never wrote {moment}")
    for pattern in patterns:
        found = sorted(path.relative_to(killed) for path in killed.glob(pattern))
        if not found:
            tally.fail(job.name, f"had no {pattern} when it was killed")
        for name in found:
            for harm in (cut, flip):
                with tally.fault(f"{job.name}: {harm.__name__} {name}"):
                    copy = folder / "copy"
                    shutil.rmtree(copy, ignore_errors=True)
                    shutil.copytree(killed, copy)
                    harm(copy / name, draw)
                    goes_on_or_refuses(job, copy, whole)


def goes_on_or_refuses(job: Job, folder: Path, whole: Path) -> None:
    child = start_script(job.script, job.words(folder), folder.with_suffix(".log"))
    code, said = child.wait(), child.words
    if code == 0:
        assert not (differs := job.differs(folder, whole)), f"went on, to another result: {differs}"
        return
    assert code == 2 and "Traceback" not in said, f"ended with {code}: {said[-600:]}"
    last = said.strip().splitlines()[-1]
    assert last.startswith("error: ") and last.endswith("."), last


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


def refuses(folder: Path, original: Path | None = None) -> None:
    """Loading ends in one sentence."""
    from hf_labelattn import Predictor

    try:
        Predictor(str(folder), device="cpu")
    except ValueError as error:
        said = str(error)
        assert "\n" not in said and len(said) < 600 and said.endswith("."), said
        return
    raise AssertionError("it was loaded")


def loads_or_refuses(folder: Path, original: Path | None = None) -> None:
    """A changed letter of a text file may be harmless; what is not is refused in one sentence."""
    try:
        refuses(folder)
    except AssertionError as error:
        assert str(error) == "it was loaded", error


def serving_faults(model: Path, seed: int, flips: int) -> list[tuple[str, Callable, Callable]]:
    """Damage to a finished model."""
    draw = random.Random(seed)
    weights = "model.safetensors"
    faults = [(f"flipped bit {i} of the weights", lambda f: flip(f / weights, draw), refuses) for i in range(flips)]
    faults += [(f"cut weights {i}", lambda f: cut(f / weights, draw), refuses) for i in range(10)]
    for name in ("config.json", *(path.name for path in model.glob("tokenizer*.json") if "config" not in path.name)):
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


def training_faults(seed: int) -> list[tuple[str, Callable, Callable]]:
    """Damage to the newest checkpoint of a training: it is left out, and the one before is taken."""
    draw, faults = random.Random(seed + 1), []
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"):
        faults += [(f"cut {name}", lambda f, n=name: cut(newest(f) / n, draw), takes_the_one_before)] * 3
        faults.append((f"no {name}", lambda f, n=name: (newest(f) / n).unlink(), takes_the_one_before))
    harm = ("model.safetensors", "optimizer.pt")
    return faults + [(f"flip {n}", lambda f, n=n: flip(newest(f) / n, draw), flip_is_harmless) for n in harm * 10]


def newest(folder: Path) -> Path:
    return max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))


def takes_the_one_before(folder: Path, original: Path) -> None:
    from hf_labelattn.training.checkpoints import last_whole_checkpoint

    found = last_whole_checkpoint(folder)
    assert found is not None and found != newest(folder), found


def flip_is_harmless(folder: Path, original: Path) -> None:
    """The checkpoint is left out, or the bit was one that carries nothing."""
    import torch

    from hf_labelattn.training.checkpoints import last_whole_checkpoint

    if (found := last_whole_checkpoint(folder)) != newest(folder):
        return
    files = original / found.name / "optimizer.pt", found / "optimizer.pt"
    states = [torch.load(path, weights_only=True)["state"] for path in files]
    for name, values in states[0].items():
        for key, value in values.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(states[1][name][key])), (name, key)
