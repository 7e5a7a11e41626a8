"""One-vs-rest linear classifier on word and bigram TF-IDF, as liblinear fits it (Fan et al. 2008).

The features of a document equal those of scikit-learn's `TfidfVectorizer` over the document's words, restricted to the
words and bigrams kept in training: an unknown word is no feature, and no bigram reaches across it. The weights are
kept as three plain arrays in CSR order by feature, so a checkpoint holds what pruning left and scoring touches only
the rows of the words that occur. There is never a features × labels matrix: only the fullest rows, those of common
words, are spread out into a small table when the model is first used, because most of the time goes into them.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init

from .configuration_tfidf_linear import TfidfLinearConfig
from .decoder_state import DecoderState
from .functional import label_chunks
from .modeling_base import LabelClassifierPreTrainedModel
from .outputs import LabelAttentionOutput

BYTES_PER_WEIGHT = 40  # of working memory, for each weight of a sparse row that takes part in a score
TABLE_SHARE = 4  # the table of full rows takes one part in four of the memory budget
SPARSE_COST = 64  # reading one weight of a sparse row costs about as much as this many of a full row


class Occurrences(NamedTuple):
    """Every place where a feature occurs in a batch of documents."""

    document: Tensor  # [O]
    feature: Tensor  # [O]
    first: Tensor  # [O] position of its first word
    last: Tensor  # [O] position of its last word: the same for a single word


class Features(NamedTuple):
    """The features of a batch of documents, each once per document."""

    document: Tensor  # [P] ascending
    feature: Tensor  # [P]
    count: Tensor  # [P] how often it occurs there
    value: Tensor  # [P] TF-IDF, float32
    index: Tensor | None  # [O] where each occurrence stands in this list


class FullRows(NamedTuple):
    """The weights of the features that have the most, spread out."""

    key: tuple  # the state of the weights it was made from
    slot: Tensor  # [features] row of the table, or -1
    table: Tensor  # [rows, L]


class TfidfLinearForMultiLabel(LabelClassifierPreTrainedModel):
    """TF-IDF of words and bigrams, a sparse linear layer, and the calibration of its scores to logits.

    Fitted by `fit_tfidf_linear`. The weights are buffers; only the calibration has a gradient. A document without a
    known word gets the label's bias.
    """

    config_class = TfidfLinearConfig
    config: TfidfLinearConfig

    def __init__(self, config: TfidfLinearConfig):
        super().__init__(config)
        features, weights = config.num_features, config.num_weights
        self.register_buffer("idf", torch.zeros(features))
        self.register_buffer("bigram_codes", torch.zeros(config.num_bigrams, dtype=torch.long))
        self.register_buffer("weight_starts", torch.zeros(features + 1, dtype=torch.long))
        self.register_buffer("weight_labels", torch.zeros(weights, dtype=torch.int32))
        self.register_buffer("weight_values", torch.zeros(weights))
        self.register_buffer("intercept", torch.zeros(config.num_labels))
        self.calibration_scale = nn.Parameter(torch.ones(config.num_calibrated))
        self.calibration_offset = nn.Parameter(torch.zeros(config.num_calibrated))
        self._full_rows: FullRows | None = None
        self.post_init()

    def reset_weights(self) -> None:
        """Without a fit there are no features, and every score is zero."""
        for buffer in self.buffers():
            init.zeros_(buffer)
        init.ones_(self.calibration_scale)
        init.zeros_(self.calibration_offset)

    @torch.no_grad()
    def set_arrays(self, **arrays: Tensor) -> "TfidfLinearForMultiLabel":
        """Fill buffers and parameters by name; shapes must be those of the config."""
        own = self.state_dict()
        for name, values in arrays.items():
            if own[name].shape != values.shape:
                raise ValueError(f"`{name}` has shape {tuple(values.shape)}, expected {tuple(own[name].shape)}.")
            own[name].copy_(values)
        return self

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_state: DecoderState | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **kwargs,
    ) -> LabelAttentionOutput | tuple:
        """Score documents.

        Args:
            input_ids: `[B, T]` or `[B, chunks, T]` word ids; bigrams reach across chunk borders.
            attention_mask: Same shape; where absent, everything but the padding id is read.
            labels: Multi-hot `[B, L]`, or class ids `[B]` for single-label problems.
            decoder_state: The words of the documents read before, to continue from.
            output_attentions: Also return each token's share of what speaks for a label (see `label_shares`).
            return_dict: False for a plain tuple.
            **kwargs: Ignored, for callers that pass everything a tokenizer gives.
        """
        new_ids, new_mask = self.document_view(input_ids, attention_mask)
        ids, mask = self._continue(new_ids, new_mask, decoder_state)
        logits = self._calibrated(self._scores(ids, mask))
        attentions = None
        if output_attentions:
            attentions = label_shares(self._contributions(ids, mask)[:, :, -new_ids.shape[1] :], new_mask)
        output = LabelAttentionOutput(
            loss=self.classification_loss(logits, labels),
            logits=logits,
            decoder_state=DecoderState((ids, mask), (), mask.sum(1)),
            label_attentions=attentions,
        )
        return output if return_dict or (return_dict is None and self.config.return_dict) else output.to_tuple()

    @torch.no_grad()
    def decision_function(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Scores `[B, L]` before calibration: those of scikit-learn's `LinearSVC`, if nothing was pruned."""
        return self._scores(*self.document_view(input_ids, attention_mask))

    @torch.no_grad()
    def token_contributions(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, label_ids: Tensor | list[int] | None = None
    ) -> Tensor:
        """What each token adds to a label's logit, `[B, l, N]`; a bigram's part is halved between its words.

        The sum over the tokens is the logit minus the logit of an empty document.

        Args:
            input_ids: `[B, T]` or `[B, chunks, T]` word ids; N is the number of places in all chunks.
            attention_mask: Same shape.
            label_ids: The l labels to explain (default: all).
        """
        return self._contributions(*self.document_view(input_ids, attention_mask), label_ids)

    def _continue(self, ids: Tensor, mask: Tensor, state: DecoderState | None) -> tuple[Tensor, Tensor]:
        """The words read before and now: counts of n-grams cannot be known from scores, so the words are carried."""
        if state is None or not state.encoder:
            return ids, mask
        return tuple(torch.cat(pair, 1) for pair in zip(state.encoder, (ids, mask), strict=True))

    def _calibrated(self, scores: Tensor) -> Tensor:
        return scores * self.calibration_scale.float() + self.calibration_offset.float()

    def _scores(self, ids: Tensor, mask: Tensor) -> Tensor:
        found = self._features(self._occurrences(ids, mask), len(ids))
        full = self._full_weights()
        slot = full.slot[found.feature]
        dense, rest = (slot >= 0).nonzero()[:, 0], (slot < 0).nonzero()[:, 0]
        starts = torch.searchsorted(found.document[dense], torch.arange(len(ids), device=ids.device))
        values = found.value[dense]
        total = F.embedding_bag(slot[dense], full.table, starts, mode="sum", per_sample_weights=values)  # [B, L]
        self._add_sparse(total.view(-1), found.document[rest], found.feature[rest], found.value[rest])
        return total + self.intercept.float()

    def _add_sparse(self, total: Tensor, document: Tensor, feature: Tensor, value: Tensor) -> None:
        """Add the weights of sparse rows to the flat `[B · L]` scores."""
        for part in self._memory_slices(feature):
            row, entry = self._weights_of(feature[part])
            place = document[part][row] * self.config.num_labels + self.weight_labels[entry]  # [E]
            total.index_add_(0, place, self.weight_values[entry].float() * value[part][row])

    def _full_weights(self) -> FullRows:
        """The table of full rows, made again whenever the weights were changed or moved."""
        weights = self.weight_values
        key = (weights.data_ptr(), weights.device, weights.dtype, 0 if weights.is_inference() else weights._version)
        if self._full_rows is None or self._full_rows.key != key:
            count = self.weight_starts.diff()
            room = self.config.max_kernel_memory_mb * 2**20 // TABLE_SHARE // (4 * self.config.num_labels)
            worth = int((count * SPARSE_COST >= self.config.num_labels).sum())
            rows = count.topk(max(1, min(room, worth))).indices
            slot = torch.full_like(count, -1)
            slot[rows] = torch.arange(len(rows), device=rows.device)
            every = torch.arange(self.config.num_labels, device=rows.device)
            self._full_rows = FullRows(key, slot, self._dense_weights(rows, every))
        return self._full_rows

    def _occurrences(self, ids: Tensor, mask: Tensor) -> Occurrences:
        """Words and known bigrams of neighbouring words, padding left out wherever it stands."""
        document, position = mask.nonzero(as_tuple=True)
        word = ids[document, position].long()
        self._check_ids(word)
        words = Occurrences(document, word, position, position)
        if not self.config.num_bigrams:
            return words
        code = word[:-1] * self.config.vocab_size + word[1:]
        place = torch.searchsorted(self.bigram_codes, code).clamp_(max=self.config.num_bigrams - 1)
        known = ((document[1:] == document[:-1]) & (self.bigram_codes[place] == code)).nonzero()[:, 0]
        feature = place[known] + self.config.vocab_size
        bigrams = Occurrences(document[known], feature, position[known], position[known + 1])
        return Occurrences(*(torch.cat(pair) for pair in zip(words, bigrams, strict=True)))

    def _check_ids(self, word: Tensor) -> None:
        if word.numel() and not 0 <= (largest := int(word.max())) < self.config.vocab_size:
            raise ValueError(
                f"`input_ids` contains {largest}, but the model knows {self.config.vocab_size} words. Tokenize with "
                "the tokenizer saved beside the model."
            )

    def _features(self, found: Occurrences, batch: int, with_index: bool = False) -> Features:
        """Count the occurrences and weigh them: (1 + ln tf) · idf, scaled to unit length."""
        width = self.config.num_features
        keys = torch.unique(found.document * width + found.feature, return_inverse=with_index, return_counts=True)
        document, feature, count = keys[0] // width, keys[0] % width, keys[-1]
        frequency = 1 + count.log() if self.config.sublinear_tf else count.float()
        value = frequency * self.idf.float()[feature]  # [P]
        length = torch.zeros(batch, device=value.device).index_add_(0, document, value.square()).sqrt_()
        value = value / length.clamp_(min=torch.finfo(torch.float32).tiny)[document]
        return Features(document, feature, count, value, keys[1] if with_index else None)

    def _weights_of(self, feature: Tensor) -> tuple[Tensor, Tensor]:
        """For each weight of these features: the place of its feature in the list, and its own in the arrays."""
        start = self.weight_starts[feature]
        count = self.weight_starts[feature + 1] - start
        row = torch.repeat_interleave(count)  # [E]
        entry = torch.arange(len(row), device=row.device) + (start - (count.cumsum(0) - count))[row]
        return row, entry

    def _memory_slices(self, feature: Tensor) -> list[slice]:
        """Cut a list of features so that the weights of each part fit the memory budget."""
        total = (self.weight_starts[feature + 1] - self.weight_starts[feature]).cumsum(0)
        budget = self.config.max_kernel_memory_mb * 2**20 // BYTES_PER_WEIGHT
        if not len(total) or total[-1] <= budget:
            return [slice(None)]
        marks = torch.arange(budget, int(total[-1]) + budget, budget, device=total.device)
        ends = torch.searchsorted(total, marks).clamp_(max=len(total) - 1).add_(1).unique().tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def _contributions(self, ids: Tensor, mask: Tensor, label_ids: Tensor | list[int] | None = None) -> Tensor:
        every = torch.arange(self.config.num_labels, device=ids.device)
        label_ids = every if label_ids is None else every[torch.as_tensor(label_ids, device=ids.device)]
        found = self._occurrences(ids, mask)
        features = self._features(found, len(ids), with_index=True)
        share = (features.value / features.count)[features.index] / 2  # [O] for the first word, and for the last
        feature, row = features.feature[features.index].unique(return_inverse=True)  # [U], [O]
        scale = self.calibration_scale.detach().float().expand(self.config.num_labels)
        result = torch.zeros(ids.numel(), len(label_ids), device=ids.device)  # [B·N, l]
        for part in label_chunks(len(label_ids), 8 * (len(row) + len(feature)), self.config.max_kernel_memory_mb):
            weight = self._dense_weights(feature, label_ids[part]) * scale[label_ids[part]]  # [U, l]
            weight = weight[row] * share[:, None]  # [O, l]
            for position in (found.first, found.last):
                result[:, part].index_add_(0, found.document * ids.shape[1] + position, weight)
        return result.view(*ids.shape, -1).transpose(1, 2)

    def _dense_weights(self, feature: Tensor, label_ids: Tensor) -> Tensor:
        """The weights of some features for some labels, `[U, l]`."""
        column = torch.full((self.config.num_labels,), -1, device=feature.device)
        column[label_ids] = torch.arange(len(label_ids), device=feature.device)
        dense = torch.zeros(len(feature), len(label_ids), device=feature.device)
        for part in self._memory_slices(feature):
            row, entry = self._weights_of(feature[part])
            place = column[self.weight_labels[entry].long()]
            kept = place >= 0
            dense[part][row[kept], place[kept]] = self.weight_values[entry[kept]].float()
        return dense


def label_shares(contributions: Tensor, mask: Tensor) -> Tensor:
    """Each token's share of what speaks for a label; evenly over the tokens where nothing does.

    Args:
        contributions: `[B, L, N]`, of either sign; what speaks against a label has no share.
        mask: `[B, N]`, the real tokens.

    >>> label_shares(torch.tensor([[[3.0, -2.0, 1.0, 0.0], [-1.0, 0.0, 0.0, 0.0]]]), torch.tensor([[1, 1, 1, 0]]))
    tensor([[[0.7500, 0.0000, 0.2500, 0.0000],
             [0.3333, 0.3333, 0.3333, 0.0000]]])
    """
    mask = mask[:, None].float()
    positive = contributions.clamp(min=0) * mask
    total = positive.sum(2, keepdim=True)
    even = mask / mask.sum(2, keepdim=True).clamp(min=1)
    return torch.where(total > 0, positive / total.clamp(min=torch.finfo(torch.float32).tiny), even)
