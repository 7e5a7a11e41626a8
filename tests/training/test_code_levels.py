"""Metrics at the levels of the code hierarchy: parents have the best score below them."""

from types import SimpleNamespace

import numpy as np
import pytest

from hf_labelattn.evaluation.metrics import multilabel_metrics
from hf_labelattn.evaluation.targets import SparseTargets
from hf_labelattn.training.code_levels import code_system_of, codes_above, level_metrics, roll_up
from hf_labelattn.training.scoring import SplitScores

CODES = ["428.0", "428.1", "401.9", "38.93", "38.91", "E849.0", "V15.82", "486"]


def split_scores(names, documents=40, seed=0):
    draw = np.random.default_rng(seed)
    truth = draw.random((documents, len(names))) < 0.3
    scores = (draw.normal(size=truth.shape) + 1.5 * truth).astype(np.float16)
    return SplitScores(scores, SparseTargets.from_dense(truth), SimpleNamespace(label_names=tuple(names)))


def test_parents_are_the_maximum_of_their_children_and_the_union_of_their_truth():
    split = split_scores(CODES)
    parents = [name for _, name in codes_above(CODES, "category")]
    assert parents == ["428", "428", "401", "38", "38", "E849", "V15", "486"]
    scores, targets = roll_up(split.scores, split.targets, parents)
    truth = split.targets.dense()
    for number, parent in enumerate(dict.fromkeys(parents)):
        below = [column for column, name in enumerate(parents) if name == parent]
        assert np.array_equal(scores[:, number], split.scores[:, below].max(1))
        assert np.array_equal(targets.dense()[:, number], truth[:, below].any(1))


def test_metrics_of_each_level_are_those_of_the_rolled_up_table():
    split, config = split_scores(CODES), SimpleNamespace(threshold=0.5, label_thresholds=None)
    found = level_metrics(split, config)
    assert [found[level]["num_labels"] for level in ("code", "category", "chapter")] == [8, 6, 5]
    plain = multilabel_metrics(split.scores, split.targets, 0.0)
    assert {name: found["code"][name] for name in plain} == plain
    chapters = [name for _, name in codes_above(CODES, "chapter")]
    assert chapters[:4] == ["390-459", "390-459", "390-459", "35-39"]
    rolled = roll_up(split.scores, split.targets, chapters)
    assert found["chapter"]["f1_micro"] == multilabel_metrics(*rolled, 0.0)["f1_micro"]


def test_labels_with_thresholds_of_their_own_are_compared_by_their_margin():
    split = split_scores(CODES)
    thresholds = np.linspace(0.2, 0.8, len(CODES))
    found = level_metrics(split, SimpleNamespace(threshold=0.5, label_thresholds=thresholds.tolist()))
    predicted = 1 / (1 + np.exp(-split.scores.astype(np.float64))) > thresholds
    truth = split.targets.dense()
    groups = ([0, 1], [2], [3, 4], [5], [6], [7])
    pairs = [(predicted[:, columns].any(1), truth[:, columns].any(1)) for columns in groups]
    hits = sum((p & t).sum() for p, t in pairs)
    f1 = 2 * hits / (sum(p.sum() for p, _ in pairs) + sum(t.sum() for _, t in pairs))
    assert found["category"]["f1_micro"] == pytest.approx(f1)


def test_icd10_diagnoses_and_procedures_do_not_share_a_category():
    names = ["B25.1", "B25", "B25ZZZZ", "02HV33Z", "I10"]
    assert code_system_of(names) == "icd10"
    found = codes_above(names, "category")
    assert found == [("diagnosis", "B25")] * 2 + [("procedure", "B25"), ("procedure", "02H"), ("diagnosis", "I10")]
    assert [name for _, name in codes_above(names, "chapter")] == ["A00-B99", "A00-B99", "B", "0", "I00-I99"]


def test_labels_that_are_no_codes_are_refused():
    with pytest.raises(ValueError, match="Labels are not all ICD codes.*'role::program'"):
        codes_above(["I10", "role::program"], "chapter")
    with pytest.raises(ValueError, match="must be one of: code, category, chapter"):
        codes_above(["I10"], "block")
