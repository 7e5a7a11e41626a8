"""Any hospital's tables, one of notes and one of codes, from CSV to the files that the `run_*` scripts read."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from .coded_stays import CodedStays, CodesTable, read_coded_stays
from .dataset_files import CodedDocuments, dataset_is_finished, write_dataset
from .labels import read_label_file
from .mimic import RULE, splits_by_lists
from .note_store import NotesTable, NoteStore, extract_notes, label_lists, remove_copy
from .patient_splits import SPLITS, IdLists, find_id_lists, stratified_splits
from .rows import NotesError, check_files


def prepare_tables(
    notes: NotesTable,
    codes: CodesTable,
    output_dir: str | Path,
    *,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    split_ids: str | Path | None = None,
    min_count: int = 1,
    label_file: str | Path | None = None,
    terms: str | None = None,
    compress: bool = True,
    overwrite: bool = False,
    progress: bool = True,
) -> dict | None:
    """Join notes and codes by stay, split by patient, and write the result; return what dataset.json says.

    Returns None where the folder holds the same dataset already.

    Args:
        notes: The table of notes; several notes of a stay are joined in order.
        codes: The table of codes, one code a row.
        output_dir: Where to.
        fractions: Shares of training, validation and test documents.
        split_ids: Folder with `train_ids.csv`, `dev_ids.csv` and `test_ids.csv`, one stay a line, instead.
        min_count: Training documents a code must have to be kept.
        label_file: Rows {label, description} with the titles of codes.
        terms: Terms of the data that reach the weights, such as "physionet".
        compress: Write .jsonl.gz instead of .jsonl.
        overwrite: Make it anew if it is there already.
        progress: Show progress bars.
    """
    check_files({"notes": notes.path, "codes": codes.path})
    folder, shares = Path(output_dir), _checked_fractions(fractions)
    lists = None if split_ids is None else _id_lists(split_ids)
    options = {"fractions": list(shares.values()), "min_count": min_count, "compress": compress}
    key = {**options, "columns": [notes.columns, codes.columns, codes.system, codes.kind], "ids": _digest(lists)}
    key["tables"] = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in (notes.path, codes.path)}
    if not overwrite and dataset_is_finished(folder, key):
        remove_copy(folder / ".notes")  # a run that was interrupted at its very end left it
        return None
    coded = read_coded_stays([codes], progress=progress)
    store = extract_notes(notes, coded.stays, folder / ".notes", key={"tables": key["tables"]}, progress=progress)
    if not len(store):
        raise NotesError(f"{notes.path}: no note belongs to a stay that {codes.path} has. Check the columns.")
    documents, said = _split_documents(store, coded, lists, shares, progress)
    documents = documents.restricted(documents.counts("train" if min_count > 1 else None) >= min_count)
    about = {"name": folder.name, "terms": terms, "split_by": ", ".join(lists.files) if lists else RULE}
    about |= {"differences": said, "notes": store.counts, "codes": coded.left_out(), "key": key}
    titles = _titles(documents, label_file)
    made = write_dataset(folder, documents, store.text, titles, about, compress=compress, progress=progress)
    store.remove()
    return made


def _split_documents(
    store: NoteStore, coded: CodedStays, lists: IdLists | None, shares: dict[str, float], progress: bool
) -> tuple[CodedDocuments, list[str]]:
    rows = label_lists(store.stays, coded.stays, coded.pairs)
    numbers, unsplit = list(range(len(store))), np.full(len(store), -1, dtype=np.int8)
    documents = CodedDocuments(numbers, store.stays, store.patients, rows, coded.codes, unsplit)
    if lists is None:
        return replace(documents, splits=stratified_splits(store.patients, rows, shares, progress=progress)), []
    splits, said = splits_by_lists(documents, lists, set(coded.stays))
    return replace(documents, splits=splits), said


def _checked_fractions(fractions: Sequence[float]) -> dict[str, float]:
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise NotesError(
            f"the shares are {list(fractions)}; pass three above 0 that add up to 1, such as 0.8 0.1 0.1."
        )
    return dict(zip(SPLITS, fractions, strict=True))


def _id_lists(folder: str | Path) -> IdLists:
    found = find_id_lists(folder, ["*_ids.csv"])
    if found is None:
        raise NotesError(f"{folder}: no train_ids.csv, dev_ids.csv and test_ids.csv, one stay a line. Write them.")
    return found


def _digest(lists: IdLists | None) -> str | None:
    return None if lists is None else hashlib.sha256(repr(lists.ids).encode()).hexdigest()[:16]


def _titles(documents: CodedDocuments, label_file: str | Path | None) -> dict[str, str]:
    own = {} if label_file is None else read_label_file(label_file)
    used = [documents.codes[number] for number in documents.used_codes()]
    return {code.name: own.get(code.name) or code.describe({}) for code in used}
