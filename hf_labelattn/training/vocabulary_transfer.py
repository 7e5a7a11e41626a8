"""Start a language model from another one with a different vocabulary (Howard & Ruder 2018)."""

from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..models.configuration_awd_lstm import AwdLstmConfig
from ..models.modeling_awd_lstm import AwdLstmForCausalLM


@dataclass(frozen=True)
class VocabularyCoverage:
    """How much of a vocabulary was known before.

    Args:
        shared: Words that kept their vectors.
        total: Words of the new vocabulary.
        token_share: Share of the running text these words make up, if its counts were given.
    """

    shared: int
    total: int
    token_share: float | None = None

    def __str__(self) -> str:
        text = f"{self.shared:,} of {self.total:,} words keep their vectors ({self.shared / self.total:.1%})"
        return text if self.token_share is None else f"{text}, {self.token_share:.1%} of the training text"


def transfer_vocabulary(
    old_model: AwdLstmForCausalLM,
    old_tokenizer: PreTrainedTokenizerBase,
    new_tokenizer: PreTrainedTokenizerBase,
    token_counts: np.ndarray | None = None,
) -> tuple[AwdLstmForCausalLM, VocabularyCoverage]:
    """A copy of a model that reads and predicts another vocabulary.

    Words that both tokenizers have keep their vectors and decoder biases; new words get the mean ones. The padding and
    unknown tokens are matched by their role, whatever they are called.

    Args:
        old_model: The model to start from; it is not changed.
        old_tokenizer: The tokenizer it was trained with.
        new_tokenizer: The tokenizer the copy is for.
        token_counts: Occurrences of each new token in the training text, to report how much of it is covered.
    """
    source = matching_ids(old_tokenizer, new_tokenizer)
    fields = old_model.config.to_dict() | {"vocab_size": len(source), "pad_token_id": new_tokenizer.pad_token_id}
    model = AwdLstmForCausalLM(AwdLstmConfig.from_dict(fields))
    weights = old_model.state_dict()
    for name in ("encoder.embed_tokens.weight", "lm_head.weight", "lm_head.bias"):
        weights[name] = rows_or_mean(weights[name], source)
    model.load_state_dict(weights)
    known = source >= 0
    share = None if token_counts is None else float(token_counts[known].sum() / max(1, token_counts.sum()))
    return model.train(old_model.training), VocabularyCoverage(int(known.sum()), len(source), share)


def matching_ids(old_tokenizer: PreTrainedTokenizerBase, new_tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """For each id of the new tokenizer the id of the same word in the old one, or -1."""
    old, new = old_tokenizer.get_vocab(), new_tokenizer.get_vocab()
    source = np.full(max(new.values()) + 1, -1)
    for word, index in new.items():
        source[index] = old.get(word, -1)
    for role in ("pad_token_id", "unk_token_id"):
        old_id, new_id = getattr(old_tokenizer, role), getattr(new_tokenizer, role)
        if old_id is not None and new_id is not None:
            source[new_id] = old_id
    return source


def rows_or_mean(rows: torch.Tensor, source: np.ndarray) -> torch.Tensor:
    """`rows[source]`, and the mean row where source is -1.

    >>> rows_or_mean(torch.tensor([[1.0], [3.0]]), np.array([1, -1, 0])).flatten().tolist()
    [3.0, 2.0, 1.0]
    """
    index = torch.from_numpy(source).to(rows.device)
    chosen = rows[index.clamp(min=0)]
    known = (index >= 0).view(-1, *[1] * (rows.dim() - 1))
    return torch.where(known, chosen, rows.mean(0, dtype=torch.float32).to(rows.dtype))
