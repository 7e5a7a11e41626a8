"""AWD-LSTM: a word-level language model, and the encoder PLANT reads with.

Merity, Keskar and Socher, "Regularizing and Optimizing LSTM Language Models", 2017.
Howard and Ruder, "Universal Language Model Fine-tuning for Text Classification", 2018.

The recurrent state is a value: an argument in, an output field out. Start a text by passing None; to stop the gradient
between two windows, pass `detach_state(output.hidden_state)`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_awd_lstm import AwdLstmConfig

State = tuple[tuple[Tensor, Tensor], ...]

# Added to a gate's pre-activation it gives a sigmoid of exactly 0 or 1, in every floating point type.
CLOSED_GATE = 1e4
DROPOUT_STEPS = 2**16


@dataclass
class AwdLstmModelOutput(ModelOutput):
    """What `AwdLstmModel` returns.

    Args:
        last_hidden_state: `[B, T, E]` output of the last layer, zero at padding.
        hidden_state: Per layer (h, c), each `[B, H]`, after each row's last real token. Not detached.
        hidden_states: `[B, T, E]`, `[B, T, H]`, …: the embedded words and the output of each layer, if asked for.
    """

    last_hidden_state: Tensor | None = None
    hidden_state: State | None = None
    hidden_states: tuple[Tensor, ...] | None = None


@dataclass
class AwdLstmCausalLMOutput(ModelOutput):
    """What `AwdLstmForCausalLM` returns.

    Args:
        loss: Mean cross entropy over the targets, plus AR and TAR in training mode.
        logits: `[B, T, V]` scores of the next word.
        hidden_state: As in `AwdLstmModelOutput`.
        hidden_states: As in `AwdLstmModelOutput`.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_state: State | None = None
    hidden_states: tuple[Tensor, ...] | None = None


def detach_state(state: State | None) -> State | None:
    """The same state, cut off from the graph that made it."""
    return None if state is None else tuple((h.detach(), c.detach()) for h, c in state)


def dropout_mask(like: Tensor, shape: tuple[int, ...], rate: float) -> Tensor:
    """Zeros with probability `rate` (to a 65,536th), else 1 / (share kept), in the type and on the device of `like`.

    Four entries are cut from each random 64-bit number: six times faster on CPU than `F.dropout`, which matters
    because DropConnect draws one entry per weight in every step.
    """
    size = torch.Size(shape).numel()
    dropped = round(rate * DROPOUT_STEPS)
    words = torch.empty((size + 3) // 4, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    kept = words.view(torch.int16)[:size].view(shape) >= dropped - DROPOUT_STEPS // 2
    return kept.to(like.dtype).mul_(DROPOUT_STEPS / (DROPOUT_STEPS - dropped))


class LockedDropout(nn.Module):
    """Dropout with one mask for all positions of a row (variational dropout)."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, hidden: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return hidden
        return hidden * dropout_mask(hidden, (hidden.shape[0], 1, hidden.shape[2]), self.rate)


class WordDropoutEmbedding(nn.Embedding):
    """Word vectors; in training a share of the words is dropped wherever they occur in the batch."""

    def __init__(self, vocab_size: int, embedding_size: int, padding_idx: int | None, rate: float):
        super().__init__(vocab_size, embedding_size, padding_idx=padding_idx)
        self.rate = rate

    def forward(self, input_ids: Tensor) -> Tensor:
        embedded = super().forward(input_ids)
        if not self.training or self.rate == 0:
            return embedded
        return embedded * dropout_mask(embedded, (self.num_embeddings, 1), self.rate)[input_ids]


class WeightDropLSTM(nn.LSTM):
    """One LSTM layer with DropConnect on the hidden-to-hidden weights; parameters keep the names of `nn.LSTM`."""

    def __init__(self, input_size: int, hidden_size: int, rate: float):
        super().__init__(input_size, hidden_size, batch_first=True)
        self.rate = rate

    def forward(self, hidden: Tensor, state: tuple[Tensor, Tensor] | None, mask: Tensor | None):
        """Read `[B, T, input]`; rows end where `mask` does, and their state is the one at their last real token."""
        if state is None:
            state = (hidden.new_zeros(hidden.shape[0], self.hidden_size),) * 2
        weights = self._weights()
        if mask is None:
            output, h, c = self._run(hidden, state, weights)
            return output, (h, c)
        hidden, weights = self._freeze_cell_at_padding(hidden, weights, mask)
        output, _, c = self._run(hidden, state, weights)
        return output * mask[..., None], (last_real(state[0], output, mask), c)

    def _weights(self) -> list[Tensor]:
        recurrent = self.weight_hh_l0
        if self.training and self.rate > 0:
            recurrent = recurrent * dropout_mask(recurrent, recurrent.shape, self.rate)
        return [self.weight_ih_l0, recurrent, self.bias_ih_l0, self.bias_hh_l0]

    def _freeze_cell_at_padding(self, hidden: Tensor, weights: list[Tensor], mask: Tensor):
        """Add an input that is 1 at padding; it shuts the input gate and opens the forget gate, so c stays as it is.

        This keeps the one fused call for a batch of rows of unequal length, without sorting and packing them.
        """
        gates = weights[0].new_tensor(
            [-CLOSED_GATE, CLOSED_GATE, 0, 0]
        )  # order of nn.LSTM: input, forget, cell, output
        column = gates.repeat_interleave(self.hidden_size)[:, None]
        hidden = torch.cat([hidden, ~mask[..., None]], dim=-1)
        return hidden, [torch.cat([weights[0], column], dim=1), *weights[1:]]

    def _run(self, hidden: Tensor, state: tuple[Tensor, Tensor], weights: list[Tensor]):
        # Autocast on CPU would ask oneDNN for a bf16 LSTM, which many CPUs do not have: keep the weights' type there.
        autocast = torch.is_autocast_enabled(hidden.device.type) and hidden.device.type != "cpu"
        with torch.autocast(hidden.device.type, enabled=autocast):
            hidden, h, c = (t if autocast else t.to(weights[0].dtype) for t in (hidden, *state))
            output, h, c = torch._VF.lstm(
                hidden, (h[None], c[None]), weights, True, 1, 0.0, torch.is_grad_enabled(), False, self.batch_first
            )
        return output, h[0], c[0]


def last_real(before: Tensor, output: Tensor, mask: Tensor) -> Tensor:
    """The output `[B, T, H]` at each row's last real token; `before` `[B, H]` for a row of padding only."""
    length = mask.sum(dim=1)  # [B]
    last = output[torch.arange(len(output), device=output.device), (length - 1).clamp(min=0)]
    return torch.where((length > 0)[:, None], last, before.to(last.dtype))


class AwdLstmPreTrainedModel(PreTrainedModel):
    """Initialisation and loading."""

    config: AwdLstmConfig
    config_class = AwdLstmConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    # Without this Trainer would skip the division under gradient accumulation because `forward` takes **kwargs.
    accepts_loss_kwargs = False

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.LSTM):
            for parameter in module.parameters():
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)
        elif isinstance(module, nn.Embedding | nn.Linear):
            init.uniform_(module.weight, -self.config.initializer_range, self.config.initializer_range)
        if isinstance(module, nn.Linear):
            init.zeros_(module.bias)


class AwdLstmModel(AwdLstmPreTrainedModel):
    """The encoder: words to hidden states, with a state carried from one window of the text to the next."""

    def __init__(self, config: AwdLstmConfig):
        super().__init__(config)
        self.embed_tokens = WordDropoutEmbedding(
            config.vocab_size, config.embedding_size, config.pad_token_id, config.dropout("embedding_dropout")
        )
        self.input_dropout = LockedDropout(config.dropout("input_dropout"))
        rate = config.dropout("weight_dropout")
        self.layers = nn.ModuleList(
            WeightDropLSTM(size_in, size_out, rate) for size_in, size_out in config.layer_sizes
        )
        self.hidden_dropout = LockedDropout(config.dropout("hidden_dropout"))
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word vectors."""
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the word vectors."""
        self.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        hidden_state: State | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> AwdLstmModelOutput:
        """Read a window of text from left to right.

        Args:
            input_ids: `[B, T]` words.
            attention_mask: `[B, T]`, 0 at padding, which must be on the right. Without it every token is real.
            hidden_state: `hidden_state` of the window before; None at the start of a text.
            inputs_embeds: `[B, T, E]` in place of `input_ids`.
            output_hidden_states: Whether to return the outputs of all layers.
            kwargs: Ignored, for pipelines.
        """
        self._check_state(hidden_state)
        hidden = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if hidden.shape[1] == 0:
            raise ValueError("The window has 0 tokens, but must have at least 1. Leave empty windows out.")
        mask = padding_mask(attention_mask)
        hidden = self.input_dropout(hidden)
        states, outputs = [], [hidden]
        for i, layer in enumerate(self.layers):
            hidden, state = layer(hidden, None if hidden_state is None else hidden_state[i], mask)
            states.append(state)
            outputs.append(hidden)
            if i < len(self.layers) - 1:
                hidden = self.hidden_dropout(hidden)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return AwdLstmModelOutput(hidden, tuple(states), tuple(outputs) if wanted else None)

    def _check_state(self, state: State | None) -> None:
        if state is not None and len(state) != len(self.layers):
            raise ValueError(
                f"`hidden_state` has {len(state)} layers, but this model has {len(self.layers)}. Pass the "
                "`hidden_state` of its own last output, or None to start a text."
            )


def padding_mask(attention_mask: Tensor | None) -> Tensor | None:
    """A boolean mask, or None where there is no padding to mind; refuses padding that is not on the right."""
    if attention_mask is None:
        return None
    mask = attention_mask.bool()
    if mask.all():
        return None
    if (mask[:, 1:] & ~mask[:, :-1]).any():
        raise ValueError(
            "`attention_mask` has padding before real tokens, but an LSTM reads from left to right. Pad on the right "
            '(`tokenizer.padding_side = "right"`).'
        )
    return mask


class AwdLstmForCausalLM(AwdLstmPreTrainedModel):
    """The language model: the encoder and a decoder that shares its word vectors."""

    _tied_weights_keys = {"lm_head.weight": "encoder.embed_tokens.weight"}

    def __init__(self, config: AwdLstmConfig):
        super().__init__(config)
        self.encoder = AwdLstmModel(config)
        self.output_dropout = LockedDropout(config.dropout("output_dropout"))
        self.lm_head = nn.Linear(config.embedding_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """The decoder."""
        return self.lm_head

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the decoder."""
        self.lm_head = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        hidden_state: State | None = None,
        labels: Tensor | None = None,
        shift_labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> AwdLstmCausalLMOutput:
        """Score the next word at each position.

        Args:
            input_ids: `[B, T]` words.
            attention_mask: `[B, T]`, 0 at padding, which must be on the right.
            hidden_state: `hidden_state` of the window before; None at the start of a text.
            labels: `[B, T]` usually `input_ids`: shifted here, as everywhere in transformers. -100 is ignored.
            shift_labels: `[B, T]` instead: the word that follows each position. For streams, where the last target of
                a window is the first word of the next. -100 is ignored.
            output_hidden_states: Whether to return the outputs of all layers.
            kwargs: Passed to the encoder.
        """
        encoded = self.encoder(
            input_ids, attention_mask, hidden_state, output_hidden_states=output_hidden_states, **kwargs
        )
        output = encoded.last_hidden_state  # [B, T, E]
        dropped = self.output_dropout(output)
        logits = self.lm_head(dropped)  # [B, T, V]
        if labels is not None and shift_labels is None:
            shift_labels = F.pad(labels[:, 1:], (0, 1), value=-100)
        loss = None
        if shift_labels is not None:
            loss = mean_cross_entropy(logits, shift_labels)
            if self.training:
                loss = loss + self._regularization(output, dropped, attention_mask)
        return AwdLstmCausalLMOutput(loss, logits, encoded.hidden_state, encoded.hidden_states)

    def _regularization(self, output: Tensor, dropped: Tensor, attention_mask: Tensor | None) -> Tensor | float:
        """AR on the dropped output, TAR on the whole one (Merity et al. 2017, section 4.6); means over real tokens."""
        penalty = 0.0
        mask = torch.ones_like(output[..., 0]) if attention_mask is None else attention_mask.to(output.dtype)
        if self.config.activation_regularization:
            squares = dropped.float().square().mean(-1)  # [B, T]
            penalty += self.config.activation_regularization * masked_mean(squares, mask)
        if self.config.temporal_activation_regularization and output.shape[1] > 1:
            changes = (output[:, 1:] - output[:, :-1]).float().square().mean(-1)  # [B, T - 1]
            penalty += self.config.temporal_activation_regularization * masked_mean(changes, mask[:, 1:])
        return penalty


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in fp32 over the targets that are not -100; 0 if there is none."""
    total = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten().long(), reduction="sum")
    return total / (targets != -100).sum().clamp(min=1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of `[B, T]` values where the mask is 1; 0 if it is nowhere."""
    return (values * mask).sum() / mask.sum().clamp(min=1)
