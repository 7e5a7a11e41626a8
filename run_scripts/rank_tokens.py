"""Measure which words matter for which label, and train the ranker that PLANT plants.

    python run_scripts/rank_tokens.py --train_file train.jsonl --label_file labels.jsonl --output_dir runs/ranker
    python run_scripts/rank_tokens.py --dataset_name synthetic_notes --num_documents 1000 --output_dir runs/ranker \
        --word_vectors glove.6B.50d.txt

Only the training split is read. The folder then holds the ranker with its tokenizer, `relevance.safetensors` (mutual
information of labels and words) and `results.json` (nDCG@k beside a bilinear ranker and chance, on words it was
trained on and on words held out). Every option can also stand in one JSON file, given as the only argument. The same
command continues a run that was interrupted.
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import set_seed

from hf_labelattn import (
    AwdLstmForCausalLM,
    DataArguments,
    PreparedData,
    RankingArguments,
    RelevanceCounter,
    TokenRankerConfig,
    TokenRankerModel,
    TokenRelevance,
    card_from_folder,
    is_finished,
    load_embeddings,
    load_model,
    load_tokenizer,
    parse_arguments,
    prepare_data,
    run,
    save_whole,
    train_token_ranker,
    write_json,
    write_text,
)


@dataclass
class ModelArguments:
    """What to train."""

    output_dir: str = field(metadata={"help": "Folder for everything this command leaves."})
    relevant_tokens: int = field(default=1000, metadata={"help": "Words kept per label."})
    l2r_scorer: str = field(default="mlp", metadata={"help": "mlp (paper), dot or bilinear."})
    embedding_size: int = field(default=100, metadata={"help": "Width of the embeddings, unless they are given."})
    hidden_size: int = field(default=256, metadata={"help": "Hidden units of the mlp."})
    word_vectors: str | None = field(default=None, metadata={"help": "GloVe, word2vec or npy vectors to start from."})
    language_model: str | None = field(
        default=None, metadata={"help": "AWD-LSTM whose vocabulary and word embeddings to start from."}
    )
    describe_labels: bool = field(default=True, metadata={"help": "Start labels from the words of their description."})
    baseline: bool = field(default=True, metadata={"help": "Train a bilinear ranker beside it, to compare."})


def measure_relevance(data: PreparedData, top_k: int, special: list[int]) -> TokenRelevance:
    """Mutual information of labels and words over the training documents."""
    train = data.splits["train"]
    counter = RelevanceCounter(len(data.tokenizer), data.labels.num_labels, special)
    counter.add_all(train.tokens, (train[i]["labels"] for i in range(len(train))))
    return counter.relevance(top_k)


def token_vectors(args: ModelArguments, data: PreparedData):
    """Vectors to start the words from; None to draw them."""
    if args.language_model is not None:
        return load_model(AwdLstmForCausalLM, args.language_model).get_input_embeddings().weight.detach()
    return None if args.word_vectors is None else load_embeddings(args.word_vectors, data.tokenizer)


def build_ranker(args: ModelArguments, data: PreparedData, vectors, ranking: RankingArguments, scorer: str):
    """A new ranker for the labels and words of the data."""
    set_seed(ranking.ranking_seed)
    taken = ("vocab_size", "id2label", "label2id", "label_descriptions", "training_data")
    config = TokenRankerConfig(
        embedding_size=args.embedding_size if vectors is None else vectors.shape[1],
        hidden_size=args.hidden_size,
        l2r_scorer=scorer,
        ndcg_k=ranking.ndcg_k,
        **{name: value for name, value in data.config_fields().items() if name in taken},
    )
    model = TokenRankerModel(config)
    if vectors is not None:
        model.set_token_vectors(vectors)
    if args.describe_labels:
        unknown = {data.tokenizer.unk_token_id, data.tokenizer.pad_token_id}
        model.set_label_descriptions([[i for i in ids if i not in unknown] for ids in data.description_ids()])
    return model


def as_metrics(reports: dict, k: int) -> dict[str, dict[str, float]]:
    """NDCG@k by list of words and ranker; "all" is the model that is kept, over the whole vocabulary."""
    ranker, names = reports["ranker"], [*reports["ranker"].ndcg, "all"]
    metrics = {name: {f"ndcg_at_{k}_random": ranker.chance[name]} for name in names}
    for ranker_name, report in reports.items():
        for name, value in {**report.ndcg, "all": report.ndcg_all}.items():
            metrics[name][f"ndcg_at_{k}" + ("" if ranker_name == "ranker" else f"_{ranker_name}")] = value
    return metrics


def show(metrics: dict, k: int) -> None:
    """Print the table."""
    print(f"{f'nDCG@{k}':<12}" + "".join(f"{name.replace('_', ' ') + ' words':>16}" for name in metrics))
    for row in ("", "_bilinear", "_random"):
        cells = [metrics[name].get(f"ndcg_at_{k}{row}") for name in metrics]
        if cells[0] is not None:
            print(f"{row[1:] or 'ranker':<12}" + "".join(f"{cell:>16.4f}" for cell in cells))


def main() -> None:
    """Files → documents → relevance → ranker → table."""
    args, ranking, data_args = parse_arguments(ModelArguments, RankingArguments, DataArguments)
    if is_finished(args.output_dir, data_args.overwrite):
        return
    data = prepare_data(data_args, load_tokenizer(args.language_model) if args.language_model else None)
    special, folder = list(data.tokenizer.all_special_ids), Path(args.output_dir)
    relevance = measure_relevance(data, args.relevant_tokens, special)
    relevance.save(folder / "relevance.safetensors")
    vectors, reports = token_vectors(args, data), {}
    for name in ("bilinear", "ranker") if args.baseline else ("ranker",):
        scorer = args.l2r_scorer if name == "ranker" else name
        model = build_ranker(args, data, vectors, ranking, scorer)
        reports[name] = train_token_ranker(model, relevance, ranking, special, folder / f"checkpoint-{name}")
    save_whole(folder, model, data.tokenizer)
    metrics = as_metrics(reports, ranking.ndcg_k)
    chosen = {"best_epoch": reports["ranker"].best_epoch, "chosen_on": reports["ranker"].chosen_on}
    sizes = {"num_labels": data.labels.num_labels, "vocabulary": len(data.tokenizer)}
    sizes["relevances"] = len(relevance.values)
    write_json(
        folder / "results.json",
        {
            "model_type": model.config.model_type,
            "num_parameters": model.num_parameters(),
            "documents": {"train": relevance.num_documents},
            "seed": ranking.ranking_seed,
            "metrics": metrics,
            **sizes,
            **chosen,
        },
    )
    write_text(folder / "README.md", str(card_from_folder(folder)))
    show(metrics, ranking.ndcg_k)


if __name__ == "__main__":
    run(main)
