"""A folder of prepared documents: train, validation and test as JSON lines, labels.jsonl, and dataset.json.

dataset.json holds counts, and the mark `"terms"` of data that only credentialed people may hold; it never holds text.
Every file appears whole or not at all, and a run that was interrupted goes on with the file it was writing.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np
from tqdm.auto import tqdm

from ..storage import replacing, write_text
from .coded_stays import Code
from .patient_splits import SPLITS
from .rows import NotesError


@dataclass(frozen=True)
class CodedDocuments:
    """Documents with codes, in splits.

    Attributes:
        numbers: Where each document's text is, for the one who reads it.
        ids: Id of each document.
        patients: Patient of each document.
        labels: Indices into `codes` of each document, ascending.
        codes: All codes; some may have no document.
        splits: Index into `SPLITS` of each document, -1 for none.
    """

    numbers: list[int]
    ids: list[str]
    patients: list[str]
    labels: list[np.ndarray]
    codes: list[Code]
    splits: np.ndarray

    def counts(self, split: str | None = None) -> np.ndarray:
        """Documents per code, in one split or in all of them."""
        wanted = self.splits == SPLITS.index(split) if split else self.splits >= 0
        rows = [self.labels[row] for row in np.flatnonzero(wanted)]
        return np.bincount(np.concatenate(rows), minlength=len(self.codes)) if rows else np.zeros(len(self.codes), int)

    def restricted(self, keep: np.ndarray) -> "CodedDocuments":
        """Without the codes that are not kept, and without the documents that then have none.

        Args:
            keep: bool [codes].
        """
        labels = [row[keep[row]] for row in self.labels]
        empty = np.fromiter((not len(row) for row in labels), dtype=bool, count=len(labels))
        return replace(self, labels=labels, splits=np.where(empty, -1, self.splits).astype(np.int8))

    def used_codes(self) -> np.ndarray:
        """Indices of the codes that some document of some split has."""
        return np.flatnonzero(self.counts())

    def summary(self) -> dict[str, dict]:
        """Documents, patients, codes and codes per document of each split."""
        found = {}
        for number, split in enumerate(SPLITS):
            rows = np.flatnonzero(self.splits == number)
            codes = sum(len(self.labels[row]) for row in rows)
            found[split] = {
                "documents": len(rows),
                "patients": len({self.patients[row] for row in rows}),
                "labels": int((self.counts(split) > 0).sum()),
                "labels_per_document": round(codes / max(len(rows), 1), 2),
            }
        return found

    def check_patients(self) -> int:
        """Number of patients; an error if one of them is in two splits."""
        seen: dict[str, int] = {}
        for patient, split in zip(self.patients, self.splits.tolist(), strict=True):
            if split >= 0 and seen.setdefault(patient, split) != split:
                names = " and ".join(SPLITS[number] for number in sorted((seen[patient], split)))
                raise NotesError(f"patient {patient} is in {names}. Keep all documents of a patient in one split.")
        return len(seen)


def dataset_is_finished(folder: Path, key: dict) -> bool:
    """Whether a folder holds a dataset made from exactly this."""
    done = folder / "dataset.json"
    return done.exists() and json.loads(done.read_text(encoding="utf-8")).get("key") == key


def write_dataset(
    folder: str | Path,
    documents: CodedDocuments,
    text: Callable[[int], str],
    descriptions: dict[str, str],
    about: dict,
    *,
    compress: bool = True,
    progress: bool = True,
) -> dict:
    """Write the documents of each split, the labels and dataset.json; return what dataset.json says.

    Args:
        folder: Where to.
        documents: What to write.
        text: Text by document number.
        descriptions: Description of every label that is to be in the label file.
        about: What else dataset.json says; its `key` is what the dataset was made from.
        compress: Write .jsonl.gz instead of .jsonl.
        progress: Show a progress bar.
    """
    folder = Path(folder)
    begun = _begin(folder, about["key"])
    patients = documents.check_patients()
    for number, split in enumerate(SPLITS):
        name = f"{split}.jsonl.gz" if compress else f"{split}.jsonl"
        if name not in begun["done"]:
            rows = np.flatnonzero(documents.splits == number).tolist()
            rows = tqdm(rows, desc=f"{folder.name}: {split}", unit=" documents", delay=2, disable=not progress)
            write_lines(folder / name, _rows(documents, rows, text))
            begun["done"].append(name)
            _write(folder / ".begun.json", begun)
    pairs = sorted(descriptions.items())
    write_lines(folder / "labels.jsonl", ({"label": label, "description": title} for label, title in pairs))
    unseen = set(documents.used_codes()) - set(np.flatnonzero(documents.counts("train")))
    said = {**about, "splits": documents.summary(), "patients": patients, "labels": len(descriptions)}
    said["labels_without_training_document"] = len(unseen)
    _write(folder / "dataset.json", said)
    (folder / ".begun.json").unlink()
    return said


def _begin(folder: Path, key: dict) -> dict:
    """What an interrupted run has finished; whatever was made from something else is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".begun.json"
    if path.exists() and (begun := json.loads(path.read_text(encoding="utf-8")))["key"] == key:
        return begun
    for name in ("dataset.json", "labels.jsonl", *(f"{split}.jsonl{end}" for split in SPLITS for end in ("", ".gz"))):
        (folder / name).unlink(missing_ok=True)
    begun = {"key": key, "done": []}
    _write(path, begun)
    return begun


def _rows(documents: CodedDocuments, rows: Iterable[int], text: Callable[[int], str]) -> Iterator[dict]:
    for row in rows:
        yield {
            "id": documents.ids[row],
            "group": documents.patients[row],
            "text": text(documents.numbers[row]),
            "labels": sorted(documents.codes[label].name for label in documents.labels[row]),
        }


def write_lines(path: Path, rows: Iterable[dict]) -> None:
    """Write JSON lines, packed if the name ends in .gz; the same rows always give the same bytes."""
    with replacing(path) as partial, _open_text(partial, path.suffix == ".gz") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


@contextmanager
def _open_text(path: Path, packed: bool) -> Iterator[IO[bytes]]:
    with open(path, "wb") as file:
        if not packed:
            yield file
            return
        with gzip.GzipFile("", "wb", 3, file, mtime=0) as stream:
            yield stream


def _write(path: Path, value: dict) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def describe_datasets(made: dict[str, dict]) -> str:
    """Counts of datasets as an aligned table, and under each what differs from what was published.

    Args:
        made: What each dataset.json says, by name.
    """
    header = f"{'':<20}{'split':<12}{'documents':>10}{'patients':>10}{'labels':>8}{'per document':>14}"
    lines = [header]
    for name, said in made.items():
        for split, found in said["splits"].items():
            counts = f"{found['documents']:>10,}{found['patients']:>10,}{found['labels']:>8,}"
            lines.append(
                f"{name if split == 'train' else '':<20}{split:<12}{counts}{found['labels_per_document']:>14}"
            )
        total = sum(found["documents"] for found in said["splits"].values())
        lines.append(f"{'':<20}{'all':<12}{total:>10,}{said['patients']:>10,}{said['labels']:>8,}")
        lines.append(f"  no patient is in two splits; split by {said['split_by']}")
        if "published" in said and not said["differences"]:
            lines.append(f"  as published by {said['published']['by']}")
        if strange := said.get("codes", {}).get("codes_of_unknown_form"):
            lines.append(f"  {strange} codes have no known form and are kept: {', '.join(said['codes']['such_as'])}")
        lines += [f"  differs: {difference}" for difference in said["differences"]]
        if said["differences"] and said.get("remark"):
            lines.append(f"  remark: {said['remark']}")
    return "\n".join(lines)


def read_dataset_marks(files: Iterable[str | Path | None]) -> dict[str, str]:
    """Name and terms of the prepared dataset that files lie in; empty where there is no dataset.json beside them.

    Args:
        files: Files of documents, or folders of them.
    """
    marks: dict[str, str] = {}
    for file in filter(None, files):
        folder = Path(file) if Path(file).is_dir() else Path(file).parent
        path = folder / "dataset.json"
        if not path.is_file():
            continue
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise NotesError(f"{path} is broken, so the terms of the data are not known. Prepare it again.") from None
        for name in ("name", "terms"):
            if found.get(name):
                marks.setdefault(name, found[name])
    return marks
