"""Train a peer on exported documents and leave its scores. Runs in the peers' own environment (`make bench-peers`).

    python benchmarks/peer_worker.py FOLDER CAML 10

FOLDER holds the splits as JSONL with rows {id, words, labels}, and vectors.txt; benchmarks/peers.py writes it.
"""

import json
import resource
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

SIZES = {
    "CAML": {"filter_sizes": [9], "num_filter_per_size": 50},
    "BiGRULWAN": {"rnn_dim": 512, "rnn_layers": 1},
    "KimCNN": {"filter_sizes": [2, 4, 8], "num_filter_per_size": 128},
    "XMLCNN": {"filter_sizes": [2, 4, 8], "num_filter_per_size": 128, "hidden_dim": 512, "num_pool": 2},
}
FASTTEXT_RATES = (1.0,)


def read(folder: Path, name: str) -> list[dict]:
    """The rows of a split."""
    return [json.loads(line) for line in open(folder / f"{name}.jsonl", encoding="utf-8")]


Scores = dict[str, np.ndarray]  # of the splits "validation" and "test"


def train_libmultilabel(
    folder: Path, network: str, epochs: int, score: bool = True
) -> tuple[list[str], Scores, float, int]:
    """Labels, scores, CPU seconds and epochs of a network of libmultilabel, with its own data path and trainer.

    Scored is the epoch with the best macro-F1 on the development documents, as its own command line does.
    """
    from libmultilabel.nn import data_utils, nn_utils

    nn_utils.set_seed(0)
    device = nn_utils.init_device(use_cpu=True)
    splits = {
        name: [{"index": r["id"], "label": r["labels"], "text": r["words"].split()} for r in read(folder, source)]
        for name, source in (("train", "train"), ("val", "validation"), ("test", "test"))
    }
    classes = data_utils.load_or_build_label(splits)
    vectors = str(folder / "vectors.txt")
    words, embedding = data_utils.load_or_build_text_dict(splits["train"], min_vocab_freq=3, embed_file=vectors)
    model = nn_utils.init_model(
        network, SIZES[network], classes, embed_vecs=embedding, learning_rate=1e-3, optimizer="adam",
        val_metric="Macro-F1", monitor_metrics=["P@1", "Macro-F1"], metric_threshold=0.5,
    )  # fmt: skip
    model.word_dict, model.save_k_predictions = words, len(classes)
    trainer = nn_utils.init_trainer(
        str(folder / network), epochs=epochs, patience=epochs, early_stopping_metric="Macro-F1", val_metric="Macro-F1",
        silent=True, use_cpu=True,
    )  # fmt: skip
    options = {"max_seq_length": 500, "data_workers": 0, "word_dict": words}
    loaders = {
        name: data_utils.get_dataset_loader(rows, classes, device, batch_size=16, shuffle=name == "train", **options)
        for name, rows in splits.items()
    }
    started = time.process_time()
    trainer.fit(model, loaders["train"], loaders["val"])
    seconds = time.process_time() - started
    if not score:
        return [], {}, seconds, epochs
    columns, best = [str(name) for name in classes], trainer.checkpoint_callback.best_model_path
    found = {}
    for split, loader in (("validation", loaders["val"]), ("test", loaders["test"])):
        batches = trainer.predict(model, loader, ckpt_path=best or None, weights_only=False)
        found[split] = scores_of(batches, len(columns))
    return columns, found, seconds, epochs


def scores_of(batches: list, width: int) -> np.ndarray:
    """Dense scores from libmultilabel's batches of ranked labels."""
    rows = []
    for batch in batches:
        top, values = np.asarray(batch["top_k_pred"]), np.asarray(batch["top_k_pred_scores"])
        block = np.zeros((len(top), width), dtype=np.float32)
        np.put_along_axis(block, top, values, axis=1)
        rows.append(block)
    return np.concatenate(rows)


def train_fasttext(folder: Path, epochs: int, score: bool = True) -> tuple[list[str], Scores, float, int]:
    """Labels, scores, CPU seconds and epochs of fastText itself: word 1-3-grams, 100 dimensions, one-vs-all.

    To be scored, its rate and its epochs (2.5 or 5 times `epochs`) are those best on the development
    documents by macro-AP; the seconds are those of the chosen ones.
    """
    names = sorted({label for row in read(folder, "train") for label in row["labels"]})
    place = {name: i for i, name in enumerate(names)}
    with open(folder / "fasttext.txt", "w", encoding="utf-8") as file:
        for row in read(folder, "train"):
            file.write(" ".join(f"__label__{place[label]}" for label in row["labels"]) + f" {row['words']}\n")
    if not score:
        return names, {}, fit_fasttext(folder, 0.5, epochs)[1], epochs
    truth = np.array([[name in row["labels"] for name in names] for row in read(folder, "validation")])
    best = None
    for rate in FASTTEXT_RATES:
        for count in (round(2.5 * epochs), 5 * epochs):
            model, seconds = fit_fasttext(folder, rate, count)
            scores = score_fasttext(model, read(folder, "validation"), len(names))
            reached = mean_average_precision(scores, truth)
            print(
                f"fastText, rate {rate}, {count} epochs: macro-AP {reached:.4f} on dev, {seconds:.1f} CPU s",
                flush=True,
            )
            if best is None or reached > best[0]:
                best = reached, {"validation": scores}, model, seconds, count
    return names, {**best[1], "test": score_fasttext(best[2], read(folder, "test"), len(names))}, *best[3:]


def fit_fasttext(folder: Path, rate: float, epochs: int) -> tuple:
    """A model of fastText and the CPU seconds of its training."""
    import fasttext

    started = time.process_time()
    options = {"wordNgrams": 3, "dim": 100, "loss": "ova", "minCount": 3, "bucket": 500_000, "thread": 1}
    text = str(folder / "fasttext.txt")
    model = fasttext.train_supervised(text, epoch=epochs, lr=rate, seed=0, verbose=0, **options)
    return model, time.process_time() - started


def score_fasttext(model, rows: list[dict], labels: int) -> np.ndarray:
    """Probabilities of every label."""
    scores = np.zeros((len(rows), labels), dtype=np.float32)
    for i, row in enumerate(rows):
        for value, label in model.f.predict(row["words"] + "\n", -1, 0.0, "strict"):
            scores[i, int(label.removeprefix("__label__"))] = value
    return scores


def mean_average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """Macro-AP over the labels that occur."""
    from sklearn.metrics import average_precision_score

    present = truth.any(0)
    return float(average_precision_score(truth[:, present], scores[:, present], average="macro"))


def time_fastai(batch: int, length: int, labels: int, steps: int) -> float:
    """CPU seconds of a training step of fastai's AWD-LSTM classifier (400/1152×3, its dropouts), best of some."""
    import torch
    from fastai.text.all import AWD_LSTM, get_text_classifier

    torch.set_num_threads(1)
    model = get_text_classifier(AWD_LSTM, 20_000, labels, seq_len=72, max_len=length).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    ids, truth, times = torch.randint(2, 20_000, (batch, length)), torch.zeros(batch, labels), []
    for _ in range(steps + 1):
        started = time.process_time()
        model[0].reset()
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(ids)[0], truth).backward()
        optimizer.step()
        times.append(time.process_time() - started)
    return min(times[1:])


def main() -> None:
    """Train, score, write; with a fourth word, only train."""
    if sys.argv[1] == "fastai":
        print(json.dumps({"peer": "fastai", "cpu_seconds": time_fastai(*map(int, sys.argv[2:]))}))
        return
    folder, network, epochs, score = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), len(sys.argv) < 5
    train = train_fasttext if network == "fastText" else partial(train_libmultilabel, network=network)
    labels, scores, seconds, epochs = train(folder, epochs=epochs, score=score)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if score:
        ids = {split: np.array([row["id"] for row in read(folder, split)]) for split in scores}
        np.savez_compressed(
            folder / f"{network}.npz", S=scores["test"], ids=ids["test"], labels=np.array(labels),
            S_validation=scores["validation"], ids_validation=ids["validation"],
            train_cpu_seconds=seconds, peak_memory_mb=memory,
        )  # fmt: skip
    documents = len(read(folder, "train")) * epochs
    print(json.dumps({"peer": network, "cpu_seconds": round(seconds, 2), "epochs": epochs, "peak_mb": round(memory),
                      "documents_per_cpu_second": round(documents / seconds, 1)}))  # fmt: skip


if __name__ == "__main__":
    main()
