"""Rows of a JSONL, CSV or TSV file (plain or .gz) with their line numbers; what is wrong raises `NotesError`."""

import csv
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXTENSIONS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


class NotesError(ValueError):
    """A source of documents cannot be used as it is; the message says where, what was found and what to do."""


def read_rows(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and fields of each row of a JSONL, CSV or TSV file, plain or .gz; CSV and TSV cells stay strings."""
    path = Path(path)
    check_files({"file": path})
    extension = file_extension(path)
    if extension == ".parquet":
        raise NotesError(f"{path}: found Parquet, expected a JSONL, CSV or TSV file.")
    rows = _json_rows(path) if extension in (".jsonl", ".json") else _delimited_rows(path, extension)
    number = None
    for number, row in rows:
        yield number, row
    if number is None:
        expected = "one JSON object per line" if extension in (".jsonl", ".json") else "a header line, then rows"
        raise NotesError(f"{path}: there are no rows in it. Expected {expected}.")


def file_extension(path: Path) -> str:
    """The extension that says how to read a file, without .gz."""
    extension = os.path.splitext(path.name.lower().removesuffix(".gz"))[1]
    if extension not in EXTENSIONS:
        found = f"`{extension}`" if extension else "no extension"
        raise NotesError(f"{path}: found {found}, expected {', '.join(EXTENSIONS)}, alone or with .gz after it.")
    return extension


def check_files(files: dict[str, Path]) -> None:
    """Fail before minutes of reading, not after."""
    for name, path in files.items():
        if path.is_dir():
            raise NotesError(f"{path} is a folder. Pass it as `dataset_name`, or name the file inside it.")
        if not path.exists():
            raise NotesError(f"{path} does not exist (asked for as the {name} file). Check the path.")
        file_extension(path)
        for other in files:
            if other != name and files[other].exists() and files[other].samefile(path):
                raise NotesError(f"{path} is both the {name} and the {other} file. Pass one file for each split.")


def is_gzipped(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with gzip.open(path) if is_gzipped(path) else open(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):  # noqa: B007  (the handlers below read it)
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise NotesError(f"{path}, line {number}: {_bad_bytes(error)}") from None
    except EOFError:
        raise NotesError(f"{path}: the .gz file ends too early, after line {number}. Copy it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise NotesError(f"{path}: not a sound .gz file after line {number} ({error}). Copy it again.") from None
    except OSError as error:
        raise NotesError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _bad_bytes(error: UnicodeDecodeError) -> str:
    found = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
    if error.object[:2] == b"\x1f\x8b":
        return f"{found}: the file is gzipped. End its name in .gz."
    return f"{found}. Convert the file first, for example with `iconv -f latin1 -t utf-8`."


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = type(error).__name__
            if isinstance(error, json.JSONDecodeError):
                reason = f"{error.msg}, column {error.colno}"
            raise NotesError(f"{path}, line {number}: broken JSON ({reason}). Expected one object per line.") from None
        if not isinstance(row, dict):
            raise NotesError(
                f"{path}, line {number}: found a {type(row).__name__}, expected one JSON object per line."
            )
        yield number, row


def _delimited_rows(path: Path, extension: str) -> Iterator[tuple[int, dict[str, str]]]:
    lines = (line for _, line in _lines(path))
    reader = csv.reader(lines, delimiter="\t" if extension == ".tsv" else ",", strict=True)
    limit = csv.field_size_limit(sys.maxsize)  # a long note exceeds the default of 131,072 characters
    start = 1
    try:
        header = _header(next(reader, []), path)
        start = reader.line_num + 1
        for cells in reader:
            if cells:
                yield start, _named_cells(header, cells, path, start)
            start = reader.line_num + 1
    except csv.Error as error:
        hint = 'Put a cell with quotes, delimiters or line breaks in double quotes, and write the quotes in it as "".'
        raise NotesError(f"{path}, row starting on line {start}: {error}. {hint}") from None
    finally:
        csv.field_size_limit(limit)


def _header(names: list[str], path: Path) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise NotesError(f"{path}, line 1: column `{name}` is there twice. Rename one of them.")
    return names


def _named_cells(header: list[str], cells: list[str], path: Path, line: int) -> dict[str, str]:
    if len(cells) != len(header):
        found = f"{len(cells)} cells, but the header has {len(header)}"
        raise NotesError(f"{path}, line {line}: {found}. Quote cells that contain the delimiter or a line break.")
    return dict(zip(header, cells, strict=True))
