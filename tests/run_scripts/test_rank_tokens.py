"""The ranker script: from files to a folder that PLANT can plant from."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_labelattn import TokenRankerModel, TokenRelevance, load_tokenizer

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "rank_tokens.py"
TOPICS = {"heart": "cardiac murmur valve", "lung": "cough wheeze airway", "bone": "fracture joint cast"}


@pytest.fixture
def files(tmp_path):
    """Notes in which three words speak for each label, among words that speak for none."""
    draw = np.random.default_rng(0)
    common = [f"word{chr(97 + i)}" for i in range(20)]
    rows = []
    for number in range(60):
        label = list(TOPICS)[number % 3]
        words = [*draw.choice(common, 12), *draw.choice(TOPICS[label].split(), 2)]
        rows.append({"id": str(number), "text": " ".join(map(str, words)), "labels": [label]})
    paths = tmp_path / "train.jsonl", tmp_path / "labels.jsonl"
    paths[0].write_text("\n".join(map(json.dumps, rows)))
    paths[1].write_text("\n".join(json.dumps({"label": k, "description": v}) for k, v in TOPICS.items()))
    return {"train_file": paths[0], "label_file": paths[1]}


def run(monkeypatch, **values):
    values = {"ndcg_k": 3, "ranking_epochs": 3, "embedding_size": 6, "hidden_size": 8, **values}
    arguments = [part for name, value in values.items() for part in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_the_folder_holds_a_ranker_that_finds_the_words(files, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "ranker"
    run(monkeypatch, output_dir=folder, held_out_tokens=0, **files)
    model, tokenizer = TokenRankerModel.from_pretrained(folder), load_tokenizer(folder)
    relevance = TokenRelevance.load(folder / "relevance.safetensors")
    best = model.scores().masked_fill(~model.token_known, -torch.inf).topk(3).indices
    for label, name in model.config.id2label.items():
        assert set(tokenizer.convert_ids_to_tokens(best[label].tolist())) == set(TOPICS[name].split())
        assert set(tokenizer.convert_ids_to_tokens(relevance.row(label)[0][:3].tolist())) == set(TOPICS[name].split())
    assert not model.token_known[tokenizer.all_special_ids].any()
    results = json.loads((folder / "results.json").read_text())
    assert results["metrics"]["all"]["ndcg_at_3"] > 0.9 > results["metrics"]["all"]["ndcg_at_3_random"]
    assert results["documents"]["train"] == relevance.num_documents < 60
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4].split() == ["nDCG@3", "train", "words", "all", "words"]
    assert [line.split()[0] for line in lines[-3:]] == ["ranker", "bilinear", "random"]
    kept = {"config.json", "model.safetensors", "relevance.safetensors", "results.json", "tokenizer.json"}
    assert kept <= {path.name for path in folder.iterdir()} and not list(folder.rglob("*.pt"))


def test_a_finished_run_is_left_alone_and_vectors_are_taken(files, tmp_path, monkeypatch, capsys):
    folder, vectors = tmp_path / "ranker", tmp_path / "vectors.txt"
    words = sorted({word for words in TOPICS.values() for word in words.split()})
    vectors.write_text("\n".join(f"{word} {i % 3} {i} 1 0" for i, word in enumerate(words)))
    run(monkeypatch, output_dir=folder, word_vectors=vectors, baseline=False, refit=False, **files)
    assert TokenRankerModel.from_pretrained(folder).config.embedding_size == 4
    results = json.loads((folder / "results.json").read_text())
    assert set(results["metrics"]) == {"train", "held_out", "all"}
    assert set(results["metrics"]["all"]) == {"ndcg_at_3", "ndcg_at_3_random"}
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    run(monkeypatch, output_dir=folder, **files)
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed


def test_labels_of_other_splits_change_nothing(files, tmp_path, monkeypatch):
    test_rows = [{"id": "t1", "text": "cough wheeze airway", "labels": ["bone"]}]
    for name, labels in (("first", ["bone"]), ("second", ["heart", "lung"])):
        test_rows[0]["labels"] = labels
        (tmp_path / "test.jsonl").write_text(json.dumps(test_rows[0]))
        output = {"output_dir": tmp_path / name, "test_file": tmp_path / "test.jsonl"}
        run(monkeypatch, baseline=False, **output, **files)
    for file in ("model.safetensors", "relevance.safetensors", "results.json"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()
