"""One split of labelled documents, read from one source with every field checked."""

import gzip
import logging
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, List
from tqdm.auto import tqdm

from .rows import NotesError, file_extension, is_gzipped, read_rows

logger = logging.getLogger(__name__)

EVIDENCE_TYPE = pa.list_(pa.struct({"label": pa.string(), "start": pa.int64(), "end": pa.int64()}))
ROWS_PER_CHUNK = 1000


@dataclass(frozen=True)
class NoteColumns:
    """What the columns are called in the source.

    A missing `id` is replaced by the row number and a missing `group` by the id, but only under the default names: a
    name that was chosen must be there.
    """

    id: str = "id"
    group: str = "group"
    text: str = "text"
    labels: str = "labels"


@dataclass(frozen=True)
class Split:
    """The checked columns of one split, and where each row came from."""

    name: str
    source: str
    unit: str
    positions: Sequence[int]
    ids: list[str]
    groups: list[str] | None
    labels: list[list[str]]
    texts: pa.ChunkedArray
    evidence: list | None

    @property
    def group_or_id(self) -> list[str]:
        return self.ids if self.groups is None else self.groups

    def where(self, row: int) -> str:
        return f"{self.source}, {self.unit} {self.positions[row]}"

    def table(self) -> pa.Table:
        columns = {"id": pa.array(self.ids, pa.string()), "group": pa.array(self.group_or_id, pa.string())}
        columns |= {"text": self.texts, "labels": pa.array(self.labels, pa.list_(pa.string()))}
        if self.evidence is not None:
            columns["evidence"] = pa.array(self.evidence, EVIDENCE_TYPE)
        return pa.table(columns)


def read_file(name: str, path: Path, columns: NoteColumns, separator: str) -> Split:
    if file_extension(path) == ".parquet":
        table = _read_parquet(path, columns)
        return _read_table(name, str(path), table, Features.from_arrow_schema(table.schema), columns, separator)
    return _read_stream(name, path, columns, separator)


def read_dataset(name: str, dataset: Dataset, columns: NoteColumns, separator: str) -> Split:
    source = f"split `{name}`"
    _check_columns(dataset.features, columns, source)
    wanted = dataset.select_columns(_wanted(dataset.column_names, columns)).with_format("arrow")
    table = wanted[:] if len(wanted) else wanted.data.table
    return _read_table(name, source, table, wanted.features, columns, separator)


def _read_stream(name: str, path: Path, columns: NoteColumns, separator: str) -> Split:
    """Texts move to Arrow a thousand rows at a time, so that they are never all Python strings."""
    delimited = file_extension(path) in (".csv", ".tsv")
    lines, ids, groups, labels, evidence, texts, chunks = [], [], [], [], [], [], []
    unsplit = 0
    rows = tqdm(read_rows(path), desc=f"reading {path.name}", unit=" notes", delay=2, leave=False, disable=None)
    for line, row in rows:
        where = f"{path}, line {line}"
        _check_columns(row, columns, where)
        lines.append(line)
        ids.append(_identifier(row.get(columns.id), columns.id, where))
        groups.append(_identifier(row.get(columns.group), columns.group, where))
        unsplit += not delimited and _looks_joined(row[columns.labels], separator)
        labels.append(_labels(row[columns.labels], separator if delimited else None, columns.labels, where))
        evidence.append(None if delimited else row.get("evidence"))
        texts.append(_text(row[columns.text], columns.text, where))
        if len(texts) == ROWS_PER_CHUNK:
            chunks.append(pa.array(texts, pa.string()))
            texts = []
    chunks.append(pa.array(texts, pa.string()))
    _warn_unsplit(unsplit, str(path), separator)
    split = Split(name, str(path), "line", lines, ids, groups, labels, pa.chunked_array(chunks), evidence)
    return _complete(split, columns)


def _read_parquet(path: Path, columns: NoteColumns) -> pa.Table:
    try:
        source = pa.BufferReader(gzip.decompress(path.read_bytes())) if is_gzipped(path) else path
        with pq.ParquetFile(source) as file:
            table = file.read(columns=_wanted(file.schema_arrow.names, columns))
    except (pa.ArrowException, EOFError, OSError, zlib.error) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise NotesError(f"{path}: not a sound Parquet file ({reason}). Write it again.") from None
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(index, field.name, table[field.name].cast(field.type.value_type))
    return table


def _wanted(names: Iterable[str], columns: NoteColumns) -> list[str]:
    """Reading only these keeps whatever else is in the source out of memory."""
    return [name for name in names if name in (columns.id, columns.group, columns.text, columns.labels, "evidence")]


def _read_table(
    name: str, source: str, table: pa.Table, features: Features, columns: NoteColumns, separator: str
) -> Split:
    """Typed columns; the text is passed on without a copy."""
    _check_columns(table.column_names, columns, source)
    if not table.num_rows:
        raise NotesError(f"{source}: there are no rows in it.")
    labels = table[columns.labels].to_pylist()
    _warn_unsplit(sum(_looks_joined(value, separator) for value in labels), source, separator)
    if class_names := _class_names(features[columns.labels]):
        labels = [_named(value, class_names) for value in labels]
    split = Split(
        name,
        source,
        "row",
        range(table.num_rows),
        _checked(_identifier, _optional(table, columns.id), columns.id, source),
        _checked(_identifier, _optional(table, columns.group), columns.group, source),
        _checked(_single_labels, labels, columns.labels, source),
        _text_column(table[columns.text], columns.text, source),
        _optional(table, "evidence"),
    )
    return _complete(split, columns)


def _optional(table: pa.Table, name: str) -> list:
    return table[name].to_pylist() if name in table.column_names else [None] * table.num_rows


def _checked(check: Callable, values: list, name: str, source: str) -> list:
    return [check(value, name, f"{source}, row {row}") for row, value in enumerate(values)]


def _text_column(texts: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise NotesError(f"{source}: column `{name}` holds {texts.type}, expected strings.")
    if texts.null_count:
        _text(None, name, f"{source}, row {texts.is_null().to_pylist().index(True)}")
    fits = pa.types.is_large_string(texts.type) and texts.nbytes < 2**31
    return texts.cast(pa.string()) if fits else texts


def _class_names(feature: Any) -> list[str] | None:
    """Names behind the integers of a `ClassLabel`, alone or in a list."""
    feature = feature.feature if isinstance(feature, List) else feature
    return feature.names if isinstance(feature, ClassLabel) else None


def _named(value: int | list[int] | None, names: list[str]) -> list[str]:
    """Hub datasets mark an unlabelled row by -1."""
    values = value if isinstance(value, list) else [value]
    return [names[index] for index in values if index is not None and index >= 0]


def _check_columns(found: Iterable[str], columns: NoteColumns, where: str) -> None:
    for field in ("text", "labels"):
        name = getattr(columns, field)
        if name not in found:
            names = ", ".join(f"`{name}`" for name in list(found)[:12]) or "none"
            hint = f"Say what it is called with `NoteColumns({field}=...)` (`--{field}_column`)."
            raise NotesError(f"{where}: no column `{name}`; found {names}. {hint}")


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise NotesError(f"{where}: found {_kind(value)} in `{name}`, expected a string (an empty one is allowed).")
    return _encodable(value, name, where)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _encodable(value: str, name: str, where: str) -> str:
    """JSON escapes can spell half a character, which no UTF-8 file or tokenizer can hold."""
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise NotesError(f"{where}: `{name}` has half of a surrogate pair (\\ud800-\\udfff). Repair it.") from None
    return value


def _identifier(value: Any, name: str, where: str) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise NotesError(f"{where}: found {_kind(value)} in `{name}`, expected a string or a whole number.")
    return _encodable(value, name, where) if isinstance(value, str) else str(value)


def _single_labels(value: Any, name: str, where: str) -> list[str]:
    return _labels(value, None, name, where)


def _labels(value: Any, separator: str | None, name: str, where: str) -> list[str]:
    """Distinct labels of one document in their order; `separator` is None where the format has lists of its own."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(separator)] if separator else [value]
        value = [part for part in parts if part]
    elif isinstance(value, int | float):
        value = [value]
    if not isinstance(value, list):
        raise NotesError(f"{where}: found {_kind(value)} in `{name}`, expected a list of strings ([] for none).")
    for label in value:
        _check_label(label, name, where)
    return [sys.intern(_encodable(label, name, where)) for label in dict.fromkeys(value)]


def _check_label(label: Any, name: str, where: str) -> None:
    if isinstance(label, str) and label.strip():
        return
    if isinstance(label, int | float) and not isinstance(label, bool):
        hint = 'Labels are strings, or the code "0389" would become 389: write it in quotes.'
        raise NotesError(f"{where}: label {label} in `{name}` is a number. {hint}")
    found = "an empty label" if isinstance(label, str) else _kind(label)
    raise NotesError(f"{where}: found {found} in `{name}`, expected strings ([] for no label).")


def _looks_joined(value: Any, separator: str) -> bool:
    return isinstance(value, str) and bool(separator) and separator in value


def _warn_unsplit(count: int, source: str, separator: str) -> None:
    if count:
        message = "%s: %s label strings contain `%s` and were each taken as one label; write lists if they are several"
        logger.warning(message, source, f"{count:,}", separator)


def _complete(split: Split, columns: NoteColumns) -> Split:
    """Fill in what the source may leave out: ids, groups, evidence."""
    ids, groups = split.ids, split.groups
    if not _is_given(split, ids, columns.id, "id"):
        ids = [f"{split.name}-{row}" for row in range(len(ids))]
    if not _is_given(split, groups, columns.group, "group"):
        groups = None
    return Split(**(vars(split) | {"ids": ids, "groups": groups, "evidence": _evidence(split)}))


def _is_given(split: Split, values: list, column: str, default: str) -> bool:
    """Whether the source has the column; half a column is an error."""
    missing = values.count(None)
    if missing == len(values) and column != default:
        raise NotesError(f"{split.source}: no column `{column}`, asked for as the {default}. Check its name.")
    if 0 < missing < len(values):
        raise NotesError(f"{split.where(values.index(None))}: no `{column}`, though other rows have one. Fill it in.")
    return missing == 0


def _evidence(split: Split) -> list | None:
    values = split.evidence
    if values.count(None) == len(values):
        return None
    if not _are_spans(values):
        row = next(row for row, value in enumerate(values) if not _are_spans([value]))
        expected = 'a list of {"label": "...", "start": 0, "end": 1}'
        raise NotesError(f"{split.where(row)}: `evidence` is not {expected}. Repair or remove it.")
    return [value or [] for value in values]


def _are_spans(values: list) -> bool:
    try:
        pa.array(values, EVIDENCE_TYPE)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True
