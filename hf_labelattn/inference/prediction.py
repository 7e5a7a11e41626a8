"""Text in, labels with scores out: in batches of like length, in the order of the input, in constant memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from ..data.chunking import chunk_layout
from ..data.collator import ChunkedDocumentCollator
from ..data.tokenization import encode_documents, load_tokenizer
from ..storage import load_model
from .matching import MatchReader

# What the collator makes that models read; `num_chunks` is for callers.
INPUTS = ("input_ids", "attention_mask", "match_input_ids", "match_attention_mask", "match_hash")


@dataclass(frozen=True)
class Prediction:
    """One label of a document, with its probability."""

    label: str
    score: float


class Predictor:
    """Scores texts with a trained classifier.

    Args:
        model: A classifier of this library, or the folder or Hub id of one.
        tokenizer: Its tokenizer; read from the same folder by default.
        batch_size: Documents scored at once.
        device: Where to compute; a GPU by default if there is one.
    """

    def __init__(
        self,
        model: PreTrainedModel | str | Path,
        tokenizer: PreTrainedTokenizerBase | None = None,
        batch_size: int = 16,
        device: str | torch.device | None = None,
    ):
        if not isinstance(model, PreTrainedModel):
            tokenizer = tokenizer or load_tokenizer(model)
            model = load_model(AutoModelForSequenceClassification, model)
        if tokenizer is None:
            raise ValueError("A model without its tokenizer cannot read text. Pass `tokenizer=` too.")
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model, self.tokenizer, self.batch_size = model.eval().to(self.device), tokenizer, batch_size
        config = model.config
        self.collate = ChunkedDocumentCollator(
            config.num_labels, chunk_layout(config, tokenizer), config.pad_token_id or 0
        )
        self.matching = MatchReader.of(model, tokenizer)
        self.single_label = config.problem_type == "single_label_classification"

    def scores(self, texts: list[str]) -> np.ndarray:
        """Probabilities `[documents, labels]`, float32."""
        rows = [{"input_ids": ids} for ids in encode_documents(self.tokenizer, texts, progress=False)]
        if self.matching is not None:
            rows = [row | words for row, words in zip(rows, self.matching.rows(texts), strict=True)]
        return self.score_rows(rows)

    def score_ids(self, documents: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities `[documents, labels]` of documents given as token ids without special tokens."""
        rows = [{"input_ids": ids} for ids in documents]
        if self.matching is not None and self.matching.separate:
            rows = [row | self.matching.words_of_tokens(row["input_ids"])[0] for row in rows]
        return self.score_rows(rows)

    @torch.no_grad()
    def score_rows(self, documents: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
        """Probabilities `[documents, labels]` of documents as the collator takes them."""
        result = np.zeros((len(documents), self.model.config.num_labels), dtype=np.float32)
        order = np.argsort([-len(row["input_ids"]) for row in documents], kind="stable")
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            batch = self.collate([documents[row] for row in rows])
            inputs = {name: batch[name].to(self.device) for name in INPUTS if name in batch}
            result[rows] = self.probabilities(self.model(**inputs).logits)
        return result

    def probabilities(self, logits: torch.Tensor) -> np.ndarray:
        """Logits `[documents, labels]` as probabilities."""
        return (logits.softmax(1) if self.single_label else logits.sigmoid()).float().cpu().numpy()

    def predict(self, texts: list[str], top_k: int | None = None) -> list[list[Prediction]]:
        """Labels of each text, best first: those above the stored threshold, or the `top_k` best."""
        return [self.choose(row, top_k) for row in self.scores(texts)]

    def choose(self, probabilities: np.ndarray, top_k: int | None = None) -> list[Prediction]:
        """Labels of one document from its probabilities `[L]`."""
        config = self.model.config
        order = np.argsort(-probabilities, kind="stable")
        if top_k is not None or self.single_label:
            order = order[: top_k or 1]
        else:
            limits = config.threshold if config.label_thresholds is None else np.array(config.label_thresholds)
            order = order[(probabilities >= limits)[order]]
        return [Prediction(config.id2label[int(i)], float(probabilities[i])) for i in order]

    def stream(
        self, rows: Iterable[tuple[str, str]], top_k: int | None = None, buffer: int = 256
    ) -> Iterator[tuple[str, str, list[Prediction]]]:
        """Predict (name, text) pairs of any number, holding at most `buffer` of them; gives (name, text, labels)."""
        rows = iter(rows)
        while part := list(islice(rows, buffer)):
            names, texts = zip(*part, strict=True)
            yield from zip(names, texts, self.predict(list(texts), top_k), strict=True)
