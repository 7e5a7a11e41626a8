"""Train PLANT on the embedded discharge notes beside a linear model and LAAT, and show what it predicts.

python run_scripts/demo.py                    # what `make demo` runs
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import set_seed

from hf_labelattn import (
    DataArguments,
    LabelAttentionConfig,
    LabelAttentionForMultiLabel,
    LabelAttnTrainingArguments,
    PlantArguments,
    PreparedData,
    RankingArguments,
    StageCache,
    TfidfLinearConfig,
    apply_recipe,
    explain_note,
    fit_tfidf_linear,
    make_trainer,
    parse_arguments,
    plant_classifier,
    prepare_data,
    read_notes,
    run,
    set_label_prior,
    train_and_report,
)

SHOWN = ("f1_micro", "f1_macro", "average_precision_macro", "precision_at_5")


@dataclass
class DemoArguments:
    """How large a demonstration."""

    output_dir: str = field(default="runs/demo", metadata={"help": "Folder for everything it leaves."})
    num_documents: int = field(default=400, metadata={"help": "Notes in the embedded corpus."})
    synthetic_labels: int = field(default=100, metadata={"help": "Codes the notes draw from."})
    synthetic_length: float = field(default=0.15, metadata={"help": "Length of the notes, 1 for MIMIC-like."})
    epochs: int = field(default=6, metadata={"help": "Passes over the notes."})
    seed: int = field(default=0, metadata={"help": "Seed of the training."})


def training(args: DemoArguments, name: str, rate: float) -> LabelAttnTrainingArguments:
    """Training arguments of one model."""
    folder = str(Path(args.output_dir) / name)
    return LabelAttnTrainingArguments(
        folder, learning_rate=rate, num_train_epochs=args.epochs, seed=args.seed, use_cpu=True
    )


def linear(args: DemoArguments, data: PreparedData, data_args: DataArguments) -> dict:
    """TF-IDF and one linear SVM per label."""
    train, dev = data.splits["train"], data.splits["validation"]
    config = TfidfLinearConfig(**data.config_fields())
    model = fit_tfidf_linear(train.tokens, train.labels, config, dev=(dev.tokens, dev.labels))
    return train_and_report(make_trainer(model, data, training(args, "linear", 1e-3)), data, data_args, train=False)


def laat(args: DemoArguments, data: PreparedData, data_args: DataArguments) -> dict:
    """Label attention learned from scratch."""
    set_seed(args.seed)
    sizes = {"hidden_size": 64, "attention_size": 64}
    model = LabelAttentionForMultiLabel(LabelAttentionConfig.preset("laat", **data.config_fields(), **sizes))
    set_label_prior(model, data.counts, len(data.splits["train"]))
    return train_and_report(make_trainer(model, data, training(args, "laat", 3e-3)), data, data_args)


def plant(args: DemoArguments, data: PreparedData, data_args: DataArguments) -> dict:
    """Language model, mutual information, ranker, planted attention on top of the linear model's scores."""
    sizes = {"embedding_size": 100, "hidden_size": 128, "num_hidden_layers": 2, "lm_epochs": 3}
    options = PlantArguments(**sizes, prior=f"{args.output_dir}/linear", l2r_hidden_size=64)
    arguments = training(args, "", 2e-3)
    apply_recipe(options, arguments)
    settings = {"direction": "forward", "seed": args.seed, "use_cpu": True, "fields": data.config_fields()}
    cache = StageCache(arguments.output_dir, data)
    model = plant_classifier(data, options, RankingArguments(ranking_epochs=8), cache, settings)
    return train_and_report(make_trainer(model, data, arguments), data, data_args)


def show_note(args: DemoArguments, data_args: DataArguments) -> None:
    """Five codes of one note the model has never seen, with their evidence, and a page to look at."""
    note, page = read_notes(data_args)["test"][0], Path(args.output_dir) / "note.html"
    explained = explain_note(args.output_dir, note["text"], page, f"Codes of {note['id']}")
    print("\nfive codes of an unseen note (* = correct)")
    print(explained.summary(note["labels"]))
    print(f"\nopen {page} in a browser to see them in the note")


def main() -> None:
    """Corpus → linear, LAAT, PLANT → one table → one note."""
    (args,) = parse_arguments(DemoArguments)
    data_args = DataArguments(
        dataset_name="synthetic_notes", num_documents=args.num_documents, synthetic_labels=args.synthetic_labels,
        synthetic_length=args.synthetic_length, overwrite=True,
    )  # fmt: skip
    data = prepare_data(data_args)
    rows = {}
    for name, train in (("TF-IDF linear", linear), ("LAAT", laat), ("PLANT + linear prior", plant)):
        print(f"\n== {name}")
        rows[name] = train(args, data, data_args)["test"]
    print(f"\n{'test split':<24}" + "".join(f"{name:>26}" for name in SHOWN))
    for name, metrics in rows.items():
        print(f"{name:<24}" + "".join(f"{metrics[metric]:>26.4f}" for metric in SHOWN))
    show_note(args, data_args)


if __name__ == "__main__":
    run(main)
