"""Peak memory and counts of preparing MIMIC, on tables generated from the invented corpus.

    python -m benchmarks.bench_mimic                          # 2,000 admissions of each database
    python -m benchmarks.bench_mimic --admissions 20000
    python -m benchmarks.bench_mimic --admissions 0 --notes_gb 1.1

Generates a MIMIC-III and a MIMIC-IV, makes every subset, reads the written files back and looks for patients in two
splits. `--notes_gb` makes a packed notes table of that size instead, in which every note is wanted. Each database is
prepared in a process of its own, so that its peak memory is its own (with torch, which the package imports).
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tqdm.auto import tqdm

from benchmarks.measuring import in_own_process, make_row, peak_mb
from hf_labelattn import describe_datasets, find_mimic3, find_mimic4, prepare_mimic
from hf_labelattn.data.synthetic import synthetic_notes
from tests.data.mimic_tables import DISCHARGE_COLUMNS, write_mimic3, write_mimic4

LIMIT_MB = 4096
SPLITS = ("train", "validation", "test")
FIND = {"MIMIC-III": find_mimic3, "MIMIC-IV": find_mimic4}
WRITE = {"MIMIC-III": write_mimic3, "MIMIC-IV": write_mimic4}


def shared_patients(folder: Path) -> int:
    """Patients that the written files of a subset have in more than one split."""
    groups = []
    for split in SPLITS:
        with gzip.open(folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
            groups.append({json.loads(line)["group"] for line in file})
    return sum(len(groups[i] & groups[j]) for i in range(3) for j in range(i))


def _prepare(database: str, folder: Path, subsets: list[str] | None) -> tuple:
    started = time.process_time()
    made = prepare_mimic(FIND[database](folder), folder / "prepared", subsets)
    return made, time.process_time() - started, peak_mb()


def prepare(database: str, folder: Path, subsets: list[str] | None = None) -> dict:
    """Prepare a database in a fresh process; print the counts; give the row of its peak memory."""
    made, seconds, peak = in_own_process(_prepare, database, folder, subsets)
    print(describe_datasets(made))
    shared = sum(shared_patients(folder / "prepared" / name) for name in tqdm(made, desc="leak check", leave=False))
    print(f"{database}: {shared} patients in two splits, {seconds:.0f} CPU seconds, peak {peak:,.0f} MB", flush=True)
    documents = sum(split["documents"] for split in next(iter(made.values()))["splits"].values())
    name = f"prepare {database}, {documents:,} documents, {len(made)} subsets, {shared} shared patients"
    return make_row(name, peak, LIMIT_MB, "MB", seconds, None, peak)


def database_row(database: str, admissions: int) -> dict:
    """Every subset of a generated database."""
    with tempfile.TemporaryDirectory() as folder:
        WRITE[database](Path(folder), admissions)
        return prepare(database, Path(folder))


def write_large_table(folder: Path, size: int, different: int = 2000) -> int:
    """A MIMIC-IV whose packed notes table has a size; gives the bytes of its text."""
    notes = synthetic_notes(different, seed=1)
    rows = [row for split in notes.values() for row in split]
    texts = [row["text"].replace('"', '""').encode() for row in rows]
    codes = [[code.replace(".", "") for code in row["labels"]] for row in rows]
    (folder / "note").mkdir()
    (folder / "hosp").mkdir()
    path, number, length = folder / "note" / "discharge.csv.gz", 0, 0
    with (
        gzip.open(folder / "hosp" / "diagnoses_icd.csv.gz", "wt", compresslevel=1) as diagnoses,
        tqdm(total=size, desc="generating notes", unit="B", unit_scale=True) as bar,
        open(path, "wb") as file,
        gzip.GzipFile("", "wb", 1, file) as packed,
    ):
        diagnoses.write("subject_id,hadm_id,seq_num,icd_code,icd_version\n")
        packed.write(",".join(DISCHARGE_COLUMNS).encode() + b"\n")
        while file.tell() < size:
            text, patient, stay = texts[number % different], 10_000_000 + number // 2, 20_000_000 + number
            packed.write(b'%d-DS-1,%d,%d,DS,1,2150-01-01,,"%d\n%s"\n' % (patient, patient, stay, number, text))
            diagnoses.writelines(f"{patient},{stay},{i},{c},10\n" for i, c in enumerate(codes[number % different]))
            number, length = number + 1, length + len(text)
            bar.update(file.tell() - bar.n)
    with gzip.open(folder / "hosp" / "procedures_icd.csv.gz", "wt") as procedures:
        procedures.write("subject_id,hadm_id,seq_num,chartdate,icd_code,icd_version\n20000000,2,1,,02HV33Z,10\n")
    print(f"{number:,} notes, {path.stat().st_size / 1e9:.2f} GB packed, {length / 1e9:.2f} GB of text", flush=True)
    return length


def large_table_row(gigabytes: float) -> dict:
    """One subset of a MIMIC-IV with a notes table of a size."""
    with tempfile.TemporaryDirectory() as folder:
        length = write_large_table(Path(folder), int(gigabytes * 1e9))
        row = prepare("MIMIC-IV", Path(folder), ["mimic4-icd10-full"])
        return {**row, "name": f"{row['name']}, notes of {gigabytes:g} GB packed ({length / 1e9:.1f} GB)"}


def rows(quick: bool = False, admissions: int = 1000) -> Iterator[dict]:
    """Both databases."""
    for database in FIND:
        yield database_row(database, 200 if quick else admissions)


def main() -> None:
    """Sizes from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--admissions", type=int, default=2000, help="admissions of each database; 0 for none")
    parser.add_argument("--notes_gb", type=float, default=0, help="size of a packed notes table to prepare besides")
    args = parser.parse_args()
    found = list(rows(admissions=args.admissions)) if args.admissions else []
    found += [large_table_row(args.notes_gb)] if args.notes_gb else []
    for line in found:
        print(line)


if __name__ == "__main__":
    main()
