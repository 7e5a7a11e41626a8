"""Weights of the parts of a hybrid: chosen on dev, the same for all labels."""

import numpy as np
import pytest

from hf_labelattn.evaluation.metrics import average_precision_macro
from hf_labelattn.evaluation.targets import as_targets
from hf_labelattn.training.hybrid import choose_weights, load_part

from .. import tiny
from .test_sentence import TOKENIZER


def scores_and_truth(seed: int = 0):
    generator = np.random.default_rng(seed)
    truth = generator.random((200, 6)) < 0.2
    good, other, noise = (generator.normal(size=truth.shape) for _ in range(3))
    return np.stack([good + truth, other + truth, 5 * noise]).astype(np.float32), as_targets(truth, 6)


def test_parts_that_help_are_used_and_noise_is_not():
    scores, truth = scores_and_truth()
    weights = choose_weights(scores, truth)
    assert weights[0] == 1 and weights[1] >= 0.5 and weights[2] <= 0.1
    joined = average_precision_macro(np.tensordot(weights, scores, 1), truth)
    assert joined > average_precision_macro(scores[0], truth) + 0.02


def test_never_worse_on_dev_than_the_first_part():
    scores, truth = scores_and_truth()
    weights = choose_weights(scores[[0, 2]], truth)
    assert average_precision_macro(np.tensordot(weights, scores[[0, 2]], 1), truth) >= average_precision_macro(
        scores[0], truth
    )


def test_single_labels_are_chosen_by_accuracy():
    generator = np.random.default_rng(0)
    classes = np.eye(3, dtype=bool)[generator.integers(0, 3, 300)]
    scores = np.stack([generator.normal(size=(300, 3)), 3.0 * classes]).astype(np.float32)
    weights = choose_weights(scores, as_targets(classes, 3), single=True)
    assert weights[1] >= 1.5


def test_a_part_with_other_words_is_refused(tmp_path):
    tiny.zoo("caml")().save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    other = type(TOKENIZER)(tokenizer_object=TOKENIZER.backend_tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    other.add_tokens(["extra"])
    with pytest.raises(ValueError, match="reads another vocabulary"):
        load_part(tmp_path, other, None)
