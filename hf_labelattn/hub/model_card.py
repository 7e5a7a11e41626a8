"""The model card: a function of plain values, and the reader that finds these values in a run's folder.

A card holds counts, names of labels in summary and figures, never a word of a document.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from .papers import Paper, describe_model
from .terms import Terms, terms_of

TEMPLATE = Path(__file__).with_name("model_card_template.md")
TASKS = {"awd_lstm": "text-generation", "token_ranker": "feature-extraction"}
# Columns of the table by training frequency, and the bins in their order.
BIN_METRICS = ("f1_micro", "f1_macro", "average_precision_macro", "auc_macro")
BINS = ("0", "1-10", "11-50", "51-100", "101-500", ">500")
SETTINGS = ("chunk_size", "bptt_chunks", "dtype", "problem_type", "vocab_size")


@dataclass(frozen=True)
class CardValues:
    """Everything a card says.

    Attributes:
        name: Folder or Hub id, as the usage lines load it.
        model: What the model is called, such as "CAML".
        model_type: `model_type` of its configuration.
        papers: What to cite, most specific first.
        dataset: Name of the training data.
        documents: Documents per split.
        label_counts: Training documents of each label, if recorded.
        num_labels: Labels of the model; 0 for a model that is no classifier.
        num_described: Labels with a description.
        threshold: Probability from which a label is predicted; None where no threshold applies.
        has_label_thresholds: Whether each label has a threshold of its own.
        chunk_size: Tokens read at once, for a model that reads chunk by chunk.
        metrics: Split to metric to value, by exact names.
        settings: Name to value of what the training was told.
        environment: Name to version of what it ran on.
        terms: Terms the weights inherit from the data.
        license: Licence of the weights where no terms apply.
    """

    name: str
    model: str
    model_type: str
    papers: tuple[Paper, ...] = ()
    dataset: str = "unnamed"
    documents: dict[str, int] = field(default_factory=dict)
    label_counts: tuple[int, ...] = ()
    num_labels: int = 0
    num_described: int = 0
    threshold: float | None = None
    has_label_thresholds: bool = False
    chunk_size: int | None = None
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    terms: Terms | None = None
    license: str | None = None

    @property
    def task(self) -> str:
        """The task of the Hub the model belongs to."""
        return TASKS.get(self.model_type, "text-classification")


def render_card(values: CardValues) -> ModelCard:
    """The card of a model."""
    return ModelCard.from_template(
        card_metadata(values),
        template_path=str(TEMPLATE),
        v=values,
        metrics=metric_rows(values.metrics),
        splits=list(values.metrics),
        bins=bin_rows(values.metrics.get("test", {})),
        bin_metrics=BIN_METRICS,
        label_bins=label_bin_sizes(values.label_counts),
    )


def card_metadata(values: CardValues) -> ModelCardData:
    """The head of the card, with the headline of every split as `model-index`."""
    terms = values.terms
    return ModelCardData(
        model_name=values.name,
        library_name="transformers",
        pipeline_tag=values.task,
        license="other" if terms else values.license,
        license_name=terms.identifier if terms else None,
        license_link=terms.link if terms else None,
        tags=["hf_labelattn", values.model_type, *(["multi-label", "label-attention"] if values.num_labels else [])],
        eval_results=eval_results(values) or None,
    )


def eval_results(values: CardValues) -> list[EvalResult]:
    """Metrics of the whole label set, under their exact names; those of its frequency bins stand in the card."""
    dataset = values.dataset.rstrip("/").rpartition("/")[2]
    return [
        EvalResult(
            task_type=values.task,
            dataset_type=dataset,
            dataset_name=dataset,
            dataset_split=split,
            metric_type=name,
            metric_name=name,
            metric_value=round(value, 6),
        )
        for split, figures in values.metrics.items()
        for name, value in sorted(figures.items())
        if is_quality(name) and "/" not in name
    ]


def is_quality(name: str) -> bool:
    """Whether a figure says how good the model is, rather than how many labels it was measured on.

    >>> is_quality("f1_micro/count_1-10"), is_quality("num_labels/count_0")
    (True, False)
    """
    return not name.startswith(("num_", "threshold"))


def metric_rows(metrics: dict[str, dict[str, float]]) -> list[tuple[str, list[str]]]:
    """Name and one cell per split of every metric of the whole label set."""
    found = {name for figures in metrics.values() for name in figures if "/" not in name and is_quality(name)}
    names = sorted(found, key=_natural_order)
    return [(name, [_cell(figures.get(name)) for figures in metrics.values()]) for name in names]


def bin_rows(figures: dict[str, float]) -> list[tuple[str, int, list[str]]]:
    """Bin, labels of it in the split and its metrics, for every bin that has any."""
    sizes = {name: int(figures.get(f"num_labels_present/count_{name}", 0)) for name in BINS}
    return [
        (name, sizes[name], [_cell(figures.get(f"{metric}/count_{name}")) for metric in BIN_METRICS])
        for name in BINS
        if sizes[name]
    ]


def label_bin_sizes(counts: tuple[int, ...]) -> list[tuple[str, int]]:
    """Number of labels in each bin of training documents.

    >>> label_bin_sizes((0, 3, 700))
    [('0', 1), ('1-10', 1), ('11-50', 0), ('51-100', 0), ('101-500', 0), ('>500', 1)]
    """
    tops = (0, 10, 50, 100, 500, float("inf"))
    places = [next(i for i, top in enumerate(tops) if count <= top) for count in counts]
    return [(name, places.count(i)) for i, name in enumerate(BINS)] if counts else []


def _natural_order(name: str) -> tuple[str, int]:
    """Sort `precision_at_5` before `precision_at_15`."""
    stem, _, end = name.rpartition("_")
    return (stem, int(end)) if end.isdigit() else (name, 0)


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def card_from_folder(folder: str | Path, name: str | None = None) -> ModelCard:
    """The card of an output folder, from its config.json and, where present, results.json and run.json.

    Args:
        folder: What a `run_*` script or `save_pretrained` left.
        name: Hub id under which it will be found; the folder's name by default.
    """
    return render_card(read_card_values(folder, name))


def read_card_values(folder: str | Path, name: str | None = None) -> CardValues:
    """What the files of an output folder say about its model."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json. Name a folder that `save_pretrained` wrote.")
    config, results, run = (_read(folder / f"{part}.json") for part in ("config", "results", "run"))
    data = config.get("training_data") or {}
    model, papers = describe_model(config)
    is_classifier = config["model_type"] not in TASKS
    labels = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    multi_label = config.get("problem_type", "multi_label_classification") == "multi_label_classification"
    return CardValues(
        name=name or folder.resolve().name,
        model=model,
        model_type=config["model_type"],
        papers=papers,
        dataset=str(data.get("name", "unnamed")),
        documents=_in_order(results.get("documents") or _documents(data)),
        label_counts=tuple(config.get("training_counts") or ()),
        num_labels=len(labels) if is_classifier else 0,
        num_described=len(config.get("label_descriptions") or {}),
        threshold=config.get("threshold", 0.5) if is_classifier and multi_label else None,
        has_label_thresholds=config.get("label_thresholds") is not None,
        chunk_size=_chunk_size(config),
        metrics=_in_order(results.get("metrics") or {}),
        settings=_settings(config, results, run),
        environment=run.get("environment") or {},
        terms=terms_of(data),
        license=data.get("license"),
    )


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _documents(training_data: dict) -> dict[str, int]:
    return {key.removesuffix("_documents"): n for key, n in training_data.items() if key.endswith("_documents")}


def _in_order(by_split: dict) -> dict:
    """Splits in the order train, validation, test; JSON files have them by the alphabet."""
    order = ("train", "validation", "test")
    return dict(sorted(by_split.items(), key=lambda item: (order.index(item[0]) if item[0] in order else 3, item[0])))


def _chunk_size(config: dict) -> int | None:
    """Tokens at once, for PLANT and transformers; other models read whole documents."""
    if config["model_type"] == "interaction" and config.get("base_config"):
        return _chunk_size(config["base_config"])
    if config["model_type"] == "hybrid":
        return next((size for part in config["part_configs"] if (size := _chunk_size(part))), None)
    if config["model_type"] == "plant" or config.get("encoder") == "transformer":
        return config.get("chunk_size", 72 if config["model_type"] == "plant" else 512)
    return None


def _settings(config: dict, results: dict, run: dict) -> dict[str, object]:
    """Plain settings of the model and the run."""
    found = {name: config[name] for name in SETTINGS if config.get(name) is not None}
    found |= {name: results[name] for name in ("num_parameters", "seed") if name in results}
    found |= run.get("arguments") or {}
    found |= {name: run[name] for name in ("world_size",) if name in run}
    if "train_seconds" in run:
        found["train_minutes"] = round(run["train_seconds"] / 60, 1)
    if "peak_memory_mb" in run:
        found["peak_memory_mb"] = round(run["peak_memory_mb"])
    return found
