"""The Trainer: the real one, on tiny documents."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from transformers import TrainerCallback

from hf_labelattn.evaluation import multilabel_metrics
from hf_labelattn.training.trainer import LabelAttnTrainer
from hf_labelattn.training.watchdog import CollapseWatchdog, PredictionsCollapsed, TrainingDiverged

from .. import tiny


def trainer(folder, model=None, train=None, dev=None, **overrides):
    model = model or tiny.CLASSIFIERS["caml"]()
    train, dev = train or tiny.dataset(), dev or tiny.dataset(16, seed=1)
    return LabelAttnTrainer(model, tiny.training_arguments(folder, **overrides), train, dev)


def weights(one) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in one.model.state_dict().items()}


@pytest.mark.parametrize("name", ["caml", "laat", "fasttext", "plm_icd", "plant", "xmlcnn"])
def test_accumulating_2_by_4_equals_a_batch_of_8(name, tmp_path):
    states, start = [], tiny.CLASSIFIERS[name]().state_dict()
    for size, steps in ((8, 1), (4, 2)):
        model = tiny.CLASSIFIERS[name]()
        model.load_state_dict(start)
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "eval_strategy": "no"}
        one = trainer(tmp_path / str(size), model, num_train_epochs=1, save_strategy="no", optim="sgd", **settings)
        one._get_train_sampler = lambda dataset=None: torch.utils.data.SequentialSampler(tiny.dataset())
        one.train()
        states.append(weights(one))
    for key in states[0]:
        assert_close(states[0][key], states[1][key], rtol=1e-3, atol=1e-5, msg=key)


class StopAt(TrainerCallback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_save(self, args, state, control, **kwargs):
        control.should_training_stop = state.epoch >= self.epoch


@pytest.mark.parametrize("name", ["caml", "fasttext"])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(name, tmp_path):
    torch.manual_seed(0)
    whole = trainer(tmp_path / "whole", tiny.CLASSIFIERS[name](dropout=0.2), num_train_epochs=4)
    whole.train()
    torch.manual_seed(0)
    first = trainer(tmp_path / "cut", tiny.CLASSIFIERS[name](dropout=0.2), num_train_epochs=4)
    first.add_callback(StopAt(2))
    first.train()
    again = trainer(tmp_path / "cut", tiny.CLASSIFIERS[name](dropout=0.2), num_train_epochs=4)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == whole.state.global_step
    for key, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(again)[key]), key


def test_evaluation_through_the_trainer_equals_the_metrics_of_the_logits(tmp_path):
    dev = tiny.dataset(21, seed=1)
    one = trainer(tmp_path, dev=dev, per_device_eval_batch_size=4)
    one.model.label_bias.data.normal_()
    found = one.evaluate()
    rows = one.data_collator([dev[i] for i in range(len(dev))])
    with torch.no_grad():
        scores = one.model(**rows).logits.numpy()
    np.testing.assert_allclose(one.last_scores.scores[:, :5], scores, rtol=1e-3, atol=1e-3)
    threshold = one.model.config.threshold
    expected = multilabel_metrics(one.last_scores.scores, rows["labels"].numpy(), np.log(threshold / (1 - threshold)))
    for name in ("f1_micro", "f1_macro", "average_precision_macro", "precision_at_1", "auc_micro"):
        assert found[f"eval_{name}"] == pytest.approx(expected[name], abs=1e-9), name


def test_labels_the_model_does_not_know_count_as_missed(tmp_path):
    known, more = tiny.dataset(20, seed=1), tiny.dataset(20, seed=1, unseen=6)
    one = trainer(tmp_path)
    one.train()
    without, having = one.evaluate(known, tune=False), one.evaluate(more, tune=False)
    assert one.last_scores.scores.shape == (20, 11)
    assert having["eval_precision_micro"] == without["eval_precision_micro"]
    positives = sum(len(known.labels[i]) for i in range(20))
    assert having["eval_recall_micro"] == pytest.approx(without["eval_recall_micro"] * positives / (positives + 6))


def test_the_threshold_is_tuned_on_dev_only_and_stored(tmp_path):
    one = trainer(tmp_path)
    one.train()
    one.evaluate()
    tuned = one.model.config.threshold
    one.evaluate(tiny.dataset(30, seed=5))
    assert one.model.config.threshold == tuned != 0.5
    one.save_model()
    assert json.loads((tmp_path / "config.json").read_text())["threshold"] == tuned


def test_training_learns_and_keeps_the_best_epoch(tmp_path):
    one = trainer(tmp_path, train=tiny.dataset(80), num_train_epochs=12, learning_rate=0.03)
    before = one.evaluate()["eval_average_precision_macro"]
    one.train()
    best = max(row["eval_average_precision_macro"] for row in one.state.log_history if "eval_loss" in row)
    assert one.evaluate()["eval_average_precision_macro"] == pytest.approx(best)
    assert best > max(before, 0.9)


def test_the_epoch_is_chosen_by_average_precision_unless_told_otherwise(tmp_path):
    for named, expected in ((None, "average_precision_macro"), ("loss", "loss")):
        args = tiny.training_arguments(tmp_path, metric_for_best_model=named, load_best_model_at_end=True)
        LabelAttnTrainer(tiny.zoo("caml")(), args, eval_dataset=tiny.dataset(4))
        assert args.metric_for_best_model == expected and args.greater_is_better == (named is None)


def test_frozen_groups_stand_still_until_their_epoch(tmp_path):
    one = trainer(tmp_path, num_train_epochs=1, unfreezing=["^attention", "^(encoder|embeddings)"])
    before = weights(one)
    one.train()
    after = weights(one)
    assert torch.equal(before["embeddings.weight"], after["embeddings.weight"])
    assert not torch.equal(before["attention.weight"], after["attention.weight"])
    assert all(parameter.requires_grad for parameter in one.model.parameters()), "all train again afterwards"


def test_a_loss_that_is_not_a_number_stops_the_training(tmp_path):
    model = tiny.CLASSIFIERS["caml"]()
    model.label_bias.data[0] = torch.nan
    with pytest.raises(TrainingDiverged, match="The loss is nan at step 0.*--learning_rate"):
        trainer(tmp_path, model).train()


def test_equal_scores_for_all_documents_stop_the_training(tmp_path):
    watchdog = CollapseWatchdog(patience=2)
    watchdog.on_evaluate(None, None, None, metrics={"eval_score_spread": 0.0})
    watchdog.on_evaluate(None, None, None, metrics={"eval_score_spread": 1.0})
    watchdog.on_evaluate(None, None, None, metrics={"eval_score_spread": 0.0})
    with pytest.raises(PredictionsCollapsed, match="the model predicts the same labels, all or none"):
        watchdog.on_evaluate(None, None, None, metrics={"eval_score_spread": 0.0})


def test_a_learning_rate_near_zero_is_caught_as_collapse(tmp_path):
    model = tiny.CLASSIFIERS["caml"]()
    model.attention.weight.data.zero_()
    with pytest.raises(PredictionsCollapsed):
        trainer(tmp_path, model, num_train_epochs=3, learning_rate=1e-12, collapse_patience=2).train()


def test_single_label_problems_report_accuracy(tmp_path):
    model = tiny.CLASSIFIERS["swem"](problem_type="single_label_classification")
    rows = tiny.dataset(40)
    single = tiny.ragged([[i % 5] for i in range(40)])
    rows = type(rows)(rows.tokens, single, 5, rows.label_names, rows.ids, rows.groups)
    one = trainer(tmp_path, model, train=rows, dev=rows)
    one.train()
    assert 0 <= one.evaluate()["eval_accuracy"] <= 1
