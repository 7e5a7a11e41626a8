"""Interaction matching: label descriptions found in the text, joined with any classifier.

Sean MacAvaney, Franck Dernoncourt, Walter Chang, Nazli Goharian and Ophir Frieder. Interaction Matching for Long-Tail
Multi-Label Classification. 2020.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init

from .configuration_interaction import InteractionConfig
from .functional_matching import LabelWords, left_aligned, word_keys
from .label_matching import (
    InteractionState,
    LabelMatcher,
    ScoreCombination,
    better_windows,
    window_positions,
    window_weights,
)
from .modeling_base import LabelClassifierPreTrainedModel
from .outputs import LabelAttentionOutput
from .word_reading import MATCH_TOKENIZER_FILE, ReadsWords

logger = logging.getLogger(__name__)


@dataclass
class InteractionOutput(LabelAttentionOutput):
    """The answer of [`InteractionForMultiLabel`] for B documents and L labels.

    Attributes:
        match_position: `[B, L, 2]`, first token and number of tokens of the window that matches the description
            best, the evidence; (-1, 0) where there is none. Counted in the flattened document.
        match_scores: `[B, L]`, the (weighted) mean cosine of that window: 1 for the description word by word.
        base_logits: `[B, L]`, what the base says by itself; NaN for labels it does not know. None without a base.
    """

    match_position: torch.Tensor | None = None
    match_scores: torch.Tensor | None = None
    base_logits: torch.Tensor | None = None


def build_base(config: PreTrainedConfig | None) -> PreTrainedModel | None:
    """The classifier a configuration belongs to: one of this library's by its `model_type`, else transformers'."""
    if config is None:
        return None
    if config.model_type == "label_attention":
        from .modeling_label_attention import LabelAttentionForMultiLabel as own
    elif config.model_type == "leam":
        from .modeling_leam import LEAMForSequenceClassification as own
    elif config.model_type == "plant":
        from .modeling_plant import PlantForICDCoding as own
    elif config.model_type == "tfidf_linear":
        from .modeling_tfidf_linear import TfidfLinearForMultiLabel as own
    else:
        return AutoModelForSequenceClassification.from_config(config)
    return own(config)


def word_table(base: PreTrainedModel | None) -> Tensor | None:
    """Word embeddings `[V or more, D]` of a base, its words first; None if it has none."""
    if base is None or base.config.model_type == "tfidf_linear":
        return None
    if getattr(base.config, "encoder", None) == "ngram_hash":
        return base.encoder.table
    return base.get_input_embeddings().weight


class InteractionForMultiLabel(ReadsWords, LabelClassifierPreTrainedModel):
    """Any multi-label classifier, joined with a matcher that finds the labels' descriptions in the text.

    Labels can be added and removed without training; see [`add_labels`], [`remove_labels`], [`score_labels`].
    """

    config_class = InteractionConfig
    config: InteractionConfig

    def __init__(self, config: InteractionConfig):
        super().__init__(config)
        self.base = build_base(config.base_config)
        self.matcher = LabelMatcher(
            config.match_vocab_size or config.vocab_size,
            config.match_embedding_size,
            config.num_labels,
            config.num_label_words,
            config.num_label_terms,
            config.unk_token_id,
            config.term_weighting,
            config.max_kernel_memory_mb,
        )
        names = ("match_temperature", "match_bias", "match_weight", "unseen_logit")
        starts = {name.removeprefix("match_"): getattr(config, name) for name in names}
        self.combination = ScoreCombination(config.combine, config.score_scale, starts)
        self.register_buffer("base_columns", torch.empty(config.num_labels, dtype=torch.long))
        self.post_init()

    def reset_weights(self) -> None:
        """Labels are the base's, in its order; further ones are unknown to it (-1)."""
        columns = torch.arange(self.config.num_labels, device=self.base_columns.device)
        width = 0 if self.base is None else self.config.base_config.num_labels
        init.copy_(self.base_columns, columns.masked_fill(columns >= width, -1))

    @classmethod
    def from_base(cls, base: PreTrainedModel, **overrides) -> "InteractionForMultiLabel":
        """Join a (trained or new) classifier with a matcher; `overrides` are fields of [`InteractionConfig`]."""
        model = cls(InteractionConfig.from_base(base.config, **overrides))
        model.base = base
        return model.train(base.training)

    def get_input_embeddings(self) -> nn.Module:
        return self.matcher.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.matcher.embeddings = value

    @torch.no_grad()
    def set_word_vectors(self, vectors: Tensor | None = None) -> None:
        """Start the matcher's word embeddings from `[V, D]` vectors, or from those of the base if none are given."""
        table = self.matcher.embeddings.weight
        if vectors is None:
            vectors = self._base_vectors()
        vectors = torch.as_tensor(vectors)
        if vectors.shape != table.shape:
            raise ValueError(
                f"The vectors are {list(vectors.shape)}, but the matcher's table is {list(table.shape)}. Set "
                f"`match_embedding_size={vectors.shape[1]}` and pass one row for each word of the tokenizer."
            )
        table.copy_(vectors.to(table))

    def _base_vectors(self) -> Tensor:
        table = word_table(self.base)
        if table is None:
            raise ValueError("The base has no word embeddings to start from: pass `vectors`.")
        return table[: len(self.matcher.embeddings.weight)]

    @torch.no_grad()
    def set_term_weights(self, weights: Tensor) -> None:
        """Set the weight `[V]` of each word (`inverse_document_frequency`); `term_weighting` must not be uniform."""
        if self.config.term_weighting == "uniform":
            raise ValueError("`term_weighting` is 'uniform': build the model with 'idf' or 'learned' to set weights.")
        table = self.matcher.term_weights
        if weights.shape != table.shape or not (weights > 0).all():
            raise ValueError(f"Weights must be {list(table.shape)} positive numbers; found {list(weights.shape)}.")
        learned = self.config.term_weighting == "learned"
        table.copy_(weights.double().expm1().log() if learned else weights)

    def set_label_descriptions(self, descriptions: Mapping[str, str], tokenizer=None) -> None:
        """Give labels their descriptions; a label without one keeps only the base's score.

        Args:
            descriptions: Label to text.
            tokenizer: The matcher's (fast) tokenizer; by default the one saved beside this model.
        """
        self._check_known(descriptions, "`add_labels`")
        texts = [descriptions.get(name, "") for name in self.label_names]
        self._set_words(self._description_keys(texts, tokenizer))
        self.config.label_descriptions = {k: v for k, v in zip(self.label_names, texts, strict=True) if v}

    def add_labels(self, descriptions: Mapping[str, str], tokenizer=None) -> None:
        """Add labels behind the present ones, without training: the matcher alone scores them.

        Args:
            descriptions: New label to its description.
            tokenizer: The matcher's (fast) tokenizer; by default the one saved beside this model.
        """
        present = sorted(set(descriptions) & set(self.label_names))
        if present:
            raise ValueError(f"Labels {present[:5]} exist already. Give them another name or `remove_labels` first.")
        keys = self._description_keys(list(descriptions.values()), tokenizer)
        empty = [name for name, words in zip(descriptions, keys, strict=True) if not len(words)]
        if empty:
            raise ValueError(f"The descriptions of {empty[:5]} have no words, so nothing could ever score them.")
        self._set_words([*self.matcher.words.unpack(), *keys])
        self.base_columns = F.pad(self.base_columns, (0, len(keys)), value=-1)
        thresholds = self.config.label_thresholds
        if thresholds is not None:
            self.config.label_thresholds = [*thresholds, *[self.config.threshold] * len(keys)]
        if self.config.training_counts is not None:
            self.config.training_counts = [*self.config.training_counts, *[0] * len(keys)]
        self.config.rename_labels([*self.label_names, *descriptions])
        self.config.label_descriptions = {**(self.config.label_descriptions or {}), **descriptions}

    def remove_labels(self, labels: Iterable[str]) -> None:
        """Take labels away; the others keep their scores and their order."""
        labels = set(labels)
        self._check_known(labels, "the names in `config.id2label`")
        keep = [i for i, name in enumerate(self.label_names) if name not in labels]
        words = self.matcher.words.unpack()
        self._set_words([words[i] for i in keep])
        self.base_columns = self.base_columns[keep]
        if self.config.label_thresholds is not None:
            self.config.label_thresholds = [self.config.label_thresholds[i] for i in keep]
        if self.config.training_counts is not None:
            self.config.training_counts = [self.config.training_counts[i] for i in keep]
        self.config.rename_labels([self.label_names[i] for i in keep])
        texts = self.config.label_descriptions or {}
        self.config.label_descriptions = {name: text for name, text in texts.items() if name not in labels}

    def _check_known(self, labels: Iterable[str], remedy: str) -> None:
        unknown = sorted(set(labels) - set(self.label_names))
        if unknown:
            raise ValueError(f"The model has no labels {unknown[:5]} ({len(unknown)} unknown in all). Use {remedy}.")

    def _set_words(self, keys: Sequence[Tensor]) -> None:
        words = LabelWords.pack(keys)
        self.matcher.set_words(words)
        self.config.num_label_words, self.config.num_label_terms = len(words.keys), len(words.rows)

    def _description_keys(self, texts: list[str], tokenizer) -> list[Tensor]:
        """The words of each description, as far as `max_description_tokens`."""
        limit = self.config.max_description_tokens
        words = self.text_keys(texts, tokenizer) if texts else []
        cut = sum(len(row) > limit for row in words)
        if cut:
            logger.warning("%d descriptions are cut to `max_description_tokens=%d` words", cut, limit)
        return [torch.tensor(row[:limit], dtype=torch.long) for row in words]

    def score_labels(
        self,
        documents: str | Sequence[str] | Tensor,
        descriptions: Sequence[str] | Mapping[str, str],
        tokenizer=None,
        attention_mask: Tensor | None = None,
        match_hash: Tensor | None = None,
    ) -> InteractionOutput:
        """Score any labels by their descriptions alone, as if they had been added.

        Args:
            documents: Texts, or token ids `[B, T]` or `[B, chunks, T]`.
            descriptions: K descriptions (or a map of labels to them).
            tokenizer: The matcher's (fast) tokenizer; by default the one saved beside this model.
            attention_mask: Of token ids.
            match_hash: Of token ids, see [`forward`].

        Returns:
            Logits and match scores `[B, K]`, and the windows found, `[B, K, 2]`.
        """
        texts = list(descriptions.values() if isinstance(descriptions, Mapping) else descriptions)
        tokenizer = self.match_tokenizer(tokenizer)
        words = LabelWords.pack(self._description_keys(texts, tokenizer))
        words = LabelWords(*(t.to(self.device) for t in words))
        if isinstance(documents, Tensor):
            keys, lengths, places = self._document_words(documents, attention_mask, match_hash)
        else:
            keys, lengths, places = self._text_words(documents, tokenizer)
        scores, start = self.matcher(keys, lengths, words)
        nothing = torch.zeros_like(scores)
        logits = self.combination(nothing, nothing.bool(), scores, words.lengths > 0)
        return InteractionOutput(
            logits=logits, match_scores=scores, match_position=window_positions(start, words, places, lengths)
        )

    def _text_words(self, documents: str | Sequence[str], tokenizer) -> tuple[Tensor, Tensor, Tensor]:
        texts = [documents] if isinstance(documents, str) else list(documents)
        rows = [torch.tensor(row, dtype=torch.long) for row in self.text_keys(texts, tokenizer)]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        keys = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.device)
        return keys, lengths, torch.arange(keys.shape[1], device=self.device).expand_as(keys)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_state: InteractionState | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        match_input_ids: Tensor | None = None,
        match_attention_mask: Tensor | None = None,
        match_hash: Tensor | None = None,
        base_logits: Tensor | None = None,
        **kwargs,
    ) -> InteractionOutput | tuple:
        """Score documents.

        Args:
            input_ids: `[B, T]` or `[B, chunks, T]`, padding at the end of each document.
            attention_mask: Same shape; where absent, everything but the padding id is read.
            labels: Multi-hot `[B, L]`.
            decoder_state: State of the part of the documents read before, to continue from.
            output_attentions: Also return where each label's description matches, as weights over the tokens.
            return_dict: False for a plain tuple.
            match_input_ids: The documents in the matcher's own tokens, if it does not read the base's.
            match_attention_mask: Their mask.
            match_hash: For each of the matcher's tokens, the hash of a word the vocabulary lacks (`surface_hashes`),
                so that it matches the same word in a description.
            base_logits: `[B, labels of the base]` to be used instead of running the base: for documents the base was
                fitted on, scores of one that has not seen them.
            **kwargs: Ignored, for callers that pass everything a tokenizer gives.
        """
        given = None if base_logits is None else LabelAttentionOutput(logits=base_logits)
        base_logits, known, base = self._read_base(input_ids, attention_mask, labels, decoder_state, given)
        separate = self._has_own_words(match_input_ids)
        ids, mask = (match_input_ids, match_attention_mask) if separate else (input_ids, attention_mask)
        scores, positions, state = self._read_words(*self._document_words(ids, mask, match_hash), decoder_state)
        described = self.matcher.label_lengths > 0
        logits = self.combination(base_logits, known, scores, described)
        attentions = window_weights(positions, state.width, ids[0].numel()) if output_attentions else None
        output = InteractionOutput(
            loss=self._loss(logits, labels, scores, base),
            logits=logits,
            decoder_state=replace(state, base=base.decoder_state),
            label_attentions=attentions,
            match_position=positions,
            match_scores=scores,
            base_logits=None if self.base is None else base_logits.masked_fill(~known, torch.nan),
        )
        return output if return_dict or (return_dict is None and self.config.return_dict) else output.to_tuple()

    def _has_own_words(self, match_input_ids: Tensor | None) -> bool:
        if match_input_ids is None and self.config.match_vocab_size is not None:
            raise ValueError(
                f"The matcher of this model reads words of its own ({MATCH_TOKENIZER_FILE}), but only the base's "
                "tokens were given. Pass `match_input_ids` and `match_attention_mask`, or use `Predictor`, which does."
            )
        return match_input_ids is not None

    def _document_words(self, input_ids, attention_mask, match_hash) -> tuple[Tensor, Tensor, Tensor]:
        """The words of the documents without padding and special tokens, their numbers, and which tokens they are."""
        ids, mask = self.document_view(input_ids, attention_mask)
        if self.config.skipped_token_ids:
            mask = mask & ~torch.isin(ids, torch.tensor(self.config.skipped_token_ids, device=ids.device))
        hashes = None if match_hash is None else match_hash.flatten(1)
        if hashes is not None and hashes.shape != ids.shape:  # a long row was cut into chunks, the last one padded
            hashes = F.pad(hashes, (0, ids.shape[1] - hashes.shape[1]))
        return left_aligned(word_keys(ids, hashes, self.config.unk_token_id), mask)

    def _read_words(
        self, keys, lengths, places, state: InteractionState | None
    ) -> tuple[Tensor, Tensor, InteractionState]:
        """Match scores `[B, L]` and windows `[B, L, 2]` of all that was read, and the state to continue from."""
        width, words = keys.shape[1], self.matcher.words
        if state is None:
            scores, start = self.matcher(keys, lengths)
            positions = window_positions(start, words, places, lengths)
            before = torch.full_like(scores, -torch.inf)
            state = InteractionState(None, width, keys, places, lengths, before, torch.full_like(positions, -1))
            return scores, positions, state
        state = self._settle(state, words)
        index = torch.arange(state.keys.shape[1] + width, device=keys.device)
        old = index[: state.keys.shape[1]] < state.lengths[:, None]
        real = torch.cat([old, index[:width] < lengths[:, None]], 1)
        keys, lengths, source = left_aligned(torch.cat([state.keys, keys], 1), real)
        places = torch.cat([state.places, places + state.width], 1).gather(1, source)
        state = replace(state, width=state.width + width, keys=keys, places=places, lengths=lengths)
        scores, start = self.matcher(keys, lengths)
        scores, positions = better_windows(state, scores, start, window_positions(start, words, places, lengths))
        return scores.masked_fill(scores == -torch.inf, 0.0), positions, state

    def _settle(self, state: InteractionState, words: LabelWords) -> InteractionState:
        """Count the windows that no further word can change, and keep only the words that others still need."""
        longest = int(words.lengths.max()) if len(words.lengths) else 0
        final = (state.lengths - longest + 1).clamp(min=0)
        scores, start = self.matcher(state.keys, state.lengths, num_windows=final)
        positions = window_positions(start, words, state.places, state.lengths)
        scores, positions = better_windows(state, scores, start, positions)
        return replace(state, scores=scores, positions=positions).behind(final)

    def _read_base(
        self, input_ids, attention_mask, labels, state, given: LabelAttentionOutput | None = None
    ) -> tuple[Tensor, Tensor, LabelAttentionOutput]:
        """The base's logits `[B, L]`, where it has an opinion, and its own output."""
        before = None if state is None else state.base
        columns = self.base_columns
        if given is not None:
            output, read = given, columns.new_ones(1, 1).bool()
        elif self.base is None:
            nothing = torch.zeros(1, len(columns), device=columns.device)
            return nothing, nothing.bool(), LabelAttentionOutput()
        elif self.config.has_foreign_base:
            output = self._read_foreign(input_ids, attention_mask, before)
            read = output.logits[:, :1] > -torch.inf
        else:
            # The trainer sets the window size on the outer configuration.
            self.base.config.bptt_chunks = self.config.bptt_chunks
            labels = None if labels is None else self._base_labels(labels)
            output = self.base(input_ids, attention_mask, labels=labels, decoder_state=before, return_dict=True)
            read = columns.new_ones(1, 1).bool()
        logits = output.logits.float().masked_fill(~read, 0.0).index_select(1, columns.clamp(min=0))
        return logits, read & (columns >= 0), output

    def _read_foreign(self, input_ids, attention_mask, before: Tensor | None) -> LabelAttentionOutput:
        """The largest logit over the chunks of a document; minus infinity for a document without a word."""
        ids, mask = self.chunk_view(input_ids, attention_mask)
        keep = mask.flatten(0, 1).any(1).nonzero()[:, 0]
        width = self.config.base_config.num_labels
        logits = torch.full((ids.shape[0] * ids.shape[1], width), -torch.inf, device=ids.device)
        if len(keep):
            flat, real = ids.flatten(0, 1)[keep], mask.flatten(0, 1)[keep]
            read = self.base(input_ids=flat, attention_mask=real.long(), return_dict=True).logits
            logits = logits.index_put((keep,), read.float())
        logits = logits.view(*ids.shape[:2], width).amax(1)
        logits = logits if before is None else torch.maximum(before, logits)
        return LabelAttentionOutput(logits=logits, decoder_state=logits)

    def _base_labels(self, labels: Tensor) -> Tensor:
        """The truth in the order of the base's own labels."""
        known = self.base_columns >= 0
        truth = labels.new_zeros(len(labels), self.config.base_config.num_labels)
        return truth.index_copy(1, self.base_columns[known], labels[:, known])

    def _loss(
        self, logits: Tensor, labels: Tensor | None, scores: Tensor, base: LabelAttentionOutput
    ) -> Tensor | None:
        loss = self.classification_loss(logits, labels)
        if loss is None:
            return None
        if base.loss is not None:  # what the base adds to its plain loss, such as LEAM's regulariser
            loss = loss + base.loss - self.classification_loss(base.logits, self._base_labels(labels))
        if self.training and self.config.match_loss_weight:
            nothing = torch.zeros_like(logits)
            alone = self.combination(nothing, nothing.bool(), scores, self.matcher.label_lengths > 0)
            loss = loss + self.config.match_loss_weight * self.classification_loss(alone, labels)
        return loss
