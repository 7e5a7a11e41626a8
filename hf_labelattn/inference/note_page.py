"""One note from text to page: the codes a model predicts for it, their evidence, and where to look at them."""

from dataclasses import dataclass
from pathlib import Path

from .evidence import explain
from .html import write_page
from .prediction import Prediction, Predictor


@dataclass(frozen=True)
class ExplainedNote:
    """What a model says about one note, and why."""

    predictions: list[Prediction]
    evidence: dict[str, list]
    descriptions: dict[str, str]

    def summary(self, true_labels: list[str] | None = None) -> str:
        """The codes, a line each, and under each the words that speak for it; `*` marks those that are true."""
        lines = []
        for found in self.predictions:
            mark = "*" if found.label in (true_labels or ()) else " "
            lines.append(
                f"{mark} {found.label:<9}{found.score:.2f}  {self.descriptions.get(found.label, '')}".rstrip()
            )
            lines.append("            evidence: " + " | ".join(span.text for span in self.evidence[found.label][:3]))
        return "\n".join(lines)


def explain_note(
    model: str | Path | Predictor, text: str, page: str | Path, title: str, top_k: int = 5
) -> ExplainedNote:
    """Predict the codes of a note, find their evidence and write both to a page.

    Args:
        model: A predictor, or the folder or Hub id of a model.
        text: The note.
        page: The HTML file to write.
        title: Heading of the page.
        top_k: Codes to show.
    """
    predictor = model if isinstance(model, Predictor) else Predictor(str(model))
    predictions = predictor.predict([text], top_k=top_k)[0]
    evidence = explain(predictor, text, [found.label for found in predictions])
    descriptions = predictor.model.config.label_descriptions or {}
    write_page(page, text, predictions, evidence, descriptions, title=title)
    return ExplainedNote(predictions, evidence, descriptions)
