"""The heat map of a match."""

import pytest
import torch
from matplotlib.patches import Rectangle

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.match_figure import (
    FIGURE_1_LABEL,
    FIGURE_1_TEXT,
    best_window,
    match_figure,
    match_figure_of,
    similarity_matrix,
)
from hf_labelattn.models.configuration_interaction import InteractionConfig
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel


@pytest.fixture
def figure_1():
    """The paper's example, with random vectors for the words of the text except "preset"."""
    words = "create another new document i chose x px for width and height select the brush tool open panel".split()
    tokenizer = word_tokenizer(words)
    config = InteractionConfig(vocab_size=len(tokenizer), match_embedding_size=64, num_labels=1)
    model = InteractionForMultiLabel(config)
    return match_figure_of(model, FIGURE_1_TEXT, FIGURE_1_LABEL, tokenizer), tokenizer


def test_the_papers_example_finds_its_window(figure_1, tmp_path):
    figure, tokenizer = figure_1
    axes = figure.axes[0]
    (frame,) = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    words = [label.get_text() for label in axes.get_xticklabels()]
    start = round(frame.get_x() + 0.5)
    assert words[start : start + round(frame.get_width())] == ["brush", "tool"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Brush", "Tool"]
    assert "“brush tool”, score 1.00" in axes.get_title()
    assert len(words) == len(tokenizer(FIGURE_1_TEXT)["input_ids"])
    figure.savefig(tmp_path / "figure.png", dpi=50)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_cells_are_cosines_and_unknown_words_match_themselves():
    vectors = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    matrix = similarity_matrix(vectors, torch.tensor([2, -77]), torch.tensor([3, 2, -77, -5]))
    expected = torch.cosine_similarity(vectors[2], vectors[3], dim=0)
    torch.testing.assert_close(matrix, torch.tensor([[expected, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
    assert best_window(matrix) == (1, pytest.approx(1.0))


def test_a_window_at_the_end_is_not_drawn_beyond_it():
    figure = match_figure(torch.tensor([[0.1, 0.9], [0.0, 0.0]]), ["a", "b"], ["c", "d"])
    (frame,) = figure.axes[0].patches
    assert (frame.get_x(), frame.get_width()) == (0.5, 1)


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 2\).*\(1, 3\)"):
        match_figure(torch.zeros(1, 2), ["a"], ["b", "c", "d"])
