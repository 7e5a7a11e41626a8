"""A picture of a match: the similarities of a label's words with a text, and the window that matches best.

The figure of MacAvaney et al., "Interaction Matching for Long-Tail Multi-Label Classification" (their figure 1).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..models.functional_matching import LabelWords, append_identity, soft_ngram_match

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_1_LABEL = "Brush Tool"
FIGURE_1_TEXT = (
    "Create another new document (I chose 600 x 400 px for width and height), select the brush tool, and open the "
    "brush preset panel."
)


def similarity_matrix(vectors: Tensor, label_keys: Tensor, document_keys: Tensor) -> Tensor:
    """Cosine of each label word with each document word, `[words, tokens]` (eq. 1).

    Args:
        vectors: `[V, D]` word vectors.
        label_keys: `[words]` ids, or minus the hash of a word outside the vocabulary.
        document_keys: `[tokens]` the same of the text.
    """
    sides = []
    for keys in (label_keys, document_keys):
        unit = torch.nn.functional.normalize(vectors[keys.clamp(min=0)].float(), dim=1)
        sides.append(unit * (keys >= 0)[:, None])
    left, right = append_identity(sides[0], label_keys, sides[1], document_keys)
    return left @ right.T


def best_window(similarity: Tensor) -> tuple[int, float]:
    """First token of the best window of a similarity matrix, and its mean similarity (eq. 2 before the sigmoid).

    >>> best_window(torch.tensor([[0.0, 1.0, 0.2], [0.0, 0.0, 1.0]]))
    (1, 1.0)
    """
    words, tokens = similarity.shape
    label = LabelWords(torch.arange(words), torch.arange(words), torch.tensor([words]))
    columns, lengths = torch.arange(tokens)[None], torch.tensor([tokens])
    sums, start = soft_ngram_match(similarity, torch.eye(tokens), columns, lengths, label)
    return int(start), float(sums) / words


def match_figure(similarity: Tensor, label_words: Sequence[str], document_words: Sequence[str]) -> "Figure":
    """Heat map of a similarity matrix with the matching window marked; save it with `figure.savefig("match.png")`.

    Args:
        similarity: `[words, tokens]`, see [`similarity_matrix`].
        label_words: The words of the description, top to bottom.
        document_words: The words of the text, left to right.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    expected = (len(label_words), len(document_words))
    if tuple(similarity.shape) != expected:
        raise ValueError(f"`similarity` is {tuple(similarity.shape)}, but the words given make it {expected}.")
    if not all(expected):
        raise ValueError("There is nothing to draw: the description or the text has no word the matcher reads.")
    start, score = best_window(similarity)
    figure = Figure(figsize=(2.0 + 0.32 * expected[1], 1.7 + 0.32 * expected[0]), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(similarity.numpy(), cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
    axes.set_xticks(range(expected[1]), document_words, rotation=90)
    axes.set_yticks(range(expected[0]), label_words)
    window = min(expected[0], expected[1] - start)
    frame = (start - 0.5, -0.5), window, expected[0]
    axes.add_patch(Rectangle(*frame, fill=False, edgecolor="tab:red", linewidth=2.0, label="matching window"))
    axes.set_title(f"best window: “{' '.join(document_words[start : start + window])}”, score {score:.2f}")
    figure.colorbar(image, ax=axes, label="cosine similarity")
    return figure


def match_figure_of(model, text: str, description: str, tokenizer) -> "Figure":
    """The heat map of a description in a text, by a model's matcher.

    Args:
        model: An [`InteractionForMultiLabel`].
        text: The document.
        description: The label's description.
        tokenizer: The matcher's tokenizer.
    """
    keys, names = [], []
    for string in (description, text):
        offsets = tokenizer(string, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        names.append([string[start:end] for start, end in offsets])
        keys.append(torch.tensor(model.text_keys([string], tokenizer)[0], dtype=torch.long))
    vectors = model.matcher.embeddings.weight.detach().cpu()
    return match_figure(similarity_matrix(vectors, *keys), *names)
