"""Who goes into training, validation and test: from published lists of ids, or by a rule that anybody can repeat.

The rule is iterative stratification (Sechidis et al. 2011) over patients. Codes are taken from the rarest to the most
frequent; the patients who have the code, ordered by a hash of their id, are dealt one after the other to the split
that still lacks most documents with it, plus the share of all its documents that it still lacks (which lets small
splits have rare codes too). So every split gets its share of every code, no patient is in two splits, and the same
tables give the same splits, in whatever order their rows stand.
"""

import ast
import hashlib
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
from tqdm.auto import tqdm

from .rows import NotesError

SPLITS = ("train", "validation", "test")
ALIASES = {"train": ("train",), "validation": ("dev", "val", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class IdLists:
    """Published ids of each split, and the files they came from."""

    ids: dict[str, list[str]]
    files: tuple[str, ...]

    def split_of(self) -> dict[str, str]:
        """Split by id; an id that two lists have is refused."""
        found: dict[str, str] = {}
        for split, ids in self.ids.items():
            for key in ids:
                if found.setdefault(key, split) != split:
                    files = ", ".join(self.files)
                    raise NotesError(f"{files}: id {key} is listed as {found[key]} and as {split}. Repair the lists.")
        return found


def find_id_lists(folder: str | Path, names: Sequence[str], avoid: Sequence[str] = ()) -> IdLists | None:
    """The first kind of list that a folder, or a folder below it, has.

    Args:
        folder: Where to look, such as a clone of the repository that published the lists.
        names: File names in order of preference: `*_full_hadm_ids.csv` stands for the three files with `train`,
            `dev` and `test` before it, a `.feather` file has columns `_id` and `split`, and a `.py` file holds the
            lists `train_ids`, `dev_ids` and `test_ids` as literals (it is read, not run).
        avoid: Words that the path of the wrong list has in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotesError(f"There is no folder {folder}. Pass the folder with the published lists of ids.")
    for name in names:
        if name.startswith("*"):
            wanted = {split: [f"{alias}{name[1:]}" for alias in ALIASES[split]] for split in SPLITS}
            files = {split: _only(folder, wanted[split], avoid) for split in SPLITS}
            if any(files.values()):
                return _from_csv(files, folder, name)
        elif (file := _only(folder, [name], avoid)) is not None:
            ids = _from_feather(file) if name.endswith(".feather") else _from_literals(file)
            return IdLists(ids, (file.name,))
    return None


def _only(folder: Path, names: list[str], avoid: Sequence[str]) -> Path | None:
    found = sorted(path for name in names for path in folder.rglob(name))
    found = [path for path in found if not any(word in str(path.relative_to(folder)).lower() for word in avoid)]
    if len(found) > 1:
        places = ", ".join(str(path.relative_to(folder)) for path in found)
        raise NotesError(f"{folder}: found {places}. Pass the one folder that is meant.")
    return found[0] if found else None


def _from_csv(files: dict[str, Path | None], folder: Path, name: str) -> IdLists:
    missing = [f"{ALIASES[split][0]}{name[1:]}" for split, path in files.items() if path is None]
    if missing:
        raise NotesError(f"{folder}: there is no {' and no '.join(missing)} beside the other lists. Download it too.")
    return IdLists({s: _lines(path) for s, path in files.items()}, tuple(path.name for path in files.values()))


def _lines(path: Path) -> list[str]:
    """The ids of a file, one a line, with or without a header."""
    lines = [line.strip().strip('"') for line in path.read_text(encoding="utf-8-sig").splitlines()]
    lines = [line for line in lines if line]
    headed = len(lines) > 1 and lines[1].isdecimal() and not lines[0].isdecimal()
    return lines[1:] if headed else lines


def _from_feather(path: Path) -> dict[str, list[str]]:
    try:
        table = feather.read_table(path, columns=["_id", "split"], memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise NotesError(f"{path}: not a feather file with `_id` and `split` ({type(error).__name__}).") from None
    ids = table["_id"]
    ids = ids.cast(pa.int64()).cast(pa.string()) if pa.types.is_floating(ids.type) else ids.cast(pa.string())
    pairs = list(zip(ids.to_pylist(), table["split"].to_pylist(), strict=True))
    return {split: [key for key, name in pairs if name in ALIASES[split]] for split in SPLITS}


def _from_literals(path: Path) -> dict[str, list[str]]:
    """Ids such as `406_113900` are patient and stay; the stay is the id."""
    assigned = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("train_ids", "dev_ids", "test_ids"):
                assigned[name] = [str(key).split("_")[-1] for key in ast.literal_eval(node.value)]
    if len(assigned) < 3:
        raise NotesError(
            f"{path}: found {', '.join(assigned) or 'no list'}, expected train_ids, dev_ids and test_ids."
        )
    return {split: assigned[f"{ALIASES[split][0]}_ids"] for split in SPLITS}


def stratified_splits(
    patients: Sequence[str], labels: Sequence[np.ndarray], fractions: dict[str, float], *, progress: bool = True
) -> np.ndarray:
    """Index into `SPLITS` of each document, by the rule described above.

    Args:
        patients: Patient of each document.
        labels: Label indices of each document, without repeats.
        fractions: Share of the documents that each split should get.
        progress: Show how many patients are dealt.
    """
    dealing = _Dealing(patients, labels, [fractions[split] for split in SPLITS])
    with tqdm(total=len(dealing.names), desc="dealing patients", delay=2, disable=not progress) as bar:
        for patient in dealing.order():
            dealing.deal(patient)
            bar.update()
    return np.array([dealing.split[dealing.number[patient]] for patient in patients], dtype=np.int8)


class _Dealing:
    """What each split still lacks, while patients are dealt."""

    def __init__(self, patients: Sequence[str], labels: Sequence[np.ndarray], shares: list[float]):
        self.names = sorted(set(patients), key=lambda name: hashlib.sha256(f"split:{name}".encode()).digest())
        self.number = {name: i for i, name in enumerate(self.names)}
        self.documents = [0] * len(self.names)
        self.counts: list[dict[int, int]] = [{} for _ in self.names]
        for patient, row in zip(patients, labels, strict=True):
            number = self.number[patient]
            self.documents[number] += 1
            for label in row.tolist():
                self.counts[number][label] = self.counts[number].get(label, 0) + 1
        self.holders = self._holders()
        self.left = {label: len(holders) for label, holders in self.holders.items()}
        self.queue = [(count, label) for label, count in self.left.items()]
        totals: dict[int, int] = {}
        for counts in self.counts:
            for label, count in counts.items():
                totals[label] = totals.get(label, 0) + count
        self.wanted = {label: [share * total for share in shares] for label, total in totals.items()}
        self.size = [share * len(patients) for share in shares]
        self.room = list(self.size)
        self.split = [-1] * len(self.names)

    def _holders(self) -> dict[int, list[int]]:
        holders: dict[int, list[int]] = {}
        for number, counts in enumerate(self.counts):
            for label in counts:
                holders.setdefault(label, []).append(number)
        return holders

    def order(self) -> Iterator[tuple[int, int | None]]:
        """Patients with the rarest code first, then those without any; `deal` must follow each."""
        heapq.heapify(self.queue)
        while self.queue:
            count, label = heapq.heappop(self.queue)
            if count == self.left[label]:  # other entries are outdated: every change adds a new one
                yield from ((number, label) for number in self.holders[label] if self.split[number] < 0)
        yield from ((number, None) for number, counts in enumerate(self.counts) if not counts)

    def deal(self, patient: tuple[int, int | None]) -> None:
        """Give a patient to the split that lacks most documents with the code, counting the share it lacks in all."""
        number, label = patient
        lack = self.wanted[label] if label is not None else self.room
        best = max(range(len(SPLITS)), key=lambda split: lack[split] + self.room[split] / self.size[split])
        self.split[number] = best
        self.room[best] -= self.documents[number]
        for carried, count in self.counts[number].items():
            self.wanted[carried][best] -= count
            self.left[carried] -= 1
            heapq.heappush(self.queue, (self.left[carried], carried))


def without_shared_patients(patients: Sequence[str], splits: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """Leave out documents of earlier splits whose patient is in a later one, so that nothing is known beforehand.

    Args:
        patients: Patient of each document.
        splits: Index into `SPLITS` of each document, -1 for none.

    Returns:
        The splits with those documents at -1, and how many were left out of each split.
    """
    splits, left_out = splits.copy(), {}
    names = np.array(patients)
    for later in (2, 1):
        held_out = set(names[splits == later].tolist())
        shared = np.fromiter((name in held_out for name in patients), dtype=bool, count=len(splits))
        for earlier in range(later):
            leak = shared & (splits == earlier)
            if leak.any():
                left_out[SPLITS[earlier]] = left_out.get(SPLITS[earlier], 0) + int(leak.sum())
                splits[leak] = -1
    return splits, left_out
