"""The labels a model knows: label ↔ id ↔ description, with their counts in the training split.

Only the training split, and a label file if there is one, say what the labels are. A label that first appears in
development or test documents is counted as unseen; it is never dropped without a word, or recall would look too good.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from datasets import Dataset

from ..storage import write_text
from .rows import NotesError, read_rows


@dataclass(frozen=True)
class LabelSet:
    """Labels in the order of their ids, each with a description and its number of training documents.

    >>> labels = LabelSet(names=("038.9", "428.0"), descriptions=("septicemia", "heart failure"), counts=(1, 2))
    >>> labels.encode(["428.0", "V10"]), labels.id2label[0]
    ([1], '038.9')
    """

    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self):
        for field in ("names", "descriptions", "counts"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        sizes = len(self.names), len(self.descriptions), len(self.counts)
        if len(set(sizes)) > 1:
            found = "{} names, {} descriptions and {} counts".format(*sizes)
            raise ValueError(f"found {found}; pass as many of each.")
        _check_names(self.names)
        if not all(isinstance(text, str) for text in self.descriptions):
            raise ValueError("a description is not a string; pass strings (the label itself if there is no other).")
        if not all(isinstance(count, int) and count >= 0 for count in self.counts):
            raise ValueError("a count is negative or not an integer; pass numbers of training documents.")

    @classmethod
    def from_notes(cls, train_dataset: Dataset, descriptions: Mapping[str, str] | None = None) -> "LabelSet":
        """Labels of the training split and of `descriptions`, sorted.

        Args:
            train_dataset: Training documents with a column `labels`.
            descriptions: Label to description, as `read_label_file` returns it. A label only found here gets count
                0; a label without a description is described by its own name.
        """
        counts = count_labels(train_dataset)
        names = sorted(counts.keys() | (descriptions or {}).keys())
        if not names:
            raise ValueError("no training document has a label, and no label file names one. Pass labelled documents.")
        return cls(tuple(names), _described(names, descriptions), tuple(counts[name] for name in names))

    @property
    def num_labels(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def id2label(self) -> dict[int, str]:
        return dict(enumerate(self.names))

    @cached_property
    def label2id(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def label2description(self) -> dict[str, str]:
        return dict(zip(self.names, self.descriptions, strict=True))

    def encode(self, labels: Iterable[str]) -> list[int]:
        """Ids of the known labels of one document, ascending, each once."""
        return sorted({self.label2id[label] for label in labels if label in self.label2id})

    def multi_hot(self, label_lists: Sequence[Iterable[str]]) -> np.ndarray:
        """Known labels of many documents as zeros and ones, float32 [documents, labels]."""
        targets = np.zeros((len(label_lists), self.num_labels), dtype=np.float32)
        for row, labels in enumerate(label_lists):
            targets[row, self.encode(labels)] = 1.0
        return targets

    def unseen(self, dataset: Dataset) -> Counter[str]:
        """How many documents carry each label that is not in this set."""
        counts = count_labels(dataset)
        return Counter({label: count for label, count in counts.items() if label not in self.label2id})

    def with_unseen(self, dataset: Dataset, descriptions: Mapping[str, str] | None = None) -> "LabelSet":
        """This set, ids unchanged, followed by the unseen labels (sorted, count 0): evaluation scores them as misses.

        Args:
            dataset: Documents with a column `labels`.
            descriptions: Label to description, for the new ones.
        """
        new = sorted(self.unseen(dataset))
        names, texts = self.names + tuple(new), self.descriptions + _described(new, descriptions)
        return LabelSet(names, texts, self.counts + (0,) * len(new))

    def save(self, path: str | os.PathLike) -> None:
        """Write JSON lines `{"label", "description", "count"}`; a reader sees the old file or the whole new one."""
        rows = zip(self.names, self.descriptions, self.counts, strict=True)
        lines = (json.dumps(dict(zip(("label", "description", "count"), row, strict=True))) for row in rows)
        write_text(path, "".join(f"{line}\n" for line in lines))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LabelSet":
        """Read what `save` wrote."""
        rows = []
        for line, row in read_rows(path):
            values = row.get("label"), row.get("description"), row.get("count")
            if list(map(type, values)) != [str, str, int]:
                expected = "`label` and `description` strings and a whole number `count`, as `LabelSet.save` writes"
                raise NotesError(f"{path}, line {line}: expected {expected}. Read other files with `read_label_file`.")
            rows.append(values)
        try:
            return cls(*zip(*rows, strict=True))
        except ValueError as error:
            raise NotesError(f"{path}: {error}") from None


def count_labels(dataset: Dataset) -> Counter[str]:
    """Number of documents per label; a label repeated in one document counts once."""
    counts = Counter()
    for labels in _label_lists(dataset):
        counts.update(set(labels))
    return counts


def read_label_file(path: str | os.PathLike, *, description_column: str = "description") -> dict[str, str]:
    """Label to description from a JSONL, CSV or TSV file, plain or .gz, with columns `label` and `description`.

    Args:
        path: The file. Without the description column, every label is described by its own name.
        description_column: Another column to describe the labels by, such as a short `name`; it must be there.
    """
    descriptions: dict[str, str] = {}
    for line, row in read_rows(path):
        where = f"{path}, line {line}"
        label = row.get("label")
        if not isinstance(label, str) or not label.strip():
            hint = 'Expected a string, in quotes in JSON: "0389" is not 389.'
            raise NotesError(f"{where}: found {_kind(label)} in `label`. {hint}")
        if label in descriptions:
            raise NotesError(f"{where}: label `{label}` is there twice. Keep one of the two.")
        if description_column != "description" and description_column not in row:
            found = ", ".join(f"`{name}`" for name in row)
            raise NotesError(f"{where}: no column `{description_column}`; found {found}. Check `description_column`.")
        text = row.get(description_column) or label
        if not isinstance(text, str):
            raise NotesError(f"{where}: found {_kind(text)} in `{description_column}`, expected a string.")
        descriptions[label] = text
    return descriptions


def _kind(value: object) -> str:
    if value is None or value == "":
        return "nothing"
    return "blanks" if isinstance(value, str) else type(value).__name__


def _label_lists(dataset: Dataset) -> Iterator[list[str]]:
    for batch in dataset.select_columns(["labels"]).with_format("arrow").iter(1000):
        yield from batch["labels"].to_pylist()


def _described(names: Iterable[str], descriptions: Mapping[str, str] | None) -> tuple[str, ...]:
    return tuple((descriptions or {}).get(name) or name for name in names)


def _check_names(names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise ValueError(
                f"label {index} is {name!r}, a {type(name).__name__}; expected a string, as '0389' is not 389."
            )
        if not name.strip():
            raise ValueError(f"label {index} is empty; give it a name.")
    if len(set(names)) < len(names):
        name = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"label `{name}` is there twice; pass every label once.")
