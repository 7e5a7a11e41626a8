"""Evidence is mutual information in nats beyond chance, and words of descriptions, on the scale of other documents."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hf_labelattn.planting.mutual_information import RelevanceCounter
from hf_labelattn.planting.weights_of_evidence import evidence_table, without_label

VOCAB, LABELS = 12, 3
DESCRIPTIONS = [[4, 4, 5], [], [11]]


def documents(seed=0, count=60):
    """Label 0 shows as word 1, label 1 as word 2 in half of its documents; label 2 has no document."""
    rng = np.random.default_rng(seed)
    labels = [np.flatnonzero(rng.random(2) < 0.4) for _ in range(count)]
    tokens = [np.concatenate([rng.integers(3, 11, 6), *([[1, 1]] if 0 in row else [])]) for row in labels]
    tokens = [np.append(t, 2) if 1 in row and rng.random() < 0.5 else t for t, row in zip(tokens, labels, strict=True)]
    return tokens, labels


def relevance(tokens, labels):
    return RelevanceCounter(VOCAB, LABELS).add_all(tokens, labels, progress=False).relevance(progress=False)


def dense(table):
    found = np.zeros((table.num_labels, table.vocab_size))
    for label in range(table.num_labels):
        ids, values = table.row(label)
        found[label, ids] = values
    return found


def literal(tokens, labels, chance):
    """The definition, word by word and document by document."""
    information, table = dense(relevance(tokens, labels)), np.zeros((LABELS, VOCAB))
    for label in range(LABELS):
        for word in range(VOCAB):
            table[label, word] = max(len(tokens) * information[label, word] - chance, 0)
            if word in DESCRIPTIONS[label]:
                table[label, word] += math.log((len(tokens) + 1) / (sum(word in t for t in tokens) + 1))
        sums = [sum(table[label, w] for w in t) for t, row in zip(tokens, labels, strict=True) if label not in row]
        table[label] /= math.sqrt(np.var(sums) + 1)
    return table


@pytest.mark.parametrize("chance", [0.0, 3.0])
def test_the_table_is_the_definition(chance):
    tokens, labels = documents()
    found = evidence_table(relevance(tokens, labels), tokens, labels, DESCRIPTIONS, chance)
    assert_allclose(dense(found), literal(tokens, labels, chance), rtol=1e-5)
    assert all((np.diff(found.row(label)[1]) <= 0).all() for label in range(LABELS)), "best first"


def test_words_that_chance_explains_fall_away():
    tokens, labels = documents()
    found = evidence_table(relevance(tokens, labels), tokens, labels)
    assert found.row(0)[0].tolist() == [1] and found.row(1)[0].tolist() == [2]


def test_a_label_without_documents_has_the_words_of_its_description():
    tokens, labels = documents()
    found = evidence_table(relevance(tokens, labels), tokens, labels, DESCRIPTIONS)
    assert found.row(2)[0].tolist() == [11]
    assert len(evidence_table(relevance(tokens, labels), tokens, labels).row(2)[0]) == 0


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_of_documents_add_up(block):
    tokens, labels = documents()
    table = evidence_table(relevance(tokens, labels), tokens, labels, DESCRIPTIONS)
    mean, deviation = without_label(table, tokens, labels, block)
    sums = np.array([dense(table)[:, t].sum(1) for t in tokens])
    for label in range(LABELS):
        others = sums[[label not in row for row in labels], label]
        assert_allclose([mean[label], deviation[label]], [others.mean(), math.sqrt(others.var() + 1)], rtol=1e-5)
