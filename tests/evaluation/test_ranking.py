import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_labelattn.evaluation import ranking
from hf_labelattn.evaluation.ranking import (
    as_scores,
    as_scores_and_targets,
    document_ranks,
    key_values,
    label_ranks,
    order_keys,
    pooled_counts,
    threshold_keys,
)
from hf_labelattn.evaluation.targets import SparseTargets

from .splits import quick, splits

FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


@quick
@given(st.sampled_from([16, 32, 64]), st.data())
def test_keys_order_and_tie_as_scores_do(width, data):
    values = data.draw(st.lists(st.floats(width=width, allow_nan=False), min_size=1, max_size=30))
    scores = np.array(values, dtype=FLOATS[width])
    keys = order_keys(scores)
    assert ((keys[:, None] > keys) == (scores[:, None] > scores)).all()
    assert ((keys[:, None] == keys) == (scores[:, None] == scores)).all()
    assert (key_values(keys, scores.dtype) == scores).all()


@quick
@given(st.sampled_from([16, 32, 64]), st.data())
def test_a_threshold_is_not_rounded(width, data):
    scores = np.array(data.draw(st.lists(st.floats(width=width, allow_nan=False), min_size=1)), dtype=FLOATS[width])
    near = st.sampled_from(scores.astype(np.float64).tolist()).map(lambda s: s * (1 + 1e-9))
    threshold = data.draw(st.floats(allow_nan=False) | near)
    predicted = order_keys(scores) >= threshold_keys(threshold, scores.dtype)
    assert (predicted == (scores.astype(np.float64) >= threshold)).all()


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
@quick
@given(split=splits(min_labels=1))
def test_positives_are_ranked_as_a_literal_count_does(block, split):
    scores, targets = as_scores_and_targets(*split)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "BLOCK_ELEMENTS", block)
        by_label, by_document = label_ranks(scores, targets), document_ranks(scores, targets)
        pooled = pooled_counts(scores, targets)
    for ranks, lines, truth in ((by_label, scores.T, split[1].T), (by_document, scores, split[1])):
        expected = [
            (i, (line > s).sum(), (line >= s).sum(), (line[own] > s).sum(), (line[own] >= s).sum())
            for i, (line, own) in enumerate(zip(lines, truth, strict=True))
            for s in line[own]
        ]
        got = zip(ranks.lines, ranks.above, ranks.through, ranks.positives_above, ranks.positives_through, strict=True)
        assert [tuple(map(int, e)) for e in expected] == [tuple(map(int, g)) for g in got]
    positives = np.unique(scores[split[1]])
    assert pooled.below.tolist() == [(scores < s).sum() for s in positives]
    assert pooled.up_to.tolist() == [(scores <= s).sum() for s in positives]
    assert pooled.positives.tolist() == [(scores[split[1]] == s).sum() for s in positives]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_is_refused_and_infinity_is_not(dtype):
    assert as_scores(np.array([[np.inf, -np.inf]], dtype=dtype)).dtype == dtype
    with pytest.raises(ValueError, match="contains NaN"):
        as_scores(np.array([[0.0, -np.nan]], dtype=dtype))


def test_tensors_and_integers_become_scores():
    assert as_scores(torch.ones(2, 3, dtype=torch.bfloat16)).dtype == np.float32
    assert as_scores(np.arange(6).reshape(2, 3)).dtype == np.float64


def test_documents_must_be_the_same():
    with pytest.raises(ValueError, match="`scores` has 2 documents, but `targets` has 1"):
        as_scores_and_targets(np.zeros((2, 3)), SparseTargets.from_lists([[0]], 3))


def test_nan_threshold_is_refused():
    with pytest.raises(ValueError, match="`threshold` is NaN"):
        threshold_keys(float("nan"), np.float32)
