import numpy as np
import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from hf_labelattn import evaluation as ev
from hf_labelattn.evaluation import streaming

from .splits import random_split

COUNTS = np.array([0, 1, 10, 11, 50, 51, 100, 101, 500, 501, 9000, 0])


def collect(scores, targets, sizes=(1, 0, 7, 30, 22), **kwargs):
    metrics, start = ev.StreamingMetrics(scores.shape[1], **kwargs), 0
    for size in sizes:
        metrics.update(scores[start : start + size], targets[start : start + size])
        start += size
    return metrics


@pytest.mark.parametrize("block_bytes", [1, 24 * 10, 1 << 24])
@pytest.mark.parametrize("dtype", [np.float16, torch.float32, "float64"])
def test_batches_give_the_figures_of_the_whole(monkeypatch, block_bytes, dtype):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", block_bytes)
    scores, targets = random_split(dtype=np.float64)
    metrics = collect(torch.from_numpy(scores), torch.from_numpy(targets), store_dtype=dtype)
    stored = scores.astype(str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype)
    assert metrics.num_documents == 60 and (metrics.scores == stored).all()
    assert (metrics.targets.dense() == targets).all()
    expected = ev.multilabel_metrics(stored, targets, 0.1) | ev.frequency_metrics(stored, targets, COUNTS, 0.1)
    assert metrics.compute(0.1, train_counts=COUNTS) == expected


def test_documents_may_follow_a_computation(monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 24 * 10)
    scores, targets = random_split(dtype=np.float16)
    metrics = ev.StreamingMetrics(12)
    for start in (0, 15, 30, 45):
        metrics.update(scores[start : start + 15], targets[start : start + 15])
        seen = ev.multilabel_metrics(scores[: start + 15], targets[: start + 15])
        assert metrics.compute() == pytest.approx(seen, nan_ok=True)


def test_merged_collectors_equal_one():
    scores, targets = random_split(dtype=np.float16)
    first, second = collect(scores[:25], targets[:25], (25,)), collect(scores[25:], targets[25:], (20, 15))
    first.merge(second)
    assert (first.scores == scores).all() and first.compute() == ev.multilabel_metrics(scores, targets)
    assert second.num_documents == 35


def test_reset_forgets_everything():
    metrics = collect(*random_split())
    metrics.reset()
    assert metrics.num_documents == 0 and metrics.scores.shape == (0, 12) and metrics.targets.shape == (0, 12)


def test_huge_logits_are_infinite_in_float16_and_still_rank_first():
    metrics = ev.StreamingMetrics(2, ks=(1,))
    metrics.update(np.array([[1e9, 3.0]]), [[0]])
    assert metrics.compute()["precision_at_1"] == 1.0


def test_wrong_batches_are_refused():
    metrics = ev.StreamingMetrics(3)
    with pytest.raises(ValueError, match=r"shape \(2, 4\), expected \[documents, 3\]"):
        metrics.update(np.zeros((2, 4)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="2 documents, but `targets` has 1"):
        metrics.update(np.zeros((2, 3)), [[0]])
    assert metrics.num_documents == 0 and metrics.targets.shape == (0, 3)
    with pytest.raises(ValueError, match="`store_dtype` is int8"):
        ev.StreamingMetrics(3, store_dtype="int8")
    with pytest.raises(ValueError, match="expected"):
        metrics.merge(ev.StreamingMetrics(4))


class Linear(nn.Module):
    """The smallest model a Trainer evaluates; it also returns what is no logit."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 4))

    def forward(self, features, labels):
        logits = features @ self.weight
        return {"loss": logits.mean() + 0 * labels.sum(), "logits": logits, "hidden": features}


def test_trainer_evaluates_batch_by_batch(tmp_path):
    rows = [{"features": torch.randn(5), "labels": (torch.rand(4) < 0.4).float()} for _ in range(11)]
    metrics, model = ev.StreamingMetrics(4, ks=(1,)), Linear()
    arguments = TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=4, batch_eval_metrics=True, report_to=[], use_cpu=True
    )
    trainer = Trainer(model, arguments, eval_dataset=rows, compute_metrics=metrics.trainer_hook(threshold=0.2))
    first, again = trainer.evaluate(), trainer.evaluate()
    scores = torch.stack([row["features"] for row in rows]) @ model.weight
    expected = ev.multilabel_metrics(scores.half(), torch.stack([row["labels"] for row in rows]), 0.2, ks=(1,))
    assert metrics.num_documents == 11
    for result in (first, again):
        assert {name: result[f"eval_{name}"] for name in expected} == pytest.approx(expected, abs=2e-3)
