"""Gradual unfreezing (Howard & Ruder 2018): one more group of parameters trains with every epoch."""

from collections.abc import Sequence

from transformers import PreTrainedModel, TrainerCallback

from .param_groups import match_names


class GradualUnfreezing(TrainerCallback):
    """Freeze every group but the first at the start; unfreeze one more at the beginning of each epoch.

    Parameters are switched after the model is wrapped for distributed training and all of them belong to the
    optimizer, so processes stay in step.

    Args:
        patterns: One regular expression per group, in the order of unfreezing. The first trains from epoch 0; what no
            pattern matches always trains.
    """

    def __init__(self, patterns: Sequence[str]):
        self.patterns = list(patterns)

    def apply(self, model, epoch: int) -> list[str]:
        """Switch the parameters for an epoch; gives the names that train."""
        model = getattr(model, "module", model)
        matched = match_names([name for name, _ in model.named_parameters()], self.patterns)
        trained = []
        for name, parameter in model.named_parameters():
            group = matched[name]
            parameter.requires_grad_(group is None or self.patterns.index(group) <= epoch)
            if parameter.requires_grad:
                trained.append(name)
        return trained

    def on_epoch_begin(self, args, state, control, model=None, **kwargs):
        self.apply(model, int((state.epoch or 0) + 1e-6))

    def on_train_end(self, args, state, control, model=None, **kwargs):
        self.apply(model, len(self.patterns))


def freeze(model: PreTrainedModel, patterns: Sequence[str] | None) -> None:
    """Leave the parameters that match out of training."""
    for name, pattern in match_names([name for name, _ in model.named_parameters()], patterns or ()).items():
        if pattern is not None:
            model.get_parameter(name).requires_grad_(False)
