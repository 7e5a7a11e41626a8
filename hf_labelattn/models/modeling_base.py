"""What all classifiers of this library share: initialisation, loss, and the views of a batch of documents."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init

from .configuration_base import LabelClassifierConfig
from .functional import classification_loss


class LabelClassifierPreTrainedModel(PreTrainedModel):
    """Base class. A layer with parameters of its own defines `reset_weights()`; everything else is handled here."""

    config_class = LabelClassifierConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = False
    # `forward` takes **kwargs for pipelines only; without this Trainer would skip the division under accumulation.
    accepts_loss_kwargs = False

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if hasattr(module, "reset_weights"):
            module.reset_weights()
        elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
            init.normal_(module.weight, std=0.1)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.Linear | nn.Conv1d):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.RNNBase):
            for name, parameter in module.named_parameters():
                (init.zeros_ if "bias" in name else init.xavier_uniform_)(parameter)
        else:
            super()._init_weights(module)

    @property
    def label_names(self) -> list[str]:
        """The labels in the order of the logits."""
        return self.config.label_names

    def classification_loss(self, logits: Tensor, labels: Tensor | None) -> Tensor | None:
        """The loss for `config.problem_type`, or None without labels."""
        return None if labels is None else classification_loss(logits, labels, self.config.problem_type)

    def document_view(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Flatten `[B, C, T]` chunks (or pass `[B, T]` through) to `[B, N]` ids and a boolean mask."""
        input_ids, mask = self.chunk_view(input_ids, attention_mask)
        return input_ids.flatten(1), mask.flatten(1)

    def chunk_view(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Bring `[B, T]` or `[B, C, T]` to `[B, C, T]` ids and a boolean mask."""
        if input_ids is None or input_ids.dim() not in (2, 3):
            found = "None" if input_ids is None else f"shape {tuple(input_ids.shape)}"
            raise ValueError(f"`input_ids` is {found}, but must be [batch, tokens] or [batch, chunks, tokens].")
        mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        if mask.shape != input_ids.shape:
            raise ValueError(
                f"`attention_mask` has shape {tuple(mask.shape)}, but `input_ids` has {tuple(input_ids.shape)}."
            )
        if input_ids.dim() == 3:
            return input_ids, mask
        size = self.config.chunk_size
        if not self.config.reads_chunks or input_ids.shape[1] <= size:
            return input_ids[:, None], mask[:, None]
        # A long row, as a plain tokenizer gives it, is cut here as the collator would have cut it.
        fill = (0, -input_ids.shape[1] % size)
        input_ids = F.pad(input_ids, fill, value=self.config.pad_token_id or 0)
        return input_ids.unflatten(1, (-1, size)), F.pad(mask, fill).unflatten(1, (-1, size))
