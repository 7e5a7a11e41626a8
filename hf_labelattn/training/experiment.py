"""The road every `run_*` script takes: files to documents, documents to a trained model, a model to results."""

import hashlib
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from datasets import DatasetDict
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..data.dataset_files import read_dataset_marks
from ..data.documents import DocumentDataset, ragged
from ..data.labels import LabelSet, read_label_file
from ..data.notes import NoteColumns, load_notes
from ..data.synthetic import synthetic_label_descriptions, synthetic_notes
from ..data.tokenization import encode_documents, load_tokenizer, train_word_tokenizer
from ..hub.model_card import card_from_folder
from ..storage import write_json, write_text
from .arguments import LabelAttnTrainingArguments
from .checkpoints import last_whole_checkpoint
from .results import environment, metrics_table, peak_memory_mb, write_label_results, write_scores
from .scoring import threshold_logits
from .trainer import LabelAttnTrainer

logger = logging.getLogger(__name__)

REPORTED = ("learning_rate", "learning_rates", "num_train_epochs", "per_device_train_batch_size", "seed", "unfreezing")


@dataclass
class DataArguments:
    """Where the documents come from. Either files or `--dataset_name`."""

    train_file: str | None = field(default=None, metadata={"help": "JSONL, CSV, TSV or Parquet, plain or .gz."})
    validation_file: str | None = field(
        default=None, metadata={"help": "Development documents (default: cut from training by hash of the group)."}
    )
    test_file: str | None = field(default=None, metadata={"help": "Test documents."})
    label_file: str | None = field(default=None, metadata={"help": "Rows {label, description}."})
    description_column: str = field(default="description", metadata={"help": "Column of the label file to read."})
    dataset_name: str | None = field(
        default=None, metadata={"help": "A dataset on the Hub or on disk, or `synthetic_notes` (embedded)."}
    )
    num_documents: int = field(default=4000, metadata={"help": "Size of `synthetic_notes`."})
    synthetic_seed: int = field(default=0, metadata={"help": "Seed of `synthetic_notes`."})
    synthetic_labels: int | None = field(default=None, metadata={"help": "Codes `synthetic_notes` draws from."})
    synthetic_length: float = field(default=1.0, metadata={"help": "Length of its notes, 1 for MIMIC-like."})
    text_column: str = field(default="text", metadata={"help": "Column with the text."})
    labels_column: str = field(default="labels", metadata={"help": "Column with the labels."})
    id_column: str = field(default="id", metadata={"help": "Column with the document's name."})
    group_column: str = field(default="group", metadata={"help": "Column with the group (patient)."})
    label_separator: str = field(default=";", metadata={"help": "Separates labels in a CSV cell."})
    train_fraction: float = field(default=1.0, metadata={"help": "Share of training documents to use, by hash."})
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Tokenizer to use (default: a word-level one trained on the training text)."}
    )
    min_document_frequency: int = field(
        default=3, metadata={"help": "Groups a word must occur in to enter the vocabulary."}
    )
    max_vocab: int | None = field(default=None, metadata={"help": "Largest vocabulary."})
    save_scores: bool = field(default=True, metadata={"help": "Write scores_test.npz."})
    overwrite: bool = field(default=False, metadata={"help": "Start anew where a finished run is found."})
    published: dict | str | None = field(
        default=None,
        metadata={"help": "JSON of published test figures by metric (and their source), printed beside yours."},
    )

    @property
    def columns(self) -> NoteColumns:
        """What the columns are called in the source."""
        return NoteColumns(self.id_column, self.group_column, self.text_column, self.labels_column)

    @property
    def synthetic_options(self) -> dict:
        """What `synthetic_notes` takes besides size and seed."""
        options = {"length_scale": self.synthetic_length}
        return options if self.synthetic_labels is None else {**options, "num_labels": self.synthetic_labels}


@dataclass(frozen=True)
class PreparedData:
    """Documents ready for the Trainer."""

    labels: LabelSet
    tokenizer: PreTrainedTokenizerBase
    splits: dict[str, DocumentDataset]
    name: str | None = None
    terms: str | None = None

    @property
    def counts(self) -> np.ndarray:
        """Training documents per label."""
        return np.asarray(self.labels.counts)

    def description_ids(self) -> list[list[int]]:
        """Token ids of each label's description; empty where there is none."""
        texts = [description or "" for description in self.labels.descriptions]
        return [row.tolist() for row in encode_documents(self.tokenizer, texts, progress=False)]

    def config_fields(self, single_label: bool = False) -> dict:
        """What a model's config takes from the data."""
        described = {n: d for n, d in zip(self.labels.names, self.labels.descriptions, strict=True) if d}
        return {
            "vocab_size": len(self.tokenizer),
            "pad_token_id": self.tokenizer.pad_token_id,
            "id2label": dict(enumerate(self.labels.names)),
            "label2id": {name: i for i, name in enumerate(self.labels.names)},
            "label_descriptions": described or None,
            "problem_type": "single_label_classification" if single_label else "multi_label_classification",
            "training_data": {
                **({"name": self.name} if self.name else {}),
                **({"terms": self.terms} if self.terms else {}),
                **{f"{name}_documents": len(split) for name, split in self.splits.items()},
            },
            "training_counts": list(self.labels.counts),
        }


def prepare_data(args: DataArguments, tokenizer: PreTrainedTokenizerBase | None = None) -> PreparedData:
    """Load the documents, fix the label set and vocabulary on the training split, tokenise."""
    notes = read_notes(args)
    train = notes["train"] = take_fraction(notes["train"], args.train_fraction)
    labels = LabelSet.from_notes(train, read_descriptions(args))
    if tokenizer is None and args.tokenizer_name is None:
        tokenizer = train_word_tokenizer(
            train["text"],
            train["group"],
            min_document_frequency=args.min_document_frequency,
            max_vocab=args.max_vocab,
        )
    tokenizer = tokenizer or load_tokenizer(args.tokenizer_name)
    splits = {name: encode_split(split, labels, tokenizer) for name, split in notes.items()}
    return PreparedData(labels, tokenizer, splits, **data_marks(args))


def data_marks(args: DataArguments) -> dict[str, str]:
    """Name and terms of the data, where they have any: a prepared dataset says so in its dataset.json."""
    files = args.train_file, args.validation_file, args.test_file, args.label_file, args.dataset_name
    files = [file for file in files if isinstance(file, str)]
    source = next(iter(files), None) if args.dataset_name is None else args.dataset_name
    return {**({"name": data_name(source)} if isinstance(source, str) else {}), **read_dataset_marks(files)}


def data_name(source: str) -> str:
    """What to call a dataset that does not name itself: a Hub id as it is, else a word of the path, never all of it.

    >>> [data_name(s) for s in ("org/notes", "data/mimic3_50/train.jsonl.gz", "data/ward_notes.csv")]
    ['org/notes', 'mimic3_50', 'ward_notes']
    """
    path = Path(source)
    if path.suffix.lower() not in (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz"):
        return path.resolve().name if path.exists() or path.is_absolute() else source
    stem = path.name.split(".")[0]
    folder = path.resolve().parent.name
    return folder if stem.lower().startswith(("train", "valid", "dev", "test", "label")) and folder else stem


def inherit_terms(fields: dict, start: PreTrainedConfig | None) -> dict:
    """Config fields of a model that starts from another, under the terms of that one's data."""
    terms = (getattr(start, "training_data", None) or {}).get("terms")
    return fields if terms is None else {**fields, "training_data": {**fields["training_data"], "terms": terms}}


def read_notes(args: DataArguments) -> DatasetDict:
    """The documents the arguments name, in splits."""
    source = args.dataset_name
    if source == "synthetic_notes":
        source = synthetic_notes(args.num_documents, args.synthetic_seed, **args.synthetic_options)
    return load_notes(
        args.train_file,
        args.validation_file,
        args.test_file,
        source,
        columns=args.columns,
        label_separator=args.label_separator,
    )


def read_descriptions(args: DataArguments) -> dict[str, str] | None:
    """Label descriptions: from the label file, or the embedded corpus's own."""
    if args.label_file is not None:
        return read_label_file(args.label_file, description_column=args.description_column)
    if args.dataset_name == "synthetic_notes":
        return synthetic_label_descriptions(**{k: v for k, v in args.synthetic_options.items() if k == "num_labels"})
    return None


def take_fraction(train, fraction: float):
    """The documents whose hash falls into the first `fraction`: larger fractions contain smaller ones."""
    if fraction >= 1:
        return train
    position = [int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32 for name in train["id"]]
    count = max(1, round(fraction * len(position)))
    return train.select(sorted(np.argsort(position, kind="stable")[:count]))


def encode_split(split, labels: LabelSet, tokenizer: PreTrainedTokenizerBase) -> DocumentDataset:
    """Tokenise a split; labels the model does not know keep an id behind the known ones."""
    extended = labels.with_unseen(split)
    return DocumentDataset(
        tokens=encode_documents(tokenizer, split["text"]),
        labels=ragged([extended.encode(row) for row in split["labels"]]),
        num_labels=labels.num_labels,
        label_names=extended.names,
        ids=tuple(split["id"]),
        groups=tuple(split["group"]),
    )


def make_trainer(
    model: PreTrainedModel, data: PreparedData, args: LabelAttnTrainingArguments, **kwargs
) -> LabelAttnTrainer:
    """A Trainer for prepared data."""
    return LabelAttnTrainer(
        model=model,
        args=args,
        train_dataset=data.splits["train"],
        eval_dataset=data.splits["validation"],
        processing_class=data.tokenizer,
        label_counts=data.counts,
        **kwargs,
    )


def is_finished(output_dir: str, overwrite: bool) -> bool:
    """Whether the folder holds a finished run that should be left alone; says what to type."""
    done = (Path(output_dir) / "results.json").exists() and not overwrite
    if done:
        logger.warning("%s holds a finished run; pass `--overwrite True` to train it again", output_dir)
    return done


def train_and_report(
    trainer: LabelAttnTrainer,
    data: PreparedData,
    data_args: DataArguments,
    train: bool = True,
    seconds_before: float = 0.0,
    cpu_seconds_before: float | None = None,
) -> dict:
    """Train (continuing an interrupted run), evaluate on dev and test, and leave everything in the output folder.

    Args:
        trainer: With the model.
        data: The documents.
        data_args: Says what to write.
        train: False for a model that is trained already.
        seconds_before: What its training took before, for the record.
        cpu_seconds_before: The same in CPU seconds (default: the same number).
    """
    folder, started, worked = Path(trainer.args.output_dir), time.perf_counter(), time.process_time()
    if train:
        last = None if data_args.overwrite else last_whole_checkpoint(folder, trainer.args.world_size)
        if last is not None:
            logger.warning("continuing the interrupted run at %s", last.name)
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    trained, worked = seconds_before + time.perf_counter() - started, time.process_time() - worked
    worked += seconds_before if cpu_seconds_before is None else cpu_seconds_before
    metrics = {}
    for name in ("validation", "test"):
        if name in data.splits:
            metrics[name] = evaluate_split(trainer, data.splits[name])
    if trainer.is_world_process_zero():
        trainer.save_model(_internal_call=True)  # a push waits for the results
        if "test" in metrics and data_args.save_scores:
            write_scores(folder / "scores_test.npz", trainer.last_scores, data.splits["test"].label_names)
        if "f1_micro" in metrics.get("test", {}):
            threshold = threshold_logits(trainer.model.config, trainer.last_scores.scores.shape[1])
            write_label_results(folder / "labels_test.csv", trainer.last_scores, data.counts, threshold)
        run = {"train_seconds": trained, "train_cpu_seconds": worked, "environment": environment()}
        run["peak_memory_mb"] = peak_memory_mb()
        run |= {"train_documents": len(data.splits["train"]), "world_size": trainer.args.world_size}
        run["arguments"] = {name: getattr(trainer.args, name) for name in REPORTED}
        write_json(folder / "run.json", run)
        write_json(folder / "results.json", results(trainer, data, metrics))
        write_text(folder / "README.md", str(card_from_folder(folder)))
        print(metrics_table(metrics, data_args.published))
    if trainer.args.push_to_hub:
        trainer.push_to_hub()
    return metrics


def evaluate_split(trainer: LabelAttnTrainer, split: DocumentDataset) -> dict[str, float]:
    """Metrics of a split under their exact names; the threshold is tuned only on the development split."""
    prefix = "split"
    found = trainer.evaluate(split, metric_key_prefix=prefix, by_frequency=True)
    timing = ("_runtime", "_per_second", "_preparation_time", "score_spread")
    names = [name for name in found if name.startswith(prefix) and not name.endswith(timing)]
    return {name.removeprefix(f"{prefix}_"): found[name] for name in names}


def results(trainer: LabelAttnTrainer, data: PreparedData, metrics: dict) -> dict:
    """The content of results.json: nothing that differs between two equal runs."""
    return {
        "model_type": trainer.model.config.model_type,
        "num_parameters": trainer.model.num_parameters(),
        "num_labels": data.labels.num_labels,
        "documents": {name: len(split) for name, split in data.splits.items()},
        "vocabulary": len(data.tokenizer),
        "threshold": trainer.model.config.threshold,
        "seed": trainer.args.seed,
        "metrics": metrics,
    }
