"""An order of documents that keeps like lengths together and stays shuffled."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler


class LengthAwareSampler(Sampler[int]):
    """Shuffle documents, sort within pools of `pool_batches` batches, cut into batches and shuffle those.

    The order depends only on the seed and the epoch. Batches are cut at multiples of the *global* batch size, so every
    process of a distributed run derives the same order and takes its share of each batch; the last one is filled up.

    Args:
        lengths: Tokens per document.
        batch_size: Documents per optimisation step over all processes.
        seed: Seed of the shuffles.
        pool_batches: Batches per sorted pool; more waste less padding and shuffle less.
        shuffle: False gives one fixed order, longest first: evaluation, where order does not matter.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, seed: int = 0, pool_batches: int = 128, shuffle: bool = True
    ):
        self.lengths = np.asarray(lengths)
        self.batch_size, self.seed, self.pool_batches, self.shuffle = batch_size, seed, pool_batches, shuffle
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order is given next."""
        self.epoch = epoch

    def __len__(self) -> int:
        count = len(self.lengths)
        return count + (-count % self.batch_size if self.shuffle and count > self.batch_size else 0)

    def order(self) -> np.ndarray:
        """The order of the current epoch, as indices."""
        if not self.shuffle:
            return np.argsort(-self.lengths, kind="stable")
        generator = np.random.default_rng((self.seed, self.epoch))
        shuffled = generator.permutation(len(self.lengths))
        pool = self.batch_size * self.pool_batches
        pools = [shuffled[i : i + pool] for i in range(0, len(shuffled), pool)]
        ordered = np.concatenate([p[np.argsort(-self.lengths[p], kind="stable")] for p in pools] or [shuffled])
        full = len(ordered) // self.batch_size * self.batch_size
        batches = generator.permutation(ordered[:full].reshape(-1, self.batch_size))
        # The incomplete batch stays last (in the middle it would shift every later batch border) and is filled up with
        # documents of the epoch's start, so that one process and several take the same steps.
        missing = -len(ordered) % self.batch_size if full else 0
        return np.concatenate([batches.reshape(-1), ordered[full:], shuffled[:missing]])

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())


def padding_waste(lengths: Sequence[int], order: Sequence[int], batch_size: int) -> float:
    """Share of a batch that is padding when documents are taken in this order.

    >>> round(padding_waste([1, 3, 3, 1], [0, 1, 2, 3], batch_size=2), 3)
    0.333
    >>> padding_waste([1, 3, 3, 1], [0, 3, 1, 2], batch_size=2)
    0.0
    """
    lengths = np.asarray(lengths)[np.asarray(order)]
    batches = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    padded = sum(int(b.max()) * len(b) for b in batches)
    return 1 - float(lengths.sum()) / padded if padded else 0.0
