"""Terms that weights inherit from the data they were trained on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Terms:
    """A data licence whose conditions reach the weights.

    Attributes:
        name: What it is called.
        identifier: Its `license_name` in the card's metadata.
        link: Where its text stands.
        summary: What it asks of whoever holds the weights.
    """

    name: str
    identifier: str
    link: str
    summary: tuple[str, ...]


TERMS = {
    "physionet": Terms(
        name="PhysioNet Credentialed Health Data License 1.5.0",
        identifier="physionet-credentialed-health-data-license-1.5.0",
        link="https://physionet.org/about/licenses/physionet-credentialed-health-data-license-150/",
        summary=(
            "Only people who are credentialed on PhysioNet and have signed the data use agreement of the dataset may "
            "hold or use these weights; do not pass them on to anyone else.",
            "Do not try to identify a patient or an institution, by these weights or otherwise, and do not try to "
            "draw training text out of them.",
            "If something in them could identify a person, say so at once to PHI-report@physionet.org.",
            "Use them for lawful scientific research only, keep them safe, and share the code of what you publish.",
        ),
    )
}


def terms_of(training_data: dict | None) -> Terms | None:
    """The terms a model's `training_data` records; None for data without any.

    >>> terms_of({"train_documents": 10}) is None
    True
    >>> terms_of({"terms": "physionet"}).identifier
    'physionet-credentialed-health-data-license-1.5.0'
    """
    name = (training_data or {}).get("terms")
    if name is not None and name not in TERMS:
        raise ValueError(f"The training data's terms are {name!r}, but known are: {', '.join(sorted(TERMS))}.")
    return None if name is None else TERMS[name]


def check_publication(training_data: dict | None, public: bool, i_have_permission: bool) -> None:
    """Refuse to make weights public that their training data's terms keep among credentialed people."""
    terms = terms_of(training_data)
    if public and terms is not None and not i_have_permission:
        raise ValueError(
            f"These weights were trained on data under the {terms.name}, which forbids passing them on to the public. "
            "Leave out `--public`, or add `--i_have_permission` if the data's owners allowed it in writing."
        )
