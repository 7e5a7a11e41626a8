"""Large CSV tables (plain or .gz) as a stream of Arrow batches: every cell a string, never the whole table in memory.

Arrow's own messages may quote a row, so none of them is passed on.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
from tqdm.auto import tqdm

from .rows import NotesError, is_gzipped

BLOCK_BYTES = 8 << 20
FOLDERS = ("", "hosp", "note")


def find_table(folder: str | Path, name: str) -> Path:
    """The table `name` (`name.csv` or `name.csv.gz`, in any case) in a folder or its `hosp` or `note` folder."""
    found = optional_table(folder, name)
    if found is not None:
        return found
    files = sorted(path.name for path in Path(folder).glob("*.csv*"))
    seen = f"found {', '.join(files[:12])}{' …' if len(files) > 12 else ''}" if files else "there is no CSV file in it"
    raise NotesError(
        f"{folder}: no table {name}.csv or {name}.csv.gz; {seen}. Download it from PhysioNet into this folder."
    )


def optional_table(folder: str | Path, name: str) -> Path | None:
    """As `find_table`, but None where there is no such table."""
    folder = Path(folder)
    if not folder.is_dir():
        raise NotesError(f"There is no folder {folder}. Name the folder with the downloaded tables.")
    wanted = (f"{name.lower()}.csv", f"{name.lower()}.csv.gz")
    for place in (folder / part for part in FOLDERS):
        found = sorted(path for path in place.glob("*.csv*") if path.name.lower() in wanted)
        if found:
            return found[0]
    return None


def read_batches(path: str | Path, columns: list[str], *, progress: bool = True) -> Iterator[pa.RecordBatch]:
    """Batches of the named columns, as strings, in the order of the file.

    Args:
        path: A CSV or TSV file, plain or .gz; line breaks, commas and doubled quotes may stand in quoted cells.
        columns: Names of the columns, in any case; the batches have them as written here.
        progress: Show how much of the file has been read.
    """
    path = Path(path)
    names = _written_names(path, columns)
    with open(path, "rb") as file, _progress_bar(path, progress) as bar:
        text = _CheckedText(path, file, bar)
        invalid: list[tuple] = []
        try:
            for batch in _open_csv(text, names, invalid):
                _check_rows(path, invalid)
                yield batch.rename_columns(columns)
        except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
            raise _readable(path, error, text) from None
        _check_rows(path, invalid)
        text.check_end()


def read_header(path: Path) -> list[str]:
    """The names in the first line of a table."""
    try:
        with gzip.open(path) if is_gzipped(path) else open(path, "rb") as stream:
            line = stream.readline(1 << 20).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise _readable(path, error, None) from None
    return [name.strip() for name in next(csv.reader([line], delimiter=_delimiter(path)), [])]


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.suffixes else ","


def _written_names(path: Path, columns: list[str]) -> list[str]:
    """How the file writes the columns (MIMIC-III in capitals, its demo in small letters)."""
    header = read_header(path)
    by_name = {name.lower(): name for name in header}
    for column in columns:
        if column.lower() not in by_name:
            found = ", ".join(header) or "an empty first line"
            raise NotesError(f"{path}: no column `{column}`; found {found}. Check that this is the right table.")
    return [by_name[column.lower()] for column in columns]


def _open_csv(text: "_CheckedText", names: list[str], invalid: list[tuple]) -> pa_csv.CSVStreamingReader:
    def note_invalid(row) -> str:
        invalid.append((row.number, row.expected_columns, row.actual_columns))
        return "skip"

    return pa_csv.open_csv(
        text,
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(
            delimiter=_delimiter(text.path), newlines_in_values=True, invalid_row_handler=note_invalid
        ),
        convert_options=pa_csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _check_rows(path: Path, invalid: list[tuple]) -> None:
    if invalid:
        row, expected, actual = invalid[0]
        raise NotesError(
            f"{path}, row {row}: {actual} cells, but the header has {expected}. Quote cells that hold a comma or a "
            "line break, or download the file again."
        )


def _readable(path: Path, error: Exception, text: "_CheckedText | None") -> NotesError:
    """What went wrong, in our own words."""
    message = str(error)
    if "UTF8" in message or isinstance(error, UnicodeDecodeError):
        return NotesError(f"{path}: not UTF-8. Convert it, for example with `iconv -f latin1 -t utf-8`.")
    if "straddling" in message:
        size = f"{BLOCK_BYTES / 2**20:g} MB"
        return NotesError(
            f"{path}: a row is longer than {size}, so a quote is missing in it. Download the file again."
        )
    if is_gzipped(path):
        read = "" if text is None else f" after {text.size / 2**20:,.1f} MB of text"
        return NotesError(f"{path}: the .gz file ends too early or is damaged{read}. Download it again.")
    if "Empty CSV" in message:
        return NotesError(f"{path}: the file is empty. Download it again.")
    return NotesError(f"{path}: not a sound CSV file ({type(error).__name__}). Download it again.")


def _progress_bar(path: Path, progress: bool) -> tqdm:
    return tqdm(
        total=path.stat().st_size,
        desc=f"reading {path.name}",
        unit="B",
        unit_scale=True,
        delay=2,
        disable=not progress,
    )


class _CheckedText:
    """The text of a table as a readable file: unpacks it, moves the progress bar and counts the quotes.

    An odd number of quotes means that one is missing; Arrow would then take the rest of the file for one cell.
    """

    closed = False

    def __init__(self, path: Path, file: BinaryIO, bar: tqdm):
        self.path, self.file, self.bar = path, file, bar
        self.stream = gzip.GzipFile(fileobj=file) if is_gzipped(path) else file
        self.size = self.quotes = self.position = 0

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        self.size += len(block)
        self.quotes += block.count(b'"')
        self.bar.update(self.file.tell() - self.position)
        self.position = self.file.tell()
        return block

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def check_end(self) -> None:
        if self.quotes % 2:
            raise NotesError(
                f"{self.path}: a quoted cell is never closed, so the file ends too early or a quote in a cell is not "
                "doubled. Download the file again."
            )
