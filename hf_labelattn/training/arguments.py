"""Training arguments: transformers' own, with the defaults that suit label attention and a few additions."""

from dataclasses import dataclass, field

import torch
from transformers import TrainingArguments


@dataclass
class LabelAttnTrainingArguments(TrainingArguments):
    """Everything `transformers.TrainingArguments` takes, and what the chunked, long-tailed setting adds."""

    learning_rate: float = field(default=1e-3, metadata={"help": "Rate of what `learning_rates` leaves out."})
    num_train_epochs: float = field(default=20.0, metadata={"help": "Passes over the training documents."})
    per_device_train_batch_size: int = field(default=16, metadata={"help": "Documents per step and process."})
    per_device_eval_batch_size: int = field(default=32, metadata={"help": "Documents per evaluation step."})
    eval_strategy: str = field(default="epoch", metadata={"help": "When to evaluate on the development split."})
    save_strategy: str = field(default="epoch", metadata={"help": "When to write a checkpoint to resume from."})
    logging_strategy: str = field(default="epoch", metadata={"help": "When to log the loss."})
    save_total_limit: int | None = field(default=2, metadata={"help": "Checkpoints kept."})
    load_best_model_at_end: bool = field(default=True, metadata={"help": "Keep the best epoch, by dev metric."})
    metric_for_best_model: str | None = field(
        default=None, metadata={"help": "Dev metric to select on (default: average_precision_macro, or accuracy)."}
    )
    hub_private_repo: bool | None = field(
        default=True, metadata={"help": "Push privately; False lets everybody see it."}
    )
    bptt_chunks: int | None = field(
        default=None,
        metadata={"help": "Chunks whose activations are held at once; memory does not grow with document length."},
    )
    learning_rates: dict | str | None = field(
        default=None,
        metadata={
            "help": "JSON map of regular expression to rate, such as '{\"^encoder\": 1e-4}'. First match counts."
        },
    )
    unfreezing: list[str] | None = field(
        default=None,
        metadata={
            "help": "Regular expressions of parameter groups, unfrozen one per epoch in this order; what none of them "
            "matches trains from the start."
        },
    )
    frozen: list[str] | None = field(
        default=None, metadata={"help": "Regular expressions of parameters that are not trained."}
    )
    early_stopping_patience: int | None = field(
        default=None, metadata={"help": "Stop after this many evaluations without a better dev metric."}
    )
    threshold_objective: str = field(
        default="f1_micro", metadata={"help": "Dev metric the decision threshold maximises: f1_micro or f1_macro."}
    )
    max_tokens: int | None = field(
        default=None, metadata={"help": "Read at most this many tokens of a document (default: all)."}
    )
    collapse_patience: int = field(
        default=5,
        metadata={"help": "Stop after this many evaluations in a row at which every document gets the same scores."},
    )

    def __post_init__(self):
        self.label_names = ["labels"]
        self.batch_eval_metrics = True
        self.remove_unused_columns = False
        self.logging_nan_inf_filter = False
        self.dataloader_pin_memory = self.dataloader_pin_memory and torch.accelerator.is_available()
        if self.eval_strategy in ("no", None):
            self.load_best_model_at_end = False
        if self.threshold_objective not in ("f1_micro", "f1_macro"):
            raise ValueError(
                f"`threshold_objective` is {self.threshold_objective!r}, but must be 'f1_micro' or 'f1_macro'."
            )
        chosen = self.metric_for_best_model
        super().__post_init__()
        self.metric_for_best_model = chosen  # where none is named, the trainer knows better than "loss"
