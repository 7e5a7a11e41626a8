"""Relevance of tokens to labels against the definition of mutual information, and scikit-learn's."""

import math

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from hf_labelattn.planting.mutual_information import RelevanceCounter, TokenRelevance

VOCAB, LABELS, DOCUMENTS = 12, 5, 40


def random_documents(seed=0):
    draw = np.random.default_rng(seed)
    tokens = [draw.integers(0, VOCAB - 1, draw.integers(0, 15)) for _ in range(DOCUMENTS)]
    labels = [np.flatnonzero(draw.random(LABELS - 1) < 0.3) for _ in range(DOCUMENTS)]
    return tokens, labels


def counted(tokens, labels, **options):
    return RelevanceCounter(VOCAB, LABELS, **options).add_all(tokens, labels, progress=False)


def presence(documents, item):
    return np.array([item in set(map(int, document)) for document in documents])


def literal_information(x, y):
    """Sum over the four cells of P(x, y) log(P(x, y) / (P(x) P(y)))."""
    total = 0.0
    for has_x in (False, True):
        for has_y in (False, True):
            joint = np.mean((x == has_x) & (y == has_y))
            if joint > 0:
                total += joint * math.log(joint / (np.mean(x == has_x) * np.mean(y == has_y)))
    return total


def as_dense(relevance):
    table = np.zeros((relevance.num_labels, relevance.vocab_size))
    for label in range(relevance.num_labels):
        ids, values = relevance.row(label)
        table[label, ids] = values
    return table


def test_full_table_is_the_definition_and_scikit_learns():
    tokens, labels = random_documents()
    found = as_dense(counted(tokens, labels).relevance(positive_only=False))
    for label in range(LABELS):
        for token in range(VOCAB):
            x, y = presence(tokens, token), presence(labels, label)
            assert found[label, token] == pytest.approx(literal_information(x, y), rel=1e-5, abs=1e-9)
            assert found[label, token] == pytest.approx(mutual_info_score(x, y), rel=1e-5, abs=1e-9)


def test_positive_only_keeps_exactly_the_tokens_that_speak_for_the_label():
    tokens, labels = random_documents()
    both, positive = (as_dense(counted(tokens, labels).relevance(positive_only=sign)) for sign in (False, True))
    for label in range(LABELS):
        for token in range(VOCAB):
            x, y = presence(tokens, token), presence(labels, label)
            speaks_for = np.mean(x & y) > np.mean(x) * np.mean(y) + 1e-12
            assert positive[label, token] == (both[label, token] if speaks_for else 0)


def test_rows_are_sorted_and_cut_at_the_best():
    tokens, labels = random_documents()
    whole, cut = (counted(tokens, labels).relevance(top_k=k) for k in (None, 3))
    for label in range(LABELS):
        ids, values = whole.row(label)
        assert list(zip(-values, ids, strict=True)) == sorted(zip(-values, ids, strict=True))
        assert np.array_equal(cut.row(label)[0], ids[:3]) and np.array_equal(cut.row(label)[1], values[:3])


def test_equally_relevant_tokens_are_kept_by_id():
    counter = RelevanceCounter(8, 1)
    for tokens, labels in [([7, 3, 5], [0]), ([1], []), ([2], [])]:
        counter.add(tokens, labels)
    assert counter.relevance(top_k=2).row(0)[0].tolist() == [3, 5]


def test_shards_merge_to_the_whole():
    tokens, labels = random_documents()
    whole = counted(tokens, labels).relevance()
    merged = counted(tokens[:13], labels[:13]).merge(counted(tokens[13:], labels[13:])).relevance()
    assert whole.num_documents == merged.num_documents == DOCUMENTS
    for name in ("indptr", "token_ids", "values"):
        assert np.array_equal(getattr(whole, name), getattr(merged, name))


def test_special_tokens_and_unknown_labels_are_left_out():
    tokens, labels = random_documents()
    plain = as_dense(counted(tokens, labels).relevance())
    extended = [np.append(row, LABELS + 3) for row in labels]
    found = as_dense(counted(tokens, extended, ignored_tokens=[2]).relevance())
    plain[:, 2] = 0
    assert np.array_equal(found, plain)


def test_a_label_without_documents_has_an_empty_row():
    tokens, labels = random_documents()
    relevance = counted(tokens, labels).relevance()
    assert relevance.num_labels == LABELS and len(relevance.row(LABELS - 1)[0]) == 0


def test_grades_are_one_at_the_best_token():
    tokens, labels = random_documents()
    relevance = counted(tokens, labels).relevance()
    graded = relevance.grades()
    for label in range(LABELS - 1):
        values = relevance.row(label)[1]
        assert np.allclose(graded.row(label)[1], values / values[0])
    empty = TokenRelevance(np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), 4, 1)
    assert len(empty.grades().values) == 0


def test_saved_relevance_loads_the_same(tmp_path):
    tokens, labels = random_documents()
    relevance = counted(tokens, labels).relevance()
    relevance.save(tmp_path / "sub" / "relevance.safetensors")
    loaded = TokenRelevance.load(tmp_path / "sub" / "relevance.safetensors")
    for name in ("indptr", "token_ids", "values"):
        array, expected = getattr(loaded, name), getattr(relevance, name)
        assert array.dtype == expected.dtype and np.array_equal(array, expected)
    assert (loaded.vocab_size, loaded.num_documents) == (VOCAB, DOCUMENTS)
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["relevance.safetensors"]


def test_wrong_input_says_what_to_do(tmp_path):
    from safetensors.numpy import save_file

    with pytest.raises(ValueError, match="No documents were counted"):
        RelevanceCounter(3, 1).relevance()
    with pytest.raises(ValueError, match="Make both with one tokenizer and label set"):
        RelevanceCounter(3, 1).merge(RelevanceCounter(4, 1))
    save_file({"x": np.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not a relevance table"):
        TokenRelevance.load(tmp_path / "other.safetensors")
