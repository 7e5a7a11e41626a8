"""Pure kernels shared by the models. Softmax is computed in float32; padding is masked before it."""

import torch
from torch import Tensor
from torch.nn import functional as F


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the positions where `mask` is true; a row without any gets zeros instead of NaN.

    >>> masked_softmax(torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    scores = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(dim).masked_fill(~mask, 0.0)


def classification_loss(logits: Tensor, labels: Tensor, problem_type: str) -> Tensor:
    """Binary cross entropy over all labels, or cross entropy over classes, averaged over the batch.

    >>> classification_loss(torch.zeros(2, 3), torch.ones(2, 3), "multi_label_classification")
    tensor(0.6931)
    """
    if problem_type == "single_label_classification":
        return F.cross_entropy(logits.float(), labels.view(-1).long())
    if labels.shape != logits.shape:
        raise ValueError(
            f"`labels` has shape {tuple(labels.shape)}, but multi-label logits have {tuple(logits.shape)}. Pass a "
            "multi-hot float tensor, or set `problem_type='single_label_classification'` in the config."
        )
    return F.binary_cross_entropy_with_logits(logits.float(), labels.float())


def label_chunks(num_labels: int, bytes_per_label: int, max_memory_mb: int) -> list[slice]:
    """Cut the label axis into equal slices whose working memory fits the budget.

    >>> label_chunks(10, bytes_per_label=2**20, max_memory_mb=4)
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """
    size = max(1, min(num_labels, max_memory_mb * 2**20 // max(1, bytes_per_label)))
    return [slice(i, min(i + size, num_labels)) for i in range(0, num_labels, size)]
