"""LEAM: label-embedding attentive model.

Guoyin Wang, Chunyuan Li, Wenlin Wang, Yizhe Zhang, Dinghan Shen, Xinyuan Zhang, Ricardo Henao and Lawrence Carin.
Joint Embedding of Words and Labels for Text Classification. ACL 2018.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init

from .configuration_leam import LEAMConfig
from .decoder_state import DecoderState
from .encoders import ConvolutionEncoder, IdentityEncoder
from .functional_leam import (
    LIVE_ARRAYS,
    different_words,
    label_regulariser,
    logits_by_label,
    mean_by_best_label,
    phrase_scores,
    spread,
    token_weights,
    weighted_sum,
    word_cosines,
)
from .modeling_base import LabelClassifierPreTrainedModel
from .outputs import LabelAttentionOutput


class LabelEmbeddingAttention(nn.Module):
    """Labels as points in the space of the words, and the kernel that scores phrases against them (eq. 2, 3)."""

    def __init__(self, size: int, num_labels: int, phrase_conv: str | None, window: int, sharpness: float):
        super().__init__()
        width, self.sharpness = 2 * window + 1, sharpness
        kernels = {"shared": (width,), "depthwise": (num_labels, width), "full": (num_labels, num_labels, width)}
        self.label_embeddings = nn.Parameter(torch.empty(num_labels, size))
        self.phrase_weight = nn.Parameter(torch.empty(kernels[phrase_conv])) if phrase_conv else None
        self.phrase_bias = nn.Parameter(torch.empty(num_labels)) if phrase_conv else None

    def reset_weights(self) -> None:
        """Labels from a standard Gaussian (paper, section 4.2); the kernel as `sharpness` says, no bias."""
        init.normal_(self.label_embeddings)
        if self.phrase_weight is not None:
            self._start_sharp() if self.sharpness else self._start_random()
            init.zeros_(self.phrase_bias)

    def _start_sharp(self) -> None:
        """A phrase is its middle word."""
        start = torch.zeros_like(self.phrase_weight)
        middle = start[..., start.shape[-1] // 2]  # [], [K] or [K, K]
        (middle.diagonal() if middle.dim() == 2 else middle).fill_(self.sharpness)
        init.copy_(self.phrase_weight, start)

    def _start_random(self) -> None:
        """Xavier's variance."""
        inputs = self.phrase_weight[0].numel() if self.phrase_weight.dim() > 1 else self.phrase_weight.numel()
        bound = (3 / inputs) ** 0.5
        init.uniform_(self.phrase_weight, -bound, bound)

    def parts(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What the kernels take: labels, phrase weight, phrase bias."""
        return self.label_embeddings, self.phrase_weight, self.phrase_bias


class LEAMForSequenceClassification(LabelClassifierPreTrainedModel):
    """Words weighted by how well they, and the phrase around them, fit a label; their mean is classified.

    The whole document is attended to at once, so `[B, chunks, T]` is read as one row of tokens; memory for labels ×
    tokens is bounded by `config.max_kernel_memory_mb`. A softmax over the document and phrases that reach across chunk
    borders need all of its words, so `decoder_state` carries their ids: reading on from a state gives exactly the
    logits of the whole document so far.
    """

    config_class = LEAMConfig
    config: LEAMConfig

    def __init__(self, config: LEAMConfig):
        super().__init__(config)
        size = config.embedding_size
        self.embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        cnn = config.encoder == "cnn"
        self.encoder = ConvolutionEncoder(size, size, [config.encoder_width], "relu") if cnn else IdentityEncoder(size)
        phrases = config.phrase_conv, config.window, config.sharpness
        self.attention = LabelEmbeddingAttention(size, config.num_labels, *phrases)
        self.dropout = nn.Dropout(config.classifier_dropout)
        hidden = config.classifier_hidden_size
        self.hidden = nn.Linear(size, hidden) if hidden else None
        self.classifier = nn.Linear(hidden or size, config.num_labels)
        self._tables = None
        self.post_init()

    @property
    def label_bias(self) -> nn.Parameter:
        """One number per label, all that is left of a document without words (and a linear f₂)."""
        return self.classifier.bias

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embeddings = value

    @torch.no_grad()
    def set_word_vectors(self, vectors: Tensor) -> None:
        """Start the word embeddings from vectors `[V, P]`, one row for each word of the tokenizer."""
        table = self.embeddings.weight
        vectors = torch.as_tensor(vectors, dtype=table.dtype, device=table.device)
        if vectors.shape != table.shape:
            raise ValueError(
                f"The vectors are {list(vectors.shape)}, but the model's word table is {list(table.shape)}. Set "
                f"`embedding_size={vectors.shape[1]}` and pass one row for each word of the tokenizer."
            )
        table.copy_(vectors)

    @torch.no_grad()
    def set_label_embeddings(self, matrix: Tensor) -> int:
        """Start labels from given vectors `[K, P]`; a row of zeros (nothing known) keeps what is there.

        Returns the number of labels set.
        """
        labels = self.attention.label_embeddings
        matrix = torch.as_tensor(matrix, dtype=labels.dtype, device=labels.device)
        if matrix.shape != labels.shape:
            raise ValueError(
                f"The label matrix is {list(matrix.shape)}, but the model has {len(labels)} labels of "
                f"{labels.shape[1]} dimensions: pass {list(labels.shape)}, in the order of `config.id2label`."
            )
        known = matrix.abs().sum(1) > 0
        labels[known] = matrix[known]
        return int(known.sum())

    @torch.no_grad()
    def set_label_descriptions(self, token_ids: list[list[int]], ignore_ids: tuple[int, ...] = ()) -> int:
        """Start each label from the mean vector of its description's words, in the model's own word table.

        Call it after the word vectors are in place. A label without words keeps its Gaussian start.

        Args:
            token_ids: One list of token ids per label, in the order of `config.id2label`.
            ignore_ids: Ids that say nothing, such as the unknown token's; padding is always left out.
        """
        table, skip = self.embeddings.weight, {self.config.pad_token_id, *ignore_ids}
        matrix = table.new_zeros(len(token_ids), table.shape[1])
        for row, ids in enumerate(token_ids):
            if words := [i for i in ids if i not in skip]:
                matrix[row] = table[words].mean(0)
        return self.set_label_embeddings(matrix)

    def parameter_counts(self) -> dict[str, int]:
        """Parameters by part, `beyond_words` (what the attention and f₂ add to the word table) and `total`."""
        parts = {"words": self.embeddings, "encoder": self.encoder, "attention": self.attention}
        parts |= {"hidden": self.hidden, "classifier": self.classifier}
        counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items() if part is not None}
        labels, total = self.attention.label_embeddings.numel(), sum(counts.values())
        phrases = counts.pop("attention") - labels
        return counts | {"labels": labels, "phrases": phrases, "beyond_words": total - counts["words"], "total": total}

    def document_vectors(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The document representation z of eq. (6): `[B, P]`, or `[B, K, P]` with one per label."""
        ids, mask = self.document_view(input_ids, attention_mask)
        words, positions = self._words(ids, mask)
        labels, weight, bias = self.attention.parts()
        if self.config.pooling == "max":
            memory = self.config.max_kernel_memory_mb
            return mean_by_best_label(words, positions, mask, labels, weight, bias, memory)[0]
        scores = phrase_scores(spread(word_cosines(words, labels), positions, mask), weight, bias)
        return weighted_sum(words, positions, token_weights(scores, mask, "label"))

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
            labels: Multi-hot `[B, K]`, or class ids `[B]` for single-label problems.
            decoder_state: State of the part of the documents read before, to continue from.
            output_attentions: Also return the token weights β, `[B, K, N]` over the document so far (with max pooling
                all labels share them).
            output_hidden_states: Also return the token vectors that were averaged, `[B, N, P]`.
            return_dict: False for a plain tuple.
            **kwargs: Ignored, for callers that pass everything a tokenizer gives.
        """
        ids, mask, state = self._whole_document(input_ids, attention_mask, decoder_state)
        tables = None if output_hidden_states else self._vocabulary_tables(mask.numel())
        if tables is None:
            words, positions = self._words(ids, mask)
            logits, weights = self._score(words, positions, mask, bool(output_attentions))
        else:
            logits, weights = self._score_from_tables(ids, mask, *tables)
        output = LabelAttentionOutput(
            loss=self._loss(logits.float(), labels),
            logits=logits.float(),
            decoder_state=state,
            label_attentions=weights.expand(-1, logits.shape[1], -1) if output_attentions else None,
            hidden_states=F.embedding(positions, words) if output_hidden_states else None,
        )
        return output if return_dict or (return_dict is None and self.config.return_dict) else output.to_tuple()

    def train(self, mode: bool = True) -> "LEAMForSequenceClassification":
        """Switch between training and evaluation; either way the cached tables are forgotten."""
        self._tables = None
        return super().train(mode)

    def _whole_document(
        self, input_ids: Tensor, attention_mask: Tensor | None, state: DecoderState | None
    ) -> tuple[Tensor, Tensor, DecoderState]:
        ids, mask = self.document_view(input_ids, attention_mask)
        num_tokens = (state or DecoderState()).advance(mask)
        if state is not None:
            ids, mask = torch.cat([state.encoder[0], ids], 1), torch.cat([state.encoder[1], mask], 1)
        return ids, mask, DecoderState(encoder=(ids, mask), num_tokens=num_tokens)

    def _words(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Different words of the batch `[U, P]` and which stands where `[B, N]`; encoded, every token is different."""
        if self.config.encoder == "identity":
            words, positions = different_words(ids, self.embeddings.num_embeddings)
            return self.embeddings(words), positions
        values, _ = self.encoder(self.embeddings(ids), mask)
        return values.flatten(0, 1), torch.arange(ids.numel(), device=ids.device).view(ids.shape)

    def _score(
        self, words: Tensor, positions: Tensor, mask: Tensor, keep_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Logits `[B, K]` and token weights `[B, 1 or K, N]`."""
        parts, memory = self.attention.parts(), self.config.max_kernel_memory_mb
        if self.config.pooling == "max":
            mean, weights = mean_by_best_label(words, positions, mask, *parts, memory)
            return self._classify(mean), weights
        return logits_by_label(words, positions, mask, *parts, self._read_out, memory, keep_weights)

    def _classify(self, vectors: Tensor) -> Tensor:
        """f₂ of eq. (7): `[..., P]` -> `[..., K]`."""
        if self.hidden is not None:
            vectors = F.relu(self.hidden(self.dropout(vectors)))
        return self.classifier(self.dropout(vectors))

    def _read_out(self, mean: Tensor, part: slice) -> Tensor:
        """Each label's own row of f₂ on its own vector: `[B, S, P]` -> `[B, S]`."""
        return (self.dropout(mean) * self.classifier.weight[part]).sum(-1) + self.classifier.bias[part]

    def _loss(self, logits: Tensor, labels: Tensor | None) -> Tensor | None:
        loss = self.classification_loss(logits, labels)
        if loss is None or not self.training or not self.config.regulariser_weight:
            return loss
        penalty = label_regulariser(self.attention.label_embeddings, self._classify, self.config.problem_type)
        return loss + self.config.regulariser_weight * penalty

    def _vocabulary_tables(self, num_tokens: int) -> tuple[Tensor, Tensor] | None:
        """Cosine `[K, V]` of every label and word, and f₂'s product `[V, K]`, kept until a weight changes."""
        weights = (self.embeddings.weight, self.attention.label_embeddings, self.classifier.weight)
        if not self._tables_apply(num_tokens) or any(w.is_inference() for w in weights):
            return None
        # In-place updates count a tensor's version up; moving or replacing it changes its address.
        key = [(w.data_ptr(), w._version, w.dtype, w.device) for w in weights]
        if self._tables is None or self._tables[0] != key:
            words, labels, classifier = (w.detach() for w in weights)
            self._tables = key, word_cosines(words, labels), words @ classifier.T
        return self._tables[1:]

    def _tables_apply(self, num_tokens: int) -> bool:
        config, labels = self.config, self.config.num_labels
        plain = config.encoder == "identity" and self.hidden is None
        if not (config.cache_similarity and plain) or self.training or torch.is_grad_enabled():
            return False
        budget = config.max_kernel_memory_mb * 2**20
        return 8 * labels * len(self.embeddings.weight) <= budget >= 4 * LIVE_ARRAYS * labels * num_tokens

    def _score_from_tables(
        self, ids: Tensor, mask: Tensor, cosines: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Eq. (3)-(7) with both uses of the word vectors looked up."""
        _, phrase_weight, phrase_bias = self.attention.parts()
        scores = phrase_scores(spread(cosines, ids, mask), phrase_weight, phrase_bias)
        weights = token_weights(scores, mask, self.config.pooling)  # [B, 1 or K, N]
        if self.config.pooling == "max":
            read_out = weighted_sum(products, ids, weights)[:, 0]
        else:
            read_out = (weights.to(products.dtype) * F.embedding(ids, products).transpose(1, 2)).sum(-1)
        return read_out + self.classifier.bias, weights
