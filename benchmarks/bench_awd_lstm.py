"""Speed of the AWD-LSTM encoder beside a bare `nn.LSTM` stack of the same sizes.

    python -m benchmarks.bench_awd_lstm

Both are measured in alternation in one process, on one thread, in CPU seconds (so that other programs on the machine
count less); the best of the repeats counts.
"""

import resource
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from hf_labelattn.models.configuration_awd_lstm import AwdLstmConfig
from hf_labelattn.models.modeling_awd_lstm import AwdLstmModel

GOAL = 1.25
REPEATS = 3


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


def best_times(ours: Callable[[], None], reference: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Lowest CPU seconds of each, measured in turn after a warm-up."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(repeats + 1):
        for which, step in enumerate((ours, reference)):
            started = time.process_time()
            step()
            times[which].append(time.process_time() - started)
    return min(times[0][1:]), min(times[1][1:])


def row(name: str, ours_s: float, reference_s: float, tokens: int) -> dict:
    """One line of benchmarks/results.json."""
    return {
        "name": name,
        "ratio": round(ours_s / reference_s, 3),
        "goal": GOAL,
        "unit": "time / time of bare nn.LSTM",
        "ours_s": round(ours_s, 4),
        "reference_s": round(reference_s, 4),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "tokens_per_s": round(tokens / ours_s),
        "reference_tokens_per_s": round(tokens / reference_s),
    }


def rows(repeats: int = REPEATS, batch: int = 16, length: int = 70, **sizes: int) -> list[dict]:
    """Training with all dropouts on, and reading rows of unequal length, against the bare stack."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = AwdLstmConfig(**{"vocab_size": 20000, **sizes})
    model, bare = AwdLstmModel(config).train(), BareStack(config)
    words = torch.randint(1, config.vocab_size, (batch, length))
    mask = torch.arange(length) < torch.linspace(1, length, batch).long()[:, None]
    shape = f"{config.embedding_size}/{config.hidden_size}×{config.num_hidden_layers}, B={batch}, T={length}"
    cases = {
        f"AWD-LSTM forward + backward, all dropouts, {shape}": (training_step, lambda: model(words).last_hidden_state),
        f"AWD-LSTM forward, rows of unequal length, {shape}": (
            evaluation_step,
            lambda: model(words, mask).last_hidden_state,
        ),
    }
    found = []
    for name, (step, read) in tqdm(cases.items(), desc="AWD-LSTM", leave=False):
        times = best_times(step(model, read), step(bare, lambda: bare(words)), repeats)
        found.append(row(name, *times, words.numel()))
    torch.set_num_threads(threads)
    return found


if __name__ == "__main__":
    for line in rows():
        print(line)
