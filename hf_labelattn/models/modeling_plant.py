"""PLANT: pretrained and leveraged attention (equations 2-6; the ranker of equations 1 and 7 is in `modeling_l2r.py`).

A document is read in chunks. The backbone's states of a chunk are weighed for each label by three attentions: learned
from scratch (A), mutual information (S), and the planted learning-to-rank model with inattention (P). Scores of the
chunks add up in a state that is passed in and handed out, so a note can be coded while it is being written.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedConfig
from transformers import initialization as init

from .backbones import build_transformer, read_chunks
from .configuration_plant import PlantConfig
from .decoder_state import DecoderState, needs_checkpoint, windows
from .encoders import reverse_rows
from .functional_planted import PlantedOptions, StaticRelevance, index_tokens, planted_attention, planted_logits
from .modeling_awd_lstm import AwdLstmModel
from .modeling_base import LabelClassifierPreTrainedModel
from .modeling_l2r import TokenRankerModel
from .modeling_tfidf_linear import TfidfLinearForMultiLabel
from .outputs import LabelAttentionOutput


class PlantedDecoder(nn.Module):
    """Three attentions and one score per label and chunk (equations 3-6)."""

    def __init__(self, config: PlantConfig):
        super().__init__()
        labels, size = config.num_labels, config.hidden_size
        self.dropout = nn.Dropout(config.decoder_dropout)
        self.query = nn.Parameter(torch.empty(labels, size)) if config.use_learned else None
        self.weight = nn.Parameter(torch.empty(labels, size))
        self.bias = nn.Parameter(torch.empty(labels))
        self.evidence = nn.Parameter(torch.empty(labels)) if config.use_evidence else None
        self.ranker = TokenRankerModel(config.ranker_config) if config.use_planted else None
        self.register_buffer("relevance_starts", torch.zeros(labels + 1, dtype=torch.long))
        self.register_buffer("relevance_tokens", torch.zeros(config.relevance_size, dtype=torch.long))
        self.register_buffer("relevance_values", torch.zeros(config.relevance_size))
        self.use_static, self.vocab_size = config.use_static, config.vocab_size
        self.evidence_dropout = config.evidence_dropout
        self.options = PlantedOptions(
            top_k=config.inattention_k,
            inattention_mode=config.inattention_mode,
            static_norm=config.static_norm,
            max_memory_mb=config.max_kernel_memory_mb,
            compile_pairs=config.compile_pairs,
        )

    def reset_weights(self) -> None:
        """Xavier for the label vectors, zero bias, no relevance until attention is planted."""
        if self.query is not None:
            init.xavier_uniform_(self.query)
        init.xavier_uniform_(self.weight)
        init.zeros_(self.bias)
        if self.evidence is not None:
            init.ones_(self.evidence)
        for buffer in (self.relevance_starts, self.relevance_tokens, self.relevance_values):
            init.zeros_(buffer)

    def _relevance(self) -> StaticRelevance:
        return StaticRelevance(self.relevance_starts, self.relevance_tokens, self.relevance_values, self.vocab_size)

    def _attentions(self, index) -> dict:
        return {
            "query": self.query,
            "ranker": None if self.ranker is None else self.ranker.pair_ranker(index.unique),
            "relevance": self._relevance() if self.use_static else None,
            "options": self.options,
        }

    def forward(self, hidden: Tensor, token_ids: Tensor, mask: Tensor) -> Tensor:
        """Scores `[chunks, L]` of chunks `[chunks, T, H]`, without the bias: a chunk of padding scores zero."""
        index = index_tokens(token_ids, mask)
        return planted_logits(self.dropout(hidden), index, self.weight, **self._attentions(index))

    def evidence_scores(self, token_ids: Tensor, mask: Tensor) -> Tensor:
        """Scores `[B, C, L]` from how much relevance chunks `[B, C, T]` hold."""
        ids, real = token_ids.flatten(0, 1), mask.flatten(0, 1)
        ones = torch.ones(*ids.shape, 1, dtype=self.weight.dtype, device=ids.device)
        options = replace(self.options, static_norm="none")
        found = planted_logits(
            ones, index_tokens(ids, real), self.evidence[:, None], relevance=self._relevance(), options=options
        ).view(*token_ids.shape[:2], -1)
        if not self.training or self.evidence_dropout == 0:
            return found
        return found * (torch.rand(len(found), 1, 1, device=found.device) >= self.evidence_dropout)

    def attention(self, hidden: Tensor, token_ids: Tensor, mask: Tensor, label_ids: Tensor) -> Tensor:
        """The sum A + S + P `[chunks, l, T]` for some labels."""
        index = index_tokens(token_ids, mask)
        parts = planted_attention(hidden, index, label_ids, **self._attentions(index))
        return sum(part for part in parts if part is not None)


class PlantReader(nn.Module):
    """A backbone and a decoder that read a document in one direction."""

    def __init__(self, config: PlantConfig, encoder_config: PreTrainedConfig):
        super().__init__()
        self.recurrent = encoder_config.model_type == "awd_lstm"
        self.encoder = AwdLstmModel(encoder_config) if self.recurrent else build_transformer(encoder_config)
        self.decoder = PlantedDecoder(config)
        self.state = config.state

    def start(self, batch: int) -> tuple[Tensor, ...]:
        """The label state of an unread document."""
        bias = self.decoder.bias
        zeros = torch.zeros(batch, len(bias), dtype=torch.float32, device=bias.device)
        if self.state == "max":
            return (zeros - torch.inf,)
        if self.state == "none":
            return zeros, zeros[:, :1]
        return (zeros + bias, zeros) if self.state == "sigmoid" else (zeros,)

    def read(self, ids: Tensor, mask: Tensor, state: DecoderState) -> tuple[DecoderState, Tensor]:
        """Fold chunks `[B, C, T]` into the state; also gives the token states `[B, C, T, H]`."""
        hidden, memory = self.encode(ids, mask, state.encoder)
        scores = self.decoder(hidden.flatten(0, 1), ids.flatten(0, 1), mask.flatten(0, 1)).view(*ids.shape[:2], -1)
        if self.decoder.evidence is not None:
            scores = scores + self.decoder.evidence_scores(ids, mask)
        labels = self.fold(state.labels or self.start(len(ids)), scores, mask.any(2))
        return DecoderState(memory, labels, state.advance(mask.flatten(1))), hidden

    def encode(self, ids: Tensor, mask: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Token states of chunks. An LSTM reads straight on; a transformer reads each chunk on its own."""
        if not self.recurrent:
            return read_chunks(self.encoder, ids, mask), ()
        if self.state == "none":
            output = self.encoder(ids.flatten(0, 1), mask.flatten(0, 1))
            return output.last_hidden_state.view(*ids.shape, -1), ()
        carried = tuple(zip(memory[::2], memory[1::2], strict=True)) if memory else None
        output = self.encoder(ids.flatten(1), mask.flatten(1), hidden_state=carried)
        memory = tuple(tensor for layer in output.hidden_state for tensor in layer)
        return output.last_hidden_state.view(*ids.shape, -1), memory

    def fold(self, state: tuple[Tensor, ...], scores: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        """Add the scores `[B, C, L]` of chunks to the label state; chunks of padding (`real` false) change nothing."""
        seen = real[..., None]
        if self.state == "logit_sum":
            return (state[0] + (scores * seen).sum(1),)
        if self.state == "max":
            return (torch.maximum(state[0], scores.masked_fill(~seen, -torch.inf).amax(1)),)
        if self.state == "none":
            return state[0] + (scores * seen).sum(1), state[1] + seen.sum(1)
        logits, probability = state
        for chunk, here in zip(scores.unbind(1), seen.unbind(1), strict=True):
            logits = torch.where(here, chunk + self.decoder.bias + probability, logits)
            probability = torch.where(here, torch.sigmoid(logits), probability)
        return logits, probability

    def logits(self, state: tuple[Tensor, ...]) -> Tensor:
        """Label scores `[B, L]` of what has been read."""
        if self.state == "sigmoid":
            return state[0]
        if self.state == "none":
            return state[0] / state[1].clamp(min=1) + self.decoder.bias
        return state[0].masked_fill(state[0] == -torch.inf, 0.0) + self.decoder.bias


class PlantForICDCoding(LabelClassifierPreTrainedModel):
    """Reads a document chunk by chunk and scores every label with planted attention."""

    config_class = PlantConfig
    config: PlantConfig
    base_model_prefix = "reader"

    def __init__(self, config: PlantConfig):
        super().__init__(config)
        self.reader = PlantReader(config, config.encoder_config)
        second = config.backward_encoder_config
        self.backward_reader = PlantReader(config, second) if second is not None else None
        self.prior = TfidfLinearForMultiLabel(config.prior_config) if config.prior_config is not None else None
        if self.prior is not None:
            self.prior.requires_grad_(False)
        self.post_init()

    @property
    def label_bias(self) -> nn.Parameter:
        """The bias `[L]` of the label scores."""
        return self.reader.decoder.bias

    def get_input_embeddings(self) -> nn.Module:
        return self.reader.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.reader.encoder.set_input_embeddings(value)

    @classmethod
    def join(cls, forward: "PlantForICDCoding", backward: "PlantForICDCoding") -> "PlantForICDCoding":
        """The bidirectional pair: one model that averages the probabilities of two trained ones."""
        if (forward.config.direction, backward.config.direction) != ("forward", "backward"):
            raise ValueError(
                f"The pair needs a forward and a backward model, found {forward.config.direction!r} and "
                f"{backward.config.direction!r}. Train the second with `--direction backward`."
            )
        if forward.config.id2label != backward.config.id2label:
            raise ValueError("The two models have different labels. Train them on the same data.")
        fields = {**forward.config.to_dict(), "backward_encoder_config": backward.config.encoder_config.to_dict()}
        pair = cls(cls.config_class.from_dict(fields))
        pair.reader.load_state_dict(forward.reader.state_dict())
        pair.backward_reader.load_state_dict(backward.reader.state_dict())
        return pair.eval()

    def step(self, input_ids: Tensor, decoder_state: DecoderState | None = None, **kwargs) -> LabelAttentionOutput:
        """Read the next chunk `[B, T]` of documents that are still being written.

        The output's `logits` are the scores so far; pass its `decoder_state` to the next call.
        """
        return self(input_ids, decoder_state=decoder_state, **kwargs)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_state: DecoderState | None = None,
        output_attentions: bool | None = None,
        attention_labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs,
    ) -> LabelAttentionOutput | tuple:
        """Score documents.

        Args:
            input_ids: `[B, T]` (one chunk) or `[B, chunks, T]`, padding at the end of each document.
            attention_mask: Same shape; where absent, everything but the padding id is read.
            labels: Multi-hot `[B, L]`, or class ids `[B]` for single-label problems.
            decoder_state: State of the part of the documents read before, to continue from.
            output_attentions: Also return the labels' weights over the tokens, summing to one.
            attention_labels: `[l]` labels to return attention for; all by default.
            return_dict: False for a plain tuple.
            **kwargs: Ignored, for callers that pass everything a tokenizer gives.
        """
        ids, mask = self.chunk_view(input_ids, attention_mask)
        self._check_streaming(decoder_state)
        wanted = self._attention_labels(attention_labels) if output_attentions else None
        state, logits, attentions = self._read(self.reader, ids, mask, decoder_state, wanted)
        if self.backward_reader is not None:
            logits = self._average(logits, *reverse_chunks(ids, mask))
        if self.prior is not None:
            logits = logits + self.prior(ids, mask).logits
        output = LabelAttentionOutput(
            loss=self.classification_loss(logits, labels),
            logits=logits,
            decoder_state=state,
            label_attentions=attentions,
        )
        return output if return_dict or (return_dict is None and self.config.return_dict) else output.to_tuple()

    def _check_streaming(self, state: DecoderState | None) -> None:
        backward = self.config.direction == "backward" or self.backward_reader is not None
        if state is not None and (backward or self.prior is not None):
            raise ValueError(
                "This model needs the whole document at once (it reads backward, or has a linear prior): pass all "
                "chunks together, without `decoder_state`."
            )

    def _attention_labels(self, wanted: Tensor | None) -> Tensor:
        return torch.arange(self.config.num_labels, device=self.device) if wanted is None else wanted.to(self.device)

    def _read(
        self, reader: PlantReader, ids: Tensor, mask: Tensor, state: DecoderState | None, wanted: Tensor | None
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        state, weights = state or DecoderState(), []
        backward = reader is self.reader and self.config.direction == "backward"
        if backward:
            ids, mask = reverse_chunks(ids, mask)
        spans = windows(ids.shape[1], self.config.bptt_chunks)
        for span in spans:
            part = ids[:, span], mask[:, span]
            if needs_checkpoint(len(spans)):
                state, hidden = checkpoint(reader.read, *part, state.detach_encoder(), use_reentrant=False)
            else:
                state, hidden = reader.read(*part, state)
            if wanted is not None:
                weights.append(chunk_attention(reader.decoder, hidden, *part, wanted))
        attentions = normalised(torch.cat(weights, 2)) if weights else None
        if attentions is not None and backward:
            attentions = reverse_rows(attentions.transpose(1, 2), mask.flatten(1)).transpose(1, 2)
        return state, reader.logits(state.labels).float(), attentions

    def _average(self, logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """The logit of the mean probability of the two directions."""
        _, backward, _ = self._read(self.backward_reader, ids, mask, None, None)
        both = torch.stack([logits, backward])
        yes, no = nn.functional.logsigmoid(both).logsumexp(0), nn.functional.logsigmoid(-both).logsumexp(0)
        return yes - no


def chunk_attention(decoder: PlantedDecoder, hidden: Tensor, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Attention `[B, l, tokens]` over the tokens of chunks `[B, C, T]`."""
    weights = decoder.attention(hidden.flatten(0, 1), ids.flatten(0, 1), mask.flatten(0, 1), labels)
    return weights.view(*ids.shape[:2], len(labels), -1).transpose(1, 2).flatten(2)


def normalised(weights: Tensor) -> Tensor:
    """Scale the weights `[B, l, N]` of each label to sum to one; a document without a word keeps zeros."""
    total = weights.sum(2, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def reverse_chunks(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same documents `[B, C, T]` read from their last word, cut anew; padding stays at the end."""
    return reverse_rows(ids.flatten(1), mask.flatten(1)).view_as(ids), mask
