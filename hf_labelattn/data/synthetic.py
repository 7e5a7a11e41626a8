"""The embedded corpus: invented discharge notes coded in ICD-10-CM, with the place of every true mention.

No patient stands behind them. A seeded generator draws patients with comorbidities, gives each stay its codes, and
writes sections from templates (`synthetic_templates.py`) and the names, treatments and findings of each code
(`synthetic_lexicon.py`). A true code is mentioned by its title, an inclusion term, a short form, a reordering or a
typical treatment or finding; other conditions are denied, ruled out, long past or a relative's, and must not be coded.
Lengths and codes a note follow MIMIC-IV (medians 1,490 words and 14 codes; quartiles 1,147-1,931 and 9-20) and code
frequencies have a long tail. The same arguments give the same notes as long as the same release of `simple-icd-10-cm`
is installed.
"""

import math
import random
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from datasets import Dataset, DatasetDict, Features, List, Value

from . import synthetic_templates as templates
from .synthetic_lexicon import Condition, Lexicon, build_lexicon

DEFAULT_NUM_LABELS = 1500
SPLITS = ("train", "validation", "test")
FEATURES = Features(
    {
        "id": Value("string"),
        "group": Value("string"),
        "text": Value("string"),
        "labels": List(Value("string")),
        "evidence": List({"label": Value("string"), "start": Value("int64"), "end": Value("int64")}),
    }
)

_MEDIAN_WORDS, _WORDS_SPREAD = 1490, 0.386
_CODES_SPREAD, _MOST_CODES = 0.57, 39
_CLUSTER_SHARES = (0.6, 0.8)  # cumulated: codes from the patient's first and second cluster; the rest from all
_FORM_WEIGHTS = (0.2, 0.42, 0.78, 1.0)  # cumulated, in the order of `FORMS`
_UNNAMED = 0.2  # share of codes that only a treatment or finding gives away
_STAYS = (0.72, 0.9, 0.97)  # cumulated shares of patients with one, two, three stays; the rest have four
_KEPT = 0.6  # a chronic code comes back in the next stay
_FRAME_WORDS = 60  # headings and the lines before the first section


def synthetic_notes(
    num_documents: int = 4000,
    seed: int = 0,
    *,
    num_labels: int = DEFAULT_NUM_LABELS,
    codes_per_note: float = 14,
    length_scale: float = 1.0,
    validation_fraction: float = 0.1,
    test_fraction: float = 0.15,
) -> DatasetDict:
    """Generate the corpus, split by patient.

    Args:
        num_documents: Number of notes in all splits together.
        seed: Another seed gives other patients with codes of the same pool.
        num_labels: Size of the pool of codes, most frequent first; a small pool is part of every larger one.
        codes_per_note: Median number of codes; notes never hold more than a third of the pool.
        length_scale: 0.25 gives notes of about a quarter of the length (never shorter than what their codes need).
        validation_fraction: Share of the notes in the validation split.
        test_fraction: Share of the notes in the test split.

    Returns:
        Splits `train`, `validation`, `test` with columns `id, group, text, labels, evidence`; evidence is a list of
        `{label, start, end}`, character spans of `text`.
    """
    _check_sizes(num_documents, num_labels, codes_per_note, length_scale, validation_fraction, test_fraction)
    lexicon = build_lexicon(num_labels)
    most_codes = min(_MOST_CODES, max(1, num_labels // 3))
    rows = list(_rows(num_documents, seed, lexicon, codes_per_note, most_codes, length_scale))
    split_of = _split_by_patient(rows, seed, validation_fraction, test_fraction)
    return DatasetDict({split: _dataset(rows, split_of, split) for split in SPLITS})


def synthetic_label_descriptions(num_labels: int = DEFAULT_NUM_LABELS) -> dict[str, str]:
    """Return code → title for the whole pool, also for codes that no note happens to hold.

    Args:
        num_labels: Size of the pool, as given to `synthetic_notes`.
    """
    conditions = build_lexicon(num_labels).conditions
    return dict(sorted((condition.code, condition.description) for condition in conditions))


def _check_sizes(num_documents, num_labels, codes_per_note, length_scale, validation_fraction, test_fraction):
    if num_documents < 10:
        raise ValueError(f"Found `num_documents={num_documents}`, expected at least 10 to fill three splits.")
    if num_labels < 5:
        raise ValueError(f"Found `num_labels={num_labels}`, expected at least 5.")
    if codes_per_note < 1 or length_scale <= 0:
        raise ValueError(
            f"Found `codes_per_note={codes_per_note}`, `length_scale={length_scale}`, expected at least 1 and above 0."
        )
    if min(validation_fraction, test_fraction) <= 0 or validation_fraction + test_fraction >= 1:
        raise ValueError(
            f"Found `validation_fraction={validation_fraction}`, `test_fraction={test_fraction}`, expected positive "
            "shares that leave something to train on, such as 0.1 and 0.15."
        )


def _dataset(rows: list[dict], split_of: dict[str, str], split: str) -> Dataset:
    chosen = [row for row in rows if split_of[row["group"]] == split]
    return Dataset.from_dict({name: [row[name] for row in chosen] for name in FEATURES}, features=FEATURES)


def _split_by_patient(rows: list[dict], seed: int, validation_fraction: float, test_fraction: float) -> dict[str, str]:
    """Deal whole patients in random order to test, then validation, until each is full."""
    stays = Counter(row["group"] for row in rows)
    patients = list(stays)
    random.Random(f"split-{seed}").shuffle(patients)
    split_of = dict.fromkeys(patients, "train")
    undealt = iter(patients)
    for split, fraction in (("test", test_fraction), ("validation", validation_fraction)):
        dealt = 0
        while dealt < fraction * len(rows):
            patient = next(undealt)
            split_of[patient] = split
            dealt += stays[patient]
    return split_of


def _rows(num_documents, seed, lexicon: Lexicon, codes_per_note, most_codes, length_scale) -> Iterator[dict]:
    made, patient = 0, 0
    while made < num_documents:
        rng = random.Random(f"{seed}-{patient}")
        group = f"p{patient:06d}"
        for stay, row in enumerate(_stays(rng, lexicon, codes_per_note, most_codes, length_scale)):
            if made == num_documents:
                return
            yield {"id": f"{group}-{stay + 1}", "group": group} | row
            made += 1
        patient += 1


def _stays(rng: random.Random, lexicon: Lexicon, codes_per_note, most_codes, length_scale) -> Iterator[dict]:
    """Write the notes of one patient; chronic codes come back from stay to stay."""
    clusters = list(lexicon.clusters.values()) or [lexicon.everyone]
    samplers = (rng.choice(clusters), rng.choice(clusters), lexicon.everyone)
    sex, age = rng.choice("MF"), rng.randint(24, 88)
    kept: list[Condition] = []
    for _ in range(bisect(_STAYS, rng.random()) + 1):
        drift = rng.gauss(0, 1)
        count = min(most_codes, max(1, int(codes_per_note * math.exp(_CODES_SPREAD * drift) + 0.25)))
        length = 0.5 * drift + math.sqrt(0.75) * rng.gauss(0, 1)  # more codes, longer notes
        words = _MEDIAN_WORDS * length_scale * math.exp(_WORDS_SPREAD * length)
        conditions = _draw_conditions(rng, samplers, kept[:count], count, sex)
        yield _Note(rng, lexicon, conditions, sex, age).write(words)
        kept = [condition for condition in conditions if condition.chronic and rng.random() < _KEPT]
        age += rng.randint(0, 2)


def _draw_conditions(rng, samplers, kept: list[Condition], count: int, sex: str) -> list[Condition]:
    """Sample from the patient's two clusters and from everything, one code of a category."""
    drawn = {condition.category: condition for condition in kept}
    for _ in range(20 * count):
        if len(drawn) >= count:
            break
        members, weights = samplers[bisect(_CLUSTER_SHARES, rng.random())]
        condition = members[bisect(weights, rng.random() * weights[-1])]
        if not condition.sex or condition.sex == sex:
            drawn.setdefault(condition.category, condition)
    return list(drawn.values())


class _Note:
    """One discharge note in the making: entries by section, written out in order at the end.

    An entry is (text before, mention, text after, labels that the mention is evidence for).
    """

    def __init__(self, rng: random.Random, lexicon: Lexicon, conditions: list[Condition], sex: str, age: int):
        self.rng, self.lexicon, self.conditions, self.sex, self.age = rng, lexicon, conditions, sex, age
        self.sections: dict[str, list[tuple]] = {name: [] for name in templates.HEADINGS}
        self.categories = {condition.category for condition in conditions}
        self.owners: dict[str, list[str]] = {}
        for condition in conditions:
            for sign in condition.drugs + condition.procedures + condition.findings:
                self.owners.setdefault(sign, []).append(condition.code)

    def write(self, words: float) -> dict:
        for condition in self.conditions:
            self._mention(condition)
        for _ in range(round(2 + 0.9 * len(self.conditions) * self.rng.uniform(0.5, 1.5))):
            self._distract()
        self._list_drugs()
        self._fill(words)
        text, evidence = self._render()
        return {"text": text, "labels": sorted(c.code for c in self.conditions), "evidence": evidence}

    def _mention(self, condition: Condition):
        rng = self.rng
        signs = condition.drugs + condition.procedures + condition.findings
        if signs and rng.random() < _UNNAMED:
            for sign in rng.sample(signs, min(len(signs), 2)):
                self._give_sign(condition, sign)
            return
        for place in rng.sample(_places(condition), 1 + (rng.random() < 0.3)):
            self._add(place, rng.choice(templates.MENTIONS[place]), self._name(condition), (condition.code,))
        if signs and rng.random() < 0.55:
            self._give_sign(condition, rng.choice(signs))

    def _name(self, condition: Condition) -> str:
        """Pick a form by weight, or the next one that the condition has."""
        place = bisect(_FORM_WEIGHTS, self.rng.random())
        while not condition.forms[place]:
            place += 1  # the last form, a reordering, always exists
        return self.rng.choice(condition.forms[place])

    def _give_sign(self, condition: Condition, sign: str):
        rng = self.rng
        if sign in condition.findings:
            place = rng.choice(("history", "exam", "results", "complaint"))
            template = "@" if place == "complaint" else rng.choice(templates.MENTIONS["finding"])
        elif sign in condition.procedures:
            place = rng.choice(("procedures", "course"))
            template = "@" if place == "procedures" else rng.choice(templates.MENTIONS["procedure"])
        else:
            place = rng.choice(("course", "medications", "home"))
            template = rng.choice(templates.MENTIONS["drug"]) if place == "course" else self._prescription()
        self._add(place, template, sign, tuple(self.owners[sign]))

    def _distract(self):
        """Name a condition, or a drug, in a way that must not be coded."""
        rng, (members, weights) = self.rng, self.lexicon.deniable
        condition = members[bisect(weights, rng.random() * weights[-1])]
        if condition.category in self.categories:
            return
        if condition.drugs and rng.random() < 0.12:
            drug = rng.choice(condition.drugs)
            if drug not in self.owners:
                self._add("course", rng.choice(templates.DISTRACTORS["drug"]), drug, ())
            return
        place = rng.choice(("history", "past", "family", "family", "results", "results", "course"))
        self._add(place, rng.choice(templates.DISTRACTORS[place]), self._name(condition), ())

    def _list_drugs(self):
        for place in ("home", "medications"):
            for drug in self.rng.sample(templates.PLAIN_DRUGS, self.rng.randint(1, 4)):
                self._add(place, self._prescription(), drug, ())

    def _prescription(self) -> str:
        return f"@ {self.rng.choice(templates.DOSES)} {self.rng.choice(templates.SCHEDULES)}"

    def _add(self, place: str, template: str, mention: str, labels: tuple[str, ...]):
        before, _, after = template.partition("@")
        if after.endswith("{plan}"):
            after = after[:-6] + self.rng.choice(templates.PLANS)
        self.sections[place].append((before, mention, after, labels))

    def _fill(self, words: float):
        """Put neutral sentences around the mentions, each section its share, until the note has its length."""
        missing = max(
            0, words - _FRAME_WORDS - sum(_words(entry) for section in self.sections.values() for entry in section)
        )
        owed = 0.0
        for place, share in templates.FILLER_SHARE.items():
            owed += missing * share
            around = []
            for sentence, size in self._neutral_sentences(place):
                if owed <= 0:
                    break
                around.append((sentence, "", "", ()))
                owed -= size
            for entry in self.sections[place]:
                around.insert(int(self.rng.random() * (len(around) + 1)), entry)
            self.sections[place] = around

    def _neutral_sentences(self, place: str) -> Iterator[tuple[str, int]]:
        """Go through the sentence templates again and again, an exam in order, else in random order."""
        bank, rng = _filler_bank()[place], self.rng
        while True:
            for variants in bank if place == "exam" else rng.sample(bank, len(bank)):
                yield variants[int(rng.random() * len(variants))]

    def _render(self) -> tuple[str, list[dict]]:
        """Write the sections one after the other, noting where each mention comes to stand."""
        rng = self.rng
        self.sections["condition"].append((rng.choice(templates.CONDITIONS_AT_DISCHARGE), "", "", ()))
        pieces = [self._frame()]
        position, evidence = len(pieces[0]), []
        for place, headings in templates.HEADINGS.items():
            separator = "\n" if place in _LISTS else " "
            pieces.append(f"\n\n{rng.choice(headings)}\n")
            position += len(pieces[-1])
            for before, mention, after, labels in self.sections[place] or [("None.", "", "", ())]:
                start = position + len(before)
                for label in labels:
                    evidence.append({"label": label, "start": start, "end": start + len(mention)})
                pieces.append(f"{before}{mention}{after}{separator}")
                position += len(pieces[-1])
        return "".join(pieces), evidence

    def _frame(self) -> str:
        rng = self.rng
        year, day = rng.randint(2140, 2189), rng.randint(1, 19)
        return (
            f"Name: ___    Unit No: ___\n\nAdmission Date: {year}-__-{day:02d}    "
            f"Discharge Date: {year}-__-{day + rng.randint(1, 9):02d}\n\n"
            f"Date of Birth: ___    Sex: {self.sex}    Age: {self.age}\nService: {rng.choice(templates.SERVICES)}\n"
            "Allergies: no known allergies to drugs\nAttending: ___"
        )


_LISTS = frozenset(("complaint", "procedures", "past", "home", "medications", "diagnosis", "exam"))


def _places(condition: Condition) -> tuple[str, ...]:
    if not condition.deniable:  # a status or circumstance is listed, not treated
        return "past", "diagnosis"
    return ("past", "course", "diagnosis", "history") if condition.chronic else ("course", "diagnosis", "history")


def _words(entry: tuple) -> int:
    """Estimate the words in an entry, counting the blanks."""
    before, mention, after, _ = entry
    return before.count(" ") + mention.count(" ") + after.count(" ") + 1


def count_words(text: str) -> int:
    """Count the words that hold a letter, as the word tokenizer keeps them.

    Args:
        text: Any text.

    >>> count_words("WBC-12.3, started on metoprolol 25 mg")
    5
    """
    return len(_WORD.findall(text))


_WORD = re.compile(r"\w*[^\W\d_]\w*")
_VARIANTS = 60


@lru_cache(maxsize=1)
def _filler_bank() -> dict[str, list[list[tuple[str, int]]]]:
    """Write out every filler template in many variants, each with its number of words."""
    rng = random.Random("filler")
    bank = {}
    for place, table in templates.FILLERS.items():
        sentences = re.sub(r"\n +", " ", table).strip().split("\n")
        bank[place] = [[_expand(sentence, rng) for _ in range(_VARIANTS)] for sentence in sentences]
    bank["results"] += [
        [_lab_line(panel, rng) for _ in range(_VARIANTS)] for panel in templates.LABS.strip().split("\n")
    ]
    return {place: [[(s, count_words(s)) for s in variants] for variants in bank[place]] for place in bank}


def _expand(sentence: str, rng: random.Random) -> str:
    return re.sub(r"\{([^}]*)\}", lambda match: rng.choice(match[1].split("|")), sentence)


def _lab_line(panel: str, rng: random.Random) -> str:
    values = []
    for analyte in panel.split("; "):
        name, low, high, decimals = analyte.rsplit(" ", 3)
        values.append(f"{name}-{rng.uniform(float(low), float(high)):.{decimals}f}")
    return f"___ {' '.join(values)}."
