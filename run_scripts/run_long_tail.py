"""Train the hybrid for long tails of labels: linear model + matching of descriptions + LEAM + sentence embeddings.

    python run_scripts/run_long_tail.py --train_file train.jsonl --test_file test.jsonl --label_file labels.jsonl \
        --word_vectors glove.6B.50d.txt --backbone sentence-transformers/all-MiniLM-L6-v2 --output_dir runs/long_tail

Each part is trained by itself and left in `parts/` of the output folder; a few weights, the same for all labels, join
them on the development split. `--word_vectors` and `--backbone` may be left out; `--words`, `--sentence` and `--parts`
take models that are trained already. The result is one checkpoint. Every option can also stand in one JSON file, given
as the only argument; the same command continues a killed run.
"""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from transformers import AutoModelForSequenceClassification, set_seed

from hf_labelattn import (
    DataArguments,
    HybridForMultiLabel,
    LabelAttnTrainingArguments,
    LongTailArguments,
    add_pieces,
    fit_linear,
    fit_sentence,
    fit_weights,
    fitting_data,
    frozen_parts,
    is_finished,
    join_matcher,
    joint_rates,
    linear_config,
    load_model,
    load_part,
    load_tokenizer,
    make_trainer,
    new_base,
    new_leam,
    new_sentence_model,
    parse_arguments,
    phrase_rate,
    prepare_data,
    prepare_matching_data,
    run,
    save_whole,
    save_words,
    train_and_report,
)

LEAM = {"learning_rate": 0.01, "per_device_train_batch_size": 64, "per_device_eval_batch_size": 256}


def words_part(args: LongTailArguments, data_args, training: LabelAttnTrainingArguments, data, folder: Path):
    """The linear model, joined with the matching of descriptions; trained once, then read from its folder."""
    if args.words is None and not (folder / "results.json").exists():
        own = replace(training, output_dir=str(folder), push_to_hub=False)
        asked = args.matching
        if args.match and not args.single_label:
            model = join_matcher(new_base(asked, data), data, asked)
            own.frozen, own.learning_rates = frozen_parts(asked), joint_rates(model, own.learning_rate)
            trained = fitting_data(data, asked)
        else:
            config = linear_config(asked, data)
            config.problem_type = data.config_fields(args.single_label)["problem_type"]
            model, trained = fit_linear(data.splits["train"], data.splits["validation"], config), data
        train_and_report(make_trainer(model, trained, own), trained, data_args, train=trained is not data)
    return load_model(AutoModelForSequenceClassification, args.words or folder)


def leam_part(args: LongTailArguments, data_args, training: LabelAttnTrainingArguments, data, folder: Path):
    """LEAM over the word vectors; trained once, then read from its folder."""
    if not (folder / "results.json").exists():
        set_seed(training.seed)
        model = new_leam(data, args.word_vectors, args.single_label)
        own = replace(training, output_dir=str(folder), push_to_hub=False, **LEAM, max_steps=args.leam_steps)
        own.learning_rates = phrase_rate(model.config, own.learning_rate)
        train_and_report(make_trainer(model, data, own), data, data_args)
    return load_model(AutoModelForSequenceClassification, folder)


def sentence_part(args: LongTailArguments, data, splits, tokenizer, folder: Path):
    """The classifier of sentence embeddings; fitted once, then read from its folder."""
    if args.sentence is None and not (folder / "config.json").exists():
        model = new_sentence_model(args.backbone, tokenizer, **data.config_fields(args.single_label))
        texts = [text or "" for text in data.labels.descriptions]
        save_whole(folder, fit_sentence(model, splits, texts, tokenizer))
    return load_model(AutoModelForSequenceClassification, args.sentence or folder)


def main() -> None:
    """Files → documents → parts → weights on dev → results."""
    args, data_args, training = parse_arguments(LongTailArguments, DataArguments, LabelAttnTrainingArguments)
    if is_finished(training.output_dir, data_args.overwrite):
        return
    started, folder = time.perf_counter(), Path(training.output_dir) / "parts"
    name = args.words or data_args.tokenizer_name
    tokenizer = load_tokenizer(name) if name else None
    data = prepare_matching_data(data_args, args.word_vectors, tokenizer)
    set_seed(training.seed)
    parts = {"words": words_part(args, data_args, training, data, folder / "words")}
    if args.word_vectors and args.leam_steps:
        parts["leam"] = leam_part(args, data_args, training, data, folder / "leam")
    for path in args.folders:
        parts[path.name] = load_part(path, data.tokenizer, partial(load_model, AutoModelForSequenceClassification))
    separate = {"unk_token_id": data.tokenizer.unk_token_id}
    if args.backbone or args.sentence:
        pieces = load_tokenizer(args.backbone or args.sentence)
        splits = prepare_data(data_args, pieces).splits
        parts["sentence"] = sentence_part(args, data, splits, pieces, folder / "sentence")
        separate["match_vocab_size"] = len(data.tokenizer)
        data = add_pieces(data, splits, pieces)
    fields = data.config_fields(args.single_label)
    kept = ("label_descriptions", "training_data", "training_counts")
    model = HybridForMultiLabel.from_parts(parts, **separate, **{name: fields[name] for name in kept})
    save_words(data, training.output_dir)
    print("weights:", fit_weights(model, data))
    trainer = make_trainer(model, data, training)
    train_and_report(trainer, data, data_args, train=False, seconds_before=time.perf_counter() - started)


if __name__ == "__main__":
    run(main)
