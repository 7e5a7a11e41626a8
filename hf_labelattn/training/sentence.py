"""A classifier of sentence embeddings: the encoder stays as it is, its label rows start at the descriptions."""

import logging
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm
from transformers import AutoConfig, PreTrainedTokenizerBase

from ..data.chunking import chunk_layout
from ..data.collator import ChunkedDocumentCollator
from ..data.documents import DocumentDataset
from ..evaluation.metrics import average_precision_macro
from ..evaluation.targets import SparseTargets
from ..models.configuration_label_attention import PRESETS
from ..models.modeling_hybrid import description_points
from ..models.modeling_label_attention import LabelAttentionForMultiLabel
from .linear import as_label_pairs, prior_logits, sigmoid_calibration

logger = logging.getLogger(__name__)

ITERATIONS = 60


@dataclass(frozen=True)
class Head:
    """Rows of a classifier.

    Attributes:
        weight: `[labels, features]`.
        bias: `[labels]`.
        scale: Weight of the description vectors the rows were drawn towards.
    """

    weight: Tensor
    bias: Tensor
    scale: float

    def scores(self, vectors: Tensor) -> np.ndarray:
        """`[documents, labels]`."""
        return (vectors @ self.weight.T + self.bias).numpy()


def new_sentence_model(
    backbone: str | None, tokenizer: PreTrainedTokenizerBase, **fields
) -> LabelAttentionForMultiLabel:
    """A classifier over a pretrained encoder, in chunks no longer than it can read."""
    if backbone is None:
        raise ValueError(
            "A classifier of sentence embeddings needs an encoder. Pass `--backbone` (a folder or Hub id)."
        )
    limit = getattr(AutoConfig.from_pretrained(backbone), "max_position_embeddings", None)
    chunk_size = PRESETS["sentence"]["chunk_size"]
    fields |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    fields["chunk_size"] = min(chunk_size, limit or chunk_size)
    return LabelAttentionForMultiLabel.from_backbone(backbone, "sentence", **fields)


def document_vectors(
    model: LabelAttentionForMultiLabel, documents: DocumentDataset, tokenizer: PreTrainedTokenizerBase, batch: int = 32
) -> Tensor:
    """What the classifier sees of each document, `[documents, features]`, with a progress bar."""
    layout = chunk_layout(model.config, tokenizer)
    collate = ChunkedDocumentCollator(documents.num_labels, layout, model.config.pad_token_id or 0)
    order = np.argsort(documents.lengths, kind="stable")
    found = torch.zeros(len(documents), model.attention.classifier.in_features)
    with tqdm(total=len(order), desc="embedding", unit=" documents", delay=2, disable=None) as bar:
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            inputs = collate([documents[i] for i in rows])
            vectors = model.document_vectors(
                inputs["input_ids"].to(model.device), inputs["attention_mask"].to(model.device)
            )
            found[torch.from_numpy(rows)] = vectors.cpu()
            bar.update(len(rows))
    return found


def truth_of(documents: DocumentDataset) -> SparseTargets:
    """The labels of documents, those of the label set only."""
    return as_label_pairs(documents.labels, len(documents), documents.num_labels)


def fit_head(
    vectors: Tensor, truth: SparseTargets, points: Tensor, strength: float, scale: float, single: bool
) -> Head:
    """A linear classifier whose rows are drawn towards `scale` times the labels' description vectors.

    Args:
        vectors: `[documents, features]`.
        truth: Their labels.
        points: `[labels, features]`.
        strength: How strongly (the inverse variance of a normal prior).
        scale: Weight of the description vectors.
        single: Each document has exactly one label: softmax instead of the linear model's squared hinge per label,
            which ranks rare labels better than a sigmoid.
    """
    start = scale * points
    middle = torch.from_numpy(prior_logits(truth)).float() if single else torch.tensor(-1.0)
    weight = start.clone().requires_grad_()
    bias = (middle - vectors.mean(0) @ start.T).requires_grad_()
    target = torch.from_numpy(truth.dense()).float()
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, history_size=6, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        scores = vectors @ weight.T + bias
        errors = F.cross_entropy(scores, target, reduction="sum") if single else squared_hinge(scores, target)
        value = errors + strength / 2 * (weight - start).square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    # A label without a training document has learned nothing but to be absent.
    unseen = torch.from_numpy(truth.label_counts == 0)
    weight, bias = weight.detach(), bias.detach()
    lowest = bias[~unseen].min() if (~unseen).any() else bias.min()
    return Head(torch.where(unseen[:, None], start, weight), torch.where(unseen, lowest, bias), scale)


def squared_hinge(scores: Tensor, target: Tensor) -> Tensor:
    """Sum of max(0, 1 - y·score)² with y = 1 for the labels of a document and -1 for the others."""
    return (1 - (2 * target - 1) * scores).clamp(min=0).square().sum()


def fit_sentence(
    model: LabelAttentionForMultiLabel,
    splits: dict[str, DocumentDataset],
    descriptions: list[str],
    tokenizer: PreTrainedTokenizerBase,
    strengths: tuple[float, ...] = (0.3, 1.0),
    scales: tuple[float, ...] = (0.0, 2.0),
) -> LabelAttentionForMultiLabel:
    """Fit the label rows on the training documents; strength and scale are those that rank dev documents best."""
    model.eval()
    points = description_points(model, descriptions, tokenizer).cpu()
    train, dev = (document_vectors(model, splits[name], tokenizer) for name in ("train", "validation"))
    truth, dev_truth = truth_of(splits["train"]), truth_of(splits["validation"])
    single, best, best_score = model.config.problem_type == "single_label_classification", None, -np.inf
    for strength in strengths:
        for scale in scales if points.any() else (0.0,):
            head = fit_head(train, truth, points, strength, scale, single)
            score = average_precision_macro(head.scores(dev), dev_truth)
            logger.info("strength %g, descriptions × %g: macro average precision %.4f on dev", strength, scale, score)
            if score > best_score:
                best, best_score = head, score
    set_head(model, best if single or not len(dev) else calibrated(best, dev, dev_truth))
    return model


def calibrated(head: Head, vectors: Tensor, truth: SparseTargets) -> Head:
    """The rows on the scale of logits: one factor and one offset make their scores probabilities on dev."""
    factor, offset = sigmoid_calibration(head.scores(vectors).ravel(), truth.dense().ravel())
    return Head(factor * head.weight, factor * head.bias + offset, factor * head.scale)


@torch.no_grad()
def set_head(model: LabelAttentionForMultiLabel, head: Head) -> None:
    """Put the rows into the classifier."""
    model.attention.classifier.weight.copy_(head.weight)
    model.attention.classifier.bias.copy_(head.bias)
    model.config.description_scale, model.config.new_label_bias = head.scale, float(head.bias.min())
