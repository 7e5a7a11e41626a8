"""What must hold for any scores and true labels."""

import numpy as np
from hypothesis import strategies as st

from .strategies import Property


def scores_and_truth(case) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties, and labels of any density."""
    seed, documents, labels, share, scale = case
    draw = np.random.default_rng(seed)
    scores = (draw.normal(size=(documents, labels)) * scale).astype(np.float32).round(1)
    return scores, draw.random((documents, labels)) < share


def measure(folder):
    """Metrics lie between 0 and 1, and are undefined only where nothing is positive or negative; streaming equals."""
    from hf_labelattn import StreamingMetrics, multilabel_metrics

    def check(case) -> None:
        scores, truth = scores_and_truth(case)
        found = multilabel_metrics(scores, truth)
        undefined = {name for name, value in found.items() if np.isnan(value)}
        assert all(-1e-9 <= value <= 1 + 1e-9 for name, value in found.items() if name not in undefined), found
        ranked = bool(((truth.sum(0) > 0) & (truth.sum(0) < len(truth))).any())
        assert not undefined or not truth.any() or (undefined <= {"auc_macro", "auc_micro"} and not ranked), undefined
        stream = StreamingMetrics(scores.shape[1], store_dtype=np.float32)
        for start in range(0, len(scores), 5):
            stream.update(scores[start : start + 5], truth[start : start + 5])
        again = stream.compute()
        for name, value in found.items():
            np.testing.assert_allclose(again[name], value, rtol=1e-9, err_msg=name)

    return check


def judge(folder):
    """A threshold is the best of all; an interval holds its value; a model is no better than itself."""
    from hf_labelattn import group_bootstrap, multilabel_metrics, randomization_test, search_threshold

    def check(case) -> None:
        scores, truth = scores_and_truth(case)
        try:
            best = search_threshold(scores, truth)
        except ValueError as error:
            assert not truth.any(), error
            return
        for threshold in np.unique(scores):
            assert multilabel_metrics(scores, truth, threshold=float(threshold))["f1_micro"] <= best.value + 1e-9
        interval = group_bootstrap(scores, truth, "f1_micro", rounds=20)
        assert 0 <= interval.low <= interval.high <= 1
        assert randomization_test(scores, scores, truth, rounds=20).p_value == 1

    return check


ARRAYS = st.tuples(
    st.integers(0, 2**31),
    st.integers(1, 12),
    st.integers(1, 9),
    st.sampled_from([0, 0.3, 1]),
    st.sampled_from([0, 1, 1e4]),
)
ALL = {"measure": Property(ARRAYS, measure), "judge": Property(ARRAYS, judge, 0.5)}
