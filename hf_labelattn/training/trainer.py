"""The Trainer: transformers' own, with a chunked collator, a length-aware order and streaming evaluation."""

import logging
from pathlib import Path

import numpy as np
import torch
from transformers import EarlyStoppingCallback, PreTrainedModel, Trainer

from ..data.chunking import chunk_layout
from ..data.collator import ChunkedDocumentCollator
from ..data.documents import DocumentDataset
from ..data.sampler import LengthAwareSampler
from ..hub.push import push_folder
from ..storage import replacing_files
from .arguments import LabelAttnTrainingArguments
from .optimizer import clip_gradients, has_sparse_gradients, optimizer_class
from .param_groups import parameter_groups, read_rates
from .scoring import ScoreCollector, SplitScores
from .unfreezing import GradualUnfreezing, freeze
from .watchdog import CollapseWatchdog, check_loss

logger = logging.getLogger(__name__)


class LabelAttnTrainer(Trainer):
    """Trains any classifier of this library on [`DocumentDataset`]s.

    Args:
        model: The classifier.
        args: Training arguments.
        train_dataset: Training documents.
        eval_dataset: Development documents: the threshold and the best epoch are chosen on them.
        processing_class: The tokenizer, saved beside the weights.
        label_counts: Training documents per label, for metrics by frequency.
        **kwargs: Passed on to `transformers.Trainer`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: LabelAttnTrainingArguments,
        train_dataset: DocumentDataset | None = None,
        eval_dataset: DocumentDataset | None = None,
        processing_class=None,
        label_counts: np.ndarray | None = None,
        **kwargs,
    ):
        single = model.config.problem_type == "single_label_classification"
        if args.metric_for_best_model is None:
            args.metric_for_best_model = "accuracy" if single else "average_precision_macro"
        args.greater_is_better = not args.metric_for_best_model.endswith("loss")
        if args.bptt_chunks is not None:
            model.config.bptt_chunks = args.bptt_chunks
        freeze(model, args.frozen)
        collator = ChunkedDocumentCollator(
            num_labels=model.config.num_labels,
            layout=chunk_layout(model.config, processing_class),
            pad_token_id=model.config.pad_token_id or 0,
            max_tokens=args.max_tokens,
            single_label=single,
        )
        self.collector = ScoreCollector(model.config, args.threshold_objective, label_counts)
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            data_collator=collator,
            compute_metrics=self.collector,
            **kwargs,
        )
        self.add_callback(CollapseWatchdog(args.collapse_patience))
        if args.unfreezing:
            self.add_callback(GradualUnfreezing(args.unfreezing))
        if args.early_stopping_patience:
            self.add_callback(EarlyStoppingCallback(args.early_stopping_patience))

    def _get_train_sampler(self, train_dataset=None) -> LengthAwareSampler:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        # The batch of all processes, so that one process and several read the same documents per step.
        size = self.args.train_batch_size * self.args.world_size
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return LengthAwareSampler(dataset.lengths, size, seed)

    def _get_eval_sampler(self, eval_dataset) -> LengthAwareSampler:
        return LengthAwareSampler(eval_dataset.lengths, self.args.eval_batch_size, shuffle=False)

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        """AdamW (or `--optim`) with one group per learning rate; frozen parameters belong to it too."""
        model = self.model if model is None else model
        if self.optimizer is None:
            default, options = self.get_optimizer_cls_and_kwargs(self.args, model)
            rates = read_rates(self.args.learning_rates)
            decayed = self.get_decay_parameter_names(model)
            groups = parameter_groups(model, self.args.learning_rate, rates, self.args.weight_decay, decayed)
            if (chosen := optimizer_class(model, default)) is not default:
                options = {name: options[name] for name in ("lr", "betas", "eps") if name in options}
            self.optimizer = chosen(groups, **options)
        return self.optimizer

    def _get_grad_norm(self, model, grad_norm=None):
        # torch does not define the norm of a sparse gradient, so transformers' own way would raise.
        if grad_norm is None and has_sparse_gradients(model):
            grad_norm = clip_gradients(model.parameters(), 0.0)
        return super()._get_grad_norm(model, grad_norm)

    def _clip_grad_norm(self, model):
        if has_sparse_gradients(model):
            return clip_gradients(model.parameters(), self.args.max_grad_norm)
        return super()._clip_grad_norm(model)

    def training_step(self, model, inputs, num_items_in_batch=None) -> torch.Tensor:
        """One step of transformers' Trainer; a loss that is not a number stops the training."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        if loss.device.type == "cpu" or self.state.global_step % max(1, int(self.args.logging_steps)) == 0:
            check_loss(loss, self.state.global_step, self._get_learning_rate())
        return loss

    def _save(self, output_dir=None, state_dict=None) -> None:
        # Whole files only, and no training_args.bin: it is a pickle, and nothing reads it.
        with replacing_files(output_dir or self.args.output_dir) as files:
            super()._save(str(files), state_dict)
            (files / "training_args.bin").unlink(missing_ok=True)

    def evaluate(
        self,
        eval_dataset: DocumentDataset | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        tune: bool | None = None,
        by_frequency: bool = False,
    ) -> dict[str, float]:
        """Metrics on a split.

        Args:
            eval_dataset: The documents; the development split by default.
            ignore_keys: As in transformers.
            metric_key_prefix: Put before each metric's name.
            tune: Choose the decision threshold on these documents and store it in the config (default: only for the
                development split).
            by_frequency: Also give the metrics per bin and quarter of training frequency.
        """
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        tune = dataset is self.eval_dataset if tune is None else tune
        order = self._get_eval_sampler(dataset).order()
        self.collector.open(dataset, order, tune, by_frequency)
        return super().evaluate(dataset, ignore_keys, metric_key_prefix)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as transformers does, without the dozens of metrics by frequency (results.json holds them)."""
        super().log({name: value for name, value in logs.items() if "/" not in name}, start_time)

    def push_to_hub(self, commit_message="End of training", blocking=True, token=None, revision=None, **kwargs):
        """Upload the model with its card; private unless `--hub_private_repo False`. Scores stay here."""
        self.save_model(_internal_call=True)
        if self.is_world_process_zero():
            name = self.args.hub_model_id or Path(self.args.output_dir).name
            public, token = self.args.hub_private_repo is False, token or self.args.hub_token
            return push_folder(self.args.output_dir, name, public=public, commit_message=commit_message, token=token)

    def _push_from_checkpoint(self, checkpoint_folder):
        """Only finished models are uploaded."""

    @property
    def last_scores(self) -> SplitScores:
        """Scores of the split evaluated last, in the order of its documents."""
        return self.collector.result
