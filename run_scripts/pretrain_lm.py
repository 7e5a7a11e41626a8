"""Train the AWD-LSTM language model that PLANT reads with, or fine-tune one, on the text of the training split.

    python run_scripts/pretrain_lm.py --train_file train.jsonl --output_dir runs/lm
    python run_scripts/pretrain_lm.py --dataset_name synthetic_notes --num_documents 1000 --output_dir runs/lm \
        --overrides '{"embedding_size": 100, "hidden_size": 200, "num_hidden_layers": 2}' --num_train_epochs 4

Start from another language model, whatever its vocabulary (shared words keep their vectors):

    … --model_name_or_path runs/other_lm
    … --fastai_weights lstm_fwd.pth --fastai_vocabulary itos_wt103.pkl

Two processes on CPU: accelerate launch --multi_gpu --num_processes 2 run_scripts/pretrain_lm.py … --use_cpu True
Every option can also stand in one JSON file, given as the only argument. The same command continues a run that was
interrupted.
"""

from dataclasses import dataclass, field

import numpy as np
from transformers import set_seed

from hf_labelattn import (
    AwdLstmConfig,
    AwdLstmForCausalLM,
    DataArguments,
    LanguageModelArguments,
    LanguageModelTrainer,
    VocabularyCoverage,
    data_marks,
    encode_documents,
    is_finished,
    load_fastai_language_model,
    load_model,
    load_tokenizer,
    parse_arguments,
    read_texts,
    remove_checkpoints,
    run,
    take_fraction,
    train_language_model,
    train_word_tokenizer,
    transfer_vocabulary,
)


@dataclass
class ModelArguments:
    """What to start from."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Language model to start from."})
    fastai_weights: str | None = field(default=None, metadata={"help": "fastai model (.pth) to start from."})
    fastai_vocabulary: str | None = field(default=None, metadata={"help": "Its vocabulary (.pkl or .json)."})
    overrides: dict | str | None = field(
        default=None, metadata={"help": "JSON of config fields, such as '{\"hidden_size\": 200}'."}
    )


def load_start(args: ModelArguments, direction: str):
    """The language model to start from and its tokenizer."""
    overrides = args.overrides or {}
    if args.fastai_weights is not None:
        if args.fastai_vocabulary is None:
            raise ValueError("`--fastai_weights` is given without its vocabulary. Pass `--fastai_vocabulary` too.")
        return load_fastai_language_model(
            args.fastai_weights, args.fastai_vocabulary, direction=direction, **overrides
        )
    model = load_model(AwdLstmForCausalLM, args.model_name_or_path, **overrides)
    if model.config.direction != direction:
        raise ValueError(
            f"{args.model_name_or_path} reads {model.config.direction}. Pass `--direction {model.config.direction}`, "
            "or a model of the other direction."
        )
    return model, load_tokenizer(args.model_name_or_path)


def build_model(
    args: ModelArguments, tokenizer, counts: np.ndarray, direction: str
) -> tuple[AwdLstmForCausalLM, VocabularyCoverage | None]:
    """A new model, or the one to start from with this vocabulary."""
    if args.model_name_or_path is None and args.fastai_weights is None:
        fields = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "direction": direction}
        return AwdLstmForCausalLM(AwdLstmConfig(**{**fields, **(args.overrides or {})})), None
    model, old_tokenizer = load_start(args, direction)
    return transfer_vocabulary(model, old_tokenizer, tokenizer, counts)


def make_tokenizer(args: DataArguments, train):
    """The tokenizer that was asked for, or a word-level one trained on the training split."""
    if args.tokenizer_name is not None:
        return load_tokenizer(args.tokenizer_name)
    return train_word_tokenizer(
        train["text"], train["group"], min_document_frequency=args.min_document_frequency, max_vocab=args.max_vocab
    )


def main() -> None:
    """Files → text → streams → language model → perplexity."""
    args, data_args, lm_args = parse_arguments(ModelArguments, DataArguments, LanguageModelArguments)
    if is_finished(lm_args.output_dir, data_args.overwrite):
        return
    if data_args.overwrite:
        remove_checkpoints(lm_args.output_dir)
    set_seed(lm_args.seed)
    notes = read_texts(data_args)
    train = take_fraction(notes["train"], data_args.train_fraction)
    tokenizer = make_tokenizer(data_args, train)
    documents, development = (encode_documents(tokenizer, split["text"]) for split in (train, notes["validation"]))
    counts = np.bincount(documents.values, minlength=len(tokenizer))
    model, coverage = build_model(args, tokenizer, counts, lm_args.direction)
    model.config.training_data = {**(getattr(model.config, "training_data", None) or {}), **data_marks(data_args)}
    trainer = LanguageModelTrainer(model, tokenizer, documents, development, lm_args)
    details = {"documents": {"train": len(documents), "validation": len(development)}}
    if coverage is not None:
        trainer.accelerator.print(coverage)
        details["coverage"] = vars(coverage)
    train_language_model(trainer, details)


if __name__ == "__main__":
    run(main)
