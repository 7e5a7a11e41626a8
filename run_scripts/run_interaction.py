"""Train a classifier joined with a matcher that finds label descriptions in the text, and report it.

    python run_scripts/run_interaction.py --base caml --word_vectors glove.6B.100d.txt \
        --train_file train.jsonl --test_file test.jsonl --label_file labels.jsonl --output_dir runs/caml_interaction

`--base runs/caml` starts from a trained model; `--backbone bert-base-uncased` has BERT's [CLS] classifier as the base.
Labels nobody has trained, without a training file:

    python run_scripts/run_interaction.py --zero_shot True --word_vectors glove.6B.100d.txt \
        --label_file labels.jsonl --test_file test.jsonl --output_dir runs/zero_shot

Every option can also stand in one JSON file, given as the only argument. The same command continues a killed run.
"""

from dataclasses import replace

from transformers import set_seed

from hf_labelattn import (
    DataArguments,
    InteractionArguments,
    LabelAttnTrainer,
    LabelAttnTrainingArguments,
    fitting_data,
    frozen_parts,
    has_free_parameters,
    is_finished,
    join_matcher,
    joint_rates,
    load_tokenizer,
    load_trained_base,
    make_trainer,
    new_base,
    parse_arguments,
    prepare_matching_data,
    run,
    save_match_tokenizer,
    start_at_prior,
    train_and_report,
)


def zero_shot(args: InteractionArguments, data_args: DataArguments, training: LabelAttnTrainingArguments) -> None:
    """Descriptions and word vectors → a model that scores any label; figures where there are documents."""
    data = prepare_matching_data(data_args, args.word_vectors, zero_shot=True)
    training = replace(training, eval_strategy="no", save_strategy="no", load_best_model_at_end=False)
    dev = data.splits.get("validation")
    trainer = LabelAttnTrainer(
        join_matcher(None, data, args), training, None, dev, processing_class=data.tokenizer, label_counts=data.counts
    )
    train_and_report(trainer, data, data_args, train=False)


def main() -> None:
    """Files → documents → base → joint model → Trainer → results."""
    args, data_args, training = parse_arguments(InteractionArguments, DataArguments, LabelAttnTrainingArguments)
    if is_finished(training.output_dir, data_args.overwrite):
        return
    if args.zero_shot:
        zero_shot(args, data_args, training)
        return
    folder = args.trained_base
    base = load_trained_base(folder) if folder else None
    names = [base.config.id2label[i] for i in range(base.config.num_labels)] if folder else ()
    tokenizer = load_tokenizer(folder or args.backbone) if folder or args.backbone else None
    data = prepare_matching_data(data_args, args.word_vectors, tokenizer, names)
    set_seed(training.seed)
    if folder is None:
        base = new_base(args, data)
        if base is not None and args.base != "linear":
            start_at_prior(base, data)
    model = join_matcher(base, data, args)
    training.frozen = [*(training.frozen or []), *frozen_parts(args)]
    training.learning_rates = training.learning_rates or joint_rates(model, training.learning_rate)
    save_match_tokenizer(data, training.output_dir)
    data = fitting_data(data, args)
    train = has_free_parameters(model, training.frozen)
    if not train:
        print("nothing is left to train: the joint model is as good as it starts")
    train_and_report(make_trainer(model, data, training), data, data_args, train=train)


if __name__ == "__main__":
    run(main)
