"""What every classifier of this library returns."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.utils import ModelOutput


@dataclass
class LabelAttentionOutput(ModelOutput):
    """The answer of a label-attention classifier for a batch of B documents, N tokens and L labels.

    Attributes:
        loss: Scalar, present when `labels` were given.
        logits: `[B, L]`, float32. Sigmoid (multi-label) or softmax (single label) turns them into probabilities.
        decoder_state: What the document carries to its next chunk; pass it back to continue reading.
        label_attentions: `[B, L, N]`, the weight each label gives each token; present with `output_attentions=True`.
        hidden_states: `[B, N, H]`, the encoder's token states; present with `output_hidden_states=True`.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    decoder_state: Any = None
    label_attentions: torch.Tensor | None = None
    hidden_states: torch.Tensor | None = None
