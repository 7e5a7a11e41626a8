"""AdamW that also takes sparse gradients, at a cost that does not depend on the size of the table."""

import torch
from torch.optim import SGD, Adagrad, AdamW, Optimizer


class SparseAwareAdamW(AdamW):
    """AdamW for dense gradients; for sparse ones a row-wise Adam on the touched rows only.

    A hashed n-gram table has half a million rows of which a batch touches a few thousand: stepping the whole table
    would cost a hundred times the forward pass. A row's step is its gradient over the running root mean square of its
    gradients, bias-corrected by how often the row was touched; one number per row is kept instead of two tables.
    """

    @torch.no_grad()
    def step(self, closure=None):
        if closure is not None:
            raise ValueError("SparseAwareAdamW does not take a closure.")
        sparse = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse.append((group, parameter, parameter.grad))
                    parameter.grad = None
        super().step()
        for group, parameter, grad in sparse:
            self._sparse_step(group, parameter, coalesced(grad))
            parameter.grad = grad

    def _sparse_step(self, group: dict, parameter: torch.Tensor, grad: torch.Tensor) -> None:
        rows, values = grad.indices()[0], grad.values()
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(len(parameter), device=parameter.device)
            state["exp_avg_sq"] = torch.zeros(len(parameter), device=parameter.device)
        decay = group["betas"][1]
        step = state["step"][rows] + 1
        mean_square = torch.linalg.vector_norm(values, dim=1).square_().div_(values.shape[1])
        square = torch.lerp(mean_square, state["exp_avg_sq"][rows], decay)
        state["step"][rows], state["exp_avg_sq"][rows] = step, square
        scale = (square / (1 - decay**step)).sqrt_().add_(group["eps"])
        update = torch.sparse_coo_tensor(
            rows[None], values / scale[:, None], parameter.shape, is_coalesced=True, check_invariants=False
        )
        parameter.add_(update, alpha=-group["lr"])  # twice as fast as index_add_


def coalesced(grad: torch.Tensor) -> torch.Tensor:
    """`grad.coalesce()` that does not sort rows which are in order already: autograd forgets that they are.

    >>> grad = torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 1), (3, 1))
    >>> grad.is_coalesced(), coalesced(grad).is_coalesced()
    (False, True)
    """
    rows = grad._indices()
    if grad.is_coalesced() or len(rows) > 1 or not bool((rows[0, 1:] > rows[0, :-1]).all()):
        return grad.coalesce()
    return torch.sparse_coo_tensor(rows, grad._values(), grad.shape, is_coalesced=True, check_invariants=False)


def has_sparse_gradients(model: torch.nn.Module) -> bool:
    """Whether some parameter's gradient is sparse: hashed n-gram tables and `nn.Embedding(sparse=True)`."""
    return any(
        getattr(module, "sparse_gradients", False) or getattr(module, "sparse", False) for module in model.modules()
    )


def optimizer_class(model: torch.nn.Module, default: type[Optimizer]) -> type[Optimizer]:
    """The optimizer to use: the default, unless the model has sparse gradients and the default does not take them."""
    takes_sparse = issubclass(default, SGD | Adagrad)  # `--optim sgd` and `--optim adagrad`
    return SparseAwareAdamW if has_sparse_gradients(model) and not takes_sparse else default


@torch.no_grad()
def clip_gradients(parameters, max_norm: float) -> torch.Tensor:
    """Scale gradients, sparse ones included, to a total norm of at most `max_norm`; gives the norm before."""
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = coalesced(parameter.grad)
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(value) for value in values]))
    if 0 < max_norm < norm:
        for value in values:
            value.mul_(max_norm / norm)
    return norm
