"""Which codes every stay (admission) has, from one or several tables of codes.

Codes are strings from the first byte to the last. Each distinct code is written the published way once, and a code
that a stay has twice counts once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from .codes import CodeError, describe_icd, format_icd, top_level_code
from .rows import NotesError
from .tables import read_batches


@dataclass(frozen=True)
class CodesTable:
    """Where a table of codes is and what its columns are called.

    Attributes:
        path: The CSV file.
        stay: Column with the stay's id.
        code: Column with the code.
        kind: "diagnosis" or "procedure".
        system: "icd9" or "icd10" for a table that has one of them; None keeps codes as they are written.
        version: Column with 9 or 10, for a table that has both.
    """

    path: Path
    stay: str
    code: str
    kind: str = "diagnosis"
    system: str | None = None
    version: str | None = None

    def __post_init__(self):
        if self.kind not in ("diagnosis", "procedure") or self.system not in (None, "icd9", "icd10"):
            found = f"found system {self.system!r} and kind {self.kind!r}"
            raise NotesError(f"{found}; expected 'icd9' or 'icd10', and 'diagnosis' or 'procedure'.")

    @property
    def columns(self) -> list[str]:
        return [self.stay, self.code, *([self.version] if self.version else [])]


@dataclass(frozen=True)
class Code:
    """A code as the published lists write it, and the list it comes from."""

    name: str
    system: str | None
    kind: str

    def top_level(self) -> "Code":
        """The category above it; itself where there is none to find."""
        try:
            return Code(top_level_code(self.name, self.system, self.kind), self.system, self.kind)
        except CodeError:
            return self

    def describe(self, titles: dict["Code", str]) -> str:
        """Its title: from the hospital's own table, else from the published lists, else its name."""
        if self in titles:
            return titles[self]
        try:
            return self.name if self.system is None else describe_icd(self.name, self.system, self.kind).text
        except CodeError:
            return self.name


@dataclass
class CodedStays:
    """Pairs of stay and code, each once.

    Attributes:
        stays: Ids of the stays, in the order they were met.
        codes: Distinct codes, in the order they were met.
        pairs: int64 [pairs, 2], index of the stay and index of the code, ascending and without repeats.
        unknown: Codes that the published code lists do not have; they are kept as they are written.
        repeats: Rows left out because the stay has the code already.
        blanks: Rows left out because stay or code is empty.
    """

    stays: list[str]
    codes: list[Code]
    pairs: np.ndarray
    unknown: list[str] = field(default_factory=list)
    repeats: int = 0
    blanks: int = 0

    def left_out(self) -> dict:
        """What reading the tables left out or could not place, for dataset.json."""
        strange = {"codes_of_unknown_form": len(self.unknown), "such_as": self.unknown[:10]}
        return {"repeated_rows": self.repeats, "rows_without_stay_or_code": self.blanks, **strange}

    def of_system(self, system: str) -> "CodedStays":
        """Only the codes of one system."""
        keep = np.array([code.system == system for code in self.codes], dtype=bool)
        return self._replace(self.codes, self.pairs[keep[self.pairs[:, 1]]])

    def rolled_up(self) -> "CodedStays":
        """Every code replaced by its category; a category that a stay has twice counts once."""
        parents = [code.top_level() for code in self.codes]
        index = {parent: i for i, parent in enumerate(dict.fromkeys(parents))}
        above = np.array([index[parent] for parent in parents], dtype=np.int64)
        pairs = np.column_stack([self.pairs[:, 0], above[self.pairs[:, 1]]])
        return self._replace(list(index), _distinct(pairs, len(index)))

    def _replace(self, codes: list[Code], pairs: np.ndarray) -> "CodedStays":
        return CodedStays(self.stays, codes, pairs, self.unknown, self.repeats, self.blanks)


def read_coded_stays(tables: Iterable[CodesTable], *, progress: bool = True) -> CodedStays:
    """Read tables of codes, one after the other."""
    stays, codes, unknown = _Numbers(), _Numbers(), {}
    parts, blanks = [], 0
    for table in tables:
        for batch in read_batches(table.path, table.columns, progress=progress):
            stay_ids = _numbered(batch.column(0), stays, str.strip)
            code_ids = _numbered_codes(batch, table, codes, unknown)
            kept = (stay_ids >= 0) & (code_ids >= 0)
            blanks += int(len(kept) - kept.sum())
            parts.append(np.column_stack([stay_ids[kept], code_ids[kept]]))
    pairs = np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)
    if not len(pairs):
        files = ", ".join(str(table.path) for table in tables)
        raise NotesError(f"there is no code in {files}. Check the files and the names of the columns.")
    distinct = _distinct(pairs, len(codes))
    return CodedStays(list(stays), list(codes), distinct, list(unknown), len(pairs) - len(distinct), blanks)


class _Numbers(dict):
    """Gives every new key the next number."""

    def __missing__(self, key) -> int:
        self[key] = number = len(self)
        return number


def _numbered(cells: pa.Array, numbers: _Numbers, key: Callable) -> np.ndarray:
    """Number of each cell's key, -1 for an empty cell."""
    encoded = cells.dictionary_encode()
    values = [key(value) for value in encoded.dictionary.to_pylist()]
    lookup = np.array([numbers[value] if value else -1 for value in values], dtype=np.int64)
    return lookup[encoded.indices.to_numpy()]


def _numbered_codes(batch: pa.RecordBatch, table: CodesTable, codes: _Numbers, unknown: dict) -> np.ndarray:
    if table.version is None:
        return _numbered(batch.column(1), codes, lambda cell: _code(cell, table.system, table.kind, unknown))
    found = np.full(batch.num_rows, -1, dtype=np.int64)
    versions = np.array([cell.strip() for cell in batch.column(2).to_pylist()])
    for version in sorted(set(versions)):
        if version not in ("9", "10"):
            raise NotesError(f"{table.path}: found {version!r} in `{table.version}`, expected 9 or 10.")
        rows = np.flatnonzero(versions == version)
        cells, system = batch.column(1).take(pa.array(rows)), f"icd{version}"
        found[rows] = _numbered(cells, codes, lambda cell, of=system: _code(cell, of, table.kind, unknown))
    return found


def _code(cell: str, system: str | None, kind: str, unknown: dict) -> Code | None:
    written = cell.strip()
    if not written:
        return None
    if system is None:
        return Code(written, None, kind)
    try:
        return Code(format_icd(written, system, kind), system, kind)
    except CodeError:
        unknown.setdefault(written)
        return Code(written.upper(), system, kind)


def _distinct(pairs: np.ndarray, num_codes: int) -> np.ndarray:
    keys = np.unique(pairs[:, 0] * num_codes + pairs[:, 1])
    return np.column_stack([keys // num_codes, keys % num_codes])


def read_titles(table: CodesTable, title: str) -> dict[Code, str]:
    """Titles from a dictionary table such as D_ICD_DIAGNOSES.

    Args:
        table: The table; its `stay` is not used.
        title: Column with the title.
    """
    titles: dict[Code, str] = {}
    columns = [table.code, title, *([table.version] if table.version else [])]
    for batch in read_batches(table.path, columns, progress=False):
        for cell, text, *version in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            code = _code(cell, f"icd{version[0].strip()}" if version else table.system, table.kind, {})
            if code is not None and text.strip():
                titles.setdefault(code, " ".join(text.split()))
    return titles
