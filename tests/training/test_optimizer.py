"""AdamW with sparse gradients: on touched rows the same as torch's SparseAdam, on dense ones the same as AdamW."""

import torch
from torch.testing import assert_close

from hf_labelattn.training.optimizer import SparseAwareAdamW, clip_gradients


def sparse_grad(rows, shape, seed):
    values = torch.randn(len(rows), shape[1], generator=torch.Generator().manual_seed(seed))
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape)


def test_sparse_steps_equal_sparse_adam():
    ours, theirs = (torch.nn.Parameter(torch.ones(6, 3)) for _ in range(2))
    mine, reference = SparseAwareAdamW([ours], lr=0.1, weight_decay=0.0), torch.optim.SparseAdam([theirs], lr=0.1)
    for step, rows in enumerate([[0, 3], [3, 5], [0, 0], [3]]):
        ours.grad, theirs.grad = sparse_grad(rows, (6, 3), step), sparse_grad(rows, (6, 3), step)
        mine.step()
        reference.step()
    assert_close(ours, theirs)
    assert torch.equal(ours[1], torch.ones(3)), "an untouched row does not move"


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
