"""Coding a note while it is being written."""

import numpy as np
import torch

from ..data.tokenization import encode_documents
from .prediction import Predictor


def can_stream(config) -> bool:
    """Whether a model reads on from a state exactly as if it had read the whole document, without reading it again.

    Models that look ahead (backward or bidirectional readers, convolutions over chunk borders) or whose state is the
    document itself cannot.
    """
    if config.model_type == "plant":
        both = config.backward_encoder_config is not None
        return config.direction == "forward" and not both and config.prior_config is None
    if config.model_type == "interaction":
        return config.base_config is None or config.has_foreign_base or can_stream(config.base_config)
    if config.model_type != "label_attention" or config.attention == "dynamic_max" or config.max_chunks is not None:
        return False
    recurrent = config.encoder in ("gru", "lstm") and not config.bidirectional
    return recurrent or config.encoder in ("transformer", "identity", "ngram_hash")


class NoteReader:
    """Reads one note piece by piece; after each piece, the scores are those of the whole note so far.

    Where the model can stream, chunks that are full are read once and remembered in its state, and only the last,
    unfinished one is read again; other models read the note again.

    Args:
        predictor: The model and its tokenizer.
    """

    def __init__(self, predictor: Predictor):
        self.predictor, self.text = predictor, ""
        config, layout = predictor.model.config, predictor.collate.layout
        self.step = layout.words_per_chunk or config.chunk_size
        self.streams = can_stream(config) and predictor.matching is None  # which reads words of the text itself
        self._forget()

    def _forget(self) -> None:
        self.read, self.state, self.logits = np.zeros(0, dtype=np.int64), None, None

    def add(self, piece: str) -> np.ndarray:
        """Probabilities `[labels]` of the note with this piece at its end."""
        self.text += piece
        ids = encode_documents(self.predictor.tokenizer, [self.text], progress=False)[0]
        if not self.streams or not len(ids):
            return self.predictor.scores([self.text])[0]
        if not np.array_equal(ids[: len(self.read)], self.read):
            self._forget()  # the piece went on with a word that had been read as finished
        full = len(ids) // self.step * self.step
        if full > len(self.read):
            self.logits, self.state = self._step(ids[len(self.read) : full])
            self.read = ids[:full]
        logits = self._step(ids[full:])[0] if full < len(ids) else self.logits
        return self.predictor.probabilities(logits)[0]

    @torch.no_grad()
    def _step(self, ids: np.ndarray) -> tuple[torch.Tensor, object]:
        batch, device = self.predictor.collate([{"input_ids": ids}]), self.predictor.device
        inputs = batch["input_ids"].to(device), batch["attention_mask"].to(device)
        output = self.predictor.model(*inputs, decoder_state=self.state)
        return output.logits, output.decoder_state
