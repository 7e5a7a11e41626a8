"""The learning-to-rank model of PLANT: which tokens speak for which label (equations 1 and 7)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput

from .configuration_l2r import TokenRankerConfig
from .functional_pairs import pair_scores
from .functional_planted import PairRanker


@dataclass
class TokenRankerOutput(ModelOutput):
    """What the ranker returns.

    Attributes:
        scores: [labels, tokens] the higher, the more the token speaks for the label.
    """

    scores: Tensor | None = None


class TokenRankerModel(PreTrainedModel):
    """Scores every token for every label: `f(e_l, e_t) = w2 . relu(W1 [e_l; e_t] + b1)`.

    The paper's equation 7 has a bias and an activation after the second layer too. A bias cannot change a ranking,
    and a ReLU would make all tokens below zero equal, so there is neither. `label_known` and `token_known` tell what
    it was trained on: PLANT plants nothing for the rest.
    """

    config_class = TokenRankerConfig
    config: TokenRankerConfig
    base_model_prefix = "ranker"
    main_input_name = "token_ids"

    def __init__(self, config: TokenRankerConfig):
        super().__init__(config)
        self.label_embedding = nn.Embedding(config.num_labels, config.embedding_size)
        self.token_embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        if config.l2r_scorer == "mlp":
            self.label_projection = nn.Linear(config.embedding_size, config.hidden_size, bias=False)
            self.token_projection = nn.Linear(config.embedding_size, config.hidden_size)
            self.output = nn.Parameter(torch.empty(config.hidden_size))
        elif config.l2r_scorer == "bilinear":
            self.label_projection = nn.Linear(config.embedding_size, config.embedding_size, bias=False)
        self.register_buffer("label_known", torch.ones(config.num_labels, dtype=torch.bool))
        self.register_buffer("token_known", torch.ones(config.vocab_size, dtype=torch.bool))
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight, gain=2**0.5)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif module is self:
            init.ones_(self.label_known)
            init.ones_(self.token_known)
            if self.config.l2r_scorer == "mlp":
                # Scores of the order of one: with smaller ones LambdaRank loses its first epochs.
                init.normal_(self.output, std=8 * self.config.hidden_size**-0.5)

    def project_labels(self, label_ids: Tensor | None = None) -> Tensor:
        """Label half of the first layer, [l, R]; all labels by default."""
        embedding = self.label_embedding.weight if label_ids is None else self.label_embedding(label_ids)
        return embedding if self.config.l2r_scorer == "dot" else self.label_projection(embedding)

    def project_tokens(self, token_ids: Tensor | None = None) -> Tensor:
        """Token half of the first layer with its bias, [t, R]; all tokens by default."""
        embedding = self.token_embedding.weight if token_ids is None else self.token_embedding(token_ids)
        return self.token_projection(embedding) if self.config.l2r_scorer == "mlp" else embedding

    def scores(
        self, label_ids: Tensor | None = None, token_ids: Tensor | None = None, compiled: bool = False
    ) -> Tensor:
        """Score tokens for labels.

        Args:
            label_ids: [l]; None for all labels.
            token_ids: [t]; None for all tokens.
            compiled: Use the `torch.compile`d pair kernel.

        Returns:
            [l, t] scores.
        """
        output = self.output if self.config.l2r_scorer == "mlp" else None
        return pair_scores(self.project_labels(label_ids), self.project_tokens(token_ids), output, compiled)

    def pair_ranker(self, token_ids: Tensor) -> PairRanker:
        """Everything the planted decoder needs of this model for the distinct tokens of a batch.

        Args:
            token_ids: [U] `TokenIndex.unique`.
        """
        return PairRanker(
            label=self.project_labels(),
            token=self.project_tokens(token_ids),
            output=self.output if self.config.l2r_scorer == "mlp" else None,
            label_known=None if bool(self.label_known.all()) else self.label_known,
            token_known=None if bool(self.token_known.all()) else self.token_known[token_ids],
        )

    def forward(
        self, label_ids: Tensor | None = None, token_ids: Tensor | None = None, return_dict: bool | None = None
    ) -> TokenRankerOutput | tuple[Tensor]:
        """Score tokens for labels; see `scores`."""
        found = self.scores(label_ids, token_ids)
        return (found,) if return_dict is False else TokenRankerOutput(scores=found)

    @torch.no_grad()
    def set_token_vectors(self, vectors: Tensor) -> None:
        """Start the token embeddings from given vectors, scaled to a mean length of one as random ones have.

        Args:
            vectors: [vocab_size, embedding_size], such as word vectors or the embeddings of a language model.
        """
        vectors = torch.as_tensor(vectors, dtype=self.token_embedding.weight.dtype)
        if vectors.shape != self.token_embedding.weight.shape:
            raise ValueError(
                f"The token vectors have shape {tuple(vectors.shape)}, but the ranker expects "
                f"{tuple(self.token_embedding.weight.shape)}. Set `embedding_size={vectors.shape[-1]}` in its config."
            )
        self.token_embedding.weight.copy_(vectors / vectors.norm(dim=1).mean().clamp_min(1e-6))

    @torch.no_grad()
    def set_label_descriptions(self, description_ids: list[list[int]]) -> None:
        """Start each label's embedding at the mean of the embeddings of the words that describe it.

        Args:
            description_ids: Token ids of every label's description; a label without any is left alone.
        """
        if len(description_ids) != self.config.num_labels:
            raise ValueError(f"Found {len(description_ids)} descriptions, expected {self.config.num_labels}.")
        for label, ids in enumerate(description_ids):
            if len(ids):
                words = self.token_embedding.weight[torch.as_tensor(ids, device=self.device)]
                self.label_embedding.weight[label] = words.mean(0)
