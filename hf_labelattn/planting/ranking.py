"""The token ranker: every label is a query, every token a document, relevance is mutual information (PLANT, A.2).

Grades are scaled so that the best token of every label has grade 1; the objective is nDCG@k by LambdaRank. A list is
either the whole vocabulary or, much faster, the best tokens of a few labels and a sample of all others, shared by
those labels (what is relevant to one label is a hard negative for the next).

Hold-out: a share of the tokens never enters a training list. Their embeddings stay as they were given, so only what
the network learned about the embedding space can rank them; that chooses the epoch. The model that is kept is then
trained again on all tokens for as many epochs, because the decoder will meet all of them. Where the embeddings carry
nothing that generalises (drawn at random), held-out tokens are ranked at random too, and the epoch is chosen on the
training tokens instead.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..models.modeling_l2r import TokenRankerModel
from .graded_lists import GradedLists, random_ndcg, ranker_ndcg
from .mutual_information import TokenRelevance
from .ranker_training import RankerTraining, RankingArguments


@dataclass(frozen=True)
class RankingReport:
    """What training found.

    Attributes:
        best_epoch: Epochs the kept model was trained for.
        chosen_on: "held_out" or "train": the tokens whose nDCG@k chose it.
        history: nDCG@k after every epoch, by list of tokens ("train" on a sample of the labels).
        ndcg: nDCG@k by list of tokens of the model that chose the epoch.
        ndcg_all: nDCG@k over the whole vocabulary of the model that is kept.
        chance: nDCG@k by list of tokens ("all" too) of scores drawn at random.
    """

    best_epoch: int
    chosen_on: str
    history: dict[str, list[float]]
    ndcg: dict[str, float]
    ndcg_all: float
    chance: dict[str, float]


def split_tokens(
    relevance: TokenRelevance, ignored_tokens: Sequence[int], share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split the vocabulary into tokens to train on and tokens to hold out.

    Args:
        relevance: Only tokens that are relevant to some label are held out: nothing can be measured on the others.
        ignored_tokens: Ids of special tokens, in neither part.
        share: Share of the relevant tokens to hold out.
        seed: Seed of the draw.
    """
    usable = np.setdiff1d(np.arange(relevance.vocab_size), ignored_tokens)
    relevant = np.intersect1d(usable, relevance.token_ids)
    drawn = np.random.default_rng([seed, 1]).permutation(relevant)[: round(share * len(relevant))]
    return np.setdiff1d(usable, drawn), np.sort(drawn)


def token_lists(
    relevance: TokenRelevance,
    args: RankingArguments,
    ignored_tokens: Sequence[int] = (),
    device: torch.device | str = "cpu",
) -> dict[str, GradedLists]:
    """Make the lists training uses: "train", "held_out" (if any are) and "all"."""
    train, held_out = split_tokens(relevance, ignored_tokens, args.held_out_tokens, args.ranking_seed)
    parts = {"train": train, "held_out": held_out, "all": np.union1d(train, held_out)}
    return {name: GradedLists(relevance, tokens, device) for name, tokens in parts.items() if len(tokens)}


def train_token_ranker(
    model: TokenRankerModel,
    relevance: TokenRelevance,
    args: RankingArguments,
    ignored_tokens: Sequence[int] = (),
    checkpoint_dir: str | os.PathLike | None = None,
    progress: bool = True,
) -> RankingReport:
    """Train a ranker in place, choosing the epoch on held-out tokens.

    Args:
        model: A new ranker. Its `label_known` and `token_known` are set to what it was trained on.
        relevance: Mutual information of the training documents.
        args: How to train.
        ignored_tokens: Ids of special tokens.
        checkpoint_dir: Where to leave a checkpoint after every epoch; the same call continues from it, and removes it
            at the end.
        progress: Whether to show a progress bar.
    """
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    lists = token_lists(relevance, args, ignored_tokens, model.device)
    chance = {name: random_ndcg(part, args.ndcg_k) for name, part in lists.items()}
    whole = lists.pop("all")
    choice = RankerTraining(model, lists, args, checkpoint_dir, "choose", progress)
    best_epoch, chosen_on = choice.choose()
    ndcg = {name: ranker_ndcg(model.scores, part, args.ndcg_k, progress=progress) for name, part in lists.items()}
    seen, runs = lists["train"], [choice]
    if args.refit and "held_out" in lists:
        model.load_state_dict(start)
        runs.append(RankerTraining(model, {"train": whole}, args, checkpoint_dir, "refit", progress))
        runs[-1].fit(best_epoch)
        seen = whole
    _mark_known(model, seen)
    ndcg_all = ranker_ndcg(model.scores, whole, args.ndcg_k, progress=progress)
    for run in runs:
        run.remove_checkpoint()
    return RankingReport(best_epoch, chosen_on, choice.history, ndcg, ndcg_all, chance)


@torch.no_grad()
def _mark_known(model: TokenRankerModel, seen: GradedLists) -> None:
    model.token_known.copy_(seen.allowed)
    model.label_known.zero_()
    model.label_known[seen.labels] = True
