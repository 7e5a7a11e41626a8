"""Evaluated splits for tests: full of ties, absent labels, labels everyone has, documents without labels."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

FEW_VALUES = [-2.0, -0.5, -0.0, 0.0, 0.25, 0.5, 3.0]
quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@st.composite
def splits(draw, max_documents=9, min_labels=2, max_labels=6):
    """Scores [N, L] of any float type with few distinct values, and bool targets [N, L]."""
    shape = draw(st.integers(1, max_documents)), draw(st.integers(min_labels, max_labels))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    values = FEW_VALUES if draw(st.booleans()) else [draw(st.sampled_from(FEW_VALUES))]
    scores = draw(arrays(dtype, shape, elements=st.sampled_from(values)))
    return scores, draw(arrays(bool, shape))


def random_split(documents=60, labels=12, seed=0, dtype=np.float32):
    """A split as a trained model leaves it; label 0 is absent, label 1 is on every document, document 0 has none."""
    rng = np.random.default_rng(seed)
    targets = rng.random((documents, labels)) < rng.random(labels) * 0.5
    targets[:, 0], targets[:, 1] = False, True
    targets[0] = False
    scores = rng.normal(-1.0, 1.5, (documents, labels)) + 1.5 * targets
    return scores.astype(dtype), targets
