"""Make a dataset from any hospital's two tables: one of notes, one of codes (CSV, plain or .gz).

    python run_scripts/prepare_tables.py --notes_file notes.csv.gz --codes_file codes.csv \
        --stay_column visit --text_column note --patient_column person --code_column icd --code_system icd10 \
        --output_dir data/clinic

Notes and codes are joined by the stay (visit, admission); several notes of a stay are joined in the order of
`--date_columns`. Patients are split by a fixed rule, stratified by code, unless `--split_ids` names a folder with
`train_ids.csv`, `dev_ids.csv` and `test_ids.csv` (one stay a line). The folder then holds what the `run_*` scripts
read: train, validation and test, labels.jsonl, and dataset.json with the counts.
"""

from dataclasses import dataclass, field
from pathlib import Path

from hf_labelattn import CodesTable, NotesTable, describe_datasets, parse_arguments, prepare_tables, run, terms_of


@dataclass
class TableArguments:
    """Where the tables are, and what their columns are called."""

    notes_file: str = field(metadata={"help": "CSV of notes."})
    codes_file: str = field(metadata={"help": "CSV of codes, one code a row."})
    output_dir: str = field(metadata={"help": "Folder for the dataset."})
    stay_column: str = field(default="stay", metadata={"help": "Column of the stay in both tables."})
    text_column: str = field(default="text", metadata={"help": "Column of the text in the notes."})
    patient_column: str | None = field(
        default=None, metadata={"help": "Column of the patient in the notes (default: every stay is another patient)."}
    )
    date_columns: list[str] | None = field(default=None, metadata={"help": "Columns that put notes in order."})
    number_column: str | None = field(default=None, metadata={"help": "Number that decides where dates do not."})
    category_column: str | None = field(default=None, metadata={"help": "Column with the kind of note."})
    category: str | None = field(default=None, metadata={"help": "The only kind of note to read."})
    code_column: str = field(default="code", metadata={"help": "Column of the code in the codes."})
    code_system: str | None = field(
        default=None, metadata={"help": "icd9 or icd10 to put dots in and find titles (default: leave codes as is)."}
    )
    code_kind: str = field(default="diagnosis", metadata={"help": "diagnosis or procedure."})
    label_file: str | None = field(default=None, metadata={"help": "Rows {label, description}."})
    fractions: list[float] | None = field(default=None, metadata={"help": "Three shares (default: 0.8 0.1 0.1)."})
    split_ids: str | None = field(default=None, metadata={"help": "Folder with lists of stays."})
    min_count: int = field(default=1, metadata={"help": "Training documents a code must have."})
    terms: str | None = field(default=None, metadata={"help": "Terms of the data, such as physionet."})
    compress: bool = field(default=True, metadata={"help": "Write .jsonl.gz instead of .jsonl."})
    overwrite: bool = field(default=False, metadata={"help": "Make it anew if it is there already."})


def main() -> None:
    """Tables → notes and codes by stay → splits → files and counts."""
    (args,) = parse_arguments(TableArguments)
    if (args.category_column is None) != (args.category is None):
        raise ValueError("Pass `--category_column` and `--category` together.")
    terms_of({"terms": args.terms})  # unknown terms are an error
    notes = NotesTable(
        Path(args.notes_file),
        args.stay_column,
        args.text_column,
        args.patient_column,
        tuple(args.date_columns or ()),
        args.number_column,
        (args.category_column, args.category) if args.category else None,
    )
    codes = CodesTable(Path(args.codes_file), args.stay_column, args.code_column, args.code_kind, args.code_system)
    made = prepare_tables(
        notes,
        codes,
        args.output_dir,
        fractions=args.fractions or (0.8, 0.1, 0.1),
        split_ids=args.split_ids,
        min_count=args.min_count,
        label_file=args.label_file,
        terms=args.terms,
        compress=args.compress,
        overwrite=args.overwrite,
    )
    print(describe_datasets({made["name"]: made}) if made else "It is there already; pass `--overwrite True`.")


if __name__ == "__main__":
    run(main)
