"""Files of documents to code, and of the codes found: row by row, so that size does not matter."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..data.rows import NotesError, read_rows
from ..storage import replacing
from .evidence import Evidence
from .prediction import Prediction

SCHEMA = pa.schema([("id", pa.string()), ("labels", pa.list_(pa.string())), ("scores", pa.list_(pa.float32()))])
SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("text", pa.string()), ("weight", pa.float32())])
EVIDENCE = pa.field("evidence", pa.list_(pa.list_(SPAN)))  # for each label its passages


def read_texts_to_code(
    path: str | os.PathLike, text_column: str = "text", id_column: str = "id"
) -> Iterator[tuple[str, str]]:
    """(name, text) of each document of a JSONL, CSV or TSV file, or of one .txt file."""
    path = Path(path)
    if path.suffix.lower() == ".txt":
        if not path.is_file():
            raise NotesError(f"{path} does not exist. Check the path.")
        yield path.stem, path.read_text(encoding="utf-8")
        return
    for line, row in read_rows(path):
        if not isinstance(row.get(text_column), str):
            found = ", ".join(sorted(row)) or "none"
            raise NotesError(
                f"{path}, line {line}: no text in column `{text_column}` (columns: {found}). Pass `--text_column`."
            )
        yield str(row.get(id_column, line)), row[text_column]


class PredictionWriter:
    """Writes predictions as they come; the file appears under its name only when it is complete.

    Args:
        path: .parquet or .jsonl.
        shard: Number of this process.
        num_shards: Processes that write; with several, the shard's number becomes part of the name.
        rows_per_group: Documents held before they are written.
        evidence: Whether rows have the passages that speak for each label.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        shard: int = 0,
        num_shards: int = 1,
        rows_per_group: int = 1000,
        evidence: bool = False,
    ):
        path = Path(path)
        if path.suffix not in (".parquet", ".jsonl"):
            raise ValueError(f"`--output` is {path.name}, but must end in .parquet or .jsonl.")
        numbered = path.with_name(f"{path.stem}-{shard:05d}-of-{num_shards:05d}{path.suffix}")
        self.path, self.count, self.rows_per_group = path if num_shards == 1 else numbered, 0, rows_per_group
        self.rows: list[dict] = []
        self.schema = SCHEMA.append(EVIDENCE) if evidence else SCHEMA

    def __enter__(self) -> "PredictionWriter":
        with ExitStack() as stack:
            partial = stack.enter_context(replacing(self.path))
            parquet = self.path.suffix == ".parquet"
            self.file = pq.ParquetWriter(partial, self.schema) if parquet else open(partial, "w", encoding="utf-8")
            stack.callback(self.file.close)
            self.closing = stack.pop_all()
        return self

    def write(
        self, name: str, predictions: Sequence[Prediction], evidence: Mapping[str, Sequence[Evidence]] | None = None
    ) -> None:
        """Add one document.

        Args:
            name: Its id.
            predictions: Its labels, best first.
            evidence: For each label its passages.
        """
        row = {"id": name, "labels": [p.label for p in predictions], "scores": [p.score for p in predictions]}
        if evidence is not None:
            row["evidence"] = [[asdict(span) for span in evidence[p.label]] for p in predictions]
        self.rows.append(row)
        self.count += 1
        if len(self.rows) >= self.rows_per_group:
            self._flush()

    def _flush(self) -> None:
        if isinstance(self.file, pq.ParquetWriter):
            self.file.write_table(pa.Table.from_pylist(self.rows, self.schema))
        else:
            self.file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        self.rows = []

    def __exit__(self, kind, error, trace) -> None:
        if kind is not None:
            self.closing.__exit__(kind, error, trace)
            return
        with self.closing:
            self._flush()
