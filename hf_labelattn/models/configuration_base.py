"""The configuration fields that all classifiers of this library share."""

from typing import ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class LabelClassifierConfig(PreTrainedConfig):
    r"""Base of the classifier configurations; not used on its own.

    Args:
        vocab_size: Number of words or word pieces the model reads.
        pad_token_id: Id of the padding token.
        chunk_size: Tokens per chunk. Models that read chunk by chunk see at most this many tokens at once.
        bptt_chunks: Chunks per window. Activations of one window are held at a time, so memory does not grow with
            the length of the document; the gradient of the encoder's carried state stops at window borders.
        threshold: Probability from which a label is predicted; chosen on the development split.
        label_thresholds: One threshold per label instead of the global one.
        label_descriptions: Label name to description, for display and for models that read descriptions.
        training_counts: Training documents per label, for metrics by frequency.
        training_data: Counts and terms of the training data (never text), for the model card.
        max_kernel_memory_mb: Budget from which label and token chunk sizes are derived.
    """

    keys_to_ignore_at_inference: ClassVar[list[str]] = ["decoder_state", "label_attentions", "hidden_states"]
    reads_chunks: ClassVar[bool] = False

    vocab_size: int = 30522
    pad_token_id: int | None = 0
    chunk_size: int = 512
    bptt_chunks: int = 8
    threshold: float = 0.5
    label_thresholds: list[float] | None = None
    label_descriptions: dict[str, str] | None = None
    training_counts: list[int] | None = None
    training_data: dict | None = None
    max_kernel_memory_mb: int = 256

    def __post_init__(self, **kwargs):
        if self.problem_type is None:
            self.problem_type = "multi_label_classification"
        for name in ("vocab_size", "chunk_size", "bptt_chunks", "max_kernel_memory_mb"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")
        super().__post_init__(**kwargs)

    def to_diff_dict(self) -> dict:
        """What is saved: without the folders that the parts were loaded from, as transformers does for the whole."""
        return _without_folders(super().to_diff_dict())

    @property
    def window_tokens(self) -> int:
        """Tokens whose activations are held at once."""
        return self.chunk_size * self.bptt_chunks

    @property
    def label_names(self) -> list[str]:
        """The labels in the order of the logits."""
        return [self.id2label[i] for i in range(self.num_labels)]

    def rename_labels(self, names: list[str]) -> None:
        """Set the labels, in the order of the logits."""
        self.id2label = dict(enumerate(names))
        self.label2id = {name: i for i, name in enumerate(names)}


def _without_folders(value):
    """Plain data without the paths of configurations in it, which name the machine and its users."""
    if isinstance(value, dict):
        return {name: _without_folders(part) for name, part in value.items() if name != "_name_or_path"}
    return [_without_folders(part) for part in value] if isinstance(value, list) else value
