"""Configuration of PLANT."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .configuration_awd_lstm import AwdLstmConfig
from .configuration_base import LabelClassifierConfig
from .configuration_l2r import TokenRankerConfig
from .configuration_tfidf_linear import TfidfLinearConfig


@strict
class PlantConfig(LabelClassifierConfig):
    r"""Configuration of [`PlantForICDCoding`].

    Args:
        encoder_config: Configuration of the backbone: an AWD-LSTM, or any transformer encoder.
        backward_encoder_config: A second backbone that reads documents from their end; the two classifiers'
            probabilities are averaged.
        ranker_config: Configuration of the planted learning-to-rank model.
        prior_config: Configuration of a linear model whose logits are added to PLANT's, so that planted attention
            learns what the linear model misses.
        direction: Which way a single backbone reads.
        use_learned: Attention learned from scratch (the paper's A).
        use_static: Attention by mutual information, constant (S).
        use_planted: Attention of the ranker, fine-tuned (P).
        use_evidence: Adds to each label's score how much static relevance a chunk holds, times a learned weight; not
            in the paper. Meant for a relevance table of evidence (`planting/weights_of_evidence.py`).
        evidence_dropout: Share of the documents whose evidence is left out in training, so that the attentions learn
            to do without it.
        inattention_k: Tokens of a chunk the planted attention keeps per label; None keeps all.
        inattention_mode: "mask": exactly k tokens survive. "zero": the paper's literal zeroing, where a zeroed score
            still receives e⁰.
        static_norm: "l1": the static weights of a label sum to one over a chunk. "none": mutual information as it is.
        state: How chunks add up. "logit_sum": logits are summed (paper text). "sigmoid": each chunk's logits are added
            to the probability so far (the authors' code). "max": the best chunk counts. "none": stateless, the mean
            over chunks, each read on its own.
        decoder_dropout: Dropout on the encoder's states before the decoder.
        relevance_size: Number of stored static relevances (set when attention is planted).
        compile_pairs: Compile the pair kernel with `torch.compile`.
    """

    model_type = "plant"
    reads_chunks: ClassVar[bool] = True

    chunk_size: int = 72
    bptt_chunks: int = 10
    encoder_config: PreTrainedConfig | dict | None = None
    backward_encoder_config: PreTrainedConfig | dict | None = None
    ranker_config: PreTrainedConfig | dict | None = None
    prior_config: PreTrainedConfig | dict | None = None
    direction: Literal["forward", "backward"] = "forward"
    use_learned: bool = True
    use_static: bool = True
    use_planted: bool = True
    use_evidence: bool = False
    evidence_dropout: float | int = 0.5
    inattention_k: int | None = 10
    inattention_mode: Literal["mask", "zero"] = "mask"
    static_norm: Literal["l1", "none"] = "l1"
    state: Literal["logit_sum", "sigmoid", "max", "none"] = "logit_sum"
    decoder_dropout: float | int = 0.2
    relevance_size: int = 0
    compile_pairs: bool = False

    def __post_init__(self, **kwargs):
        labels = kwargs.get("num_labels") or (len(self.id2label) if self.id2label else 2)
        self.encoder_config = read_encoder_config(self.encoder_config) or AwdLstmConfig(vocab_size=self.vocab_size)
        self.backward_encoder_config = read_encoder_config(self.backward_encoder_config)
        if self.ranker_config is None:
            self.ranker_config = TokenRankerConfig(vocab_size=self.vocab_size, num_labels=labels)
        elif isinstance(self.ranker_config, dict):
            self.ranker_config = TokenRankerConfig.from_dict(self.ranker_config)
        if isinstance(self.prior_config, dict):
            self.prior_config = TfidfLinearConfig.from_dict(self.prior_config)
        super().__post_init__(**kwargs)
        self._check()

    def _check(self) -> None:
        if not (self.use_learned or self.use_static or self.use_planted):
            raise ValueError(
                "All three attentions are off. Set at least one of `use_learned`, `use_static` and `use_planted`."
            )
        limit = getattr(self.encoder_config, "max_position_embeddings", None)
        if limit is not None and self.chunk_size > limit:
            raise ValueError(
                f"`chunk_size` is {self.chunk_size}, but the backbone reads at most {limit} tokens at once. Pass "
                f"`chunk_size={limit}` or less."
            )
        if limit is not None and (self.direction == "backward" or self.backward_encoder_config is not None):
            raise ValueError(
                "Only an AWD-LSTM backbone reads backward. Leave `direction` at 'forward' for a transformer."
            )
        if self.ranker_config.num_labels != self.num_labels:
            raise ValueError(
                f"`ranker_config` has {self.ranker_config.num_labels} labels, but the classifier {self.num_labels}. "
                "Plant the ranker with `plant_attention`, which aligns its labels."
            )

    @property
    def hidden_size(self) -> int:
        """Width of the backbone's token states."""
        return getattr(self.encoder_config, "output_size", None) or self.encoder_config.hidden_size


def read_encoder_config(value: PreTrainedConfig | dict | None) -> PreTrainedConfig | None:
    """A backbone's configuration from its dictionary form."""
    if not isinstance(value, dict):
        return value
    return AwdLstmConfig.from_dict(value) if value.get("model_type") == "awd_lstm" else AutoConfig.for_model(**value)
