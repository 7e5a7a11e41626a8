"""The model zoo: any encoder with any label attention.

Kim 2014 (`cnn`), Bi-GRU as in Mullenbach et al. 2018 (`bigru`), CAML and DR-CAML (Mullenbach et al. 2018), LAAT and
JointLAAT (Vu et al. 2021), MultiResCNN (Li & Yu 2020), XML-CNN (Liu et al. 2017), fastText (Joulin et al. 2017), SWEM
(Shen et al. 2018), PLM-ICD (Huang et al. 2022) and PLM-CA (Edin et al. 2024).
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig
from transformers import initialization as init

from .backbones import build_transformer, load_transformer, read_chunks
from .configuration_label_attention import LabelAttentionConfig
from .decoder_state import DecoderState, needs_checkpoint, windows
from .encoders import ConvolutionEncoder, HashedNgramBag, IdentityEncoder, MultiResidualEncoder, RecurrentEncoder
from .functional import classification_loss
from .label_attention import (
    CrossAttention,
    DynamicMaxPooling,
    JointLabelWiseAttention,
    LabelWiseAttention,
    LastPooling,
    MaxPooling,
    MeanPooling,
    UnitMeanPooling,
    description_penalty,
    parent_targets,
)
from .modeling_base import LabelClassifierPreTrainedModel
from .outputs import LabelAttentionOutput


def build_encoder(config: LabelAttentionConfig) -> nn.Module:
    """The encoder a configuration names, over word embeddings."""
    size, hidden = config.embedding_size, config.hidden_size
    if config.encoder == "identity":
        return IdentityEncoder(size)
    if config.encoder == "cnn":
        return ConvolutionEncoder(size, hidden, config.kernel_sizes, config.activation)
    if config.encoder == "multires":
        return MultiResidualEncoder(size, hidden, config.kernel_sizes)
    if config.encoder == "ngram_hash":
        return HashedNgramBag(config.vocab_size, config.num_buckets, size, config.max_ngram)
    return RecurrentEncoder(config.encoder, size, hidden, config.bidirectional)


def build_attention(config: LabelAttentionConfig, feature_size: int) -> nn.Module:
    """The attention a configuration names, over hidden states of `feature_size`."""
    labels, memory = config.num_labels, config.max_kernel_memory_mb
    dropout = config.dropout if config.classifier_dropout is None else config.classifier_dropout
    pooling = {"max": MaxPooling, "mean": MeanPooling, "unit_mean": UnitMeanPooling}
    if config.attention in pooling:
        return pooling[config.attention](feature_size, labels, dropout)
    if config.attention == "last":
        return LastPooling(feature_size, labels, dropout, config.bidirectional)
    if config.attention == "dynamic_max":
        return DynamicMaxPooling(feature_size, labels, dropout, config.pool_parts, config.bottleneck_size)
    if config.attention == "caml":
        return LabelWiseAttention(feature_size, labels, None, memory)
    if config.attention == "laat":
        return LabelWiseAttention(feature_size, labels, config.attention_size, memory)
    if config.attention == "joint_laat":
        parents = max(config.label_parents) + 1
        return JointLabelWiseAttention(
            feature_size, labels, config.attention_size, parents, config.parent_size, memory
        )
    return CrossAttention(feature_size, labels, memory)


class LabelAttentionForMultiLabel(LabelClassifierPreTrainedModel):
    """Encoder × label attention. Reads documents of any length in windows, with memory that does not grow."""

    config_class = LabelAttentionConfig
    config: LabelAttentionConfig

    def __init__(self, config: LabelAttentionConfig):
        super().__init__(config)
        if config.encoder == "transformer":
            self.encoder = build_transformer(config.backbone_config)
            feature_size = config.backbone_config.hidden_size
        else:
            self.encoder = build_encoder(config)
            feature_size = self.encoder.output_size
        if config.encoder not in ("transformer", "ngram_hash"):
            self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.attention = build_attention(config, feature_size)
        if config.description_weight:
            self.register_buffer("description_ids", torch.zeros(config.num_labels, config.description_length).long())
            self.description_encoder = ConvolutionEncoder(
                config.embedding_size, feature_size, [config.kernel_sizes[0]], "tanh"
            )
        self.post_init()

    def reset_weights(self) -> None:
        """Descriptions are empty until given."""
        if self.config.description_weight:
            init.zeros_(self.description_ids)

    @classmethod
    def from_backbone(cls, name_or_path: str, preset: str = "plm_icd", **overrides) -> "LabelAttentionForMultiLabel":
        """A classifier over the pretrained transformer found at `name_or_path`."""
        backbone = AutoConfig.from_pretrained(name_or_path)
        overrides.setdefault("vocab_size", backbone.vocab_size)
        overrides.setdefault("pad_token_id", backbone.pad_token_id)
        config = LabelAttentionConfig.preset(preset, backbone_config=backbone, **overrides)
        if config.chunk_size > (limit := getattr(backbone, "max_position_embeddings", config.chunk_size)):
            raise ValueError(
                f"`chunk_size` is {config.chunk_size}, but the backbone reads at most {limit} tokens at once. Pass "
                f"`chunk_size={limit}` or less."
            )
        model = cls(config)
        load_transformer(model.encoder, name_or_path)
        return model

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings() if self.config.encoder == "transformer" else self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        if self.config.encoder == "transformer":
            self.encoder.set_input_embeddings(value)
        else:
            self.embeddings = value

    @property
    def label_bias(self) -> nn.Parameter:
        """The bias `[L]` of the label scores."""
        attention = self.attention.labels if self.config.attention == "joint_laat" else self.attention
        return attention.bias if attention.has_attention else attention.classifier.bias

    @torch.no_grad()
    def set_word_vectors(self, vectors: Tensor) -> None:
        """Start the word embeddings (or the word rows of a hashed table) from `[V, E]` vectors."""
        table = self.encoder.table if self.config.encoder == "ngram_hash" else self.embeddings.weight
        if vectors.shape[1] != table.shape[1]:
            raise ValueError(
                f"The vectors have {vectors.shape[1]} dimensions, but the model embeds words in {table.shape[1]}. Set "
                f"`embedding_size={vectors.shape[1]}`."
            )
        table[: len(vectors)] = vectors.to(table)

    @torch.no_grad()
    def document_vectors(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """What the classifier of a pooling model sees of each document, `[B, features]`."""
        state = DecoderState()
        for span in self._spans(input_ids, attention_mask, None):
            state = span(state)[0]
        return self.attention.features(state.labels).float()

    @torch.no_grad()
    def add_labels(self, names: list[str], vectors: Tensor) -> None:
        """Add labels behind the present ones, by vectors `[new, features]` of their descriptions (`unit_mean`)."""
        old = self.attention.classifier
        new = nn.Linear(old.in_features, old.out_features + len(names)).to(old.weight)
        new.weight.copy_(torch.cat([old.weight, self.config.description_scale * vectors.to(old.weight)]))
        new.bias.copy_(F.pad(old.bias, (0, len(names)), value=self.config.new_label_bias))
        self.attention.classifier = new
        self.config.rename_labels([*self.label_names, *names])

    @torch.no_grad()
    def set_label_descriptions(self, token_ids: list[list[int]]) -> None:
        """Give each label's description as token ids, for DR-CAML's regulariser."""
        width = max(1, max(len(ids) for ids in token_ids))
        table = torch.zeros(len(token_ids), width, dtype=torch.long)
        for row, ids in enumerate(token_ids):
            table[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        self.config.description_length = width
        self.description_ids = table.to(self.description_ids.device)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_state: DecoderState | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs,
    ) -> LabelAttentionOutput | tuple:
        """Score documents.

        Args:
            input_ids: `[B, T]` or `[B, chunks, T]`, padding at the end of each document.
            attention_mask: Same shape; where absent, everything but the padding id is read.
            labels: Multi-hot `[B, L]`, or class ids `[B]` for single-label problems.
            decoder_state: State of the part of the documents read before, to continue from.
            output_attentions: Also return each label's weights over the tokens.
            output_hidden_states: Also return the encoder's token states.
            return_dict: False for a plain tuple.
            **kwargs: Ignored, for callers that pass everything a tokenizer gives.
        """
        if output_attentions and not self.attention.has_attention:
            raise ValueError(
                f"`attention={self.config.attention!r}` has no label attention: pass output_attentions=False."
            )
        state, hidden_states, scores = decoder_state or DecoderState(), [], []
        spans = self._spans(input_ids, attention_mask, decoder_state, bool(output_hidden_states))
        for span in spans:
            if needs_checkpoint(len(spans)):
                state, hidden, mask = checkpoint(span, state.detach_encoder(), use_reentrant=False)
            else:
                state, hidden, mask = span(state)
            hidden_states += [hidden] if output_hidden_states else []
            scores += [self.attention.attention_scores(hidden, mask)] if output_attentions else []
        logits = self.attention.logits(state.labels).float()
        output = LabelAttentionOutput(
            loss=self._loss(logits, state, labels),
            logits=logits,
            decoder_state=state,
            label_attentions=torch.cat(scores, 2).softmax(2).nan_to_num(0.0) if scores else None,
            hidden_states=torch.cat(hidden_states, 1) if hidden_states else None,
        )
        return output if return_dict or (return_dict is None and self.config.return_dict) else output.to_tuple()

    def _spans(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        carried: DecoderState | None,
        keep_hidden: bool = False,
    ) -> list[Callable]:
        """The windows of a batch, each a function from the state before it to the state after it."""
        if self.config.encoder == "transformer":
            if carried is not None and self.config.max_chunks is not None:
                raise ValueError("`max_chunks` counts from the start of a document: pass it without `decoder_state`.")
            ids, mask = (t[:, : self.config.max_chunks] for t in self.chunk_view(input_ids, attention_mask))
            groups = windows(ids.shape[1], self.config.bptt_chunks)
            return [partial(self._read_chunks, ids[:, group], mask[:, group]) for group in groups]
        ids, mask = self.document_view(input_ids, attention_mask)
        if self.config.attend_to_padding:
            mask = torch.ones_like(mask)
        if carried is not None and self.config.attention == "dynamic_max":
            raise ValueError("Dynamic max pooling needs the whole document at once: pass it without `decoder_state`.")
        spans = windows(ids.shape[1], self.config.window_tokens)
        if self.config.encoder == "ngram_hash":
            return [partial(self._read_ngrams, ids[:, span], mask[:, span]) for span in spans]
        if isinstance(self.encoder, ConvolutionEncoder) and hasattr(self.attention, "join") and not keep_hidden:
            return [partial(self._read_maxima, ids, mask, span) for span in spans]
        borders = self._borders(ids, mask, spans)
        return [partial(self._read_words, ids, mask, *where) for where in zip(spans, borders, strict=True)]

    def _borders(self, ids: Tensor, mask: Tensor, spans: list[slice]) -> list[tuple[Tensor, ...]]:
        """What the backward direction of the encoder brings from the right of each window."""
        if len(spans) == 1 or getattr(self.encoder, "backward_layer", None) is None:
            return [()] * len(spans)
        # A generator of windows, so that only one is embedded at a time.
        embedded = ((self.embeddings(ids[:, span]), mask[:, span]) for span in reversed(spans))
        return self.encoder.backward_borders(embedded)

    def _read_words(self, ids: Tensor, mask: Tensor, span: slice, border: tuple, state: DecoderState) -> tuple:
        left, right = max(0, span.start - self.encoder.halo), span.stop + self.encoder.halo
        seen = mask[:, left:right]
        hidden, memory = self.encoder(self.dropout(self.embeddings(ids[:, left:right])), seen, state.encoder, border)
        hidden = hidden[:, span.start - left : span.stop - left]
        return self._fold(state, memory, hidden, mask[:, span], span.start, mask.sum(1))

    def _read_maxima(self, ids: Tensor, mask: Tensor, span: slice, state: DecoderState) -> tuple:
        """`_read_words` where only the maxima of the hidden states are wanted."""
        left, right, lengths = max(0, span.start - self.encoder.halo), span.stop + self.encoder.halo, mask.sum(1)
        part = self.attention.part_of(mask[:, left:right], left, lengths)
        part[:, : span.start - left] = part[:, span.stop - left :] = -1
        embedded = self.dropout(self.embeddings(ids[:, left:right]))
        best = self.encoder.maxima(embedded, mask[:, left:right], part, self.attention.parts)
        labels = self.attention.join(state.labels or self.attention.start(best, lengths), best)
        return DecoderState((), labels, state.advance(mask[:, span])), None, mask[:, span]

    def _read_chunks(self, ids: Tensor, mask: Tensor, state: DecoderState) -> tuple:
        hidden = self.dropout(read_chunks(self.encoder, ids, mask).flatten(1, 2))
        return self._fold(state, (), hidden, mask.flatten(1), 0, mask.flatten(1).sum(1))

    def _read_ngrams(self, ids: Tensor, mask: Tensor, state: DecoderState) -> tuple:
        tail, tail_mask = state.encoder or (ids[:, :0], mask[:, :0])
        ids, mask = torch.cat([tail, ids], 1), torch.cat([tail_mask, mask], 1)
        total, count = self.encoder(ids, mask, context=tail.shape[1])
        labels = (total, count) if not state.labels else (state.labels[0] + total, state.labels[1] + count)
        keep = max(0, ids.shape[1] - self.config.max_ngram + 1)
        memory = (ids[:, keep:], mask[:, keep:])
        return DecoderState(memory, labels, state.advance(mask[:, tail.shape[1] :])), None, mask

    def _fold(self, state: DecoderState, memory: tuple, hidden: Tensor, mask: Tensor, offset: int, lengths: Tensor):
        labels = state.labels or self.attention.start(hidden, lengths)
        labels = self.attention.update(labels, hidden, mask, offset, lengths)
        return DecoderState(memory, labels, state.advance(mask)), hidden, mask

    def _loss(self, logits: Tensor, state: DecoderState, labels: Tensor | None) -> Tensor | None:
        loss = self.classification_loss(logits, labels)
        if loss is None:
            return None
        if self.config.attention == "joint_laat":
            parents = torch.tensor(self.config.label_parents, device=logits.device)
            scores = self.attention.parent_logits(state.labels)
            targets = parent_targets(labels.float(), parents, scores.shape[1])
            loss = loss + self.config.parent_loss_weight * classification_loss(
                scores, targets, self.config.problem_type
            )
        if self.config.description_weight and self.description_ids.shape[1]:
            loss = loss + self.config.description_weight * self._description_penalty(labels)
        return loss

    def _description_penalty(self, labels: Tensor) -> Tensor:
        present = labels.any(0).nonzero()[:, 0]
        ids = self.description_ids[present]
        mask = ids != self.config.pad_token_id
        encoded = self.description_encoder.maxima(self.embeddings(ids), mask, mask.long() - 1, 1)[:, 0]
        described = mask.any(1)
        return description_penalty(
            self.attention.weight[present][described], encoded[described], labels[:, present][:, described]
        )
