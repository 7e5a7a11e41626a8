"""MIMIC-III and MIMIC-IV, from the tables as PhysioNet serves them to named subsets in splits.

Diagnoses and procedures are joined, codes written the published way and counted once per stay; a discharge summary
and its addenda are joined in order. Splits come from the published lists of ids or, without them, from the rule in
`patient_splits.py`. What differs from the published counts is said in numbers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from .coded_stays import Code, CodedStays, CodesTable, read_coded_stays, read_titles
from .dataset_files import CodedDocuments, dataset_is_finished, write_dataset
from .mimic_subsets import SUBSETS, Subset, is_procedure
from .note_store import NotesTable, NoteStore, extract_notes, label_lists, remove_copy
from .patient_splits import SPLITS, IdLists, find_id_lists, stratified_splits, without_shared_patients
from .rows import NotesError
from .tables import find_table, optional_table

RULE = "iterative stratification over patients, rarest code first, patients in the order of a hash of their id"


@dataclass(frozen=True)
class MimicTables:
    """The tables of one database.

    Attributes:
        source: "mimic3" or "mimic4".
        notes: The table of notes.
        codes: The tables of codes.
        titles: Dictionary tables with the titles of codes; their absence is no error.
    """

    source: str
    notes: NotesTable
    codes: tuple[CodesTable, ...]
    titles: tuple[CodesTable, ...]

    @property
    def name(self) -> str:
        return {"mimic3": "MIMIC-III", "mimic4": "MIMIC-IV"}[self.source]

    def fingerprint(self) -> dict[str, list]:
        """Size and time of every file: what is made from the tables is out of date when one of them changes."""
        paths = [table.path for table in (self.notes, *self.codes, *self.titles)]
        return {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in paths}


def find_mimic3(folder: str | Path) -> MimicTables:
    """The tables of MIMIC-III in a folder."""
    notes = NotesTable(
        find_table(folder, "NOTEEVENTS"),
        stay="HADM_ID",
        text="TEXT",
        patient="SUBJECT_ID",
        dates=("CHARTDATE", "CHARTTIME"),
        number="ROW_ID",
        wanted=("CATEGORY", "Discharge summary"),
        addendum=("DESCRIPTION", "Addendum"),
    )
    kinds = {"DIAGNOSES": "diagnosis", "PROCEDURES": "procedure"}
    codes = [
        CodesTable(find_table(folder, f"{name}_ICD"), "HADM_ID", "ICD9_CODE", kind, system="icd9")
        for name, kind in kinds.items()
    ]
    dictionaries = {kind: optional_table(folder, f"D_ICD_{name}") for name, kind in kinds.items()}
    titles = [CodesTable(path, "", "ICD9_CODE", kind, "icd9") for kind, path in dictionaries.items() if path]
    return MimicTables("mimic3", notes, tuple(codes), tuple(titles))


def find_mimic4(folder: str | Path, note_folder: str | Path | None = None) -> MimicTables:
    """The tables of MIMIC-IV in a folder, and its notes in another (or the same)."""
    notes = NotesTable(
        find_table(note_folder or folder, "discharge"),
        stay="hadm_id",
        text="text",
        patient="subject_id",
        dates=("charttime",),
        number="note_seq",
        addendum=("note_type", "AD"),
    )
    kinds = {"diagnoses": "diagnosis", "procedures": "procedure"}
    codes = [
        CodesTable(find_table(folder, f"{name}_icd"), "hadm_id", "icd_code", kind, version="icd_version")
        for name, kind in kinds.items()
    ]
    dictionaries = {kind: optional_table(folder, f"d_icd_{name}") for name, kind in kinds.items()}
    titles = [
        CodesTable(path, "", "icd_code", kind, version="icd_version") for kind, path in dictionaries.items() if path
    ]
    return MimicTables("mimic4", notes, tuple(codes), tuple(titles))


def prepare_mimic(
    tables: MimicTables,
    output_dir: str | Path,
    subsets: Sequence[str] | None = None,
    *,
    split_ids: str | Path | None = None,
    count_codes_on: str = "all",
    compress: bool = True,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, dict]:
    """Write subsets into folders of their names below `output_dir`; return what each dataset.json says.

    A subset that is there already, made from the same tables in the same way, is left alone. While it works, a copy
    of the discharge summaries lies in `output_dir`; it is removed at the end, and used again after an interruption.

    Args:
        tables: The tables, from `find_mimic3` or `find_mimic4`.
        output_dir: Where to.
        subsets: Names of `SUBSETS`; by default all of this database.
        split_ids: Folder with published lists of ids; by default documents are split by rule.
        count_codes_on: Where subsets that leave out rare codes count them: "all" splits, as published, or "train",
            so that nothing of the other splits enters.
        compress: Write .jsonl.gz instead of .jsonl.
        overwrite: Make subsets anew that are there already.
        progress: Show progress bars.
    """
    if count_codes_on not in ("all", "train"):
        raise NotesError(f"`count_codes_on` is {count_codes_on!r}; pass 'all' or 'train'.")
    chosen = choose_subsets(tables.source, subsets)
    work = _Preparation(tables, Path(output_dir), split_ids, count_codes_on, progress)
    keys = {subset.name: work.key(subset, compress) for subset in chosen}  # fails before minutes of reading
    made = {}
    for subset in chosen:
        folder = Path(output_dir) / subset.name
        if overwrite or not dataset_is_finished(folder, keys[subset.name]):
            made[subset.name] = work.write(subset, folder, compress)
    work.close()
    return made


def choose_subsets(source: str, names: Sequence[str] | None = None) -> list[Subset]:
    """The named subsets of a database, or all of them."""
    known = {name: subset for name, subset in SUBSETS.items() if subset.source == source}
    for name in names or ():
        if name not in known:
            raise NotesError(f"there is no subset {name!r} of {source}. Choose from: {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or known)]


class _Preparation:
    """What the subsets of one database share; each part is made when it is first needed."""

    def __init__(self, tables: MimicTables, folder: Path, split_ids, count_codes_on: str, progress: bool):
        self.tables, self.split_ids, self.progress = tables, split_ids, progress
        self.count_codes_on = count_codes_on
        self.work_folder = folder / f".{tables.source}_notes"
        self._splits: dict[tuple, np.ndarray] = {}

    @cached_property
    def coded(self) -> CodedStays:
        return read_coded_stays(self.tables.codes, progress=self.progress)

    @cached_property
    def store(self) -> NoteStore:
        key = {"tables": self.tables.fingerprint()}
        return extract_notes(self.tables.notes, self.coded.stays, self.work_folder, key=key, progress=self.progress)

    @cached_property
    def titles(self) -> dict[Code, str]:
        found: dict[Code, str] = {}
        for table in self.tables.titles:
            found |= read_titles(table, "long_title")
        return found

    def key(self, subset: Subset, compress: bool) -> dict:
        """What a subset is made from."""
        lists = self.lists(subset)
        ids = hashlib.sha256(repr(lists.ids).encode()).hexdigest()[:16] if lists else None
        return {
            "tables": self.tables.fingerprint(),
            "split_ids": ids,
            "count_codes_on": self.count_codes_on if subset.min_count > 1 else None,
            "compress": compress,
        }

    def lists(self, subset: Subset) -> IdLists | None:
        if self.split_ids is None:
            return None
        found = find_id_lists(self.split_ids, subset.id_lists, subset.other_lists)
        if found is None:
            names = " or ".join(subset.id_lists)
            raise NotesError(
                f"{self.split_ids}: no list of ids for {subset.name}, which would be called {names}. Leave out "
                "`--split_ids` to split by rule, or choose other subsets with `--subset`."
            )
        return found

    def documents(self, subset: Subset) -> CodedDocuments:
        """All documents with a code of the subset's system, not yet in splits."""
        coded = self.coded.of_system(subset.system)
        coded = coded.rolled_up() if subset.top_level else coded
        rows = label_lists(self.store.stays, coded.stays, coded.pairs)
        numbers = [number for number, row in enumerate(rows) if len(row)]
        if not numbers:
            raise NotesError(f"no stay has both a discharge summary and an {subset.system} code. Check the tables.")
        stays, patients = ([names[n] for n in numbers] for names in (self.store.stays, self.store.patients))
        splits = np.full(len(numbers), -1, dtype=np.int8)
        return CodedDocuments(numbers, stays, patients, [rows[n] for n in numbers], coded.codes, splits)

    def rule_splits(self, subset: Subset, documents: CodedDocuments) -> np.ndarray:
        """Splits by rule, over full codes, so that subsets with equal shares share their test patients."""
        key = (subset.system, subset.fractions)
        if key not in self._splits:
            full = self.coded.of_system(subset.system)
            rows = label_lists(documents.ids, full.stays, full.pairs)
            if subset.own_splits:
                rows = restrict(documents, subset, "all").labels
            dealt = [number for number, row in enumerate(rows) if len(row)]
            patients, rows = ([part[number] for number in dealt] for part in (documents.patients, rows))
            shares = dict(zip(SPLITS, subset.fractions, strict=True))
            self._splits[key] = np.full(len(documents.ids), -1, dtype=np.int8)
            self._splits[key][dealt] = stratified_splits(patients, rows, shares, progress=self.progress)
        return self._splits[key]

    def write(self, subset: Subset, folder: Path, compress: bool) -> dict:
        documents, lists, said = self.documents(subset), self.lists(subset), []
        if lists is None:
            splits = self.rule_splits(subset, documents)
        else:
            splits, said = splits_by_lists(documents, lists, set(self.coded.stays))
        documents = replace(documents, splits=splits)
        documents = restrict(documents, subset, self.count_codes_on)
        labels = subset_codes(documents, subset)
        about = {
            "name": subset.name,
            "source": self.tables.name,
            "terms": "physionet",
            "split_by": ", ".join(lists.files) if lists else RULE,
            "published": {"by": subset.published, "documents": subset.documents, "labels": subset.labels},
            "differences": [*differences(documents, subset, len(labels), lists is None), *said],
            "remark": subset.note,
            "notes": self.store.counts,
            "codes": self.coded.left_out(),
            "key": self.key(subset, compress),
        }
        titles = {code.name: code.describe(self.titles) for code in labels}
        options = {"compress": compress, "progress": self.progress}
        return write_dataset(folder, documents, self.store.text, titles, about, **options)

    def close(self) -> None:
        """Delete the copy of the notes, also one that an interrupted run left behind."""
        if "store" in self.__dict__:
            self.store.close()
        remove_copy(self.work_folder)


def splits_by_lists(documents: CodedDocuments, lists: IdLists, coded: set[str]) -> tuple[np.ndarray, list[str]]:
    """Splits of the documents as the lists say, and what the lists and the tables do not share."""
    split_of = lists.split_of()
    splits = np.array([SPLITS.index(split_of[key]) if key in split_of else -1 for key in documents.ids], dtype=np.int8)
    if not (splits >= 0).any():
        raise NotesError(
            f"{', '.join(lists.files)}: none of the ids is in these tables. Pass the lists of this database."
        )
    said, here = [], set(documents.ids)
    missing = [key for key in split_of if key not in here]
    without_note = sum(key in coded for key in missing)
    if without_note:
        said.append(f"{without_note:,} listed ids have codes, but no discharge summary with codes of this system")
    if len(missing) > without_note:
        said.append(f"{len(missing) - without_note:,} listed ids have no code in these tables")
    if unlisted := int((splits < 0).sum()):
        said.append(f"{unlisted:,} documents are in none of the lists")
    splits, left_out = without_shared_patients(documents.patients, splits)
    for split, count in left_out.items():
        said.append(f"{count:,} documents left out of {split}, because their patient is in a later split")
    return splits, said


def restrict(documents: CodedDocuments, subset: Subset, count_codes_on: str) -> CodedDocuments:
    """Keep only the subset's codes: the published ones, or those with enough documents."""
    if subset.codes is not None:
        names = set(subset.codes)
        return documents.restricted(np.array([code.name in names for code in documents.codes]))
    counts = documents.counts("train" if count_codes_on == "train" and subset.min_count > 1 else None)
    return documents.restricted(counts >= subset.min_count)


def subset_codes(documents: CodedDocuments, subset: Subset) -> list[Code]:
    """The codes a subset's label file names: all that are published, or all that a document has."""
    used = [documents.codes[number] for number in documents.used_codes()]
    if subset.codes is None:
        return used
    found = {code.name for code in used}
    kinds = {True: "procedure", False: "diagnosis"}
    missing = [name for name in subset.codes if name not in found]
    return used + [Code(name, subset.system, kinds[is_procedure(name, subset.system)]) for name in missing]


def differences(documents: CodedDocuments, subset: Subset, labels: int, by_rule: bool) -> list[str]:
    """What is not as published, one sentence each; nothing if everything is."""
    said = []
    for number, (split, expected) in enumerate(zip(SPLITS, subset.documents, strict=True)):
        said += _difference(f"{split} documents", int((documents.splits == number).sum()), expected)
    said += _difference("labels", labels, subset.labels)
    if subset.codes is not None:
        used = {documents.codes[number].name for number in documents.used_codes()}
        if unused := [name for name in subset.codes if name not in used]:
            said.append(f"{len(unused)} of the {len(subset.codes)} codes have no document: {', '.join(unused)}")
    if said and by_rule:
        said.append("split by rule, not by the published lists (--split_ids)")
    return said


def _difference(what: str, found: int, expected: int) -> list[str]:
    if found == expected:
        return []
    return [f"{what}: {found:,}, published {expected:,} ({found - expected:+,})"]
