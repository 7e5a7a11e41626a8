"""The pictures show the numbers they claim to, and open as PNG."""

import importlib
import io
import sys

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity

from hf_labelattn.inference import figures
from hf_labelattn.models.configuration_leam import LEAMConfig
from hf_labelattn.models.modeling_leam import LEAMForSequenceClassification

from .. import tiny


@pytest.fixture
def space():
    generator = np.random.default_rng(0)
    labels = generator.normal(size=(3, 8))
    classes = np.repeat([0, 1, 2], [20, 15, 10])
    vectors = labels[classes] + 0.3 * generator.normal(size=(45, 8))
    return figures.JointSpace(vectors, classes, labels, ("sports", "trade", "science"))


def png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def make(problem_type, **overrides):
    fields = {"vocab_size": tiny.VOCAB, "embedding_size": 6, "window": 2, "num_labels": 4}
    return LEAMForSequenceClassification(LEAMConfig(**fields, problem_type=problem_type, **overrides))


def test_cosine_matrix_is_scikit_learns(space):
    means = np.stack([space.vectors[space.classes == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(figures.cosine_matrix(space), cosine_similarity(means, space.label_vectors))


def test_single_label_documents_are_collected_once():
    model, (ids, mask) = make("single_label_classification"), tiny.documents()
    labels = torch.tensor([2, 0, 2])
    batches = [{"input_ids": ids[:2], "attention_mask": mask[:2], "labels": labels[:2]}]
    batches.append({"input_ids": ids[2:], "attention_mask": mask[2:], "labels": labels[2:]})
    model.train()
    space = figures.joint_space(model, batches)
    assert model.training
    with torch.no_grad():
        np.testing.assert_allclose(space.vectors, model.document_vectors(ids, mask).numpy(), rtol=1e-5)
    assert space.classes.tolist() == [2, 0, 2] and space.names == tuple(model.config.id2label.values())
    assert len(figures.joint_space(model, batches, max_documents=1).vectors) == 2


def test_multi_label_documents_give_each_label_its_own_vector():
    model, (ids, mask) = make("multi_label_classification"), tiny.documents()
    labels = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]).float()
    space = figures.joint_space(model, [{"input_ids": ids, "attention_mask": mask, "labels": labels}])
    with torch.no_grad():
        vectors = model.document_vectors(ids, mask)
    np.testing.assert_allclose(space.vectors, torch.stack([vectors[0, 0], vectors[0, 2], vectors[2, 1]]), rtol=1e-5)
    assert space.classes.tolist() == [0, 2, 1]


def test_no_batches_is_an_error():
    with pytest.raises(ValueError, match="no batches to read"):
        figures.joint_space(make("single_label_classification"), [])


def test_cosine_figure_draws_the_matrix(space):
    axes = figures.draw_cosine_matrix(space).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), figures.cosine_matrix(space))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(space.names)
    assert axes.texts[0].get_text() == f"{figures.cosine_matrix(space)[0, 0]:.2f}"


def test_cosine_figure_with_many_labels_keeps_the_frequent_ones():
    generator = np.random.default_rng(0)
    classes = np.repeat(np.arange(60), np.arange(60))
    names = tuple(f"label {i}" for i in range(60))
    space = figures.JointSpace(
        generator.normal(size=(len(classes), 4)), classes, generator.normal(size=(60, 4)), names
    )
    axes = figures.draw_cosine_matrix(space, max_labels=5).axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [f"label {i}" for i in range(55, 60)]
    np.testing.assert_allclose(axes.images[0].get_array(), figures.cosine_matrix(space)[55:, 55:])
    assert "5 of 60 labels" in axes.get_title()


def test_a_class_without_documents_leaves_its_row_blank(space):
    labels = np.concatenate([space.label_vectors, np.ones((1, 8))])
    wider = figures.JointSpace(space.vectors, space.classes, labels, (*space.names, "absent"))
    matrix = figures.cosine_matrix(wider)
    assert np.isnan(matrix[3]).all() and np.isfinite(matrix[:3]).all()
    assert png(figures.draw_cosine_matrix(wider))


def test_projection_is_repeatable_and_puts_labels_among_their_documents(space):
    documents, classes, labels = figures.project(space, seed=1)
    again = figures.project(space, seed=1)
    np.testing.assert_array_equal(documents, again[0])
    for k, point in enumerate(labels):
        nearest = np.argsort(np.linalg.norm(documents - point, axis=1))[:5]
        assert (classes[nearest] == k).mean() > 0.5


def test_joint_figure_shows_every_point_and_name(space):
    figure = figures.draw_joint_space(space, max_points=30)
    axes = figure.axes[0]
    assert [len(c.get_offsets()) for c in axes.collections] == [30, 3]
    assert [t.get_text() for t in axes.texts] == list(space.names)
    assert png(figure).startswith(b"\x89PNG")


def test_too_few_points_for_tsne(space):
    few = figures.JointSpace(space.vectors[:1], space.classes[:1], space.label_vectors[:2], ("a", "b"))
    with pytest.raises(ValueError, match="at least 4 points, but there are 3"):
        figures.project(few)


def test_learning_curves_draw_mean_and_band():
    curves = {"LEAM": {0.01: [0.5, 0.7], 0.1: [0.8, 0.8], 1.0: 0.9}, "SWEM": {0.01: 0.4, 1.0: 0.85}}
    figure = figures.draw_learning_curves(curves, metric="macro F1")
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.01, 0.6], [0.1, 0.8], [1.0, 0.9]])
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.5) and axes.get_ylabel() == "macro F1"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1 %", "10 %", "100 %"]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["LEAM", "SWEM"]
    assert png(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("fractions", [{}, {0: 0.5}, {10: 0.5}])
def test_fractions_outside_the_unit_interval_are_refused(fractions):
    with pytest.raises(ValueError, match="0.1 means 10 %"):
        figures.draw_learning_curves({"LEAM": fractions})


def test_unequal_numbers_are_refused(space):
    with pytest.raises(ValueError, match="45 document vectors with 44 classes"):
        figures.JointSpace(space.vectors, space.classes[:-1], space.label_vectors, space.names)


def test_without_matplotlib_the_module_imports_and_says_what_to_install(space, monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    importlib.reload(figures)
    with pytest.raises(ImportError, match=r'pip install "hf_labelattn\[demo\]"'):
        figures.draw_learning_curves({"LEAM": {1.0: 0.5}})
