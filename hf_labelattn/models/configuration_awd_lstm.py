"""Configuration of the AWD-LSTM language model."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

DROPOUTS = ("embedding_dropout", "input_dropout", "weight_dropout", "hidden_dropout", "output_dropout")
SIZES = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers")


@strict
class AwdLstmConfig(PreTrainedConfig):
    r"""Sizes and dropouts of an AWD-LSTM (Merity et al. 2017), with the defaults of ULMFiT (Howard & Ruder 2018).

    Args:
        vocab_size: Number of words the model reads and predicts.
        embedding_size: Size of a word vector, and of the last layer's output, so that the decoder can be tied.
        hidden_size: Size of the layers between. **Not** the size of `last_hidden_state`: that is `output_size`.
        num_hidden_layers: Number of LSTM layers.
        pad_token_id: Id of the padding token; None if there is none.
        embedding_dropout: Share of the *words* whose vector is dropped wherever they occur in a batch.
        input_dropout: Dropout on the embedded words, the same at all positions of a row.
        weight_dropout: DropConnect: share of the hidden-to-hidden weights dropped in a forward pass.
        hidden_dropout: Dropout between layers, the same at all positions of a row.
        output_dropout: Dropout before the decoder of `AwdLstmForCausalLM`, the same at all positions of a row.
        dropout_multiplier: Scales the five rates above together.
        activation_regularization: Weight of the mean squared output (AR), added to the training loss.
        temporal_activation_regularization: Weight of the mean squared change of the output from one position to the
            next (TAR), added to the training loss.
        direction: The order of reading the weights were trained for. `AwdLstmModel` reads what it is given from left
            to right; whoever feeds a "backward" model reverses the text first: the stream for a language model, the
            whole document, before it is cut into chunks, for a classifier (`reverse_rows` in `encoders.py`).
        initializer_range: Word vectors start uniform in ± this.
        tie_word_embeddings: Whether the decoder shares the word vectors.
    """

    model_type = "awd_lstm"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["hidden_state", "hidden_states"]

    vocab_size: int = 60000
    embedding_size: int = 400
    hidden_size: int = 1152
    num_hidden_layers: int = 3
    pad_token_id: int | None = 0
    embedding_dropout: float = 0.02
    input_dropout: float = 0.25
    weight_dropout: float = 0.2
    hidden_dropout: float = 0.15
    output_dropout: float = 0.1
    dropout_multiplier: float = 1.0
    activation_regularization: float = 2.0
    temporal_activation_regularization: float = 1.0
    direction: Literal["forward", "backward"] = "forward"
    initializer_range: float = 0.1
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        for name in SIZES:
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")
        for name in DROPOUTS:
            if not 0 <= self.dropout(name) < 1:
                raise ValueError(
                    f"`{name}` is {getattr(self, name)} times `dropout_multiplier` {self.dropout_multiplier}, but the "
                    "product must lie in [0, 1)."
                )
        super().__post_init__(**kwargs)

    def dropout(self, name: str) -> float:
        """The rate in force: the field `name` times `dropout_multiplier`."""
        return getattr(self, name) * self.dropout_multiplier

    @property
    def output_size(self) -> int:
        """Size of `last_hidden_state`."""
        return self.embedding_size

    @property
    def layer_sizes(self) -> list[tuple[int, int]]:
        """(input size, output size) of each LSTM layer."""
        sizes = [self.embedding_size, *[self.hidden_size] * (self.num_hidden_layers - 1), self.embedding_size]
        return list(zip(sizes[:-1], sizes[1:], strict=True))
