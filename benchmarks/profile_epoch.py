"""Where the time of a training epoch goes, for caml, plant, interaction and leam.

    python -m benchmarks.profile_epoch                     # some minutes
    python -m benchmarks.profile_epoch caml --operators    # with the ten costliest operators of torch

One epoch of the Trainer on the embedded corpus, in processor seconds on one thread. "Data" is what the training waits
for a batch (order, look-up, collation), "step" is forward and backward, "optimizer" the update with clipping; the
rest is the Trainer's own. Tokenising happens once, before the first epoch, and is printed beside it.
"""

import argparse
import tempfile
import time
from contextlib import nullcontext

import torch

from benchmarks.bench_growth import make_model
from hf_labelattn import DataArguments, LabelAttnTrainingArguments, make_trainer, prepare_data
from hf_labelattn.data.sampler import LengthAwareSampler, padding_waste

MODELS = ("caml", "plant", "interaction", "leam")
GOAL = 0.1


class Timed:
    """Adds up the processor seconds of some calls."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    def wrap(self, name: str, function):
        """The function, timed under a name."""

        def timed(*args, **kwargs):
            started = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - started

        return timed


class TimedBatches:
    """A data loader whose batches are timed."""

    def __init__(self, loader, clock: Timed):
        self._loader, self._clock = loader, clock

    def __getattr__(self, name: str):
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self):
        batches, nothing = iter(self._loader), object()
        take = self._clock.wrap("data", lambda: next(batches, nothing))
        while (batch := take()) is not nothing:
            yield batch


def prepare(documents: int):
    """The corpus, tokenised, and the seconds that took."""
    started = time.process_time()
    arguments = DataArguments(dataset_name="synthetic_notes", num_documents=documents, synthetic_length=0.3)
    return prepare_data(arguments), time.process_time() - started


def profile(name: str, data, folder: str) -> tuple[dict[str, float], float]:
    """Seconds of each part of an epoch, and of all of it."""
    model = make_model(name, data.labels.num_labels)
    options = {"num_train_epochs": 1, "per_device_train_batch_size": 8, "use_cpu": True, "disable_tqdm": True}
    options |= {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False, "report_to": []}
    trainer, clock = make_trainer(model, data, LabelAttnTrainingArguments(folder, **options)), Timed()
    loader = trainer.get_train_dataloader
    trainer.get_train_dataloader = lambda: TimedBatches(loader(), clock)
    trainer.training_step = clock.wrap("step", trainer.training_step)
    trainer.create_optimizer()
    trainer.optimizer.step = clock.wrap("optimizer", trainer.optimizer.step)
    started = time.process_time()
    trainer.train()
    return clock.seconds, time.process_time() - started


def line(name: str, seconds: dict[str, float], total: float) -> str:
    """The shares of an epoch."""
    parts = [f"{part} {seconds.get(part, 0.0) / total:6.1%}" for part in ("data", "step", "optimizer")]
    rest = 1 - sum(seconds.get(part, 0.0) for part in ("data", "step", "optimizer")) / total
    met = "met" if seconds.get("data", 0.0) <= GOAL * total else "MISSED"
    return f"{name:<12}{total:8.1f} s   {'   '.join(parts)}   rest {rest:6.1%}   data at most {GOAL:.0%}: {met}"


def main() -> None:
    """Profile what is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help=", ".join(MODELS))
    parser.add_argument("--documents", type=int, default=200, help="documents of the corpus")
    parser.add_argument("--operators", action="store_true", help="also print torch's costliest operators")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data, seconds = prepare(args.documents)
    lengths = data.splits["train"].lengths
    waste = padding_waste(lengths, LengthAwareSampler(lengths, 8).order(), 8)
    print(
        f"{len(lengths)} documents of {sum(lengths) / len(lengths):.0f} words, {data.labels.num_labels} labels; ",
        end="",
    )
    print(f"generated and tokenised in {seconds:.1f} s; {waste:.1%} of a batch is padding", flush=True)
    for name in args.models:
        with tempfile.TemporaryDirectory() as folder:
            profiler = torch.profiler.profile() if args.operators else nullcontext()
            with profiler:
                found = profile(name, data, folder)
        print(line(name, *found), flush=True)
        if args.operators:
            print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))


if __name__ == "__main__":
    main()
