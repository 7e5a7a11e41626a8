"""Pictures of a joint space of documents and labels (LEAM, fig. 3), and of scores against labelled data (fig. 2).

Every `draw_` function returns a matplotlib figure: `draw_cosine_matrix(space).savefig("cosines.png")`. Matplotlib is
imported when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm.auto import tqdm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
MARKERS = "osD^vPX*<>"


@dataclass(frozen=True)
class JointSpace:
    """Documents and labels as points of one space.

    Attributes:
        vectors: `[M, P]`, one document vector per document and true label of it.
        classes: `[M]`, the index of that label.
        label_vectors: `[K, P]`, the label embeddings.
        names: The K label names.
    """

    vectors: np.ndarray
    classes: np.ndarray
    label_vectors: np.ndarray
    names: tuple[str, ...]

    def __post_init__(self):
        if len(self.vectors) != len(self.classes) or len(self.label_vectors) != len(self.names):
            raise ValueError(
                f"Found {len(self.vectors)} document vectors with {len(self.classes)} classes, and "
                f"{len(self.label_vectors)} label vectors with {len(self.names)} names: expected equal numbers."
            )

    def most_frequent(self, count: int) -> JointSpace:
        """Only the `count` labels with the most documents, in their old order."""
        counts = np.bincount(self.classes, minlength=len(self.names))
        keep = np.sort(np.argsort(-counts, kind="stable")[:count])
        position = np.full(len(self.names), -1)
        position[keep] = np.arange(len(keep))
        rows = position[self.classes] >= 0
        names = tuple(self.names[i] for i in keep)
        return JointSpace(self.vectors[rows], position[self.classes[rows]], self.label_vectors[keep], names)


@torch.no_grad()
def joint_space(model, batches: Iterable[Mapping[str, torch.Tensor]], max_documents: int = 5000) -> JointSpace:
    """Read documents with a LEAM model and collect the vectors it averages them to, by true label.

    Args:
        model: A `LEAMForSequenceClassification`.
        batches: Batches as a collator makes them: `input_ids`, `attention_mask` and `labels` (class ids or multi-hot).
        max_documents: Stop after this many documents.
    """
    training = model.training
    model.eval()
    vectors, classes, seen = [], [], 0
    for batch in tqdm(batches, desc="documents to vectors", leave=False):
        ids, mask = batch["input_ids"].to(model.device), batch["attention_mask"].to(model.device)
        documents, labels = _pairs(batch["labels"])
        means = model.document_vectors(ids, mask)  # [B, P] or [B, K, P]
        chosen = means[documents] if means.dim() == 2 else means[documents, labels]
        vectors.append(chosen.float().cpu().numpy())
        classes.append(labels.numpy())
        seen += len(ids)
        if seen >= max_documents:
            break
    model.train(training)
    names = tuple(model.config.id2label[i] for i in range(model.config.num_labels))
    points = model.attention.label_embeddings.float().cpu().numpy()
    if not vectors:
        raise ValueError("There are no batches to read: pass an iterable of batches with at least one document.")
    return JointSpace(np.concatenate(vectors), np.concatenate(classes), points, names)


def _pairs(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and label of every true label, from class ids `[B]` or multi-hot `[B, K]`."""
    labels = labels.cpu()
    if labels.dim() == 1:
        return torch.arange(len(labels)), labels.long()
    return labels.nonzero(as_tuple=True)


def class_means(space: JointSpace) -> np.ndarray:
    """The mean document vector of every class `[K, P]`; NaN for a class without documents.

    >>> space = JointSpace(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([0, 0]), np.eye(2), ("a", "b"))
    >>> class_means(space).tolist()
    [[2.0, 0.0], [nan, nan]]
    """
    counts = np.bincount(space.classes, minlength=len(space.names)).astype(float)
    sums = np.zeros(space.label_vectors.shape)
    np.add.at(sums, space.classes, space.vectors)
    counts[counts == 0] = np.nan
    return sums / counts[:, None]


def cosine_matrix(space: JointSpace) -> np.ndarray:
    """Cosines of mean documents (rows) and label embeddings (columns), `[K, K]`; fig. 3(a) of the paper."""
    return _unit(class_means(space)) @ _unit(space.label_vectors.astype(float)).T


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def project(space: JointSpace, max_points: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t-SNE of documents and labels together, by angle: document points, their classes, label points.

    Args:
        space: What to project.
        max_points: Documents to show; more are sampled down.
        seed: Of the sample and of t-SNE.
    """
    from sklearn.manifold import TSNE

    rows = np.random.default_rng(seed).permutation(len(space.vectors))[:max_points]
    points = _unit(np.concatenate([space.vectors[rows], space.label_vectors]))
    if len(points) < 4:
        raise ValueError(f"t-SNE needs at least 4 points, but there are {len(points)}: pass more documents.")
    perplexity = min(30.0, (len(points) - 1) / 3)
    flat = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(points)
    return flat[: len(rows)], space.classes[rows], flat[len(rows) :]


def draw_cosine_matrix(space: JointSpace, max_labels: int = 40) -> Figure:
    """Fig. 3(a): how close the mean document of each class (row) is to each label (column).

    Args:
        space: Documents and labels.
        max_labels: With more labels than this, those with the most documents are shown.
    """
    shown = space.most_frequent(max_labels)
    matrix, count, names = cosine_matrix(shown), len(shown.names), [_short(name) for name in shown.names]
    side, margin = 1.5 + 0.4 * min(count, 30), 0.09 * max(map(len, names))
    figure = _new_figure(side + margin + 1.0, side + 0.7 * margin)
    axes = figure.add_subplot()
    limit = max(0.1, float(np.nanmax(np.abs(matrix))))
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    size = 9 if count <= 20 else 6.5
    axes.set_xticks(range(count), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=size)
    axes.set_yticks(range(count), names, fontsize=size)
    axes.set_xlabel("label embedding")
    axes.set_ylabel("mean document of the class")
    axes.set_title(_title("Cosine of mean documents and labels", space, shown), fontsize=10)
    if count <= 15:
        _write_values(axes, matrix, limit)
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
    return figure


def draw_joint_space(space: JointSpace, max_points: int = 2000, max_labels: int = 20, seed: int = 0) -> Figure:
    """Fig. 3(b): documents as small dots in the colour of their class, label embeddings as large named dots.

    Args:
        space: Documents and labels.
        max_points: Documents to show; more are sampled down.
        max_labels: With more labels than this, those with the most documents are shown.
        seed: Of the sample and of t-SNE.
    """
    shown = space.most_frequent(max_labels)
    documents, classes, labels = project(shown, max_points, seed)
    figure = _new_figure(7.5, 6.5)
    axes = figure.add_subplot()
    colours = np.array(_colours(len(shown.names)))
    size = 18 if len(documents) < 500 else 7
    axes.scatter(*documents.T, s=size, c=colours[classes], alpha=0.6, linewidths=0)
    axes.scatter(*labels.T, s=170, c=colours, edgecolors="black", linewidths=1.6, zorder=4)
    for name, point in zip(shown.names, labels, strict=True):
        _name_point(axes, _short(name), point)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.08)
    axes.set_title(_title(f"t-SNE of {len(documents):,} documents and their labels", space, shown), fontsize=10)
    return figure


def draw_learning_curves(
    curves: Mapping[str, Mapping[float, float | Sequence[float]]], metric: str = "accuracy"
) -> Figure:
    """Fig. 2(b): a score against the labelled share of the training documents, one line per model.

    Args:
        curves: Model name -> fraction of labelled documents in (0, 1] -> a score, or the scores of several seeds
            (then the line is their mean and the band one standard deviation).
        metric: What the scores are, for the axis.
    """
    fractions = sorted({f for curve in curves.values() for f in curve})
    if not fractions or not 0 < fractions[0] <= fractions[-1] <= 1:
        raise ValueError(f"Labelled fractions are {fractions}, but must lie above 0 and up to 1 (0.1 means 10 %).")
    figure = _new_figure(6.5, 4.4)
    axes = figure.add_subplot()
    for (name, curve), colour, marker in zip(curves.items(), _colours(len(curves)), _cycle(len(curves)), strict=True):
        shares = sorted(curve)
        mean = np.array([np.mean(curve[share]) for share in shares])
        spread = np.array([np.std(curve[share]) for share in shares])
        axes.plot(shares, mean, marker=marker, color=colour, label=name, linewidth=1.6, markersize=5)
        axes.fill_between(shares, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    if fractions[-1] / fractions[0] >= 10:
        axes.set_xscale("log")
    axes.set_xticks(fractions, [f"{100 * share:g} %" for share in fractions])
    axes.minorticks_off()
    axes.set_xlabel("labelled training documents")
    axes.set_ylabel(metric)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _new_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Figures need matplotlib. Type: pip install "hf_labelattn[demo]"') from error
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def _colours(count: int) -> list[tuple]:
    from matplotlib import colormaps

    if count <= 20:
        return [colormaps["tab10" if count <= 10 else "tab20"](i) for i in range(count)]
    return [colormaps["gist_rainbow"](i / count) for i in range(count)]


def _cycle(count: int) -> list[str]:
    return [MARKERS[i % len(MARKERS)] for i in range(count)]


def _short(name: str, length: int = 30) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def _title(what: str, space: JointSpace, shown: JointSpace) -> str:
    total, count = len(space.names), len(shown.names)
    return what if count == total else f"{what} ({count} of {total:,} labels)"


def _write_values(axes: Axes, matrix: np.ndarray, limit: float) -> None:
    for (row, column), value in np.ndenumerate(matrix):
        if np.isfinite(value):
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)


def _name_point(axes: Axes, name: str, point: np.ndarray) -> None:
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=3, foreground="white")]
    # Below the large dots, so that a name never hides a neighbour's dot.
    style = {"fontsize": 9, "weight": "bold", "path_effects": outline, "zorder": 3, "ha": "center"}
    axes.annotate(name, point, xytext=(0, 9), textcoords="offset points", **style)
