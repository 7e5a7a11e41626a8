"""Speed of the AWD-LSTM encoder beside a bare `nn.LSTM` stack of the same sizes.

    python -m benchmarks.run --only awd_lstm

Both are measured in alternation in one process, on one thread, in CPU seconds (so that other programs on the machine
count less); the median of the repeats counts.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from benchmarks.measuring import each_in_own_process, peak_mb, race, row
from hf_labelattn.models.configuration_awd_lstm import AwdLstmConfig
from hf_labelattn.models.modeling_awd_lstm import AwdLstmModel

GOAL = 1.25


class BareStack(nn.Module):
    """What a user would write without regularisation: word vectors and three `nn.LSTM`."""

    def __init__(self, config: AwdLstmConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        self.layers = nn.ModuleList(nn.LSTM(i, o, batch_first=True) for i, o in config.layer_sizes)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.embedding(words)
        for layer in self.layers:
            hidden, _ = layer(hidden)
        return hidden


def training_step(model: nn.Module, read: Callable[[], Tensor]) -> Callable[[], None]:
    """A forward and backward pass."""

    def step() -> None:
        model.zero_grad()
        read().mean().backward()

    return step


def evaluation_step(model: nn.Module, read: Callable[[], Tensor]) -> Callable[[], None]:
    """A forward pass without gradients."""
    model.eval()

    def step() -> None:
        with torch.no_grad():
            read()

    return step


def stack_rows(repeats: int, batch: int, length: int) -> list[dict]:
    """Training with all dropouts on, and reading rows of unequal length, against the bare stack."""
    config = AwdLstmConfig(vocab_size=20_000)
    model, bare = AwdLstmModel(config).train(), BareStack(config)
    words = torch.randint(1, config.vocab_size, (batch, length))
    mask = torch.arange(length) < torch.linspace(1, length, batch).long()[:, None]
    shape = f"{config.embedding_size}/{config.hidden_size}×{config.num_hidden_layers}, B={batch}, T={length}"
    cases = {
        "forward + backward, all dropouts": (training_step, lambda: model(words).last_hidden_state),
        "forward, rows of unequal length": (evaluation_step, lambda: model(words, mask).last_hidden_state),
    }
    found = []
    for name, (step, read) in cases.items():
        clock = race({"ours": step(model, read), "bare nn.LSTM": step(bare, lambda: bare(words))}, repeats)
        speed = f"{words.numel() / clock['ours']:,.0f} tokens/s"
        name = f"AWD-LSTM {name}, {shape}, {speed}"
        found.append(row(name, clock, GOAL, reference="bare nn.LSTM", peak_mb=peak_mb()))
    return found


def rows(quick: bool = False) -> Iterator[dict]:
    """All rows."""
    return each_in_own_process([(stack_rows, (1 if quick else 7, 16, 35 if quick else 70))])
