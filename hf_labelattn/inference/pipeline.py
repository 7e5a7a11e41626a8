"""`pipeline("icd-coding", model=…)`: text in, codes with descriptions, scores and evidence out."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice

from tqdm.auto import tqdm
from transformers import AutoModelForSequenceClassification, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from .evidence import explain
from .prediction import Prediction, Predictor
from .streaming import NoteReader

TASK = "icd-coding"


class IcdCodingPipeline(Pipeline):
    """Codes documents of any length with a classifier of this library.

    >>> from transformers import pipeline
    >>> coder = pipeline("icd-coding", model="org/plant-mimic4")  # doctest: +SKIP
    >>> coder("The patient was admitted with sepsis.")  # doctest: +SKIP
    [{'label': 'A41.9', 'description': 'Sepsis, unspecified organism', 'score': 0.93,
      'evidence': [{'start': 30, 'end': 36, 'text': 'sepsis', 'weight': 0.81}]}]

    Options, each for all calls (`pipeline(…, top_k=5)`) or one (`coder(text, top_k=5)`):

    Args:
        top_k: The k best labels, instead of those above the threshold stored with the model.
        evidence: Whether to say which passages speak for each label.
        top_tokens: Words of evidence per label, at most.
        batch_size: Documents scored at once.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.predictor = Predictor(self.model, self.tokenizer, self._batch_size or 16, self.device)

    def _sanitize_parameters(
        self, top_k: int | None = None, evidence: bool | None = None, top_tokens: int | None = None
    ) -> tuple[dict, dict, dict]:
        options = {"top_k": top_k, "evidence": evidence, "top_tokens": top_tokens}
        return {}, {}, {name: value for name, value in options.items() if value is not None}

    def __call__(
        self, inputs: str | dict | Iterable[str | dict], batch_size: int | None = None, **options
    ) -> list[dict] | list[list[dict]] | Iterator[list[dict]]:
        """Code documents.

        Args:
            inputs: One text; a list of texts; or a dataset or generator of them, which is read as its results are
                asked for. Rows may be dictionaries with the text under `"text"`.
            batch_size: Documents scored at once.
            **options: As above.

        Returns:
            The labels of the text, best first; for several texts a list of such lists, for a dataset or generator an
            iterator of them.
        """
        self.predictor.batch_size = batch_size or self.predictor.batch_size
        options = {**self._postprocess_params, **self._sanitize_parameters(**options)[2]}
        if isinstance(inputs, str | dict):
            return next(self._results([inputs], options))
        if not isinstance(inputs, list | tuple):
            return self._results(inputs, options)
        return list(tqdm(self._results(inputs, options), "coding", len(inputs), unit=" notes", delay=3))

    def _results(self, inputs: Iterable[str | dict], options: dict) -> Iterator[list[dict]]:
        # Some batches at once where they are at hand, so that documents of like length meet.
        count = self.predictor.batch_size * (8 if hasattr(inputs, "__len__") else 1)
        rows = iter(inputs)
        while part := list(islice(rows, count)):
            yield from self.postprocess(self.forward(self.preprocess(part)), **options)

    def preprocess(self, inputs: list[str | dict]) -> dict:
        """The texts of rows."""
        return {"texts": [_text(row) for row in inputs]}

    def _forward(self, model_inputs: dict) -> dict:
        return {**model_inputs, "scores": self.predictor.scores(model_inputs["texts"])}

    def postprocess(self, model_outputs: dict, **options) -> Iterator[list[dict]]:
        """Scores as labels, one list per text."""
        for text, scores in zip(model_outputs["texts"], model_outputs["scores"], strict=True):
            yield self._codes(text, scores, **options)

    def _codes(self, text: str, scores, top_k: int | None = None, evidence: bool = True, top_tokens: int = 8):
        predictions = self.predictor.choose(scores, top_k)
        rows = [self._row(prediction) for prediction in predictions]
        if evidence:
            found = explain(self.predictor, text, [p.label for p in predictions], top_tokens)
            rows = [row | {"evidence": [asdict(span) for span in found[row["label"]]]} for row in rows]
        return rows

    def _row(self, prediction: Prediction) -> dict:
        descriptions = self.model.config.label_descriptions or {}
        description = descriptions.get(prediction.label, "")
        return {"label": prediction.label, "description": description, "score": prediction.score}

    def stream(self, pieces: Iterable[str], evidence: bool = False, **options) -> Iterator[list[dict]]:
        """Code a note while it is written: after each piece of text, the labels of the note so far.

        Args:
            pieces: What is added to the note's end, as it comes.
            evidence: Whether to say which passages speak for each label; this reads the note again for each piece.
            **options: As for a call.
        """
        options = {**self._postprocess_params, **self._sanitize_parameters(**options)[2], "evidence": evidence}
        reader = NoteReader(self.predictor)
        for piece in pieces:
            scores = reader.add(piece)
            yield self._codes(reader.text, scores, **options)

    def save_pretrained(self, save_directory, **kwargs) -> None:
        """Save model and tokenizer; the pipeline itself comes with `import hf_labelattn`."""
        self.model.save_pretrained(save_directory, **kwargs)
        self.tokenizer.save_pretrained(save_directory, **kwargs)


def _text(row: str | dict) -> str:
    text = row.get("text") if isinstance(row, dict) else row
    if not isinstance(text, str):
        found = f"a row with {sorted(row)}" if isinstance(row, dict) else type(row).__name__
        raise ValueError(f"Found {found}, expected a text or a row with a text under `text`.")
    return text


def register_pipeline() -> None:
    """Make `pipeline("icd-coding")` known to transformers; calling it again changes nothing."""
    if TASK not in PIPELINE_REGISTRY.get_supported_tasks():
        PIPELINE_REGISTRY.register_pipeline(
            TASK, IcdCodingPipeline, pt_model=AutoModelForSequenceClassification, type="text"
        )
