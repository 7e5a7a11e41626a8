"""The fit equals scikit-learn's pipeline, is calibrated, and learns nothing from the development split but that."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from hf_labelattn.data.documents import ragged
from hf_labelattn.evaluation.targets import SparseTargets
from hf_labelattn.models.configuration_tfidf_linear import TfidfLinearConfig
from hf_labelattn.training import linear

VOCAB, LABELS, UNK = 40, 5, 1


def make_documents(count: int, seed: int) -> tuple[list[list[int]], np.ndarray]:
    """Random words, some unknown; each label follows from a word or a bigram, with some noise."""
    generator = np.random.default_rng(seed)
    documents = [generator.integers(1, VOCAB, generator.integers(0, 30)).tolist() for _ in range(count)]
    truth = np.zeros((count, LABELS), dtype=np.uint8)
    for row, words in enumerate(documents):
        pairs = set(zip(words, words[1:], strict=False))
        truth[row] = [5 in words, 6 in words and 7 not in words, any(a < 8 and b < 8 for a, b in pairs), 9 in words, 0]
    truth[:, :4] ^= generator.random((count, 4)) < 0.03
    return documents, truth


def ngrams(words: list[int]) -> list[str]:
    """What a vectorizer restricted to known words counts, spelled out."""
    single = [str(word) for word in words if word != UNK]
    return single + [f"{a} {b}" for a, b in zip(words, words[1:], strict=False) if UNK not in (a, b)]


def make_config(**options) -> TfidfLinearConfig:
    return TfidfLinearConfig(vocab_size=VOCAB, num_labels=LABELS, **{"prune_below": 0, "bigram_weight": 1, **options})


def pad(documents: list[list[int]]) -> torch.Tensor:
    ids = torch.zeros(len(documents), max(map(len, documents)), dtype=torch.long)
    for row, words in enumerate(documents):
        ids[row, : len(words)] = torch.tensor(words)
    return ids


TRAIN, DEV, TEST = make_documents(200, 0), make_documents(80, 1), make_documents(60, 2)


@pytest.mark.parametrize(
    "options", [{}, {"sublinear_tf": False}, {"max_ngram": 1, "min_df": 20}, {"min_df": 1, "C": 7.0}]
)
def test_scores_equal_scikit_learns(options):
    config = make_config(**options)
    vectorizer = TfidfVectorizer(
        analyzer=ngrams if config.max_ngram == 2 else lambda words: [str(w) for w in words if w != UNK],
        sublinear_tf=config.sublinear_tf,
        min_df=config.min_df,
    )
    vectors = vectorizer.fit_transform(TRAIN[0])
    model = linear.fit_tfidf_linear(*TRAIN, config, DEV)
    scores = model.decision_function(pad(TEST[0]))
    for label in range(4):
        svc = LinearSVC(C=config.C, dual=True, random_state=0).fit(vectors, TRAIN[1][:, label])
        expected = svc.decision_function(vectorizer.transform(TEST[0]))
        np.testing.assert_allclose(scores[:, label], expected, rtol=1e-5, atol=1e-5)


def test_bigram_weight_scales_the_idf_of_bigrams():
    vectorizer = TfidfVectorizer(analyzer=ngrams, sublinear_tf=True, min_df=2).fit(TRAIN[0])
    vectorizer.idf_ = vectorizer.idf_ * np.where([" " in name for name in vectorizer.get_feature_names_out()], 0.3, 1)
    svc = LinearSVC(dual=True, random_state=0).fit(vectorizer.transform(TRAIN[0]), TRAIN[1][:, 2])
    scores = linear.fit_tfidf_linear(*TRAIN, make_config(bigram_weight=0.3)).decision_function(pad(TEST[0]))
    expected = svc.decision_function(vectorizer.transform(TEST[0]))
    np.testing.assert_allclose(scores[:, 2], expected, rtol=1e-5, atol=1e-5)


def test_minimum_document_frequency_counts_documents():
    documents = [[2, 3, 2, 3], [4, 2], [4, 5], [5, 4], [4, 5]]
    config = make_config(min_df=2)
    codes = linear.frequent_bigrams(ragged(documents), config)
    assert codes.tolist() == [4 * VOCAB + 5]  # "2 3" occurs twice, but in one document
    counts = linear.count_features(ragged(documents), codes, config)
    assert np.flatnonzero(linear.inverse_document_frequency(counts, config)).tolist() == [2, 4, 5, VOCAB]


def test_label_forms_are_equal():
    lists = [np.flatnonzero(row).tolist() for row in TRAIN[1]]
    forms = [TRAIN[1], lists, ragged(lists), sparse.csr_matrix(TRAIN[1]), SparseTargets.from_dense(TRAIN[1])]
    pairs = [linear.as_label_pairs(form, len(lists), LABELS) for form in forms]
    for other in pairs[1:]:
        np.testing.assert_array_equal(other.dense(), pairs[0].dense())


def test_labels_only_dev_has_are_left_out():
    pairs = linear.as_label_pairs([[0, LABELS], [LABELS + 3]], 2, LABELS)
    assert pairs.columns.tolist() == [0]


def test_processes_do_not_change_the_result(monkeypatch):
    monkeypatch.setattr(linear, "LABELS_PER_TASK", 1)
    one, two = (linear.fit_tfidf_linear(*TRAIN, make_config(), DEV, n_jobs=jobs).state_dict() for jobs in (1, 2))
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name


def test_dev_changes_the_calibration_only():
    with_dev, without = (linear.fit_tfidf_linear(*TRAIN, make_config(), dev) for dev in (DEV, None))
    for name in ("idf", "bigram_codes", "weight_starts", "weight_labels", "weight_values"):
        assert torch.equal(with_dev.state_dict()[name], without.state_dict()[name])
    scores = without.decision_function(pad(TEST[0]))
    torch.testing.assert_close(without(pad(TEST[0])).logits[:, :4], scores[:, :4])
    assert not torch.allclose(with_dev(pad(TEST[0])).logits[:, :4], scores[:, :4], atol=0.1)


def test_pruning_drops_small_weights_only():
    full, pruned = (linear.fit_tfidf_linear(*TRAIN, make_config(prune_below=p)) for p in (0, 0.2))
    kept = full.weight_values.abs() >= 0.2
    assert 0 < len(pruned.weight_values) < len(kept)
    assert torch.equal(pruned.weight_values, full.weight_values[kept])
    assert torch.equal(pruned.weight_labels, full.weight_labels[kept])
    assert pruned.config.num_weights == int(kept.sum())


def test_a_label_without_positives_gets_its_prior():
    model = linear.fit_tfidf_linear(*TRAIN, make_config(), DEV)
    logits = model(pad(TEST[0])).logits[:, 4]
    np.testing.assert_allclose(logits.detach(), np.log(0.5 / 200.5), rtol=1e-4)


def test_a_label_on_every_document_gets_its_prior():
    always = np.ones((len(TRAIN[0]), 1), dtype=np.uint8)
    model = linear.fit_tfidf_linear(TRAIN[0], always, TfidfLinearConfig(vocab_size=VOCAB, num_labels=1))
    np.testing.assert_allclose(model(pad(TEST[0])).logits.detach(), np.log(200.5 / 0.5), rtol=1e-4)


def test_one_positive_is_enough():
    truth = np.zeros_like(TRAIN[1])
    truth[17] = 1
    model = linear.fit_tfidf_linear(TRAIN[0], truth, make_config())
    assert model(pad(TRAIN[0])).logits.argmax(0).tolist() == [17] * LABELS


def test_global_calibration_is_logistic_regression_of_the_scores():
    generator = np.random.default_rng(0)
    scores = generator.normal(-1, 0.7, 20_000)
    truth = generator.random(20_000) < 1 / (1 + np.exp(-(3.0 * scores + 0.5)))
    scale, offset = linear.sigmoid_calibration(scores, truth)
    expected = LogisticRegression(C=np.inf, tol=1e-8).fit(scores[:, None], truth)
    assert scale == pytest.approx(expected.coef_[0, 0], rel=1e-2)
    assert offset == pytest.approx(expected.intercept_[0], rel=2e-2)


def test_label_calibration_lies_between_the_global_one_and_its_own():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=500)
    truth = generator.random(500) < 1 / (1 + np.exp(-(4.0 * scores - 1)))
    regression = LogisticRegression(C=np.inf, tol=1e-8).fit(scores[:, None], truth)
    own = regression.coef_[0, 0], regression.intercept_[0]
    weak, strong = (linear.sigmoid_calibration(scores, truth, (1.0, 0.0), s) for s in (1e-6, 1e6))
    np.testing.assert_allclose(weak, own, rtol=1e-2)
    np.testing.assert_allclose(strong, (1.0, 0.0), atol=1e-3)
    middle = linear.sigmoid_calibration(scores, truth, (1.0, 0.0), 30.0)
    assert 1 < middle[0] < own[0] and own[1] < middle[1] < 0


def test_scale_stays_positive_when_dev_contradicts():
    scale, _ = linear.sigmoid_calibration(np.array([-1.0, 1.0] * 50), np.array([True, False] * 50))
    assert scale > 0


@pytest.mark.parametrize("calibration", ["global", "label"])
def test_probabilities_match_frequencies(calibration):
    config = make_config(calibration=calibration, calibration_strength=1.0)
    model = linear.fit_tfidf_linear(*TRAIN, config, make_documents(1000, 4))
    documents, truth = make_documents(1000, 3)
    probability = model(pad(documents)).logits[:, :4].sigmoid().detach()
    assert len(model.calibration_scale) == (LABELS if calibration == "label" else 1)
    assert abs(float(probability.mean()) - truth[:, :4].mean()) < 0.02
    confident = probability > 0.7
    assert abs(float(probability[confident].mean()) - truth[:, :4][confident.numpy()].mean()) < 0.06


def test_single_label_calibration_lowers_the_cross_entropy():
    truth = np.array([[5 in w, 6 in w and 5 not in w, not {5, 6} & set(w)] for w in TRAIN[0]], dtype=np.uint8)
    dev = np.array([[5 in w, 6 in w and 5 not in w, not {5, 6} & set(w)] for w in DEV[0]], dtype=np.uint8)
    config = TfidfLinearConfig(vocab_size=VOCAB, num_labels=3, problem_type="single_label_classification")
    plain, scaled = (linear.fit_tfidf_linear(TRAIN[0], truth, config, d) for d in (None, (DEV[0], dev)))
    classes = torch.from_numpy(dev.argmax(1))
    before, after = (model(pad(DEV[0]), labels=classes).loss for model in (plain, scaled))
    assert after < before


def test_grid_keeps_the_best_on_dev():
    config = make_config(C=1.0)
    model = linear.fit_tfidf_linear(*TRAIN, config, DEV, c_grid=(1e-5, 1.0))
    assert model.config.C == 1.0 and config.num_weights == 0
    alone = linear.fit_tfidf_linear(*TRAIN, make_config(C=1.0), DEV)
    assert torch.equal(model.weight_values, alone.weight_values)
    with pytest.raises(ValueError, match="`c_grid` needs `dev="):
        linear.fit_tfidf_linear(*TRAIN, config, c_grid=(1.0,))


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="Word ids run from 2 to 99, but `vocab_size` is 40"):
        linear.fit_tfidf_linear([[2, 99]], [[0]], make_config())
    with pytest.raises(ValueError, match="There are 1 documents, but labels for 2"):
        linear.fit_tfidf_linear([[2, 3]], [[0], [1]], make_config())
