"""Train a model of the zoo, or the TF-IDF linear yardstick, and report it.

    python run_scripts/run_label_attention.py --preset caml \
        --train_file train.jsonl --test_file test.jsonl --label_file labels.jsonl --output_dir runs/caml

Two processes: accelerate launch --multi_gpu --num_processes 2 run_scripts/run_label_attention.py … --use_cpu True
Every option can also stand in one JSON file, given as the only argument. The same command continues a killed run.
With `--search_trials 8 --search_space '{"learning_rate": [0.001, 0.003], "overrides.dropout": [0.2, 0.5]}'` settings
are only compared, on the development split; the best are left in search.json.
"""

import json
import time
from dataclasses import dataclass, field
from functools import lru_cache

from transformers import set_seed

from hf_labelattn import (
    DataArguments,
    LabelAttentionConfig,
    LabelAttentionForMultiLabel,
    LabelAttnTrainingArguments,
    PreparedData,
    TfidfLinearConfig,
    fit_sentence,
    fit_tfidf_linear,
    is_finished,
    label_parents,
    load_embeddings,
    load_tokenizer,
    make_trainer,
    new_sentence_model,
    parse_arguments,
    prepare_data,
    run,
    search_settings,
    set_label_prior,
    train_and_report,
)


@dataclass
class ModelArguments:
    """What to train."""

    preset: str = field(
        default="caml",
        metadata={
            "help": "linear, cnn, bigru, caml, dr_caml, laat, joint_laat, multirescnn, xmlcnn, fasttext, swem, "
            "sentence (a classifier of a frozen encoder's embeddings), plm_icd or plm_ca."
        },
    )
    backbone: str | None = field(default=None, metadata={"help": "Transformer for sentence, plm_icd and plm_ca."})
    word_vectors: str | None = field(default=None, metadata={"help": "GloVe, word2vec or npy vectors to start from."})
    single_label: bool = field(default=False, metadata={"help": "Each document has exactly one label."})
    label_prior: bool = field(default=True, metadata={"help": "Start label biases at the training frequencies."})
    overrides: dict | str | None = field(
        default=None, metadata={"help": "JSON of config fields, such as '{\"hidden_size\": 200}'."}
    )
    search_trials: int = field(default=0, metadata={"help": "Settings of `search_space` to try on dev (0: train)."})
    search_space: dict | str | None = field(
        default=None, metadata={"help": "JSON of an argument, or overrides.FIELD, to the list of its values to try."}
    )


@lru_cache(maxsize=1)  # the trials of a search start from the same table
def word_table(path: str, tokenizer):
    """Word vectors of a tokenizer's words."""
    return load_embeddings(path, tokenizer)


def build_model(args: ModelArguments, data: PreparedData, overrides: dict):
    """The model a preset names, for these data."""
    fields = {**data.config_fields(args.single_label), **overrides}
    if args.preset == "linear":
        train, dev = data.splits["train"], data.splits["validation"]
        config = TfidfLinearConfig(**{"unk_token_id": data.tokenizer.unk_token_id, **fields})
        return fit_tfidf_linear(train.tokens, train.labels, config, dev=(dev.tokens, dev.labels))
    if args.preset == "sentence":
        model = new_sentence_model(args.backbone, data.tokenizer, **fields)
        return fit_sentence(model, data.splits, [text or "" for text in data.labels.descriptions], data.tokenizer)
    if args.preset == "joint_laat":
        fields.setdefault("label_parents", label_parents(data.labels.names))
    if args.backbone is not None:
        return LabelAttentionForMultiLabel.from_backbone(args.backbone, args.preset, **fields)
    if args.word_vectors is not None:
        table = word_table(args.word_vectors, data.tokenizer)
        fields.setdefault("embedding_size", table.shape[1])
    model = LabelAttentionForMultiLabel(LabelAttentionConfig.preset(args.preset, **fields))
    if args.word_vectors is not None:
        model.set_word_vectors(table)
    if args.preset == "dr_caml":
        model.set_label_descriptions(data.description_ids())
    return model


def start_model(args: ModelArguments, data: PreparedData, overrides: dict):
    """A model to be trained, its label biases at the training frequencies unless that is not wanted."""
    model = build_model(args, data, overrides)
    if args.label_prior and not args.single_label:
        set_label_prior(model, data.counts, len(data.splits["train"]))
    return model


def search(args: ModelArguments, data: PreparedData, training_args: LabelAttnTrainingArguments) -> None:
    """Compare settings on the development split and print the best."""
    overrides = args.overrides or {}
    trainer = make_trainer(start_model(args, data, overrides), data, training_args)
    best = search_settings(
        trainer,
        lambda fields: start_model(args, data, {**overrides, **fields}),
        args.search_space or {},
        args.search_trials,
    )
    print(f"best on dev: {json.dumps(best)}")


def main() -> None:
    """Files → documents → model → Trainer → results."""
    args, data_args, training_args = parse_arguments(ModelArguments, DataArguments, LabelAttnTrainingArguments)
    if is_finished(training_args.output_dir, data_args.overwrite):
        return
    tokenizer = load_tokenizer(args.backbone) if args.backbone else None
    data = prepare_data(data_args, tokenizer)
    trained = args.preset not in ("linear", "sentence")  # which are fitted where they are made
    if args.preset == "linear" and training_args.max_tokens is not None:
        print("the linear model is fitted on whole documents and reads them whole: `max_tokens` is left out")
        training_args.max_tokens = None
    set_seed(training_args.seed)
    if args.search_trials:
        return search(args, data, training_args)
    started, worked = time.perf_counter(), time.process_time()
    model = (start_model if trained else build_model)(args, data, args.overrides or {})
    fitted = (0.0, 0.0) if trained else (time.perf_counter() - started, time.process_time() - worked)
    train_and_report(make_trainer(model, data, training_args), data, data_args, trained, *fitted)


if __name__ == "__main__":
    run(main)
