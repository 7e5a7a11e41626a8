"""The named subsets of MIMIC: which codes they hold, where their splits were published, and how large they must be.

Sources: Mullenbach et al. 2018 (`mimic3-full`, `mimic3-50`; github.com/jamesmullenbach/caml-mimic), Yang et al. 2022
(`mimic3-rare50`; github.com/whaleloops/KEPT), MacAvaney et al. 2020 (`mimic3-top-level`), Edin et al. 2023
(`mimic3-clean`, `mimic4-icd10-full`, `mimic4-icd9-full`; github.com/JoakimEdin/medical-coding-reproducibility) and
Nguyen et al. 2023 (`mimic4-icd10-50`; github.com/thomasnguyen92/MIMIC-IV-ICD-data-processing).
"""

from dataclasses import dataclass

MIMIC3_TOP_50 = tuple(
    """401.9 38.93 428.0 427.31 414.01 96.04 96.6 584.9 250.00 96.71 272.4 518.81 99.04 39.61 599.0 530.81 96.72 272.0
    285.9 88.56 244.9 486 38.91 285.1 36.15 276.2 496 99.15 995.92 V58.61 507.0 038.9 88.72 585.9 403.90 311 305.1
    37.22 412 33.24 39.95 287.5 410.71 276.1 V45.81 424.0 45.13 V15.82 511.9 37.23""".split()
)
MIMIC3_RARE_50 = tuple(
    """148.1 17.36 171.0 176.0 202.82 252.08 270.6 282.2 318.2 338.28 34.71 351.9 362.11 378.52 38.47 40.7 447.9 453.50
    477.8 506.0 512.2 52.0 53.02 550.11 569.42 596.89 607.82 701.0 710.8 719.49 737.43 747.69 77.7 780.94 785.9 790.8
    813.32 816.02 873.52 955.1 955.3 958.91 959.7 990 998.01 999.82 V10.61 V18.3 V26.52 V65.3""".split()
)
MIMIC4_ICD10_TOP_50 = tuple(
    """J18.9 I12.9 G47.00 M10.9 I13.0 Z95.5 G47.33 I48.91 E11.22 E03.9 F32.9 D62 J45.909 J44.9 N18.9 I25.2 F17.210
    Y92.230 N18.3 I48.0 E87.1 E11.9 Z23 E66.9 E78.5 N17.9 Z79.02 G89.29 Z66 N40.0 02HV33Z Z95.1 K21.9 I10 E87.2 I25.10
    D64.9 Z87.891 Z86.73 F41.9 I11.0 K59.00 N39.0 D69.6 Z86.718 Y92.239 Y92.9 J96.01 Z79.4 Z79.01""".split()
)


@dataclass(frozen=True)
class Subset:
    """One named subset.

    Attributes:
        name: What it is called.
        source: "mimic3" or "mimic4".
        system: "icd9" or "icd10".
        id_lists: Files its splits were published in, as `find_id_lists` takes them, the best first.
        fractions: Shares of training, validation and test documents where there is no list.
        documents: Published number of documents of each split.
        labels: Published number of codes.
        published: Who published these numbers.
        codes: Codes it is restricted to; None for all.
        min_count: Documents a code must have to be kept.
        top_level: Whether codes are replaced by their categories.
        own_splits: Whether the rule deals only the documents with its codes; else subsets of one size share patients.
        note: What else there is to know about the published figures.
    """

    name: str
    source: str
    system: str
    id_lists: tuple[str, ...]
    fractions: tuple[float, float, float]
    documents: tuple[int, int, int]
    labels: int
    published: str
    codes: tuple[str, ...] | None = None
    min_count: int = 1
    top_level: bool = False
    own_splits: bool = False
    note: str = ""

    @property
    def other_lists(self) -> tuple[str, ...]:
        """Words in a path that mark the lists of another database or code system."""
        if self.source == "mimic3":
            return "mimic4", "mimiciv", "mimic-iv"
        return "mimic3", "mimiciii", "icd9" if self.system == "icd10" else "icd10"


def mimic_subset_names(source: str | None = None) -> list[str]:
    """Names of the subsets of "mimic3" or "mimic4", or of both."""
    return [name for name, subset in SUBSETS.items() if source in (None, subset.source)]


def is_procedure(name: str, system: str) -> bool:
    """Whether a written code is a procedure: in ICD-9 its dot follows two digits, in ICD-10 it has seven characters.

    >>> is_procedure("38.93", "icd9"), is_procedure("486", "icd9"), is_procedure("02HV33Z", "icd10")
    (True, False, True)
    """
    if system == "icd10":
        return "." not in name and (len(name) > 4 or name[0].isdigit())
    return len(name.split(".")[0]) == 2


_MIMIC3 = {"source": "mimic3", "system": "icd9"}
_FULL = {**_MIMIC3, "fractions": (0.905, 0.031, 0.064)}
_FULL_LISTS = ("*_full_hadm_ids.csv", "mimiciii_full_splits.feather")
_EDIN = {"published": "Edin et al. 2023", "min_count": 10}

SUBSETS = {
    subset.name: subset
    for subset in (
        Subset(
            name="mimic3-full",
            id_lists=_FULL_LISTS,
            documents=(47_723, 1_631, 3_372),
            labels=8_929,
            published="Mullenbach et al. 2018, codes kept as strings",
            note="The paper itself counts 47,724 / 1,632 / 3,372 documents and 8,922 codes: some codes had lost their "
            "leading zeros.",
            **_FULL,
        ),
        Subset(
            name="mimic3-50",
            id_lists=("*_50_hadm_ids.csv", "mimiciii_50_splits.feather", *_FULL_LISTS),
            documents=(8_066, 1_573, 1_729),
            labels=50,
            published="Shi et al. 2017, Mullenbach et al. 2018",
            codes=MIMIC3_TOP_50,
            note="The published documents are a choice that only the lists of ids (*_50_hadm_ids.csv) can repeat; "
            "without them every document with one of the 50 codes is taken.",
            **_FULL,
        ),
        Subset(
            name="mimic3-rare50",
            id_lists=("*_rare50_hadm_ids.csv", "collectrare50data.py", *_FULL_LISTS),
            documents=(249, 20, 142),
            labels=50,
            published="Yang et al. 2022",
            codes=MIMIC3_RARE_50,
            fractions=(0.606, 0.049, 0.345),
            own_splits=True,
            **_MIMIC3,
        ),
        Subset(
            name="mimic3-top-level",
            id_lists=_FULL_LISTS,
            documents=(47_723, 1_631, 3_372),
            labels=1_159,
            published="MacAvaney et al. 2020, documents of Mullenbach et al. 2018",
            top_level=True,
            note="The paper counts 112k reports and 1,632 for development; its own preparation is not public.",
            **_FULL,
        ),
        Subset(
            name="mimic3-clean",
            id_lists=("mimiciii_clean_splits.feather",),
            fractions=(0.729, 0.106, 0.165),
            documents=(38_401, 5_577, 8_734),
            labels=3_681,
            **_MIMIC3,
            **_EDIN,
        ),
        Subset(
            name="mimic4-icd10-full",
            source="mimic4",
            system="icd10",
            id_lists=("mimiciv_icd10_split.feather", "*_full_hadm_ids.csv"),
            fractions=(0.729, 0.109, 0.162),
            documents=(89_099, 13_378, 19_802),
            labels=7_942,
            **_EDIN,
        ),
        Subset(
            name="mimic4-icd9-full",
            source="mimic4",
            system="icd9",
            id_lists=("mimiciv_icd9_split.feather", "*_full_hadm_ids.csv"),
            fractions=(0.738, 0.105, 0.157),
            documents=(154_542, 21_980, 32_804),
            labels=6_150,
            **_EDIN,
        ),
        Subset(
            name="mimic4-icd10-50",
            source="mimic4",
            system="icd10",
            id_lists=("*_50_hadm_ids.csv", "mimiciv_icd10_split.feather", "*_full_hadm_ids.csv"),
            fractions=(0.729, 0.109, 0.162),
            documents=(104_077, 3_805, 7_368),
            labels=50,
            published="Nguyen et al. 2023",
            codes=MIMIC4_ICD10_TOP_50,
        ),
    )
}
