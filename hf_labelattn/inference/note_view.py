"""One note as the page that shows its codes and evidence, with labels that nobody has trained beside the model's."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from .evidence import Evidence, TokenizedNote, explain
from .html import render_page
from .prediction import Prediction, Predictor

MAX_LABELS, MAX_NAME, MAX_DESCRIPTION = 50, 100, 1000


@dataclass(frozen=True)
class NoteView:
    """Codes notes and shows them; holds nothing of a note.

    Attributes:
        predictor: The model and its tokenizer.
        max_characters: Longest note it takes.
    """

    predictor: Predictor
    max_characters: int = 100_000

    @property
    def scores_new_labels(self) -> bool:
        """Whether the model can score a label by its description alone."""
        return self.predictor.model.config.model_type == "interaction"

    def page(self, text: str, top_k: int | None = None, added: Mapping[str, str] | None = None) -> str:
        """The page of a note.

        Args:
            text: The note.
            top_k: The k best codes, instead of those above the model's threshold.
            added: Further labels with their descriptions, shown whatever their score.
        """
        if len(text) > self.max_characters:
            raise ValueError(
                f"The note has {len(text):,} characters, at most {self.max_characters:,} are read at once."
            )
        predictions = self.predictor.predict([text], top_k)[0]
        evidence = explain(self.predictor, text, [p.label for p in predictions])
        descriptions = self.predictor.model.config.label_descriptions or {}
        if added:
            found = self.score_added(text, added)
            predictions = [*(prediction for prediction, _ in found), *predictions]
            evidence = {**evidence, **{prediction.label: spans for prediction, spans in found}}
            descriptions = {**descriptions, **{name: f"{text} (added)" for name, text in added.items()}}
        return render_page(text, predictions, evidence, descriptions, title="Codes of this note")

    @torch.no_grad()
    def score_added(self, text: str, added: Mapping[str, str]) -> list[tuple[Prediction, list[Evidence]]]:
        """Scores and matching windows of labels given by their descriptions, best first."""
        model, matching = self.predictor.model, self.predictor.matching
        tokenizer = self.predictor.tokenizer if matching is None else matching.tokenizer
        note = TokenizedNote.read(tokenizer, text)
        if not len(note.ids):
            return [(Prediction(name, 0.0), []) for name in added]
        output = model.score_labels([text], added, tokenizer)
        scores = self.predictor.probabilities(output.logits)[0]
        result = []
        for name, score, (first, length) in zip(added, scores, output.match_position[0].tolist(), strict=True):
            words = note.words[first : first + length] if first >= 0 else []
            weights = dict.fromkeys(words, 1 / max(1, len(set(words))))
            result.append((Prediction(name, float(score)), note.passages(list(weights), weights)))
        return sorted(result, key=lambda row: -row[0].score)

    def with_label(self, name: str, description: str, added: Mapping[str, str]) -> dict[str, str]:
        """The labels added so far and one more; refuses what cannot be scored."""
        name, description = name.strip(), description.strip()
        if not self.scores_new_labels:
            raise ValueError("This model scores only the labels it was trained on.")
        if not name or not description:
            raise ValueError("A label needs a name and a description, such as 'R50.9' and 'Fever'.")
        if len(name) > MAX_NAME or len(description) > MAX_DESCRIPTION:
            raise ValueError(f"A name has at most {MAX_NAME} characters, a description at most {MAX_DESCRIPTION:,}.")
        if any(0xD800 <= ord(character) < 0xE000 for character in name + description):
            raise ValueError("The name or the description has half of a character (a surrogate). Type it again.")
        if name in self.predictor.model.config.label2id:
            raise ValueError(f"The model has a label {name} already. Choose another name.")
        if len({*added, name}) > MAX_LABELS:
            raise ValueError(f"There are {MAX_LABELS} added labels already. Remove them first.")
        return {**added, name: description}
