"""Configuration of the model zoo: an encoder and an attention, combined by name."""

from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .configuration_base import LabelClassifierConfig

Encoder = Literal["identity", "ngram_hash", "cnn", "multires", "gru", "lstm", "transformer"]
Attention = Literal["max", "mean", "unit_mean", "last", "dynamic_max", "caml", "laat", "joint_laat", "cross"]

PRESETS: dict[str, dict[str, Any]] = {
    "cnn": {"encoder": "cnn", "attention": "max", "kernel_sizes": [3, 4, 5], "hidden_size": 100, "activation": "relu"},
    "bigru": {"encoder": "gru", "attention": "last", "hidden_size": 256},
    "caml": {"encoder": "cnn", "attention": "caml", "kernel_sizes": [9], "hidden_size": 50, "activation": "tanh"},
    "dr_caml": {
        **{"encoder": "cnn", "attention": "caml", "kernel_sizes": [9], "hidden_size": 50, "activation": "tanh"},
        "description_weight": 0.01,
    },
    "laat": {"encoder": "lstm", "attention": "laat", "hidden_size": 256, "attention_size": 256, "dropout": 0.3},
    "joint_laat": {
        **{"encoder": "lstm", "attention": "joint_laat", "hidden_size": 256, "attention_size": 256, "dropout": 0.3},
        "parent_size": 128,
    },
    "multirescnn": {
        "encoder": "multires",
        "attention": "caml",
        "kernel_sizes": [3, 5, 9, 15, 19, 25],
        "hidden_size": 50,
    },
    "xmlcnn": {
        **{"encoder": "cnn", "attention": "dynamic_max", "kernel_sizes": [2, 4, 8], "hidden_size": 128},
        **{"activation": "relu", "pool_parts": 8, "bottleneck_size": 512, "dropout": 0.5},
    },
    "fasttext": {"encoder": "ngram_hash", "attention": "mean", "dropout": 0.0, "embedding_size": 100},
    "swem": {"encoder": "identity", "attention": "mean"},
    "plm_icd": {"encoder": "transformer", "attention": "laat", "attention_size": 256, "chunk_size": 128},
    "sentence": {
        **{"encoder": "transformer", "attention": "unit_mean", "dropout": 0.0},
        **{"chunk_size": 128, "max_chunks": 2},
    },
    "plm_ca": {"encoder": "transformer", "attention": "cross", "chunk_size": 128},
}


@strict
class LabelAttentionConfig(LabelClassifierConfig):
    r"""Configuration of [`LabelAttentionForMultiLabel`].

    Args:
        encoder: How words become hidden states.
        attention: How hidden states become label scores.
        embedding_size: Width of the word embeddings.
        hidden_size: Filters per kernel width, or units per direction of a recurrent encoder.
        kernel_sizes: Convolution widths.
        activation: After the convolution.
        bidirectional: Read recurrent encoders in both directions.
        attention_size: Width of LAAT's projection.
        dropout: On the word embeddings.
        classifier_dropout: Before the classifier of pooling models; the same as `dropout` where it is not given.
        pool_parts: Parts of the document in dynamic max pooling.
        bottleneck_size: Width of XML-CNN's hidden layer.
        max_ngram: Longest word n-gram of the hashed bag.
        num_buckets: Rows shared by the hashed n-grams.
        description_weight: Weight of DR-CAML's description regulariser; 0 leaves it out.
        description_length: Words kept per description (set when descriptions are given to the model).
        description_scale: Weight of a label's description vector in the classifier of `attention="unit_mean"`.
        new_label_bias: Bias of labels that are added to it.
        label_parents: For each label the index of its parent code (JointLAAT).
        parent_size: Width of JointLAAT's projection of the predicted parents.
        parent_loss_weight: Weight of JointLAAT's loss on the parents.
        attend_to_padding: Let padding take part in attention and pooling, as several published codes did. Only to
            reproduce them: predictions then depend on the batch.
        max_chunks: Read only the first chunks of a document (transformers); None reads all.
        backbone_config: Configuration of the transformer that reads the chunks (`encoder="transformer"`).
    """

    model_type = "label_attention"
    sub_configs_defaults: ClassVar[dict] = {}

    encoder: Encoder = "cnn"
    attention: Attention = "caml"
    embedding_size: int = 100
    hidden_size: int = 50
    kernel_sizes: list[int] | None = None
    activation: Literal["relu", "tanh"] = "tanh"
    bidirectional: bool = True
    attention_size: int = 256
    dropout: float | int = 0.2
    classifier_dropout: float | int | None = None
    pool_parts: int = 8
    bottleneck_size: int = 512
    max_ngram: int = 3
    num_buckets: int = 500_000
    description_weight: float | int = 0.0
    description_length: int = 0
    description_scale: float | int = 0.0
    new_label_bias: float | int = -8.0
    label_parents: list[int] | None = None
    parent_size: int = 128
    parent_loss_weight: float | int = 1.0
    attend_to_padding: bool = False
    max_chunks: int | None = None
    backbone_config: PreTrainedConfig | dict | None = None

    def __post_init__(self, **kwargs):
        if isinstance(self.backbone_config, dict):
            self.backbone_config = AutoConfig.for_model(**self.backbone_config)
        if self.kernel_sizes is None:
            self.kernel_sizes = [9]
        super().__post_init__(**kwargs)
        self._check()

    def _check(self) -> None:
        if self.encoder == "transformer" and self.backbone_config is None:
            raise ValueError(
                "`encoder='transformer'` needs `backbone_config`. Build the model with "
                "`LabelAttentionForMultiLabel.from_backbone('bert-base-uncased', preset='plm_icd', num_labels=…)`."
            )
        found = len(self.label_parents or [])
        if self.attention == "joint_laat" and found != self.num_labels:
            raise ValueError(
                f"`attention='joint_laat'` needs one parent per label: found {found}, expected {self.num_labels}. "
                "Pass `label_parents=[parent index of label 0, …]`."
            )
        if self.attention == "last" and self.encoder not in ("gru", "lstm"):
            raise ValueError(
                f"`attention='last'` takes a recurrent encoder, not {self.encoder!r}: use 'gru' or 'lstm'."
            )
        if self.encoder == "ngram_hash" and self.attention != "mean":
            raise ValueError(f"`encoder='ngram_hash'` takes `attention='mean'`, not {self.attention!r}.")

    @property
    def reads_chunks(self) -> bool:
        """Whether the collator must cut documents into chunks: only transformers read chunk by chunk here."""
        return self.encoder == "transformer"

    @classmethod
    def preset(cls, name: str, **overrides) -> "LabelAttentionConfig":
        """The configuration of a published model; any field can be overridden.

        >>> LabelAttentionConfig.preset("caml", num_labels=3, hidden_size=8).kernel_sizes
        [9]
        """
        if name not in PRESETS:
            raise ValueError(f"There is no preset {name!r}. Choose one of: {', '.join(sorted(PRESETS))}.")
        return cls(**{**PRESETS[name], **overrides})
