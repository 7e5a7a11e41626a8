"""What interaction matching reads of a text besides the base's tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tokenizers.models import WordPiece
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.documents import DocumentDataset, ragged


@dataclass(frozen=True)
class MatchReader:
    """Gives each document the words the matcher needs.

    Attributes:
        model: The joint model.
        base_tokenizer: The base's tokenizer.
        tokenizer: The matcher's.
    """

    model: PreTrainedModel
    base_tokenizer: PreTrainedTokenizerBase
    tokenizer: PreTrainedTokenizerBase

    @classmethod
    def of(cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> "MatchReader | None":
        """The reader a model needs; None where the base's tokens say it all."""
        if model.config.model_type not in ("interaction", "hybrid"):
            return None
        if model.config.match_vocab_size is not None:
            return cls(model, tokenizer, model.match_tokenizer())
        joint = model.matching if model.config.model_type == "hybrid" else model
        unknown_described = joint is not None and bool((joint.matcher.label_keys < 0).any())
        return cls(model, tokenizer, tokenizer) if unknown_described else None

    @property
    def separate(self) -> bool:
        """Whether the matcher reads other tokens than the base."""
        return self.tokenizer is not self.base_tokenizer

    def rows(self, texts: list[str]) -> list[dict[str, np.ndarray]]:
        """For each text what the collator turns into `match_input_ids` (if separate) and `match_hash`."""
        result = []
        for keys in self.model.text_keys(texts, self.tokenizer):
            keys = np.array(keys, dtype=np.int64)
            row = {"match_hash": np.where(keys < 0, -keys, 0)}
            if self.separate:
                row["match_input_ids"] = np.where(keys < 0, self.model.config.unk_token_id, keys)
            result.append(row)
        return result

    def words_of_tokens(self, ids: Sequence[int]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The same for a document given as the base's tokens, with the first and last token `[words, 2]` of each word.

        Only for a separate tokenizer: what stands behind an unknown token cannot be known from its id.
        """
        text, spans = pieces_as_text(self.base_tokenizer, ids)
        offsets = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
        first = np.searchsorted(spans[:, 1], starts, side="right")
        last = np.searchsorted(spans[:, 0], ends, side="left") - 1
        return self.rows([text])[0], np.stack([first, last], 1)


def with_match_words(
    documents: DocumentDataset, texts: Iterable[str], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> DocumentDataset:
    """Encoded documents with the words the matcher of a model needs besides; for other models as they are."""
    reader = MatchReader.of(model, tokenizer)
    if reader is None:
        return documents
    rows = reader.rows(list(texts))
    tokens = ragged([row["match_input_ids"] for row in rows]) if reader.separate else None
    return replace(documents, match_tokens=tokens, match_hashes=ragged([row["match_hash"] for row in rows], np.int64))


def pieces_as_text(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, np.ndarray]:
    """Tokens joined to words, and where in that text each of them stands, `[tokens, 2]`."""
    parts, spans, end = [], np.zeros((len(ids), 2), dtype=np.int64), 0
    word_pieces = isinstance(tokenizer.backend_tokenizer.model, WordPiece)
    for i, token in enumerate(tokenizer.convert_ids_to_tokens([int(i) for i in ids])):
        goes_on = token.startswith("##") if word_pieces else not token.startswith(("Ġ", "▁"))
        piece = token.removeprefix("##") if word_pieces else tokenizer.convert_tokens_to_string([token]).strip()
        gap = "" if goes_on else " "
        parts.append(gap + piece)
        spans[i] = end + len(gap), end + len(gap) + len(piece)
        end = spans[i, 1]
    return "".join(parts), spans
