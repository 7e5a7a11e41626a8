"""AdamW with sparse gradients: row-wise Adam on touched rows, on dense ones the same as torch's AdamW."""

import pytest
import torch
from torch.testing import assert_close

from hf_labelattn.training.optimizer import SparseAwareAdamW, clip_gradients, coalesced
from hf_labelattn.training.trainer import LabelAttnTrainer

from .. import tiny


def sparse_grad(rows, shape, seed):
    values = torch.randn(len(rows), shape[1], generator=torch.Generator().manual_seed(seed))
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


def literal_row_adam(weight, gradients, rate, decay=0.999, eps=1e-8):
    """The definition, one row at a time."""
    weight, square, touched = weight.clone(), torch.zeros(len(weight)), torch.zeros(len(weight))
    for gradient in gradients:
        gradient = gradient.coalesce()
        for row, value in zip(gradient.indices()[0].tolist(), gradient.values(), strict=True):
            touched[row] += 1
            square[row] = decay * square[row] + (1 - decay) * (value**2).mean()
            weight[row] -= rate * value / ((square[row] / (1 - decay ** touched[row])).sqrt() + eps)
    return weight


def test_sparse_steps_equal_the_definition_row_by_row():
    weight = torch.nn.Parameter(torch.ones(6, 3))
    optimizer = SparseAwareAdamW([weight], lr=0.1)
    gradients = [sparse_grad(rows, (6, 3), seed) for seed, rows in enumerate([[0, 3], [3, 5], [0, 0], [3]])]
    for gradient in gradients:
        weight.grad = gradient
        optimizer.step()
    assert_close(weight.detach(), literal_row_adam(torch.ones(6, 3), gradients, 0.1))
    assert torch.equal(weight[1], torch.ones(3)), "an untouched row does not move"


def test_dense_steps_equal_adamw():
    ours, theirs = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    mine, reference = SparseAwareAdamW([ours], lr=0.1), torch.optim.AdamW([theirs], lr=0.1)
    for _ in range(3):
        ours.grad, theirs.grad = torch.arange(4.0), torch.arange(4.0)
        mine.step()
        reference.step()
    assert_close(ours, theirs)


def test_state_survives_a_checkpoint():
    def run(interrupt):
        weight = torch.nn.Parameter(torch.ones(6, 3))
        optimizer = SparseAwareAdamW([weight], lr=0.1)
        for step in range(4):
            if interrupt and step == 2:
                state = optimizer.state_dict()
                optimizer = SparseAwareAdamW([weight], lr=0.1)
                optimizer.load_state_dict(state)
            weight.grad = sparse_grad([step, 5], (6, 3), step)
            optimizer.step()
        return weight

    assert torch.equal(run(True), run(False))


def test_clipping_sees_sparse_and_dense_gradients():
    sparse, dense = torch.nn.Parameter(torch.zeros(4, 2)), torch.nn.Parameter(torch.zeros(2))
    sparse.grad = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.ones(2, 2) * 1.5, (4, 2))
    dense.grad = torch.tensor([4.0, 0.0])
    norm = clip_gradients([sparse, dense], 1.0)
    assert_close(norm, torch.tensor((9.0 + 9.0 + 16.0) ** 0.5))
    total = sparse.grad.to_dense().pow(2).sum() + dense.grad.pow(2).sum()
    assert_close(total, torch.tensor(1.0))


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_optimizers_that_take_sparse_gradients_are_left_as_chosen(name, tmp_path):
    model, dense = tiny.CLASSIFIERS["fasttext"](), tiny.CLASSIFIERS["fasttext"]()
    dense.load_state_dict(model.state_dict())
    arguments = tiny.training_arguments(tmp_path, optim=name, learning_rate=0.5)
    optimizer = LabelAttnTrainer(model, arguments, tiny.dataset(), tiny.dataset()).create_optimizer()
    literal = type(optimizer)(dense.parameters(), lr=0.5)
    assert type(optimizer).__name__.lower() == name
    ids, labels = torch.tensor([[2, 3, 2]]), torch.zeros(1, model.config.num_labels)
    for one in (model, dense):
        one(ids, labels=labels).loss.backward()
    assert model.encoder.table.grad.is_sparse
    dense.encoder.table.grad = dense.encoder.table.grad.to_dense()
    optimizer.step()
    literal.step()
    for (key, ours), theirs in zip(model.named_parameters(), dense.parameters(), strict=True):
        assert_close(ours, theirs, msg=key)


@pytest.mark.parametrize("rows", [[0, 2, 5], [5, 0, 2], [2, 2, 5], []])
def test_coalescing_gives_the_same_gradient(rows):
    grad = torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.long), torch.randn(len(rows), 3), (6, 3))
    found = coalesced(grad)
    assert found.is_coalesced()
    assert_close(found.indices(), grad.coalesce().indices())
    assert_close(found.values(), grad.coalesce().values())


def test_rows_in_order_are_not_sorted_again(monkeypatch):
    grad = torch.sparse_coo_tensor(torch.tensor([[0, 2, 5]]), torch.randn(3, 3), (6, 3))
    monkeypatch.setattr(torch.Tensor, "coalesce", lambda tensor: pytest.fail("sorted again"))
    assert coalesced(grad).values().data_ptr() == grad._values().data_ptr()
