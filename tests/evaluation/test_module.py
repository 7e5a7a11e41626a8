import evaluate
import numpy as np
import pytest

from hf_labelattn import evaluation as ev

from .splits import random_split


def lists(targets):
    return [np.flatnonzero(row).tolist() for row in targets]


@pytest.mark.parametrize("config", ["multilabel", "multilabel_ids"])
def test_module_computes_the_whole_set(config):
    scores, targets = random_split()
    module = ev.LabelAttnMetrics(config, keep_in_memory=True)
    assert isinstance(module, evaluate.EvaluationModule)
    references = lists(targets) if config == "multilabel_ids" else targets.astype(int)
    counts = np.arange(12) * 60
    got = module.compute(predictions=scores, references=references, threshold=0.3, train_counts=counts)
    assert got == ev.multilabel_metrics(scores, targets, 0.3) | ev.frequency_metrics(scores, targets, counts, 0.3)


def test_module_collects_batches():
    scores, targets = random_split()
    module = ev.LabelAttnMetrics(keep_in_memory=True)
    for start in (0, 25, 50):
        part = slice(start, start + 25)
        module.add_batch(predictions=scores[part], references=targets[part].astype(int))
    assert module.compute(ks=(1,)) == ev.multilabel_metrics(scores, targets, ks=(1,))


def test_module_knows_single_label_classification():
    scores, _ = random_split()
    classes = np.arange(60) % 12
    got = ev.LabelAttnMetrics("single_label", keep_in_memory=True).compute(predictions=scores, references=classes)
    assert got == ev.single_label_metrics(scores, classes)


def test_unknown_config_is_refused():
    with pytest.raises(ValueError, match="`config_name` is 'binary', expected one of multilabel, multilabel_ids"):
        ev.LabelAttnMetrics("binary")
