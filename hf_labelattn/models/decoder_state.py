"""The state a document carries from one window of tokens to the next: a value, passed in and handed out."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class DecoderState:
    """Everything a model knows of the part of a document it has read.

    Attributes:
        encoder: Tensors of the encoder (hidden and cell states `[layers, B, H]`); empty for encoders without memory.
        labels: Tensors of the label scores (running maxima, sums, weights), batch first.
        num_tokens: `[B]` real tokens read so far.
    """

    encoder: tuple[Tensor, ...] = ()
    labels: tuple[Tensor, ...] = ()
    num_tokens: Tensor | None = field(default=None)

    def detach_encoder(self) -> "DecoderState":
        """Stop the gradient of the encoder's memory; the label scores keep theirs."""
        return replace(self, encoder=tuple(t.detach() for t in self.encoder))

    def detach(self) -> "DecoderState":
        """Stop every gradient, to keep the state beyond one forward pass."""
        return DecoderState(
            tuple(t.detach() for t in self.encoder), tuple(t.detach() for t in self.labels), self.num_tokens
        )

    def __getitem__(self, row: int) -> "DecoderState":
        """The state of one document of the batch (pipelines take outputs apart row by row)."""
        encoder = tuple(t[:, row] if t.dim() == 3 else t[row] for t in self.encoder)
        return DecoderState(encoder, tuple(t[row] for t in self.labels), self.num_tokens[row])

    def advance(self, mask: Tensor) -> Tensor:
        """Real tokens read after another window with this `[B, T]` mask."""
        count = mask.sum(1)
        return count if self.num_tokens is None else self.num_tokens + count


def windows(num_tokens: int, size: int) -> list[slice]:
    """Cut a document's token axis into windows.

    >>> windows(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(i, min(i + size, num_tokens)) for i in range(0, max(1, num_tokens), size)]


def needs_checkpoint(num_windows: int) -> bool:
    """Whether activations are recomputed in the backward pass: only for a document of several windows in training."""
    return num_windows > 1 and torch.is_grad_enabled()
