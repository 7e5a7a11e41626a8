"""Training of the AWD-LSTM language model on long streams of text with a carried state.

The documents of an epoch are put in a new order, joined to one stream, and cut into as many rows as the batch has. All
rows are read from left to right in windows of jittered length; the state goes from window to window, the gradient does
not (Merity et al. 2017, section 5; Howard & Ruder 2018, section 3.2).

Everything that is random depends on (seed, epoch, window, process) alone, so a run that was killed and started again
gives the weights of one that was not.
"""

import math
import os
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..data.tokenization import RaggedIds
from ..models.modeling_awd_lstm import AwdLstmForCausalLM, detach_state
from ..storage import load_archive, save_whole, write_json
from .results import environment, peak_memory_mb
from .text_streams import (
    IGNORED,
    SHORTEST_WINDOW,
    join_documents,
    separator_id,
    stream_rows,
    unigram_perplexity,
    window_lengths,
    windows_from,
)
from .watchdog import check_loss

EVALUATION_ROWS = 16


@dataclass
class LanguageModelArguments:
    """How to train a language model."""

    output_dir: str = field(metadata={"help": "Folder for the checkpoint and the results."})
    direction: str = field(default="forward", metadata={"help": "Read the text forward or backward."})
    num_train_epochs: int = field(default=10, metadata={"help": "Passes over the training text."})
    batch_size: int = field(default=32, metadata={"help": "Rows read in parallel, per process."})
    bptt: int = field(default=70, metadata={"help": "Mean window length: how far gradients reach back."})
    learning_rate: float = field(default=5e-3, metadata={"help": "Highest rate of the schedule."})
    schedule: str = field(default="one_cycle", metadata={"help": "one_cycle or slanted_triangular."})
    weight_decay: float = field(default=0.01, metadata={"help": "AdamW's decay."})
    max_grad_norm: float = field(default=0.4, metadata={"help": "Gradients are clipped to this norm."})
    save_steps: int = field(default=500, metadata={"help": "Steps between checkpoints to resume from."})
    seed: int = field(default=0, metadata={"help": "Seed of weights, dropout, document order and window lengths."})
    use_cpu: bool = field(default=False, metadata={"help": "Stay on the CPU."})

    def __post_init__(self):
        for name, choices in (("direction", ("forward", "backward")), ("schedule", tuple(SCHEDULES))):
            if getattr(self, name) not in choices:
                raise ValueError(f"`{name}` is {getattr(self, name)!r}, but must be {' or '.join(choices)}.")
        for name in ("num_train_epochs", "batch_size", "bptt", "save_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")


def one_cycle(progress: float, warmup: float = 0.25, start: float = 1 / 25, end: float = 1e-5) -> float:
    """Share of the highest rate at `progress` in [0, 1]: cosine up from `start`, cosine down to `end` (Smith 2018).

    >>> [round(one_cycle(p), 3) for p in (0.0, 0.25, 1.0)]
    [0.04, 1.0, 0.0]
    """
    if progress < warmup:
        return start + (1 - start) * (1 - math.cos(math.pi * progress / warmup)) / 2
    return end + (1 - end) * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup))) / 2


def slanted_triangular(progress: float, warmup: float = 0.1, ratio: float = 32) -> float:
    """Share of the highest rate at `progress` in [0, 1]: linear up, linear down (Howard & Ruder 2018, eq. 3).

    >>> [round(slanted_triangular(p), 5) for p in (0.0, 0.1, 0.55, 1.0)]
    [0.03125, 1.0, 0.51562, 0.03125]
    """
    height = progress / warmup if progress < warmup else (1 - progress) / (1 - warmup)
    return (1 + height * (ratio - 1)) / ratio


SCHEDULES = {"one_cycle": one_cycle, "slanted_triangular": slanted_triangular}


@dataclass
class Progress:
    """Where a run stands: the next window, and what was found so far."""

    epoch: int = 0
    window: int = 0
    step: int = 0
    loss_sum: float = 0.0
    best_epoch: int = -1
    best_loss: float = math.inf
    history: list[dict] = field(default_factory=list)


class LanguageModelTrainer:
    """Trains a language model on documents, keeps the epoch with the lowest dev perplexity, and can be resumed.

    Args:
        model: The model to train.
        tokenizer: Saved beside the model.
        train: Training documents.
        validation: Development documents.
        args: How to train.
        accelerator: By default one that follows `accelerate launch`.
    """

    def __init__(
        self,
        model: AwdLstmForCausalLM,
        tokenizer: PreTrainedTokenizerBase,
        train: RaggedIds,
        validation: RaggedIds,
        args: LanguageModelArguments,
        accelerator: Accelerator | None = None,
    ):
        self.args, self.tokenizer, self.train_documents, self.folder = args, tokenizer, train, Path(args.output_dir)
        self.accelerator = accelerator or Accelerator(cpu=args.use_cpu)
        model.config.direction = args.direction
        options = {"betas": (0.8, 0.99), "weight_decay": args.weight_decay, "fused": True}
        optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, **options)
        self.rows = args.batch_size * self.accelerator.num_processes
        self._check_sizes(len(train.values), len(validation.values))
        self.evaluation = stream_rows(
            self._stream(validation, np.arange(len(validation))), EVALUATION_ROWS, pad=tokenizer.pad_token_id or 0
        )
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.progress, self.state = Progress(), None

    def train(self) -> Progress:
        """Train to the end, going on from the last checkpoint in the output folder if there is one."""
        self._resume()
        for epoch in range(self.progress.epoch, self.args.num_train_epochs):
            self._train_epoch(epoch)
            self._finish_epoch(epoch)
        return self.progress

    def evaluate(self) -> float:
        """Mean negative log likelihood of the dev stream; every word but the first is predicted once."""
        model = self.accelerator.unwrap_model(self.model).eval()
        mine = slice(self.accelerator.process_index, None, self.accelerator.num_processes)
        inputs, targets = (torch.from_numpy(part[mine].copy()).to(self.accelerator.device) for part in self.evaluation)
        total, state = torch.zeros(2, dtype=torch.float64, device=self.accelerator.device), None
        with torch.no_grad():
            windows = zip(inputs.split(self.args.bptt, 1), targets.split(self.args.bptt, 1), strict=True)
            for words, following in windows:
                mask = following != IGNORED
                output = model(words, mask, state, shift_labels=following)
                total += torch.stack([output.loss * mask.sum(), mask.sum()])
                state = output.hidden_state
        likelihood, count = self.accelerator.reduce(total, "sum").tolist()
        return likelihood / count

    def _train_epoch(self, epoch: int) -> None:
        inputs, targets = self._epoch_rows(epoch)
        lengths = window_lengths(inputs.shape[1], self.args.bptt, self._rng(epoch, 1))
        first = self.progress.window
        bar = tqdm(
            total=len(lengths),
            initial=first,
            desc=f"epoch {epoch + 1}/{self.args.num_train_epochs}",
            disable=None if self.accelerator.is_main_process else True,
        )
        with bar:
            for window, begin, end in windows_from(lengths, first):
                rate = self._set_learning_rate(epoch + begin / inputs.shape[1], end - begin)
                loss = self._step(inputs[:, begin:end], targets[:, begin:end], epoch, window, rate)
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                if self.progress.step % self.args.save_steps == 0:
                    self._save_checkpoint()

    def _step(self, words: torch.Tensor, following: torch.Tensor, epoch: int, window: int, rate: float) -> float:
        """One window: forward, backward, update."""
        torch.manual_seed(self._number(epoch, 2, window, self.accelerator.process_index))
        self.model.train()
        output = self.model(words, hidden_state=self.state, shift_labels=following)
        loss = output.loss.detach()
        check_loss(loss, self.progress.step, rate)
        self.accelerator.backward(output.loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.state = detach_state(output.hidden_state)
        self.progress.window, self.progress.step = window + 1, self.progress.step + 1
        self.progress.loss_sum += loss.item()
        return loss.item()

    def _finish_epoch(self, epoch: int) -> None:
        """Evaluate, keep the model if it is the best so far, and leave a checkpoint at the start of the next epoch."""
        progress, loss = self.progress, self.evaluate()
        train_loss = self._mean_over_processes(progress.loss_sum / progress.window)
        progress.history.append(
            {"epoch": epoch + 1, "train_loss": train_loss, "loss": loss, "perplexity": math.exp(loss)}
        )
        self.accelerator.print(
            f"epoch {epoch + 1}: dev perplexity {math.exp(loss):.2f}, training loss {train_loss:.3f}"
        )
        if loss < progress.best_loss:
            progress.best_loss, progress.best_epoch = loss, epoch + 1
            if self.accelerator.is_main_process:
                save_whole(self.folder, self.accelerator.unwrap_model(self.model), self.tokenizer)
        progress.epoch, progress.window, progress.loss_sum, self.state = epoch + 1, 0, 0.0, None
        self._save_checkpoint()

    def _mean_over_processes(self, value: float) -> float:
        value = torch.tensor(value, dtype=torch.float64, device=self.accelerator.device)
        return self.accelerator.reduce(value, "mean").item()

    def _epoch_rows(self, epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
        order = self._rng(epoch, 0).permutation(len(self.train_documents))
        rows = stream_rows(self._stream(self.train_documents, order), self.rows)
        begin = self.accelerator.process_index * self.args.batch_size
        mine = slice(begin, begin + self.args.batch_size)
        return tuple(torch.from_numpy(part[mine]).to(self.accelerator.device) for part in rows)

    def _stream(self, documents: RaggedIds, order: np.ndarray) -> np.ndarray:
        return join_documents(documents, order, separator_id(self.tokenizer), self.args.direction == "backward")

    def _set_learning_rate(self, epochs_done: float, length: int) -> float:
        share = SCHEDULES[self.args.schedule](epochs_done / self.args.num_train_epochs)
        # A short window is a smaller batch: its rate is scaled with its length (Merity et al. 2017, section 5).
        rate = self.args.learning_rate * share * length / self.args.bptt
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _number(self, *key: int) -> int:
        return int(np.random.SeedSequence([self.args.seed, *key]).generate_state(1, np.uint64)[0] >> 1)

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(self._number(*key))

    def _check_sizes(self, train_tokens: int, validation_tokens: int) -> None:
        if train_tokens <= SHORTEST_WINDOW * self.rows:
            raise ValueError(
                f"The training text has {train_tokens} tokens, too few for {self.rows} rows of more than "
                f"{SHORTEST_WINDOW}. Pass a smaller `--batch_size` or more text."
            )
        if validation_tokens < 2:
            raise ValueError(
                f"The development text has {validation_tokens} tokens, but needs at least 2. Pass a "
                "`--validation_file` with text."
            )

    def _fingerprint(self) -> dict:
        """What must not change between the start of a run and its continuation."""
        ignored = {"output_dir", "save_steps", "use_cpu"}
        settings = {name: value for name, value in asdict(self.args).items() if name not in ignored}
        model = self.accelerator.unwrap_model(self.model)
        settings |= {"processes": self.accelerator.num_processes, "parameters": model.num_parameters()}
        settings |= {"vocab_size": model.config.vocab_size, "training_tokens": len(self.train_documents.values)}
        return settings

    def _save_checkpoint(self) -> None:
        """Write a checkpoint that is there as a whole or not at all, then drop the older ones."""
        final = self.folder / f"checkpoint-{self.progress.epoch:04d}-{self.progress.window:08d}"
        partial = self.folder / f"{final.name}.partial"
        if self.accelerator.is_main_process:
            for broken in self.folder.glob("checkpoint-*.partial"):
                shutil.rmtree(broken)
            partial.mkdir(parents=True)
        self.accelerator.wait_for_everyone()
        try:
            self._write_checkpoint(partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)  # on a full disk, room for others
            raise
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            older = checkpoints(self.folder)
            os.replace(partial, final)
            for folder in older:
                _remove(folder)

    def _write_checkpoint(self, folder: Path) -> None:
        torch.save({"state": self.state}, folder / f"process-{self.accelerator.process_index}.pt")
        if self.accelerator.is_main_process:
            shared = {"model": self.accelerator.unwrap_model(self.model).state_dict()}
            shared |= {"optimizer": self.optimizer.state_dict(), "progress": asdict(self.progress)}
            torch.save(shared | {"fingerprint": self._fingerprint()}, folder / "shared.pt")

    def _resume(self) -> None:
        self.accelerator.wait_for_everyone()
        found = checkpoints(self.folder)
        if not found:
            return
        shared = load_archive(found[-1] / "shared.pt")
        self._check_fingerprint(shared["fingerprint"])
        self.accelerator.unwrap_model(self.model).load_state_dict(shared["model"])
        self.optimizer.load_state_dict(shared["optimizer"])
        self.progress = Progress(**shared["progress"])
        mine = found[-1] / f"process-{self.accelerator.process_index}.pt"
        self.state = load_archive(mine, self.accelerator.device)["state"]
        self.accelerator.print(f"continuing at step {self.progress.step} of an interrupted run")

    def _check_fingerprint(self, found: dict) -> None:
        expected = self._fingerprint()
        changed = [
            f"{name} {found.get(name)} → {value}" for name, value in expected.items() if found.get(name) != value
        ]
        if changed:
            raise ValueError(
                f"{self.folder} holds an interrupted run with other settings ({', '.join(changed)}). Continue it with "
                "the same settings, or pass another `--output_dir`."
            )


def train_language_model(trainer: LanguageModelTrainer, details: dict | None = None) -> dict:
    """Train, print dev perplexity beside the unigram model's, and write results.json and run.json.

    Args:
        trainer: What to train.
        details: Further entries of results.json.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    trainer.accelerator.print(
        f"reading {len(trainer.train_documents.values):,} training tokens in {trainer.rows} rows; "
        f"{model.num_parameters():,} parameters, {model.config.vocab_size:,} words"
    )
    started, resumed = time.perf_counter(), bool(checkpoints(trainer.folder))
    progress = trainer.train()
    seconds = time.perf_counter() - started
    results = language_model_results(trainer) | (details or {})
    found = results["metrics"]["validation"]
    trainer.accelerator.print(
        f"dev perplexity {found['perplexity']:.2f} after epoch {progress.best_epoch}; "
        f"unigram model {found['unigram_perplexity']:.2f}"
    )
    if trainer.accelerator.is_main_process:
        run = {"seconds": seconds, "resumed": resumed, "processes": trainer.accelerator.num_processes}
        run |= {"peak_memory_mb": peak_memory_mb(), "environment": environment()}
        write_json(trainer.folder / "run.json", run)
        write_json(trainer.folder / "results.json", results)
        remove_checkpoints(trainer.folder)
    trainer.accelerator.wait_for_everyone()
    return results


def language_model_results(trainer: LanguageModelTrainer) -> dict:
    """The content of results.json: nothing that differs between two equal runs."""
    config, progress = trainer.accelerator.unwrap_model(trainer.model).config, trainer.progress
    targets = trainer.evaluation[1]
    real = targets[targets != IGNORED]
    metrics = {
        "loss": progress.best_loss,
        "perplexity": math.exp(progress.best_loss),
        "unigram_perplexity": unigram_perplexity(trainer.train_documents, real, config.vocab_size),
        "unknown_share": float((real == trainer.tokenizer.unk_token_id).mean()),
    }
    return {
        "model_type": config.model_type,
        "direction": config.direction,
        "vocabulary": config.vocab_size,
        "num_parameters": trainer.accelerator.unwrap_model(trainer.model).num_parameters(),
        "tokens": {"train": len(trainer.train_documents.values), "validation": len(real) + 1},
        "seed": trainer.args.seed,
        "best_epoch": progress.best_epoch,
        "history": progress.history,
        "metrics": {"validation": metrics},
    }


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, the newest last."""
    return sorted(path for path in folder.glob("checkpoint-*") if path.suffix != ".partial")


def remove_checkpoints(folder: str | Path) -> None:
    """Drop the checkpoints of an interrupted run, whole or broken."""
    for path in list(Path(folder).glob("checkpoint-*")):
        _remove(path)


def _remove(checkpoint: Path) -> None:
    """Delete a checkpoint; killed half-way through, it does not pass for a whole one."""
    partial = checkpoint.with_suffix(".partial")
    if checkpoint != partial:
        shutil.rmtree(partial, ignore_errors=True)
        os.replace(checkpoint, partial)
    shutil.rmtree(partial)
