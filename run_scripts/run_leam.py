"""Train LEAM, words and labels in one space, and report it.

    python run_scripts/run_leam.py --single_label True --word_vectors glove.6B.300d.txt \
        --train_file train.jsonl --test_file test.jsonl --label_file labels.jsonl --output_dir runs/leam

Labels start from the mean vector of the words of their descriptions, through `--word_vectors`, else at random.
Every option can also stand in one JSON file, given as the only argument. The same command continues a killed run.
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import set_seed

from hf_labelattn import (
    DataArguments,
    LabelAttnTrainer,
    LabelAttnTrainingArguments,
    LEAMConfig,
    LEAMForSequenceClassification,
    PreparedData,
    description_vectors,
    draw_cosine_matrix,
    draw_joint_space,
    is_finished,
    joint_space,
    load_vector_table,
    make_trainer,
    parse_arguments,
    prepare_data,
    run,
    set_label_prior,
    train_and_report,
)


@dataclass
class ModelArguments:
    """What to train."""

    word_vectors: str | None = field(
        default=None, metadata={"help": "GloVe, word2vec or npy vectors that words and labels start from."}
    )
    single_label: bool = field(default=False, metadata={"help": "Each document has exactly one label."})
    label_prior: bool = field(default=True, metadata={"help": "Start label biases at the training frequencies."})
    overrides: dict | str | None = field(
        default=None,
        metadata={"help": "JSON of config fields, such as '{\"phrase_conv\": null}' for LEAM (linear)."},
    )
    figures: bool = field(
        default=False,
        metadata={"help": "Also draw cosines.png and joint_space.png: documents and labels in one space."},
    )


def build_model(args: ModelArguments, data: PreparedData, overrides: dict) -> LEAMForSequenceClassification:
    """LEAM for these data; words and labels start from the vectors, if there are any."""
    fields = {**data.config_fields(args.single_label), **overrides}
    if args.word_vectors is None:
        return LEAMForSequenceClassification(LEAMConfig(**fields))
    vectors, table = load_vector_table(args.word_vectors, data.tokenizer)
    fields.setdefault("embedding_size", vectors.dimensions)
    model = LEAMForSequenceClassification(LEAMConfig(**fields))
    model.set_word_vectors(table)
    found = model.set_label_embeddings(description_vectors(data.labels.descriptions, data.tokenizer, vectors))
    print(f"{found:,} of {data.labels.num_labels:,} labels start from the words of their description")
    return model


def phrase_rate(config: LEAMConfig, learning_rate: float) -> dict[str, float]:
    """A rate for a sharp phrase kernel: all its weights move one score, so together they take the step of one."""
    sharp = config.phrase_conv and config.sharpness
    return {"phrase_weight": learning_rate / (2 * config.window + 1)} if sharp else {}


def draw_figures(trainer: LabelAttnTrainer, data: PreparedData) -> None:
    """The paper's fig. 3 of the test documents (of the development ones where there is no test)."""
    batches = trainer.get_eval_dataloader(data.splits.get("test", data.splits["validation"]))
    space = joint_space(trainer.model, batches)
    for name, figure in (("cosines", draw_cosine_matrix(space)), ("joint_space", draw_joint_space(space))):
        path = Path(trainer.args.output_dir) / f"{name}.png"
        figure.savefig(path)
        print(path)


def main() -> None:
    """Files → documents → model → Trainer → results."""
    args, data_args, training_args = parse_arguments(ModelArguments, DataArguments, LabelAttnTrainingArguments)
    if is_finished(training_args.output_dir, data_args.overwrite):
        return
    data = prepare_data(data_args)
    set_seed(training_args.seed)
    model = build_model(args, data, args.overrides or {})
    if args.label_prior and not args.single_label:
        set_label_prior(model, data.counts, len(data.splits["train"]))
    counts = model.parameter_counts()
    print(f"{counts['beyond_words']:,} parameters beyond the word table of {counts['words']:,}")
    if training_args.learning_rates is None:
        training_args.learning_rates = phrase_rate(model.config, training_args.learning_rate)
    trainer = make_trainer(model, data, training_args)
    train_and_report(trainer, data, data_args)
    if args.figures and trainer.is_world_process_zero():
        draw_figures(trainer, data)


if __name__ == "__main__":
    run(main)
