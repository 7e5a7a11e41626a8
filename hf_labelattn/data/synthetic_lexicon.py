"""The codes of the embedded corpus and all the ways a note may put each of them into words."""

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, zip_longest

from .codes import describe_icd, icd10cm_billable_codes, icd10cm_inclusion_terms
from .synthetic_conditions import CLUSTERS, COMMON, GROUPS

FORMS = ("description", "inclusion", "short", "reordered")

_TAIL_EXPONENT, _HEAD_FLATNESS = 1.5, 18
_CODES_PER_CATEGORY = 3
_ACUTE = tuple(
    "A B95 B96 D62 D70 E86 E87 F05 G93 H10 I21 I26 I33 I61 I62 I63 I82 J0 J1 J2 J69 J90 J93 J96 K35 K56 K81 K85 K92 "
    "L03 N17 N20 N39 R S T W Z51".split()
)
_MALE, _FEMALE = ("C60", "C61", "C62", "C63", "N4", "N50", "N51", "N52", "N53"), ("C5", "D25", "N7", "N8", "N9")
_SHORTHAND = tuple(
    " ".join(pair.split()).split("=")
    for pair in """
        malignant neoplasm of=ca of; secondary malignant neoplasm=mets; due to=d/t; without=w/o; with=w/; right=R;
        left=L; diabetes mellitus=DM; heart failure=HF; myocardial infarction=MI; bilateral=b/l; fracture=fx;
        history of=h/o; disorders?=d/o; disease=dz; hypertension=HTN; syndrome=synd; infection=infxn;
        hemorrhage=bleed; chronic=chr; acute=ac; carcinoma=ca; kidney=renal; lower limb|lower extremity=LE; upper
        limb|upper extremity=UE; of=; secondary=2ndary; abdominal=abd; obstruction=obstr; pneumonia=PNA;
        deficiency=def; injury=inj; vertebrae?=vert; complications?=cx; arthritis=arthr; congenital=congen;
        cerebral=CNS; tuberculosis=TB; ulcer=ulc; neoplasm=mass; hepatitis=hep; poisoning=OD; postprocedural=postop;
        pulmonary=pulm; encounter for=here for; presence of=s/p; malformation=malform; traumatic=traum""".split(";")
)
_SHORTHAND_PATTERN = re.compile(r"\b(?:" + "|".join(f"({long})" for long, _ in _SHORTHAND) + r")\b", re.IGNORECASE)
_QUALIFIERS = re.compile(
    r"\s*[(\[][^)\]]*[)\]]|,? (?:initial|subsequent) encounter\b.*|,? not (?:elsewhere classified|otherwise specified)"
    r"|, site (?:not |un)specified|, unspecified \w+(?=,|$)|,? (?:not |un)specified(?: as [^,]*)?,?|,? N(?:OS|EC)\b"
    r"|\b(?:unspecified|other)(?: specified)?(?: part of| site of)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Condition:
    """One code of the pool.

    Attributes:
        code: The dotted ICD-10-CM code.
        description: Its title in the tabular list.
        category: Its first three characters; a note holds one code of a category (of Z: of a code).
        forms: For each of `FORMS` the ways of writing it, possibly none.
        drugs: Typical drugs.
        procedures: Typical procedures.
        findings: Typical complaints and findings.
        clusters: Comorbidity clusters in which it is frequent.
        weight: How frequent it is.
        chronic: Whether it stays with a patient from one stay to the next.
        sex: "M" or "F" if it befalls only them, else "".
        deniable: Whether "no evidence of …" makes sense.
    """

    code: str
    description: str
    category: str
    forms: tuple[tuple[str, ...], ...]
    drugs: tuple[str, ...]
    procedures: tuple[str, ...]
    findings: tuple[str, ...]
    clusters: tuple[str, ...]
    weight: float
    chronic: bool
    sex: str
    deniable: bool


@dataclass(frozen=True)
class Lexicon:
    """The pool, and its cumulated weights for sampling: all codes, each cluster's, and those that can be denied."""

    conditions: tuple[Condition, ...]
    everyone: tuple[list[Condition], list[float]]
    clusters: dict[str, tuple[list[Condition], list[float]]]
    deniable: tuple[list[Condition], list[float]]


@lru_cache(maxsize=4)
def build_lexicon(num_labels: int) -> Lexicon:
    """Take the first `num_labels` codes of a fixed ranking, so that small pools are part of large ones.

    Args:
        num_labels: Number of codes.
    """
    rows = _common_rows() + _rare_rows(num_labels)
    if len(rows) < num_labels:
        raise ValueError(f"Found `num_labels={num_labels}`, expected at most {len(rows)}: there are no more codes.")
    conditions = tuple(_condition(rank, *row) for rank, row in enumerate(rows[:num_labels]))
    clusters = {name: _sampler([c for c in conditions if name in c.clusters]) for name in CLUSTERS}
    return Lexicon(
        conditions,
        _sampler(conditions),
        {name: sampler for name, sampler in clusters.items() if len(sampler[0]) >= 5},
        _sampler([c for c in conditions if c.deniable] or conditions),
    )


def _sampler(conditions) -> tuple[list[Condition], list[float]]:
    return list(conditions), list(accumulate(c.weight for c in conditions))


def _rows(table: str) -> list[list[str]]:
    lines = re.sub(r"\n +", " ", table).strip().split("\n")
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def _entries(cell: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in cell.split(";") if entry.strip())


def _common_rows() -> list[tuple]:
    known = set(icd10cm_billable_codes())
    rows = []
    for code, short, treatments, findings, clusters in _rows(COMMON):
        if code in known:  # a code retired by a later release of the table is left out
            rows.append((code, _entries(short), _entries(treatments), _entries(findings), tuple(clusters.split())))
    return rows


def _rare_rows(num_labels: int) -> list[tuple]:
    """Deal codes from the groups in turn; within a group by hash, at most a few of a category."""
    common = {row[0] for row in _common_rows()}
    groups = _rows(GROUPS)
    by_group = defaultdict(list)
    for code in icd10cm_billable_codes():
        if code not in common and _is_written_about(code):
            by_group[_group_of(code, groups)].append(code)
    by_group.pop(None, None)
    per_group = num_labels // len(by_group) + 1
    dealt = [_varied(by_group[number], per_group) for number in sorted(by_group)]
    return [_rare_row(code, groups) for turn in zip_longest(*dealt) for code in turn if code is not None]


def _is_written_about(code: str) -> bool:
    """Leave out births, external causes, and all but the first encounter with an injury."""
    return code[0] not in "OPUVWXY" and (len(code) < 8 or code.endswith("A"))


def _group_of(code: str, groups: list[list[str]]) -> int | None:
    for number, (span, *_) in enumerate(groups):
        first, last = span.split("-")
        if first <= code[:3] <= last:
            return number
    return None


def _varied(codes: list[str], wanted: int) -> list[str]:
    taken, of_category = [], defaultdict(int)
    for code in sorted(codes, key=_hash):
        if of_category[code[:3]] < _CODES_PER_CATEGORY and len(taken) < wanted:
            of_category[code[:3]] += 1
            taken.append(code)
    return taken


def _rare_row(code: str, groups: list[list[str]]) -> tuple:
    _, treatments, findings, clusters = groups[_group_of(code, groups)]
    return code, (), _draw(code, _entries(treatments), 3), _draw(code, _entries(findings), 2), tuple(clusters.split())


def _draw(code: str, entries: tuple[str, ...], count: int) -> tuple[str, ...]:
    return tuple(sorted(entries, key=lambda entry: _hash(code + entry))[:count])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _condition(rank: int, code: str, short, treatments, findings, clusters) -> Condition:
    description = describe_icd(code, "icd10").text
    return Condition(
        code=code,
        description=description,
        category=code if code[0] == "Z" else code[:3],
        forms=surface_forms(description, icd10cm_inclusion_terms(code), short),
        drugs=tuple(t for t in treatments if not t.startswith("*")),
        procedures=tuple(t[1:] for t in treatments if t.startswith("*")),
        findings=tuple(findings),
        clusters=clusters,
        weight=(rank + _HEAD_FLATNESS) ** -_TAIL_EXPONENT,
        chronic=not code.startswith(_ACUTE),
        sex="M" if code.startswith(_MALE) else "F" if code.startswith(_FEMALE) else "",
        deniable=code[0] not in "WZ",
    )


def surface_forms(
    description: str, inclusion_terms: tuple[str, ...], short: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Collect the ways to write a condition, in the order of `FORMS`.

    Args:
        description: The title of its code.
        inclusion_terms: Other names in the tabular list.
        short: Abbreviations and everyday names; made from the title if there are none.
    """
    plain = plain_name(description)
    inclusion = tuple(dict.fromkeys(name for term in inclusion_terms if (name := plain_name(term)) != plain))
    return (
        (description, description.lower()),
        inclusion,
        short or tuple(name for name in (shorthand(plain),) if name != plain),
        (reordered(plain),),
    )


def plain_name(title: str) -> str:
    """Drop what clinicians leave out: brackets, "unspecified", "initial encounter …".

    Args:
        title: A title or inclusion term of the tabular list.

    >>> plain_name("Hyperlipidemia, unspecified"), plain_name("Hemophilia NOS"), plain_name("Sleep apnea (adult)")
    ('hyperlipidemia', 'hemophilia', 'sleep apnea')
    """
    name = re.sub(r"\s+", " ", _QUALIFIERS.sub("", title)).strip(" ,;")
    return _lower_first(name) or title.lower()


def shorthand(name: str) -> str:
    """Write a name the way a hurried hand does.

    Args:
        name: A plain name.

    >>> shorthand("fracture of left femur due to fall")
    'fx L femur d/t fall'
    """
    short = _SHORTHAND_PATTERN.sub(lambda match: _SHORTHAND[match.lastindex - 1][1], name)
    return re.sub(r"\s+", " ", short).strip()


def reordered(name: str) -> str:
    """Turn a name round at its comma or joining word.

    Args:
        name: A plain name.

    >>> reordered("anemia in neoplastic disease"), reordered("calculus of kidney"), reordered("fracture, left femur")
    ('neoplastic disease with anemia', 'kidney calculus', 'left femur fracture')
    """
    for joint, pattern in _TURNS:
        head, found, tail = name.partition(joint)
        if found and not tail.startswith(_STAY_BEHIND):
            return pattern.format(head=head.strip(" ,"), tail=tail.strip(" ,"))
    return name


_STAY_BEHIND = ("with", "in ", "including", "and ", "or ", "not ", "situ", "utero", "remission", "relapse")
_TURNS = (
    (", ", "{tail} {head}"),
    (" due to ", "{tail} causing {head}"),
    (" without ", "{head}, no {tail}"),
    (" with ", "{tail} in the setting of {head}"),
    (" in ", "{tail} with {head}"),
    (" of ", "{tail} {head}"),
)


def _lower_first(name: str) -> str:
    return name if name[:2].isupper() else name[:1].lower() + name[1:]
