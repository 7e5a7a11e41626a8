"""Make the named subsets of MIMIC-III or MIMIC-IV from the tables as downloaded from PhysioNet (csv or csv.gz).

    python run_scripts/prepare_mimic.py --mimic3 physionet.org/files/mimiciii/1.4 --output_dir data
    python run_scripts/prepare_mimic.py --mimic4 physionet.org/files/mimiciv/2.2 \
        --mimic4_note physionet.org/files/mimic-iv-note/2.2 --subset mimic4-icd10-full --output_dir data

leaves `data/mimic3-full/{train,validation,test}.jsonl.gz` (rows id, group, text, labels), `labels.jsonl` (rows label,
description) and `dataset.json` (counts), and so on for each subset, and says what differs from the published counts.

`--split_ids DIR` cuts the published splits: DIR holds the lists of ids, as in a clone of jamesmullenbach/caml-mimic
(`*_hadm_ids.csv`), JoakimEdin/medical-coding-reproducibility (`*.feather`), whaleloops/KEPT (`collectrare50data.py`)
or thomasnguyen92/MIMIC-IV-ICD-data-processing. Without it patients are split by a fixed rule, stratified by code.

The same command goes on with an interrupted run. The data stay under PhysioNet's terms, and so do models trained on
them: the mark in `dataset.json` goes with them into their configuration, card and push rules.
"""

from dataclasses import dataclass, field

from hf_labelattn import (
    describe_datasets,
    find_mimic3,
    find_mimic4,
    mimic_subset_names,
    parse_arguments,
    prepare_mimic,
    run,
)


@dataclass
class MimicArguments:
    """Which tables, which subsets, and where to."""

    output_dir: str = field(metadata={"help": "Folder in which each subset gets a folder of its own."})
    mimic3: str | None = field(default=None, metadata={"help": "Folder with NOTEEVENTS, DIAGNOSES_ICD, …"})
    mimic4: str | None = field(default=None, metadata={"help": "Folder with (hosp/)diagnoses_icd, …"})
    mimic4_note: str | None = field(default=None, metadata={"help": "Folder with (note/)discharge."})
    subset: list[str] | None = field(
        default=None, metadata={"help": f"What to make (default: all): {', '.join(mimic_subset_names())}."}
    )
    split_ids: str | None = field(default=None, metadata={"help": "Folder with the published lists of ids."})
    count_codes_on: str = field(
        default="all",
        metadata={"help": "Where mimic3-clean and mimic4-*-full count rare codes: all (as published) or train."},
    )
    compress: bool = field(default=True, metadata={"help": "Write .jsonl.gz instead of .jsonl."})
    overwrite: bool = field(default=False, metadata={"help": "Make subsets anew that are there already."})


def main() -> None:
    """Tables → discharge summaries and codes by stay → splits → files and counts."""
    (args,) = parse_arguments(MimicArguments)
    if (args.mimic3 is None) == (args.mimic4 is None):
        raise ValueError("Pass either `--mimic3 DIR` or `--mimic4 DIR` (with `--mimic4_note DIR`).")
    tables = find_mimic3(args.mimic3) if args.mimic3 else find_mimic4(args.mimic4, args.mimic4_note)
    made = prepare_mimic(
        tables,
        args.output_dir,
        args.subset,
        split_ids=args.split_ids,
        count_codes_on=args.count_codes_on,
        compress=args.compress,
        overwrite=args.overwrite,
    )
    print(describe_datasets(made) if made else "Every subset is there already; `--overwrite True` makes it anew.")


if __name__ == "__main__":
    run(main)
