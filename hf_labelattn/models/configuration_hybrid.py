"""Configuration of several classifiers that score together."""

from typing import ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from .configuration_base import LabelClassifierConfig
from .configuration_interaction import InteractionConfig, own_config_class


def _own_config(fields: PreTrainedConfig | dict) -> PreTrainedConfig:
    """The configuration of a part: one of this library's."""
    if isinstance(fields, PreTrainedConfig):
        return fields
    found = fields.get("model_type")
    own = InteractionConfig if found == "interaction" else own_config_class(found)
    if own is None:
        raise ValueError(f"A part has `model_type` {found!r}, but only classifiers of this library can be parts.")
    return own.from_dict(fields)


@strict
class HybridConfig(LabelClassifierConfig):
    r"""Configuration of [`HybridForMultiLabel`].

    Args:
        part_configs: Configurations of the parts, each a classifier of this library over the same labels.
        part_names: What each part is called.
        unseen_logits: For each part, its score of a label it does not know.
        match_vocab_size: Words of the tokenizer of the parts that read words, if another part reads pieces of words.
            None: all read `input_ids`.
        unk_token_id: Id of the unknown word.
    """

    model_type = "hybrid"
    sub_configs_defaults: ClassVar[dict] = {}
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        *LabelClassifierConfig.keys_to_ignore_at_inference,
        "part_logits",
    ]

    part_configs: list | None = None
    part_names: list[str] | None = None
    unseen_logits: list[float] | None = None
    match_vocab_size: int | None = None
    unk_token_id: int | None = 1

    def __post_init__(self, **kwargs):
        self.part_configs = [_own_config(fields) for fields in self.part_configs or []]
        super().__post_init__(**kwargs)
        count = len(self.part_configs)
        self.part_names = self.part_names or [f"part_{i}" for i in range(count)]
        self.unseen_logits = self.unseen_logits or [-8.0] * count
        for name in ("part_names", "unseen_logits"):
            if len(getattr(self, name)) != count:
                raise ValueError(f"`{name}` has {len(getattr(self, name))} entries, but there are {count} parts.")
        known = max((part.num_labels for part in self.part_configs), default=self.num_labels)
        if known != self.num_labels:
            raise ValueError(f"`id2label` has {self.num_labels} labels, but the parts score {known}.")

    @property
    def reads_chunks(self) -> bool:
        """Whether the collator must cut documents into chunks, for one of the parts."""
        return any(part.reads_chunks for part in self.part_configs or [])

    @property
    def reads_pieces(self) -> list[bool]:
        """For each part whether it reads `input_ids` while the others read words of their own."""
        if self.match_vocab_size is None:
            return [False for _ in self.part_configs or []]
        told_apart = self.match_vocab_size != self.vocab_size
        return [
            part.reads_chunks and not (told_apart and part.vocab_size == self.match_vocab_size)
            for part in self.part_configs or []
        ]

    def to_dict(self) -> dict:
        """As plain data, the parts too."""
        fields = super().to_dict()
        return {**fields, "part_configs": [part.to_dict() for part in self.part_configs or []]}
