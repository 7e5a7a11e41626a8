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
    PreparedData,
    draw_cosine_matrix,
    draw_joint_space,
    is_finished,
    joint_space,
    make_trainer,
    new_leam,
    parse_arguments,
    phrase_rate,
    prepare_data,
    run,
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
    model = new_leam(data, args.word_vectors, args.single_label, args.label_prior, **(args.overrides or {}))
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
