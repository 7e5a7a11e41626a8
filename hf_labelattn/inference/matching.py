"""What interaction matching reads of a text besides the base's tokens."""

from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class MatchReader:
    """Gives each text the words the matcher needs.

    Attributes:
        model: The joint model.
        tokenizer: The matcher's.
        separate: Whether the matcher reads other tokens than the base.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    separate: bool

    @classmethod
    def of(cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> "MatchReader | None":
        """The reader a model needs; None where the base's tokens say it all."""
        if model.config.model_type != "interaction":
            return None
        if model.config.match_vocab_size is not None:
            return cls(model, model.match_tokenizer(), True)
        unknown_described = bool((model.matcher.label_keys < 0).any())
        return cls(model, tokenizer, False) if unknown_described else None

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
