"""Several classifiers that score together: what each of them knows about a label is added up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoTokenizer, PreTrainedModel
from transformers import initialization as init

from .configuration_hybrid import HybridConfig
from .modeling_base import LabelClassifierPreTrainedModel
from .modeling_interaction import InteractionForMultiLabel, build_base
from .outputs import LabelAttentionOutput
from .word_reading import ReadsWords


@dataclass
class HybridOutput(LabelAttentionOutput):
    """The answer of [`HybridForMultiLabel`] for B documents and L labels.

    Attributes:
        part_logits: `[B, parts, L]`, what each part says, before its weight.
    """

    part_logits: torch.Tensor | None = None


class HybridForMultiLabel(ReadsWords, LabelClassifierPreTrainedModel):
    """A weighted sum of classifiers. All labels share the weights, so rare and new ones gain by them too."""

    config_class = HybridConfig
    config: HybridConfig

    def __init__(self, config: HybridConfig):
        super().__init__(config)
        self.parts = nn.ModuleList([_build(part) for part in config.part_configs])
        self.part_weights = nn.Parameter(torch.empty(len(self.parts)))
        self.bias = nn.Parameter(torch.empty(()))
        self.post_init()

    def reset_weights(self) -> None:
        """All parts count the same."""
        init.ones_(self.part_weights)
        init.zeros_(self.bias)

    @classmethod
    def from_parts(cls, parts: Mapping[str, PreTrainedModel], **overrides) -> "HybridForMultiLabel":
        """Join trained classifiers, by name; `overrides` are fields of [`HybridConfig`]."""
        configs = [part.config for part in parts.values()]
        words = overrides.get("match_vocab_size")
        # Who reads pieces says how documents are cut.
        first = max(configs, key=lambda config: (config.reads_chunks, config.vocab_size != words))
        for name, config in zip(parts, configs, strict=True):
            if config.id2label != first.id2label:
                raise ValueError(f"Part {name!r} has other labels than the others. Train all on the same files.")
        names = ("vocab_size", "pad_token_id", "chunk_size", "bptt_chunks", "id2label", "label2id", "problem_type")
        fields = {name: getattr(first, name) for name in names}
        model = cls(HybridConfig(**{**fields, "part_configs": configs, "part_names": list(parts), **overrides}))
        model.parts = nn.ModuleList(parts.values())
        return model.eval()

    def get_input_embeddings(self) -> nn.Module:
        reading = [p for p in self.parts if p.config.model_type != "tfidf_linear"]
        return reading[0].get_input_embeddings()

    @property
    def matching(self) -> InteractionForMultiLabel | None:
        """The part that finds descriptions in the text, if there is one."""
        return next((part for part in self.parts if part.config.model_type == "interaction"), None)

    def add_labels(self, descriptions: Mapping[str, str], word_tokenizer=None, tokenizer=None) -> None:
        """Add labels behind the present ones, without training: parts that read descriptions score them.

        Args:
            descriptions: New label to its description.
            word_tokenizer: Of the parts that read words; by default the one saved beside this model.
            tokenizer: Of the part that reads pieces of words; by default the one saved beside this model.
        """
        present = sorted(set(descriptions) & set(self.label_names))
        if present:
            raise ValueError(f"Labels {present[:5]} exist already. Give them another name.")
        readers = [part for part in self.parts if _reads_descriptions(part)]
        if not readers:
            raise ValueError("No part of this model reads descriptions, so nothing could score a new label.")
        for part in readers:
            if part.config.model_type == "interaction":
                part.add_labels(descriptions, self.match_tokenizer(word_tokenizer))
            else:
                tokenizer = tokenizer or AutoTokenizer.from_pretrained(self.config.name_or_path)
                part.add_labels(list(descriptions), description_points(part, list(descriptions.values()), tokenizer))
        self._grow(descriptions)

    def _grow(self, descriptions: Mapping[str, str]) -> None:
        config, count = self.config, len(descriptions)
        if config.label_thresholds is not None:
            config.label_thresholds = [*config.label_thresholds, *[config.threshold] * count]
        if config.training_counts is not None:
            config.training_counts = [*config.training_counts, *[0] * count]
        config.rename_labels([*self.label_names, *descriptions])
        config.label_descriptions = {**(config.label_descriptions or {}), **descriptions}

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_state: Sequence | None = None,
        return_dict: bool | None = None,
        match_input_ids: Tensor | None = None,
        match_attention_mask: Tensor | None = None,
        match_hash: Tensor | None = None,
        **kwargs,
    ) -> HybridOutput | tuple:
        """Score documents.

        Args:
            input_ids: `[B, T]` or `[B, chunks, T]`, padding at the end of each document.
            attention_mask: Same shape; where absent, everything but the padding id is read.
            labels: Multi-hot `[B, L]`, or class ids `[B]` for single-label problems.
            decoder_state: Must be None: some parts need the whole document at once.
            return_dict: False for a plain tuple.
            match_input_ids: The documents in words, if `input_ids` are pieces of words.
            match_attention_mask: Their mask.
            match_hash: For each word, the hash of one the vocabulary lacks (see [`InteractionForMultiLabel`]).
            **kwargs: Ignored, for callers that pass everything a tokenizer gives.
        """
        self._check_inputs(match_input_ids, decoder_state)
        separate = match_input_ids is not None
        words = (match_input_ids, match_attention_mask) if separate else (input_ids, attention_mask)
        scores = []
        for part, pieces in zip(self.parts, self.config.reads_pieces, strict=True):
            part.config.bptt_chunks = self.config.bptt_chunks
            extra = {"match_hash": match_hash} if part.config.model_type == "interaction" else {}
            ids, mask = (input_ids, attention_mask) if pieces else words
            scores.append(part(ids, mask, return_dict=True, **extra).logits.float())
        part_logits = self._aligned(scores)
        logits = (part_logits * self.part_weights.float()[:, None]).sum(1) + self.bias.float()
        output = HybridOutput(
            loss=self.classification_loss(logits, labels), logits=logits, part_logits=part_logits.detach()
        )
        return output if return_dict or (return_dict is None and self.config.return_dict) else output.to_tuple()

    def _check_inputs(self, match_input_ids: Tensor | None, decoder_state: Sequence | None) -> None:
        if decoder_state is not None:
            raise ValueError("Parts of this model need the whole document at once: pass it without `decoder_state`.")
        if match_input_ids is None and self.config.match_vocab_size is not None:
            raise ValueError(
                "Parts of this model read words of their own, but only pieces were given. Pass `match_input_ids` and "
                "`match_attention_mask`, or use `Predictor`, which does."
            )

    def _aligned(self, scores: list[Tensor]) -> Tensor:
        """`[B, parts, L]`: labels a part does not know have its constant score."""
        width, rows = self.config.num_labels, []
        for score, unseen in zip(scores, self.config.unseen_logits, strict=True):
            rows.append(F.pad(score, (0, width - score.shape[1]), value=unseen))
        return torch.stack(rows, 1)


def _build(config) -> PreTrainedModel:
    return InteractionForMultiLabel(config) if config.model_type == "interaction" else build_base(config)


def _reads_descriptions(part: PreTrainedModel) -> bool:
    config = part.config
    return config.model_type == "interaction" or getattr(config, "attention", None) == "unit_mean"


@torch.no_grad()
def description_points(part: PreTrainedModel, texts: list[str], tokenizer, batch: int = 64) -> Tensor:
    """Unit vectors `[texts, features]` of descriptions, read as a document would be; zero for an empty one."""
    rows = []
    for start in range(0, len(texts), batch):
        encoded = tokenizer(
            texts[start : start + batch],
            padding=True,
            truncation=True,
            max_length=part.config.chunk_size,
            return_tensors="pt",
        ).to(part.device)
        rows.append(part.document_vectors(encoded["input_ids"], encoded["attention_mask"]))
    points = torch.cat(rows)
    return points * torch.tensor([bool(text.strip()) for text in texts], device=points.device)[:, None]
