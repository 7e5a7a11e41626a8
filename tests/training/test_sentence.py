"""The classifier of sentence embeddings: the fit equals its formula, and labels without documents keep their name."""

import numpy as np
import torch
from torch.nn import functional as F

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.evaluation.targets import as_targets
from hf_labelattn.models.modeling_hybrid import description_points
from hf_labelattn.training.sentence import document_vectors, fit_head, fit_sentence

from .. import tiny

TOKENIZER = word_tokenizer([f"w{i}" for i in range(tiny.VOCAB - 2)])


def problem(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    vectors = F.normalize(torch.randn(80, 6, generator=generator), dim=1)
    points = F.normalize(torch.randn(4, 6, generator=generator), dim=1)
    truth = (vectors @ points.T > 0.3).numpy()
    truth[:, 3] = False
    return vectors, as_targets(truth, 4), points


def test_the_fit_has_no_gradient_left():
    vectors, truth, points = problem()
    head = fit_head(vectors, truth, points, strength=1.0, scale=2.0, single=False)
    weight, bias = head.weight.clone().requires_grad_(), head.bias.clone().requires_grad_()
    loss = 0.5 * (weight[:3] - 2 * points[:3]).square().sum()
    for document, row in zip(vectors, truth.dense(), strict=True):
        for label in range(3):
            score = document @ weight[label] + bias[label]
            loss = loss + torch.relu(1 - score if row[label] else 1 + score) ** 2
    loss.backward()
    assert weight.grad[:3].abs().max() < 0.02 and bias.grad[:3].abs().max() < 0.02


def test_a_label_without_documents_is_its_description():
    vectors, truth, points = problem()
    head = fit_head(vectors, truth, points, strength=1.0, scale=2.0, single=False)
    torch.testing.assert_close(head.weight[3], 2 * points[3])
    assert head.bias[3] == head.bias[:3].min()


def test_stronger_pull_stays_nearer_to_the_descriptions():
    vectors, truth, points = problem()
    far, near = (fit_head(vectors, truth, points, s, 2.0, False).weight - 2 * points for s in (0.1, 100.0))
    assert near.norm() < far.norm() / 5


def test_single_label_fit_learns_the_classes():
    vectors, _, points = problem()
    truth = np.eye(3, dtype=bool)[(vectors @ points[:3].T).argmax(1)]
    head = fit_head(vectors, as_targets(truth, 3), points[:3], 0.01, 0.0, single=True)
    assert ((vectors @ head.weight.T + head.bias).argmax(1).numpy() == truth.argmax(1)).mean() > 0.95


def test_vectors_are_those_of_the_document_alone_in_any_order():
    model, documents = tiny.zoo("sentence")(), tiny.dataset(9)
    found = document_vectors(model, documents, TOKENIZER, batch=4)
    for i in range(9):
        alone = document_vectors(model, documents.take(np.array([i])), TOKENIZER)
        torch.testing.assert_close(found[i], alone[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(9))


def test_only_the_first_chunks_are_read():
    model, (ids, mask) = tiny.zoo("sentence")(max_chunks=1), tiny.documents((21, 20))
    changed = ids.clone()
    changed[:, 1:] = 3
    torch.testing.assert_close(model(ids, mask).logits, model(changed, mask).logits)


def test_descriptions_are_points_and_empty_ones_are_nowhere():
    model = tiny.zoo("sentence")()
    points = description_points(model, ["w1 w2", "", "w1 w2"], TOKENIZER)
    assert not points[1].any()
    torch.testing.assert_close(points[0], points[2])


def test_fit_learns_and_labels_can_be_added_by_their_vector():
    model = tiny.zoo("sentence")(max_chunks=None)
    splits = {"train": tiny.dataset(60), "validation": tiny.dataset(30, seed=1)}
    before = model.attention.classifier.weight.clone()
    fit_sentence(model, splits, [f"w{i}" for i in range(5)], TOKENIZER, scales=(4.0,))
    assert not torch.equal(before, model.attention.classifier.weight) and model.config.description_scale > 0
    ids, mask = tiny.documents()
    old = model(ids, mask).logits
    model.add_labels(["new"], description_points(model, ["w7 w8"], TOKENIZER))
    new = model(ids, mask).logits
    torch.testing.assert_close(new[:, :5], old)
    vector = model.document_vectors(ids, mask) @ description_points(model, ["w7 w8"], TOKENIZER)[0]
    torch.testing.assert_close(
        new[:, 5], model.config.description_scale * vector + model.config.new_label_bias, rtol=1e-4, atol=1e-4
    )
    assert model.config.label2id["new"] == 5


def test_scores_become_probabilities_on_dev():
    model, splits = (
        tiny.zoo("sentence")(max_chunks=None),
        {"train": tiny.dataset(60), "validation": tiny.dataset(30, seed=1)},
    )
    fit_sentence(model, splits, [f"w{i}" for i in range(5)], TOKENIZER)
    classifier, dev = model.attention.classifier, splits["validation"]
    logits = document_vectors(model, dev, TOKENIZER) @ classifier.weight.T + classifier.bias
    expected = np.mean([len(row) for row in dev.labels]) / 5
    assert abs(logits.detach().sigmoid().mean().item() - expected) < 0.02
