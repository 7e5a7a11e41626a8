"""The notes of a large table, put down on disk by stay so that they can be read back in any order.

One pass over the table copies the texts that are wanted into one file and keeps only where each begins. Memory grows
with the number of notes, not with their length.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather

from ..storage import write_text
from .rows import NotesError
from .tables import read_batches


@dataclass(frozen=True)
class NotesTable:
    """Where a table of notes is and what its columns are called.

    Attributes:
        path: The CSV file.
        stay: Column with the stay's id.
        text: Column with the text.
        patient: Column with the patient's id; None where every stay is its own group.
        dates: Columns that put several notes of a stay in order, the most important first.
        number: Column with a number that decides where the dates do not.
        wanted: Column and the value it must have (a category of notes), if not all notes are wanted.
        addendum: Column and the value that marks an addendum, which follows the report of the same date.
    """

    path: Path
    stay: str
    text: str
    patient: str | None = None
    dates: tuple[str, ...] = ()
    number: str | None = None
    wanted: tuple[str, str] | None = None
    addendum: tuple[str, str] | None = None

    @property
    def columns(self) -> list[str]:
        named = [self.stay, self.text, self.patient, *self.dates, self.number]
        named += [pair[0] for pair in (self.wanted, self.addendum) if pair]
        return list(dict.fromkeys(name for name in named if name))


class NoteStore:
    """Texts by stay, in a folder that `extract_notes` filled."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        index = feather.read_table(self.folder / "index.feather", memory_map=False)
        self.stays, self.patients = index["stay"].to_pylist(), index["patient"].to_pylist()
        self.starts, self.sizes = (index[name].to_pylist() for name in ("starts", "sizes"))
        self.counts = json.loads((self.folder / "done.json").read_text())["counts"]
        self._file = open(self.folder / "texts.bin", "rb")

    def __len__(self) -> int:
        return len(self.stays)

    def text(self, number: int) -> str:
        """The notes of a stay, one after the other; a note that is there twice is read once."""
        texts: dict[str, None] = {}
        for start, size in zip(self.starts[number], self.sizes[number], strict=True):
            texts.setdefault(os.pread(self._file.fileno(), size, start).decode())
        return "\n".join(texts)

    def close(self) -> None:
        """Close the file of texts."""
        self._file.close()

    def remove(self) -> None:
        """Close it and delete the copy of the notes."""
        self.close()
        remove_copy(self.folder)


def remove_copy(folder: Path) -> None:
    """Delete a copy of notes, or what is left of one; first what says that it is whole."""
    (folder / "done.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def extract_notes(
    table: NotesTable, stays: list[str], folder: str | Path, *, key: dict, progress: bool = True
) -> NoteStore:
    """Copy the wanted notes into a folder, or use the copy that an interrupted run left there.

    Args:
        table: The table.
        stays: Stays whose notes are wanted.
        folder: Where to.
        key: What the copy depends on; a copy made from anything else is made anew.
        progress: Show how much of the table has been read.
    """
    folder = Path(folder)
    done = folder / "done.json"
    if done.exists() and json.loads(done.read_text())["key"] == key:
        return NoteStore(folder)
    remove_copy(folder)
    folder.mkdir(parents=True)
    notes, counts = _copy_texts(table, stays, folder / "texts.bin", progress)
    feather.write_feather(_by_stay(notes, table), folder / "index.feather", compression="uncompressed")
    write_text(done, json.dumps({"key": key, "counts": counts}))
    return NoteStore(folder)


@dataclass(frozen=True)
class _Note:
    stay: str
    patient: str
    order: tuple
    start: int
    size: int


def _copy_texts(table: NotesTable, stays: list[str], path: Path, progress: bool) -> tuple[list[_Note], dict]:
    wanted, notes, position = pa.array(stays, pa.string()), [], 0
    counts = {"rows": 0, "of another category": 0, "without a stay": 0, "of stays without codes": 0, "empty": 0}
    with open(path, "wb") as file:
        for batch in read_batches(table.path, table.columns, progress=progress):
            counts["rows"] += batch.num_rows
            batch = _wanted_rows(batch, table, wanted, counts)
            for text, order, stay, patient in _rows(batch, table):
                if not text.strip():
                    counts["empty"] += 1
                    continue
                content = text.replace("\r\n", "\n").encode()
                file.write(content)
                notes.append(_Note(stay, patient, order, position, len(content)))
                position += len(content)
    return notes, {**counts, "kept": len(notes)}


def _wanted_rows(batch: pa.RecordBatch, table: NotesTable, stays: pa.Array, counts: dict) -> pa.RecordBatch:
    def filtered(batch: pa.RecordBatch, keep: pa.Array, why: str) -> pa.RecordBatch:
        left = batch.filter(keep)
        counts[why] += batch.num_rows - left.num_rows
        return left

    if table.wanted is not None:
        column, value = table.wanted
        same = pc.equal(pc.utf8_lower(pc.utf8_trim_whitespace(batch.column(column))), value.lower())
        batch = filtered(batch, same, "of another category")
    trimmed = pc.utf8_trim_whitespace(batch.column(table.stay))
    batch = batch.set_column(batch.schema.get_field_index(table.stay), table.stay, trimmed)
    batch = filtered(batch, pc.not_equal(batch.column(table.stay), ""), "without a stay")
    return filtered(batch, pc.is_in(batch.column(table.stay), value_set=stays), "of stays without codes")


def _rows(batch: pa.RecordBatch, table: NotesTable) -> Iterator[tuple[str, tuple, str, str]]:
    """Text, place in the order, stay and patient of each row."""
    cells = {name: batch.column(name).to_pylist() for name in table.columns}
    patients = cells[table.patient or table.stay]
    mark, value = table.addendum or (None, None)
    for row in range(batch.num_rows):
        dates = tuple(cells[name][row] for name in table.dates)
        later = mark is not None and cells[mark][row].strip().lower() == value.lower()
        number = cells[table.number][row] if table.number else ""
        order = (*dates, later, int(number) if number.isdecimal() else 0, number)
        yield cells[table.text][row], order, cells[table.stay][row], patients[row].strip()


def _by_stay(notes: list[_Note], table: NotesTable) -> pa.Table:
    """One row per stay, its notes in order; stays in the order of patient and stay."""
    grouped: dict[str, list[_Note]] = {}
    for note in sorted(notes, key=lambda note: note.order):
        grouped.setdefault(note.stay, []).append(note)
    for stay, group in grouped.items():
        if len({note.patient for note in group}) > 1:
            found = " and ".join(sorted({note.patient for note in group})[:2])
            raise NotesError(f"{table.path}: stay {stay} has notes of patients {found}. Repair one of the columns.")
    ordered = sorted(grouped.values(), key=lambda group: (natural_key(group[0].patient), natural_key(group[0].stay)))
    columns = {
        "stay": pa.array([group[0].stay for group in ordered], pa.string()),
        "patient": pa.array([group[0].patient for group in ordered], pa.string()),
        "starts": pa.array([[note.start for note in group] for group in ordered], pa.list_(pa.int64())),
        "sizes": pa.array([[note.size for note in group] for group in ordered], pa.list_(pa.int64())),
    }
    return pa.table(columns)


def natural_key(text: str) -> tuple:
    """A sort key by which 9 stands before 10.

    >>> sorted(["10", "9", "b2"], key=natural_key)
    ['9', '10', 'b2']
    """
    return (0, int(text), text) if text.isdecimal() else (1, 0, text)


def label_lists(stays: list[str], coded_stays: list[str], pairs: np.ndarray) -> list[np.ndarray]:
    """Indices of the codes of each stay, ascending.

    Args:
        stays: The stays asked for.
        coded_stays: The stays that `pairs` counts.
        pairs: int64 [pairs, 2], index of the stay and of the code, ascending.
    """
    starts = np.searchsorted(pairs[:, 0], np.arange(len(coded_stays) + 1))
    index = {stay: i for i, stay in enumerate(coded_stays)}
    return [pairs[starts[index[stay]] : starts[index[stay] + 1], 1] for stay in stays]
