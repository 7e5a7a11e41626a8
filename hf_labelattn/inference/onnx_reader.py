"""Serving an exported chunk step with onnxruntime.

[`OnnxChunkReader`] does it for batches of texts. Where this library is not installed, this is all there is to it:

    import json, numpy as np, onnxruntime, tokenizers
    session = onnxruntime.InferenceSession("step.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["hf_labelattn"])
    types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(bool)": "bool"}
    state = {x.name: np.zeros([1, *x.shape[1:]], types[x.type]) for x in session.get_inputs()[2:]}
    ids = tokenizers.Tokenizer.from_file("tokenizer.json").encode(text, add_special_tokens=False).ids
    size = about["chunk_size"] - len(about["prefix"] + about["suffix"])
    for start in range(0, max(1, len(ids)), size):
        chunk = about["prefix"] + ids[start : start + size] + about["suffix"]
        padded = np.full([1, about["chunk_size"]], about["pad_token_id"])
        padded[0, : len(chunk)] = chunk
        mask = (np.arange(about["chunk_size"]) < len(chunk))[None].astype("int64")
        logits, *after = session.run(None, {"input_ids": padded, "attention_mask": mask, **state})
        state = dict(zip(state, after))
    scores = dict(zip(about["labels"], 1 / (1 + np.exp(-logits[0]))))
"""

import json
import os
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from ..data.chunking import ChunkLayout, cut
from .prediction import Prediction

METADATA = "hf_labelattn"
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}
State = dict[str, np.ndarray]


class OnnxChunkReader:
    """Codes documents with a step that `export_onnx` wrote.

    >>> reader = OnnxChunkReader("step.onnx", load_tokenizer("runs/plant"))  # doctest: +SKIP
    >>> reader.predict(["The patient was admitted with sepsis."])  # doctest: +SKIP
    [[Prediction(label='A41.9', score=0.93)]]

    Args:
        path: The .onnx file.
        tokenizer: The model's tokenizer; not needed to read token ids.
        batch_size: Documents read side by side.
        **options: For `onnxruntime.InferenceSession`, such as `providers`.
    """

    def __init__(self, path: str | os.PathLike, tokenizer=None, batch_size: int = 16, **options):
        from onnxruntime import InferenceSession

        self.session = InferenceSession(os.fspath(path), **options)
        found = self.session.get_modelmeta().custom_metadata_map
        if METADATA not in found:
            raise ValueError(f"{os.fspath(path)} is no chunk step of this library. Write one with export_onnx.py.")
        self.about = json.loads(found[METADATA])
        self.labels: list[str] = self.about["labels"]
        self.tokenizer, self.batch_size = tokenizer, batch_size
        self.layout = ChunkLayout(self.about["chunk_size"], tuple(self.about["prefix"]), tuple(self.about["suffix"]))
        self._state_inputs = self.session.get_inputs()[2:]

    def start(self, batch: int = 1) -> State:
        """The state of unread documents: zeros."""
        return {x.name: np.zeros((batch, *x.shape[1:]), TYPES[x.type]) for x in self._state_inputs}

    def step(self, ids: np.ndarray, mask: np.ndarray, state: State | None = None) -> tuple[np.ndarray, State]:
        """Read the next chunk of documents.

        Args:
            ids: `[B, chunk_size]` token ids.
            mask: Same shape, 0 at padding, which comes behind a document's last token only.
            state: What the last call gave; None to start.

        Returns:
            Logits `[B, L]` of all that was read, and the state for the next chunk.
        """
        state = self.start(len(ids)) if state is None else state
        logits, *after = self.session.run(None, {"input_ids": ids, "attention_mask": mask, **state})
        return logits, dict(zip(state, after, strict=True))

    def read(self, documents: Sequence[np.ndarray]) -> np.ndarray:
        """Logits `[documents, L]` of whole documents given as token ids without special tokens."""
        documents = [np.asarray(ids, dtype=np.int64) for ids in documents]
        result = np.zeros((len(documents), len(self.labels)), dtype=np.float32)
        order = np.argsort([-len(ids) for ids in documents], kind="stable")
        for first in range(0, len(order), self.batch_size):
            rows, state = order[first : first + self.batch_size], None
            for chunks in zip_longest(*(cut(documents[row], self.layout) for row in rows), fillvalue=()):
                result[rows], state = self.step(*self.pad(chunks), state)
        return result

    def pad(self, chunks: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Ids and mask `[B, chunk_size]` of one chunk per document."""
        ids = np.full((len(chunks), self.about["chunk_size"]), self.about["pad_token_id"], dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, chunk in enumerate(chunks):
            ids[row, : len(chunk)], mask[row, : len(chunk)] = chunk, 1
        return ids, mask

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        """Probabilities `[documents, L]`."""
        if self.tokenizer is None:
            raise ValueError("A step without its tokenizer cannot read text. Pass `tokenizer=` too.")
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        logits = self.read(found).astype(np.float64)
        if not self.about["single_label"]:
            return 1 / (1 + np.exp(-logits))
        exponents = np.exp(logits - logits.max(1, keepdims=True))
        return exponents / exponents.sum(1, keepdims=True)

    def predict(self, texts: Sequence[str]) -> list[list[Prediction]]:
        """Labels of each text above the threshold stored in the file (or the best class), best first."""
        return [self._choose(row) for row in self.scores(texts)]

    def _choose(self, row: np.ndarray) -> list[Prediction]:
        order = np.argsort(-row, kind="stable")
        order = order[:1] if self.about["single_label"] else order[(row >= self.about["threshold"])[order]]
        return [Prediction(self.labels[i], float(row[i])) for i in order]
