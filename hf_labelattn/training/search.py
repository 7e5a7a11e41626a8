"""A small search for settings on the development split, through `Trainer.hyperparameter_search`."""

from collections.abc import Callable
from pathlib import Path

from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer_utils import SaveStrategy

from ..storage import write_json
from .trainer import LabelAttnTrainer
from .unfreezing import freeze

SHOWN = ("f1_micro", "average_precision_macro", "precision_at_1", "accuracy")
Space = dict[str, list]  # a training argument, or `overrides.FIELD` of the model's config, to the values to try


def search_settings(
    trainer: LabelAttnTrainer, new_model: Callable[[dict], PreTrainedModel], space: Space, trials: int
) -> dict:
    """Train with different settings and keep the best by the Trainer's own dev metric; the test split is not read.

    Settings are drawn without repetition, so that as many trials as there are combinations try each once. Every trial
    is trained to its end and counts with its best epoch. Leaves `search.json` in the output folder and prints a line
    per trial.

    Args:
        trainer: With documents and arguments; its own model is only the first.
        new_model: From config fields to a fresh model.
        space: What to vary: names of training arguments, or `overrides.FIELD` for a field of the config.
        trials: How many settings to try at most.

    Returns:
        The best settings, config fields under `overrides`.
    """
    _check(space, trainer)
    search = _Search(trainer, new_model, space)
    trainer.args.save_strategy, trainer.args.load_best_model_at_end = SaveStrategy.NO, False  # figures are enough
    trainer.add_callback(search)
    # The Trainer of this library takes its model whole; set here, transformers asks this for the model of each trial.
    trainer.model_init = search.model
    trainer.hyperparameter_search(
        search.draw, search.objective, trials, search.direction, "optuna", **_sampling(space, trainer.args.seed)
    )
    best = search.better(search.tried, key=lambda trial: trial["value"])
    found = {"metric": trainer.args.metric_for_best_model, "best": nested(best["settings"]), "trials": search.tried}
    write_json(Path(trainer.args.output_dir) / "search.json", found)
    return found["best"]


def _sampling(space: Space, seed: int) -> dict:
    """Every combination at most once, in an order that depends on the seed, none stopped early."""
    try:
        import optuna
    except ImportError:
        raise ValueError("A search needs optuna. Type: pip install 'hf_labelattn[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return {"sampler": optuna.samplers.GridSampler(space, seed=seed), "pruner": optuna.pruners.NopPruner()}


def _check(space: Space, trainer: LabelAttnTrainer) -> None:
    for name, values in space.items():
        of_model = name.startswith("overrides.")
        if not hasattr(trainer.model.config if of_model else trainer.args, name.removeprefix("overrides.")):
            raise ValueError(
                f"`search_space` has {name!r}, which is neither a training argument nor `overrides.FIELD`."
            )
        if not isinstance(values, list) or not values:
            raise ValueError(f"`search_space` gives {values!r} for {name}. Give a list of the values to try.")


def nested(settings: dict) -> dict:
    """Settings as a JSON file of arguments has them.

    >>> nested({"learning_rate": 0.1, "overrides.dropout": 0.2})
    {'learning_rate': 0.1, 'overrides': {'dropout': 0.2}}
    """
    fields = {name.removeprefix("overrides."): v for name, v in settings.items() if name.startswith("overrides.")}
    rest = {name: value for name, value in settings.items() if not name.startswith("overrides.")}
    return {**rest, **({"overrides": fields} if fields else {})}


class _Search(TrainerCallback):
    """What transformers asks for during a search: settings, a model, and what a trial is worth."""

    def __init__(self, trainer: LabelAttnTrainer, new_model: Callable, space: Space):
        self.trainer, self.new_model, self.space, self.tried = trainer, new_model, space, []
        self.direction, self.better = ("maximize", max) if trainer.args.greater_is_better else ("minimize", min)

    def draw(self, trial) -> dict:
        """The training arguments of a trial; asked again, optuna gives the same."""
        return {name: v for name, v in self._settings(trial).items() if not name.startswith("overrides.")}

    def _settings(self, trial) -> dict:
        return {name: trial.suggest_categorical(name, values) for name, values in self.space.items()}

    def model(self, trial) -> PreTrainedModel:
        """A fresh model for a trial, to which the evaluation is handed over."""
        self.tried.append({"settings": self._settings(trial)})
        model = self.new_model(nested(self.tried[-1]["settings"]).get("overrides", {}))
        freeze(model, self.trainer.args.frozen)
        self.trainer.collector.config = model.config
        return model

    def objective(self, metrics: dict[str, float]) -> float:
        """The best epoch so far of the trial under way."""
        value, trial = metrics[f"eval_{self.trainer.args.metric_for_best_model}"], self.tried[-1]
        if "value" not in trial or self.better(value, trial["value"]) != trial["value"]:
            shown = {key: round(metrics[f"eval_{key}"], 4) for key in SHOWN if f"eval_{key}" in metrics}
            trial |= {"value": value, "epoch": round(self.trainer.state.epoch, 2), "validation": shown}
        return trial["value"]

    def on_train_end(self, args, state, control, **kwargs) -> None:
        trial = self.tried[-1]
        print(f"trial {len(self.tried)}: {trial['settings']} → {trial['validation']} (epoch {trial['epoch']:g})")
