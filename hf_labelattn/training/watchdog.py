"""Stops a training that has gone wrong, with a sentence, instead of training on."""

import torch
from transformers import TrainerCallback


class TrainingDiverged(RuntimeError):
    """The loss is not a number any more."""


class PredictionsCollapsed(RuntimeError):
    """The model says the same of every document."""


def check_loss(loss: torch.Tensor, step: int, learning_rate: float) -> None:
    """Raise when the loss is NaN or infinite."""
    if not torch.isfinite(loss).all():
        raise TrainingDiverged(
            f"The loss is {loss.item()} at step {step} (learning rate {learning_rate:.2g}). The last checkpoint is "
            f"intact. Lower the rate, for instance `--learning_rate {learning_rate / 5:.1g}`, or clip gradients "
            "harder with `--max_grad_norm 0.5`."
        )


class CollapseWatchdog(TrainerCallback):
    """Raises when every label has the same score for every document over several evaluations.

    Predicting nothing at a fixed threshold is normal early in training on a long tail; equal scores are not: no
    threshold can tell the documents apart.

    Args:
        patience: Evaluations in a row.
        tolerance: Differences of logits up to this count as none.
    """

    def __init__(self, patience: int, tolerance: float = 1e-3):
        self.patience, self.tolerance, self.seen = patience, tolerance, 0

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        spread = (metrics or {}).get("eval_score_spread")
        self.seen = self.seen + 1 if spread is not None and spread <= self.tolerance else 0
        if self.seen >= self.patience:
            raise PredictionsCollapsed(
                f"At {self.seen} evaluations in a row every development document got the same scores (largest "
                f"difference {spread:.2g}): the model predicts the same labels, all or none, whatever it reads. Lower "
                "`--learning_rate`, check that texts are not empty after tokenisation, or raise `--collapse_patience`."
            )
