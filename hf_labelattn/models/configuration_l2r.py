"""Configuration of the learning-to-rank model that PLANT plants."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class TokenRankerConfig(PreTrainedConfig):
    r"""Configuration of [`TokenRankerModel`].

    The labels are `id2label`; the words belong to the tokenizer saved in the same folder.

    Args:
        vocab_size: Number of tokens.
        embedding_size: Width of the label and token embeddings.
        hidden_size: Hidden units of the `mlp` scorer.
        l2r_scorer: How a label and a token are scored: `mlp` is the paper's two-layer network on their concatenated
            embeddings, `dot` their dot product, `bilinear` their dot product through a matrix (the baseline).
        ndcg_k: The k of nDCG@k it was trained for.
        label_descriptions: Label name to description.
        training_data: Counts and terms of the training data (never text), for the model card.
    """

    model_type = "token_ranker"

    vocab_size: int = 30522
    embedding_size: int = 100
    hidden_size: int = 256
    l2r_scorer: Literal["mlp", "dot", "bilinear"] = "mlp"
    ndcg_k: int = 20
    label_descriptions: dict[str, str] | None = None
    training_data: dict | None = None

    def __post_init__(self, **kwargs):
        for name in ("vocab_size", "embedding_size", "hidden_size", "ndcg_k"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")
        super().__post_init__(**kwargs)
