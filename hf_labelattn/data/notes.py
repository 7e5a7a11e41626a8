"""Documents with labels, from any source, as rows `{id, group, text, labels}`.

A source is a JSONL, CSV, TSV or Parquet file (plain or .gz), a `datasets` object, a folder written by `save_to_disk`,
a Hub id, or the embedded corpus (`synthetic_notes`). Everything is checked once, here: what is wrong raises one
`NotesError` that names the file and line, or the id, and never quotes a document.

Count what is in your files from the shell:

    python -m hf_labelattn.data --train_file train.jsonl.gz --test_file test.jsonl.gz
"""

import argparse
import hashlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict, load_dataset, load_from_disk
from datasets.table import InMemoryTable

from .rows import NotesError, check_files, read_rows
from .splits import ROWS_PER_CHUNK, NoteColumns, Split, read_dataset, read_file

__all__ = ["NoteColumns", "NotesError", "describe_notes", "load_notes", "main", "read_rows"]

logger = logging.getLogger(__name__)

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "dev", "valid", "val"), "test": ("test",)}


def load_notes(
    train_file: str | os.PathLike | None = None,
    validation_file: str | os.PathLike | None = None,
    test_file: str | os.PathLike | None = None,
    dataset_name: str | os.PathLike | Dataset | DatasetDict | None = None,
    *,
    columns: NoteColumns = NoteColumns(),  # noqa: B008  (frozen)
    label_separator: str = ";",
    validation_fraction: float = 0.1,
    dataset_config_name: str | None = None,
    num_documents: int = 4000,
    seed: int = 0,
) -> DatasetDict:
    """Read documents and their labels.

    Args:
        train_file: JSONL, CSV, TSV or Parquet file, plain or .gz. Files are given instead of `dataset_name`.
        validation_file: Same, for development. Without one, a share of the training groups is held out.
        test_file: Same, for the final figures.
        dataset_name: A Hub id, a folder (as `save_to_disk` writes it, or a clone of a Hub dataset), `synthetic_notes`,
            or a `datasets` object.
        columns: What the columns are called in the source.
        label_separator: Splits the label cell of a CSV or TSV file. In other formats a string is one label.
        validation_fraction: Share of the training groups held out if there is no validation split; 0 for none.
        dataset_config_name: The configuration of a Hub dataset that has several.
        num_documents: Size of `synthetic_notes`.
        seed: Seed of `synthetic_notes`.

    Returns:
        Splits among `train`, `validation`, `test` with string columns `id`, `group`, `text`, a list column `labels`
        without repeats, and `evidence` (label, start, end) when the source has it.
    """
    if not 0 <= validation_fraction < 1:
        raise NotesError(f"`validation_fraction` is {validation_fraction}; pass at least 0 and less than 1.")
    files = {"train": train_file, "validation": validation_file, "test": test_file}
    files = {name: Path(file) for name, file in files.items() if file is not None}
    if bool(files) == (dataset_name is not None):
        raise NotesError("pass either files (`train_file`, `validation_file`, `test_file`) or `dataset_name`.")
    if files:
        check_files(files)
        splits = [read_file(name, file, columns, label_separator) for name, file in files.items()]
    else:
        parts = _rename_splits(_load_dataset(dataset_name, dataset_config_name, num_documents, seed))
        splits = [read_dataset(name, part, columns, label_separator) for name, part in parts.items()]
    _check_ids(splits)
    _check_groups(splits)
    tables = {split.name: split.table() for split in splits}
    if "train" in tables and "validation" not in tables and validation_fraction > 0:
        tables = _cut_validation(tables, validation_fraction)
    return DatasetDict({name: _to_dataset(tables[name]) for name in SPLIT_NAMES if name in tables})


def _load_dataset(source: Any, config_name: str | None, num_documents: int, seed: int) -> DatasetDict:
    if isinstance(source, Dataset):
        return DatasetDict({"train": source})
    if isinstance(source, dict) and all(isinstance(part, Dataset) for part in source.values()):
        return source
    if not isinstance(source, str | os.PathLike):
        found = type(source).__name__
        raise NotesError(f"`dataset_name` is a {found}; expected a Hub id, a folder, a `Dataset` or a `DatasetDict`.")
    if source == "synthetic_notes":
        from .synthetic import synthetic_notes

        return synthetic_notes(num_documents=num_documents, seed=seed)
    try:
        saved = any(Path(source, name).exists() for name in ("dataset_dict.json", "state.json"))
        loaded = load_from_disk(str(source)) if saved else load_dataset(str(source), config_name)
    except Exception as error:  # from the network, the Hub or a builder, whose own message may quote a document
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        hint = "Check the name, the network, and whether a configuration (`dataset_config_name`) must be chosen."
        raise NotesError(f"dataset `{source}` cannot be loaded: {reason}. {hint}") from None
    return _load_dataset(loaded, None, 0, 0)


def _rename_splits(dataset: dict[str, Dataset]) -> dict[str, Dataset]:
    """Our names for the splits; others (`unsupervised`, ...) are left out, and said so."""
    renamed, used = {}, set()
    for name, aliases in SPLIT_NAMES.items():
        alias = next((alias for alias in aliases if alias in dataset), None)
        if alias is not None:
            renamed[name] = dataset[alias]
            used.add(alias)
    if not renamed:
        known = ", ".join(alias for aliases in SPLIT_NAMES.values() for alias in aliases)
        raise NotesError(f"the dataset has the splits {', '.join(dataset) or 'none'}; expected some of {known}.")
    if ignored := [name for name in dataset if name not in used]:
        logger.warning("splits left out: %s", ", ".join(ignored))
    return renamed


def _check_ids(splits: list[Split]) -> None:
    seen: dict[str, tuple[Split, int]] = {}
    for split in splits:
        for row, key in enumerate(split.ids):
            if key in seen:
                first, first_row = seen[key]
                places = f"{first.where(first_row)} and {split.where(row)}"
                raise NotesError(f"id `{key}` is used twice: {places}. Give every document an id of its own.")
            seen[key] = split, row


def _check_groups(splits: list[Split]) -> None:
    without = [split.source for split in splits if split.groups is None]
    if 0 < len(without) < len(splits):
        logger.warning(
            "no group column in %s: overlap with the groups of other splits is not known", ", ".join(without)
        )
    for number, split in enumerate(splits):
        for other in splits[:number]:
            comparable = (split.groups is None) == (other.groups is None)
            if shared := comparable and set(split.group_or_id) & set(other.group_or_id):
                key = min(shared)
                places = " and ".join(part.where(part.group_or_id.index(key)) for part in (other, split))
                count = f"{len(shared):,} group{'s are' if len(shared) > 1 else ' is'}"
                hint = "Keep all documents of a group (patient) in one split."
                raise NotesError(f"{count} in both {other.name} and {split.name}, such as `{key}`: {places}. {hint}")


def _cut_validation(tables: dict[str, pa.Table], fraction: float) -> dict[str, pa.Table]:
    """Hold out whole groups of the training split, by hash: independent of the order of the rows and of any seed."""
    groups = tables["train"]["group"].to_pylist()
    # The prefix keeps this cut independent of a test split that was itself cut by a plain hash of the same keys.
    ranked = sorted(set(groups), key=lambda group: hashlib.sha256(f"validation:{group}".encode()).digest())
    if len(ranked) < 2:
        hint = "Pass `validation_file`, or `validation_fraction=0` to do without."
        raise NotesError(f"train has a single group, `{ranked[0]}`, so no validation split can be cut from it. {hint}")
    held_out = set(ranked[: min(max(1, round(fraction * len(ranked))), len(ranked) - 1)])
    mask = np.fromiter((group in held_out for group in groups), dtype=bool, count=len(groups))
    message = "no validation split: held out %s of %s training documents (%s of %s groups) by a hash of the group"
    logger.warning(message, *(f"{n:,}" for n in (int(mask.sum()), len(mask), len(held_out), len(ranked))))
    train, validation = (tables["train"].filter(pa.array(keep)) for keep in (~mask, mask))
    return tables | {"train": train, "validation": validation}


def _to_dataset(table: pa.Table) -> Dataset:
    """The library's own fingerprint would pickle the table, at four times its size."""
    digest = hashlib.blake2b(str(table.schema).encode(), digest_size=8)
    for chunk in (chunk for column in table.columns for chunk in column.chunks):
        digest.update(f"{chunk.offset},{len(chunk)}".encode())
        for buffer in filter(None, chunk.buffers()):
            digest.update(buffer)
    return Dataset(InMemoryTable(table), fingerprint=digest.hexdigest())


def describe_notes(notes: DatasetDict) -> str:
    """A table of counts per split: documents, distinct labels, labels per document, whitespace tokens."""
    header = "split documents groups labels labels/doc unlabelled tokens/doc median p95 max".split()
    rows, every = [header], []
    for name, split in notes.items():
        counted = _count(split)
        every.append(counted)
        rows.append((name, *_summary(*counted)))
    if len(every) > 1:
        groups, labels = (set().union(*(counted[index] for counted in every)) for index in (0, 1))
        label_counts, lengths = (np.concatenate([counted[index] for counted in every]) for index in (2, 3))
        rows.append(("all", *_summary(groups, labels, label_counts, lengths)))
    widths = [max(len(row[index]) for row in rows) for index in range(len(header))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _count(split: Dataset) -> tuple[set[str], set[str], np.ndarray, np.ndarray]:
    """Groups, labels, and per document the number of labels and of whitespace tokens."""
    groups, labels, label_counts, lengths = set(), set(), [], []
    columns = split.select_columns(["group", "labels", "text"]).with_format("arrow")
    for batch in columns.iter(ROWS_PER_CHUNK):
        groups.update(batch["group"].to_pylist())
        for row in batch["labels"].to_pylist():
            labels.update(row)
            label_counts.append(len(row))
        lengths.extend(len(text.split()) for text in batch["text"].to_pylist())
    return groups, labels, np.array(label_counts, dtype=np.int64), np.array(lengths, dtype=np.int64)


def _summary(groups: set[str], labels: set[str], label_counts: np.ndarray, lengths: np.ndarray) -> list[str]:
    ordered = np.sort(lengths) if len(lengths) else np.zeros(1, dtype=np.int64)
    p50, p95 = (ordered[int(share * len(ordered))] for share in (0.5, 0.95))
    counts = [len(lengths), len(groups), len(labels), label_counts.sum() / max(len(label_counts), 1)]
    counts += [(label_counts == 0).sum(), ordered.mean(), p50, p95, ordered[-1]]
    return [f"{count:.2f}" if isinstance(count, float) else f"{count:,}" for count in counts]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts of a source of documents, or say in one line what is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m hf_labelattn.data", description=main.__doc__)
    for name in ("train_file", "validation_file", "test_file", "dataset_name", "dataset_config_name"):
        parser.add_argument(f"--{name}")
    for field in fields(NoteColumns):
        parser.add_argument(f"--{field.name}_column", default=field.default, help=f"(default: {field.default})")
    parser.add_argument("--label_separator", default=";", help="splits label cells of CSV and TSV (default: ;)")
    parser.add_argument("--validation_fraction", type=float, default=0.1, help="held out if there is none")
    parser.add_argument("--num_documents", type=int, default=4000, help="size of `--dataset_name synthetic_notes`")
    parser.add_argument("--seed", type=int, default=0, help="seed of `--dataset_name synthetic_notes`")
    options = vars(parser.parse_args(arguments))
    columns = NoteColumns(*(options.pop(f"{field.name}_column") for field in fields(NoteColumns)))
    try:
        print(describe_notes(load_notes(**options, columns=columns)))
    except NotesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
