"""Train PLANT end to end: language model, mutual information, ranker, classifier, report.

    accelerate launch run_scripts/run_plant.py                     # the embedded corpus, in minutes
    python run_scripts/run_plant.py --train_file train.jsonl --test_file test.jsonl --output_dir runs/plant

Two processes: accelerate launch --multi_gpu --num_processes 2 run_scripts/run_plant.py … --use_cpu True
Every option can also stand in one JSON file, given as the only argument. Stages are kept in the output folder: the
same command continues a killed run, and a changed option redoes only the stages it concerns.
"""

import os
import sys
from dataclasses import replace

from hf_labelattn import (
    DataArguments,
    LabelAttnTrainingArguments,
    PlantArguments,
    PlantForICDCoding,
    PreparedData,
    RankingArguments,
    StageCache,
    apply_recipe,
    explain_note,
    is_finished,
    load_tokenizer,
    make_trainer,
    parse_arguments,
    plant_classifier,
    prepare_data,
    read_notes,
    run,
    train_and_report,
)

EMBEDDED = (
    "--dataset_name synthetic_notes --num_documents 400 --synthetic_labels 100 --synthetic_length 0.15 --lm_epochs 3 "
    "--embedding_size 100 --hidden_size 128 --num_hidden_layers 2 --num_train_epochs 6 --learning_rate 0.003 "
    "--output_dir runs/plant"
)


def train_direction(
    direction: str, data: PreparedData, args: PlantArguments, ranking: RankingArguments, training, data_args, folder
) -> PlantForICDCoding:
    """Stages, planting and training of a classifier that reads in one direction."""
    cache = StageCache(folder, data)
    settings = {"direction": direction, "seed": training.seed, "use_cpu": training.use_cpu}
    model = plant_classifier(data, args, ranking, cache, {**settings, "fields": data.config_fields()})
    trainer = make_trainer(model, data, training)
    train_and_report(trainer, data, data_args)
    return trainer.model


def show_note(data_args: DataArguments, folder: str) -> None:
    """A page with the evidence for the first test note; only of the embedded corpus, since a page holds its note."""
    if data_args.dataset_name != "synthetic_notes" or int(os.environ.get("RANK", 0)):
        return
    note, page = read_notes(data_args)["test"][0], f"{folder}/note.html"
    explained = explain_note(folder, note["text"], page, f"Codes of {note['id']}")
    print(
        f"\nfive codes of an unseen note (* = correct)\n{explained.summary(note['labels'])}\n\nopen {page} to see them"
    )


def main() -> None:
    """Files → documents → language model → relevance → ranker → planted classifier → results."""
    if len(sys.argv) == 1:
        print(f"no arguments, so these: {EMBEDDED}")
        sys.argv += EMBEDDED.split()
    args, ranking, data_args, training = parse_arguments(
        PlantArguments, RankingArguments, DataArguments, LabelAttnTrainingArguments
    )
    if data_args.train_file is None and data_args.dataset_name is None:
        data_args.dataset_name = "synthetic_notes"
    if is_finished(training.output_dir, data_args.overwrite):
        return
    data = prepare_data(data_args, load_tokenizer(args.backbone) if args.backbone else None)
    apply_recipe(args, training)
    if args.direction != "both":
        train_direction(args.direction, data, args, ranking, training, data_args, training.output_dir)
        show_note(data_args, training.output_dir)
        return
    pair = []
    for direction in ("forward", "backward"):
        one = replace(training, output_dir=f"{training.output_dir}/{direction}")
        pair.append(train_direction(direction, data, args, ranking, one, data_args, training.output_dir))
    trainer = make_trainer(PlantForICDCoding.join(*pair), data, training)
    train_and_report(trainer, data, data_args, train=False)
    show_note(data_args, training.output_dir)


if __name__ == "__main__":
    run(main)
