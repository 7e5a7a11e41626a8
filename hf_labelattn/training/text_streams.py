"""Documents as one long stream, cut into rows and windows for a language model."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from datasets import Dataset, DatasetDict
from transformers import PreTrainedTokenizerBase

from ..data.notes import read_rows
from ..data.tokenization import RaggedIds
from .experiment import DataArguments, read_notes

SHORTEST_WINDOW = 5
IGNORED = -100


def read_texts(args: DataArguments) -> DatasetDict:
    """The documents the arguments name, in splits; JSONL, CSV and TSV files need no labels here."""
    files = {"train": args.train_file, "validation": args.validation_file}
    files = {name: path for name, path in files.items() if path is not None and ".parquet" not in path}
    if not files or all(args.labels_column in next(read_rows(path))[1] for path in files.values()):
        return read_notes(args)
    splits = DatasetDict({name: _without_labels(path, args) for name, path in files.items()})
    return read_notes(dataclasses.replace(args, train_file=None, validation_file=None, dataset_name=splits))


def _without_labels(path: str, args: DataArguments) -> Dataset:
    wanted = (args.id_column, args.group_column, args.text_column)
    rows = ({name: row[name] for name in wanted if name in row} for _, row in read_rows(path))
    return Dataset.from_list([{**row, args.labels_column: []} for row in rows])


def separator_id(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token put between documents: end of sequence or separator, if the tokenizer has one."""
    return tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id


def join_documents(
    documents: RaggedIds, order: np.ndarray, separator: int | None = None, backward: bool = False
) -> np.ndarray:
    """One stream of all documents in the given order; reversed as a whole for a backward model.

    >>> documents = RaggedIds(np.array([1, 2, 3, 4, 5]), np.array([0, 2, 5]))
    >>> join_documents(documents, np.array([1, 0]), separator=9).tolist()
    [3, 4, 5, 9, 1, 2, 9]
    >>> join_documents(documents, np.array([1, 0]), backward=True).tolist()
    [2, 1, 5, 4, 3]
    """
    tail = np.array([] if separator is None else [separator], dtype=documents.values.dtype)
    stream = np.concatenate([part for i in order for part in (documents[i], tail)])
    return stream[::-1].copy() if backward else stream


def stream_rows(stream: np.ndarray, rows: int, pad: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and next-word targets `[rows, length]` of a stream; a row goes on where the row above ends.

    Without `pad` the last few words that do not fill all rows are left out; with it they are kept, and the rows are
    filled up with `pad` (inputs) and -100 (targets).

    >>> inputs, targets = stream_rows(np.arange(8), rows=2)
    >>> inputs.tolist(), targets.tolist()
    ([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])
    >>> stream_rows(np.arange(6), rows=2, pad=0)[1].tolist()
    [[1, 2, 3], [4, 5, -100]]
    """
    pairs = len(stream) - 1
    length = pairs // rows if pad is None else -(-pairs // rows)
    inputs, targets = stream[:-1].astype(np.int64), stream[1:].astype(np.int64)
    if pad is not None:
        missing = rows * length - pairs
        inputs = np.pad(inputs, (0, missing), constant_values=pad)
        targets = np.pad(targets, (0, missing), constant_values=IGNORED)
    return inputs[: rows * length].reshape(rows, length), targets[: rows * length].reshape(rows, length)


def window_lengths(length: int, bptt: int, rng: np.random.Generator) -> list[int]:
    """Lengths of the windows that cut a row: near `bptt`, now and then near half of it (Merity et al. 2017)."""
    lengths = []
    while length > 0:
        mean = bptt if rng.random() < 0.95 else bptt / 2
        lengths.append(min(length, max(SHORTEST_WINDOW, int(rng.normal(mean, 5)))))
        length -= lengths[-1]
    return lengths


def unigram_perplexity(train: RaggedIds, targets: np.ndarray, vocab_size: int) -> float:
    """Perplexity of the model that knows word frequencies only (add-one smoothed), on the same targets."""
    counts = np.bincount(train.values, minlength=vocab_size) + 1.0
    logs = np.log(counts / counts.sum())
    return float(np.exp(-logs[targets[targets != IGNORED]].mean()))


def windows_from(lengths: list[int], first: int) -> Iterator[tuple[int, int, int]]:
    """(number, begin, end) of the windows from number `first` on.

    >>> list(windows_from([3, 4, 2], 1))
    [(1, 3, 7), (2, 7, 9)]
    """
    ends = np.cumsum(lengths).tolist()
    for window in range(first, len(lengths)):
        yield window, ends[window] - lengths[window], ends[window]
