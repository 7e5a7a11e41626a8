"""Configuration of interaction matching over any base classifier."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .configuration_base import LabelClassifierConfig


def own_config_class(model_type: str) -> type[LabelClassifierConfig] | None:
    """The configuration class of this library with that `model_type`; None for foreign ones.

    Classes are named here instead of looked up in a registry, so that they are also found inside a checkpoint that is
    loaded without this library installed.
    """
    if model_type == "label_attention":
        from .configuration_label_attention import LabelAttentionConfig as found
    elif model_type == "leam":
        from .configuration_leam import LEAMConfig as found
    elif model_type == "plant":
        from .configuration_plant import PlantConfig as found
    elif model_type == "tfidf_linear":
        from .configuration_tfidf_linear import TfidfLinearConfig as found
    else:
        found = None
    return found


def _read_base_config(fields: dict) -> PreTrainedConfig:
    """A base configuration from its dictionary."""
    if "model_type" not in fields:
        raise ValueError("`base_config` has no `model_type`. Pass the `config` of the base model.")
    own = own_config_class(fields["model_type"])
    return AutoConfig.for_model(**fields) if own is None else own.from_dict(fields)


@strict
class InteractionConfig(LabelClassifierConfig):
    r"""Configuration of [`InteractionForMultiLabel`]. [`InteractionConfig.from_base`] fills in what the base fixes.

    Args:
        base_config: Configuration of the classifier that is joined with the matcher: one of this library's or any that
            `AutoModelForSequenceClassification` knows. None: the matcher works alone.
        combine: How the two scores of a label become one. `"max"`: the larger probability (paper). `"sum"`: the base's
            logit plus a learned weight, the same for all labels, times the match; a label the base does not know
            starts from a learned constant. `"noisy_or"`: one minus the product of the counter-probabilities.
        score_scale: `"affine"`: a learned temperature and bias, the same for all labels, before the match's sigmoid.
            `"paper"`: the sigmoid of the mean cosine, which lies between .27 and .73.
        term_weighting: Weight of the words of a description. `"uniform"` (paper); `"idf"`: by rarity in the training
            documents (see `set_term_weights`); `"learned"`: one learned positive weight per word.
        match_loss_weight: Weight of a second loss, on the scores the labels would have if the base knew none of them.
            It trains the matcher for labels that are added later. Paper: 0.
        match_vocab_size: Words of the matcher's own tokenizer, if documents come with `match_input_ids`. None: the
            matcher reads `input_ids`.
        match_embedding_size: Width of the matcher's word embeddings.
        match_temperature: Where the temperature of `score_scale="affine"` starts.
        match_bias: Where its bias starts.
        match_weight: Where the weight of `combine="sum"` starts.
        unseen_logit: Where the constant of labels the base does not know starts, with `combine="sum"`.
        unk_token_id: Id of the unknown word: it matches nothing, or itself where `match_hash` tells which word it is.
        skipped_token_ids: Tokens that are no words, such as `[CLS]` and `[SEP]`: windows pass over them.
        max_description_tokens: Words of a description beyond this many are left out.
        num_label_words: Distinct words of all descriptions (set when descriptions are given to the model).
        num_label_terms: Words of all descriptions (set when descriptions are given to the model).
    """

    model_type = "interaction"
    sub_configs_defaults: ClassVar[dict] = {}
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LabelClassifierConfig.keys_to_ignore_at_inference,
        "match_position",
        "match_scores",
        "base_logits",
    ]

    base_config: PreTrainedConfig | dict | None = None
    combine: Literal["max", "sum", "noisy_or"] = "sum"
    score_scale: Literal["affine", "paper"] = "affine"
    term_weighting: Literal["uniform", "idf", "learned"] = "uniform"
    match_loss_weight: float | int = 0.1
    match_vocab_size: int | None = None
    match_embedding_size: int = 100
    match_temperature: float | int = 10.0
    match_bias: float | int = -8.0
    match_weight: float | int = 3.0
    unseen_logit: float | int = -6.0
    unk_token_id: int | None = 1
    skipped_token_ids: list[int] | None = None
    max_description_tokens: int = 64
    num_label_words: int = 0
    num_label_terms: int = 0

    def __post_init__(self, **kwargs):
        if isinstance(self.base_config, dict):
            self.base_config = _read_base_config(self.base_config)
        super().__post_init__(**kwargs)
        self._check()

    def _check(self) -> None:
        if self.problem_type != "multi_label_classification":
            raise ValueError(
                f"`problem_type` is {self.problem_type!r}, but matching scores every label on its own: use "
                "'multi_label_classification'."
            )
        if self.match_temperature <= 0:
            raise ValueError(f"`match_temperature` is {self.match_temperature}, but must be above 0.")
        for name in ("match_embedding_size", "max_description_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")
        limit = getattr(self.base_config, "max_position_embeddings", None)
        if self.has_foreign_base and limit is not None and self.chunk_size > limit:
            raise ValueError(
                f"`chunk_size` is {self.chunk_size}, but the base reads at most {limit} tokens at once. Pass "
                f"`chunk_size={limit}` or less."
            )

    @property
    def has_foreign_base(self) -> bool:
        """Whether the base is a classifier of another library, which reads `[B, T]` and carries no state."""
        return self.base_config is not None and own_config_class(self.base_config.model_type) is None

    @property
    def reads_chunks(self) -> bool:
        """Whether the collator must cut documents into chunks, for the base."""
        return self.has_foreign_base or bool(getattr(self.base_config, "reads_chunks", False))

    @classmethod
    def from_base(cls, base_config: PreTrainedConfig, **overrides) -> "InteractionConfig":
        """The configuration over a base: labels, vocabulary and chunks are the base's; any field can be overridden.

        >>> from transformers import BertConfig
        >>> InteractionConfig.from_base(BertConfig(num_labels=3, max_position_embeddings=64)).chunk_size
        64
        """
        sizes = ["vocab_size", "pad_token_id", "chunk_size", "bptt_chunks", "max_kernel_memory_mb"]
        labels = [] if "num_labels" in overrides else ["id2label", "label2id"]
        fields = {name: getattr(base_config, name) for name in sizes + labels if hasattr(base_config, name)}
        if "chunk_size" not in fields:
            limit = getattr(base_config, "max_position_embeddings", None) or cls.chunk_size
            fields["chunk_size"] = min(cls.chunk_size, limit)
        return cls(**{**fields, "base_config": base_config, **overrides})
