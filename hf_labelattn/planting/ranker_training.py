"""One training of the token ranker by LambdaRank, with its optimizers and its checkpoint."""

import hashlib
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..models.modeling_l2r import TokenRankerModel
from ..storage import load_archive, replacing
from .graded_lists import GradedLists, random_ndcg, ranker_ndcg
from .lambdarank import lambda_gradients

logger = logging.getLogger(__name__)

# With few labels an epoch passes over them several times, or it would be a handful of steps.
MIN_STEPS = 50
# Held-out tokens choose the epoch once they are ranked this many times better than by chance.
BETTER_THAN_CHANCE = 1.5
TRAIN_SAMPLE = 500


@dataclass(frozen=True)
class RankingArguments:
    """How the ranker is trained."""

    ndcg_k: int = field(default=20, metadata={"help": "The k of nDCG@k."})
    sigma: float = field(default=1.0, metadata={"help": "Steepness of the pair probability."})
    ranking_epochs: int = field(default=20, metadata={"help": "Passes over the labels, at most."})
    ranking_patience: int = field(default=5, metadata={"help": "Stop after this many epochs without a better one."})
    ranking_learning_rate: float = field(default=1e-2, metadata={"help": "Adam's rate."})
    labels_per_step: int = field(default=32, metadata={"help": "Labels that share a list of tokens."})
    list_size: int = field(default=1000, metadata={"help": "Tokens in a list, or a few more; 0 for all."})
    held_out_tokens: float = field(default=0.1, metadata={"help": "Share of tokens kept out to choose the epoch."})
    refit: bool = field(default=True, metadata={"help": "Train again on all tokens for the epochs that were best."})
    ranking_seed: int = field(default=0, metadata={"help": "Seed of the lists and the hold-out."})

    def __post_init__(self):
        for name in ("ndcg_k", "ranking_epochs", "ranking_patience", "labels_per_step"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")
        if self.list_size < 0:
            raise ValueError(f"`list_size` is {self.list_size}. Pass a number of tokens, or 0 for the vocabulary.")
        if not 0 <= self.held_out_tokens < 1:
            raise ValueError(f"`held_out_tokens` is {self.held_out_tokens}; pass a share from 0 to below 1.")


class RankerTraining:
    """Trains a ranker on the lists of "train", measures it on every list it is given."""

    def __init__(
        self,
        model: TokenRankerModel,
        lists: dict[str, GradedLists],
        args: RankingArguments,
        folder: str | os.PathLike | None = None,
        name: str = "ranker",
        progress: bool = True,
    ):
        """Prepare the optimizers, or take them up where an interrupted run left them.

        Args:
            model: The ranker.
            lists: "train", and "held_out" if tokens are held out.
            args: How to train.
            folder: Where to leave a checkpoint after every epoch.
            name: What to call it.
            progress: Whether to show a progress bar.
        """
        self.model, self.lists, self.args, self.progress = model, lists, args, progress
        self.file = None if folder is None else Path(folder) / f"{name}.pt"
        self.key = _fingerprint(model, lists["train"], args)
        if not len(lists["train"].labels):
            raise ValueError("No label has a relevant token, so there is nothing to rank. Pass more documents.")
        self.chance = random_ndcg(lists["held_out"], args.ndcg_k) if "held_out" in lists else 0.0
        self.epoch, self.history, self.best = 0, {part: [] for part in lists}, {}
        self.optimizers = self._make_optimizers()
        self._load()

    def choose(self) -> tuple[int, str]:
        """Train until nothing gets better; leave the best weights in the model.

        Returns:
            The best epoch, and the list of tokens that chose it.
        """
        for bar in self._epochs(self.args.ranking_epochs):
            for part in self.lists:
                self._measure(part)
            bar.set_postfix({part: f"{values[-1]:.4f}" for part, values in self.history.items()})
            self._save()
        part = self._chosen_on()
        self.model.load_state_dict(self.best[part])
        return self._best_epoch(part), part

    def fit(self, epochs: int) -> None:
        """Train for a number of epochs and measure nothing."""
        for _ in self._epochs(epochs):
            self._save()

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint, once its model is safe elsewhere."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)
            if self.file.parent.is_dir() and not any(self.file.parent.iterdir()):
                self.file.parent.rmdir()

    def _epochs(self, epochs: int) -> Iterator[tqdm]:
        with tqdm(total=epochs, initial=self.epoch, desc="ranking", disable=None if self.progress else True) as bar:
            while self.epoch < epochs and not self._finished():
                self._train_epoch()
                bar.update()
                yield bar
        self._set_sparse(False)

    def _finished(self) -> bool:
        if not self.history["train"]:
            return False
        return self.epoch - self._best_epoch(self._chosen_on()) >= self.args.ranking_patience

    def _chosen_on(self) -> str:
        reached = max(self.history.get("held_out", [0.0]), default=0.0)
        return "held_out" if reached > BETTER_THAN_CHANCE * self.chance else "train"

    def _best_epoch(self, part: str) -> int:
        return int(np.argmax(self.history[part])) + 1

    def _measure(self, part: str) -> None:
        sample = TRAIN_SAMPLE if part == "train" else None
        self.history[part].append(ranker_ndcg(self.model.scores, self.lists[part], self.args.ndcg_k, sample))
        if self._best_epoch(part) == self.epoch:
            self.best[part] = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _make_optimizers(self) -> list[torch.optim.Optimizer]:
        embeddings = [self.model.label_embedding.weight, self.model.token_embedding.weight]
        others = [p for p in self.model.parameters() if all(p is not e for e in embeddings)]
        # With sampled lists a step touches few embeddings, and Adam's moments of the others are left alone.
        make = torch.optim.SparseAdam if self.args.list_size else torch.optim.Adam
        groups = [(make, embeddings), (torch.optim.Adam, others)]
        return [kind(group, lr=self.args.ranking_learning_rate) for kind, group in groups if group]

    def _set_sparse(self, sparse: bool) -> None:
        self.model.label_embedding.sparse = self.model.token_embedding.sparse = sparse

    def _train_epoch(self) -> None:
        self._set_sparse(bool(self.args.list_size))
        draw = np.random.default_rng([self.args.ranking_seed, 2, self.epoch])
        batches = self._label_batches(draw)
        for labels in tqdm(batches, desc=f"epoch {self.epoch + 1}", leave=False, delay=2, disable=self._silent()):
            tokens = self._list(labels, draw) if self.args.list_size else self.lists["train"].tokens
            scores = self.model.scores(labels, tokens)
            grades = self.lists["train"].grades(labels, tokens)
            gradient = lambda_gradients(scores.detach(), grades, self.args.ndcg_k, self.args.sigma)
            scores.backward(gradient / len(labels))
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
        self.epoch += 1

    def _silent(self) -> bool | None:
        return None if self.progress else True

    def _label_batches(self, draw: np.random.Generator) -> tuple[Tensor, ...]:
        labels = self.lists["train"].labels
        passes = max(1, -(-MIN_STEPS * self.args.labels_per_step // max(len(labels), 1)))
        order = np.concatenate([draw.permutation(len(labels)) for _ in range(passes)])
        return labels[torch.as_tensor(order, device=labels.device)].split(self.args.labels_per_step)

    def _list(self, labels: Tensor, draw: np.random.Generator) -> Tensor:
        """The best tokens of the labels and a sample of all others."""
        lists = self.lists["train"]
        count = max(self.args.ndcg_k, self.args.list_size // (2 * self.args.labels_per_step))
        relevant = lists.best_tokens(labels, count)
        others = draw.integers(0, len(lists.tokens), max(0, self.args.list_size - len(relevant)))
        return torch.cat([relevant, lists.tokens[torch.as_tensor(others, device=relevant.device)]]).unique()

    def _save(self) -> None:
        if self.file is None:
            return
        state = {"key": self.key, "epoch": self.epoch, "history": self.history, "best": self.best}
        state |= {"model": self.model.state_dict(), "optimizers": [o.state_dict() for o in self.optimizers]}
        with replacing(self.file) as partial:
            torch.save(state, partial)

    def _load(self) -> None:
        if self.file is None or not self.file.exists():
            return
        try:
            state = load_archive(self.file, self.model.device)
        except ValueError:
            logger.warning("%s is broken; starting again", self.file.name)
            return
        if state["key"] != self.key:
            logger.warning("%s belongs to another run (other data or arguments); starting again", self.file.name)
            return
        self.epoch, self.history, self.best = state["epoch"], state["history"], state["best"]
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def _fingerprint(model: TokenRankerModel, lists: GradedLists, args: RankingArguments) -> str:
    """What a checkpoint must agree on to be continued; the number of epochs may grow."""
    free = ("ranking_epochs", "ranking_patience", "refit")
    settings = sorted((name, value) for name, value in asdict(args).items() if name not in free)
    digest = hashlib.sha256(repr((settings, model.config.l2r_scorer)).encode())
    for tensor in (*lists.rows[:3], lists.tokens, *model.state_dict().values()):
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
