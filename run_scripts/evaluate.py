"""Evaluate a trained model on labelled documents, at the threshold stored in it.

    python run_scripts/evaluate.py runs/caml --test_file test.jsonl

Prints the metrics and writes all of them to `results_evaluate.json` in `--output_dir` (default: the model's folder).
`--code_levels True` adds them at the level of ICD categories (428) and chapters (390-459): a category or chapter has
the highest score of the codes below it.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from transformers import AutoModelForSequenceClassification

from hf_labelattn import (
    DataArguments,
    LabelAttnTrainer,
    LabelAttnTrainingArguments,
    LabelSet,
    encode_split,
    evaluate_split,
    level_metrics,
    load_model,
    load_notes,
    load_tokenizer,
    metrics_table,
    parse_arguments,
    run,
    threshold_logits,
    with_match_words,
    write_json,
    write_label_results,
)


@dataclass
class EvaluationArguments:
    """Which model, and where to write."""

    model: str = field(metadata={"help": "Folder or Hub id of a trained model."})
    output_dir: str | None = field(default=None, metadata={"help": "Folder for the results."})
    batch_size: int = field(default=32, metadata={"help": "Documents at once."})
    use_cpu: bool = field(default=False, metadata={"help": "Stay on the CPU."})
    code_levels: bool = field(default=False, metadata={"help": "Also measure ICD categories and chapters."})
    code_system: str | None = field(default=None, metadata={"help": "icd9 or icd10 (default: as labels look)."})


def main() -> None:
    """Model and documents → scores → metrics."""
    args, data_args = parse_arguments(EvaluationArguments, DataArguments)
    if data_args.test_file is None:
        raise ValueError("There is nothing to evaluate on. Pass `--test_file`.")
    model = load_model(AutoModelForSequenceClassification, args.model)
    tokenizer, config = load_tokenizer(args.model), model.config
    names = tuple(config.id2label[i] for i in range(config.num_labels))
    labels = LabelSet(names, ("",) * len(names), tuple(config.training_counts or (0,) * len(names)))
    notes = load_notes(
        test_file=data_args.test_file, columns=data_args.columns, label_separator=data_args.label_separator
    )
    split = with_match_words(encode_split(notes["test"], labels, tokenizer), notes["test"]["text"], model, tokenizer)
    folder = Path(args.output_dir or args.model)
    training = LabelAttnTrainingArguments(
        output_dir=str(folder), per_device_eval_batch_size=args.batch_size, use_cpu=args.use_cpu, eval_strategy="no"
    )
    trainer = LabelAttnTrainer(model, training, processing_class=tokenizer, label_counts=labels.counts)
    metrics = {"test": evaluate_split(trainer, split)}
    levels = level_metrics(trainer.last_scores, config, args.code_system) if args.code_levels else {}
    if trainer.is_world_process_zero():
        found = {"metrics": metrics, "threshold": config.threshold, **({"levels": levels} if levels else {})}
        write_json(folder / "results_evaluate.json", found)
        if config.problem_type == "multi_label_classification":
            threshold = threshold_logits(config, trainer.last_scores.scores.shape[1])
            write_label_results(folder / "labels_evaluate.csv", trainer.last_scores, labels.counts, threshold)
        print(metrics_table(levels or metrics, data_args.published))


if __name__ == "__main__":
    # The model may be named without a flag, as the first word.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not sys.argv[1].endswith(".json"):
        sys.argv.insert(1, "--model")
    run(main)
