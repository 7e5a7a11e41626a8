import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.sparse import csr_matrix

from hf_labelattn.evaluation.targets import SparseTargets, as_targets

from .splits import quick, splits


@quick
@given(splits(min_labels=1))
def test_every_form_of_targets_reads_the_same(split):
    dense = split[1]
    lists = [np.flatnonzero(row)[::-1].tolist() for row in dense]
    for form in (dense, dense.astype(np.float32), torch.from_numpy(dense), csr_matrix(dense), lists):
        targets = as_targets(form, dense.shape[1])
        assert (targets.dense() == dense).all()
        assert (targets.transposed.dense() == dense.T).all()
        assert (np.diff(targets.indptr) == dense.sum(1)).all() and (targets.label_counts == dense.sum(0)).all()


def test_a_label_repeated_on_a_document_counts_once():
    assert as_targets([[2, 0, 2]], 3).columns.tolist() == [0, 2]


def test_stored_zeros_of_a_csr_matrix_are_not_labels():
    matrix = csr_matrix((np.array([0, 1]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert as_targets(matrix, 2).columns.tolist() == [1]


def test_selected_labels_are_renumbered():
    dense = np.array([[1, 0, 1], [0, 1, 1]])
    assert (as_targets(dense, 3).select_labels(np.array([2, 0])).dense() == dense[:, [2, 0]]).all()


def test_parts_are_stacked_in_order():
    parts = [SparseTargets.from_lists(lists, 3) for lists in ([[0], []], [], [[1, 2]])]
    assert SparseTargets.concatenate(parts, 3).dense().tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert SparseTargets.concatenate([], 3).shape == (0, 3)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([[3]], "ids run from 3 to 3, but there are 3 labels"),
        ([[-1]], "ids run from -1"),
        (np.array([[0, 1, -100]]), "contains -100, expected only 0 and 1"),
        (np.array([0, 1, 1]), r"shape \(3,\), expected \[documents, labels\]"),
        (np.array([[0, 1]]), "has 2 labels, but the scores have 3"),
    ],
)
def test_wrong_targets_are_refused(targets, message):
    with pytest.raises(ValueError, match=message):
        as_targets(targets, 3)
