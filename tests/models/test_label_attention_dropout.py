"""Dropout of the pooling models: one rate for the words, one before the classifier."""

import pytest

from hf_labelattn import LabelAttentionConfig, LabelAttentionForMultiLabel


@pytest.mark.parametrize(("given", "expected"), [(None, 0.4), (0.0, 0.0), (0.1, 0.1)])
def test_the_classifier_has_its_own_rate_where_one_is_given(given, expected):
    sizes = {"num_labels": 3, "vocab_size": 20, "embedding_size": 4, "hidden_size": 4}
    config = LabelAttentionConfig.preset("xmlcnn", dropout=0.4, classifier_dropout=given, **sizes)
    model = LabelAttentionForMultiLabel(config)
    assert (model.dropout.p, model.attention.dropout.p) == (0.4, expected)
