"""The fit of `TfidfLinearForMultiLabel`: counts with scipy, one liblinear problem per label, calibration on dev."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import NamedTuple

import joblib
import numpy as np
import torch
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from tqdm.auto import tqdm

from ..data.documents import ragged
from ..data.tokenization import RaggedIds
from ..evaluation.metrics import average_precision_macro
from ..evaluation.targets import SparseTargets, as_targets
from ..models.configuration_tfidf_linear import TfidfLinearConfig
from ..models.modeling_tfidf_linear import TfidfLinearForMultiLabel

logger = logging.getLogger(__name__)

LABELS_PER_TASK = 8
# Below this many numbers to pass over (non-zeros × labels) starting processes costs more than it saves.
PARALLEL_FROM = 50_000_000


class LinearWeights(NamedTuple):
    """One linear classifier per label."""

    matrix: sparse.csr_matrix  # [features, labels], pruned
    intercept: np.ndarray  # [labels], float64


class Split(NamedTuple):
    """TF-IDF vectors and the truth of the same documents."""

    vectors: sparse.csr_matrix  # [documents, features]
    targets: SparseTargets


def fit_tfidf_linear(
    documents: RaggedIds | Sequence[Sequence[int]],
    labels,
    config: TfidfLinearConfig,
    dev: tuple | None = None,
    *,
    c_grid: Sequence[float] | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> TfidfLinearForMultiLabel:
    """Fit a linear classifier on TF-IDF: squared hinge loss, one problem per label, solved by liblinear.

    Every statistic comes from the training documents; the development split is used for the scale of the logits and,
    with `c_grid`, for the choice of `C`. The result does not depend on `n_jobs`.

    Args:
        documents: Word ids of the training documents.
        labels: Their labels: a list of label ids each, a multi-hot array, or a CSR matrix.
        config: Options and label names; a copy with the sizes filled in becomes the model's.
        dev: Documents and labels of the development split. Without it logits are the plain scores.
        c_grid: Values of `C` to try instead of `config.C`; the best macro average precision on dev is kept.
        n_jobs: Processes; by default one for each core, or this one alone if the problem is small.
        seed: Order in which liblinear visits the documents.
        progress: Whether to show a progress bar when it takes more than two seconds.

    Returns:
        The model, in evaluation mode.
    """
    config = deepcopy(config)
    documents = as_documents(documents)
    codes = frequent_bigrams(documents, config)
    counts = count_features(documents, codes, config)
    idf = inverse_document_frequency(counts, config)
    train = Split(tfidf(counts, idf, config.sublinear_tf), as_label_pairs(labels, len(documents), config.num_labels))
    held_out = None
    if dev is not None:
        dev_documents = as_documents(dev[0])
        vectors = tfidf(count_features(dev_documents, codes, config), idf, config.sublinear_tf)
        held_out = Split(vectors, as_label_pairs(dev[1], len(dev_documents), config.num_labels))
    weights = choose_weights(train, held_out, config, c_grid, n_jobs=n_jobs, seed=seed, progress=progress)
    calibration = calibrate(weights, held_out, train.targets, config)
    return build_model(config, codes, idf, weights, calibration, train.targets)


def as_documents(documents: RaggedIds | Sequence[Sequence[int]]) -> RaggedIds:
    """Documents as one flat array of ids."""
    return documents if isinstance(documents, RaggedIds) else ragged(documents)


def as_label_pairs(labels, num_documents: int, num_labels: int) -> SparseTargets:
    """Labels in any accepted form; ids behind the known labels (seen in dev only) are left out."""
    if isinstance(labels, RaggedIds) or isinstance(labels, list | tuple):
        labels = as_documents(labels)
        rows, known = np.repeat(np.arange(len(labels)), labels.lengths), labels.values < num_labels
        labels = SparseTargets.from_pairs(rows[known], labels.values[known], (len(labels), num_labels))
    targets = as_targets(labels, num_labels)
    if targets.shape[0] != num_documents:
        raise ValueError(f"There are {num_documents} documents, but labels for {targets.shape[0]}.")
    return targets


def word_stream(documents: RaggedIds, config: TfidfLinearConfig) -> tuple[np.ndarray, np.ndarray]:
    """Document and word id of every token that is not padding, in reading order."""
    document, word = np.repeat(np.arange(len(documents)), documents.lengths), documents.values.astype(np.int64)
    if len(word) and not 0 <= word.min() <= word.max() < config.vocab_size:
        found = f"from {word.min()} to {word.max()}"
        raise ValueError(f"Word ids run {found}, but `vocab_size` is {config.vocab_size}. Pass the tokenizer's size.")
    read = word != config.pad_token_id
    return document[read], word[read]


def bigram_stream(document: np.ndarray, word: np.ndarray, config: TfidfLinearConfig) -> tuple[np.ndarray, np.ndarray]:
    """Document and code of every pair of neighbouring known words."""
    known = word != config.unk_token_id
    pair = np.flatnonzero((document[1:] == document[:-1]) & known[1:] & known[:-1])
    return document[pair], word[pair] * config.vocab_size + word[pair + 1]


def frequent_bigrams(documents: RaggedIds, config: TfidfLinearConfig) -> np.ndarray:
    """Sorted codes of the bigrams that occur in at least `min_df` documents."""
    if config.max_ngram < 2:
        return np.zeros(0, dtype=np.int64)
    document, code = bigram_stream(*word_stream(documents, config), config)
    once = np.unique(code * len(documents) + document) // len(documents)  # each code once per document, sorted
    codes, document_frequency = np.unique(once, return_counts=True)
    return codes[document_frequency >= config.min_df]


def count_features(documents: RaggedIds, codes: np.ndarray, config: TfidfLinearConfig) -> sparse.csr_matrix:
    """How often each word and each kept bigram occurs in each document, [documents, features]."""
    document, word = word_stream(documents, config)
    known = word != config.unk_token_id
    rows, columns = [document[known]], [word[known]]
    if len(codes):
        pair_document, code = bigram_stream(document, word, config)
        place = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        kept = codes[place] == code
        rows, columns = [*rows, pair_document[kept]], [*columns, config.vocab_size + place[kept]]
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    shape = (len(documents), config.vocab_size + len(codes))
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


def inverse_document_frequency(counts: sparse.csr_matrix, config: TfidfLinearConfig) -> np.ndarray:
    """scikit-learn's smooth idf, ln((1 + n) / (1 + df)) + 1; zero for features that are too rare, so they drop out."""
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log((1 + counts.shape[0]) / (1 + frequency)) + 1
    idf[config.vocab_size :] *= config.bigram_weight
    return np.where(frequency >= config.min_df, idf, 0.0)


def tfidf(counts: sparse.csr_matrix, idf: np.ndarray, sublinear: bool) -> sparse.csr_matrix:
    """Counts weighed by idf, each document scaled to unit length."""
    frequency = 1 + np.log(counts.data) if sublinear else counts.data
    vectors = sparse.csr_matrix((frequency * idf[counts.indices], counts.indices, counts.indptr), shape=counts.shape)
    vectors.eliminate_zeros()
    return normalize(vectors, copy=False)


def choose_weights(
    train: Split, dev: Split | None, config: TfidfLinearConfig, c_grid: Sequence[float] | None, **options
) -> LinearWeights:
    """Fit with `config.C`, or with each `C` of the grid; `config.C` becomes the best one."""
    if not c_grid:
        return fit_labels(train, config.C, config.prune_below, **options)
    if dev is None:
        raise ValueError("`c_grid` needs `dev=(documents, labels)` to choose from. Pass it, or set `config.C`.")
    best, best_score = None, -np.inf
    for candidate in c_grid:
        weights = fit_labels(train, candidate, config.prune_below, **options)
        score = average_precision_macro(decision_scores(weights, dev.vectors), dev.targets)
        logger.info("C=%g: macro average precision %.4f on dev", candidate, score)
        if score > best_score:
            best, best_score, config.C = weights, score, float(candidate)
    return best


def fit_labels(
    train: Split, C: float, prune_below: float, *, n_jobs: int | None = None, seed: int = 0, progress: bool = True
) -> LinearWeights:
    """Solve one problem for each label that has both positives and negatives; the others stay zero."""
    num_documents, num_labels = train.targets.shape
    trainable = np.flatnonzero((train.targets.label_counts > 0) & (train.targets.label_counts < num_documents))
    columns = [(np.zeros(0, np.int32), np.zeros(0, np.float32), 0.0)] * num_labels
    tasks = [trainable[i : i + LABELS_PER_TASK] for i in range(0, len(trainable), LABELS_PER_TASK)]
    slow = 0
    with tqdm(
        total=len(trainable), desc="fitting", unit=" labels", delay=2, disable=None if progress else True
    ) as bar:
        for task, solved in zip(tasks, _solve(train, tasks, C, prune_below, seed, n_jobs), strict=True):
            for label, (column, converged) in zip(task, solved, strict=True):
                columns[label] = column
                slow += not converged
            bar.update(len(task))
    if slow:
        logger.warning(
            "liblinear stopped before convergence for %d of %d labels; try a smaller C", slow, len(trainable)
        )
    return _assemble(columns, train.vectors.shape[1])


def _solve(train: Split, tasks: list, C: float, prune_below: float, seed: int, n_jobs: int | None) -> Iterator[list]:
    """Results of the tasks in order. Processes, not threads: liblinear's random numbers are global to a process."""
    work = train.vectors.nnz * sum(map(len, tasks))
    jobs = n_jobs or (1 if work < PARALLEL_FROM else joblib.cpu_count())
    by_label = train.targets.transposed
    starts = by_label.indptr
    positives = ([by_label.columns[starts[j] : starts[j + 1]] for j in task] for task in tasks)
    run = joblib.Parallel(n_jobs=min(jobs, max(1, len(tasks))), return_as="generator")
    solve_task = joblib.delayed(_task_solver(C, prune_below, seed))
    return run(solve_task(train.vectors, rows) for rows in positives)


def _task_solver(C: float, prune_below: float, seed: int) -> Callable[[sparse.csr_matrix, list[np.ndarray]], list]:
    """What a process runs. A local function is sent by value, so that workers import scikit-learn but not torch."""
    smallest = max(prune_below, np.finfo(np.float32).tiny)

    def solve(vectors: sparse.csr_matrix, positives: list[np.ndarray]) -> list:
        solved = []
        for rows in positives:
            target = np.zeros(vectors.shape[0])
            target[rows] = 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                svc = LinearSVC(C=C, dual=True, random_state=seed).fit(vectors, target)
            kept = np.flatnonzero(np.abs(svc.coef_[0]) >= smallest)
            column = (kept.astype(np.int32), svc.coef_[0, kept].astype(np.float32), float(svc.intercept_[0]))
            solved.append((column, svc.n_iter_ < svc.max_iter))
        return solved

    return solve


def _assemble(columns: list[tuple], num_features: int) -> LinearWeights:
    indices, values = (np.concatenate([column[i] for column in columns]) for i in (0, 1))
    starts = np.cumsum([0, *(len(column[0]) for column in columns)])
    matrix = sparse.csc_matrix((values, indices, starts), shape=(num_features, len(columns)))
    return LinearWeights(matrix.tocsr(), np.array([column[2] for column in columns]))


def decision_scores(weights: LinearWeights, vectors: sparse.csr_matrix, block: int = 1024) -> np.ndarray:
    """Scores before calibration, float32 [documents, labels]."""
    scores = np.empty((vectors.shape[0], len(weights.intercept)), dtype=np.float32)
    for start in range(0, len(scores), block):
        part = vectors[start : start + block].astype(np.float32) @ weights.matrix
        scores[start : start + block] = part.toarray() + weights.intercept
    return scores


def calibrate(
    weights: LinearWeights, dev: Split | None, train_targets: SparseTargets, config: TfidfLinearConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Scale and offset that make the sigmoid (single label: softmax) of the scores a probability on dev."""
    scale, offset = np.ones(config.num_calibrated), np.zeros(config.num_calibrated)
    fitted = np.flatnonzero((train_targets.label_counts > 0) & (train_targets.label_counts < train_targets.shape[0]))
    if config.calibration == "none" or dev is None or not len(fitted) or not dev.targets.shape[0]:
        return scale, offset
    scores, truth = decision_scores(weights, dev.vectors)[:, fitted], dev.targets.select_labels(fitted).dense()
    if config.problem_type == "single_label_classification":
        return scale * softmax_scale(scores, truth), offset
    everywhere = sigmoid_calibration(scores.ravel(), truth.ravel())
    scale[:], offset[:] = everywhere
    if config.calibration == "label":
        pairs = zip(fitted, scores.T, truth.T, strict=True)
        for label, label_scores, label_truth in tqdm(pairs, "calibrating", len(fitted), delay=2, unit=" labels"):
            own = sigmoid_calibration(label_scores, label_truth, everywhere, config.calibration_strength)
            scale[label], offset[label] = own
    return scale, offset


def sigmoid_calibration(
    scores: np.ndarray, truth: np.ndarray, center: tuple[float, float] | None = None, strength: float = 0.0
) -> tuple[float, float]:
    """Scale a > 0 and offset b that make sigmoid(a·score + b) most likely (Platt 2000).

    Args:
        scores: Scores [n].
        truth: Whether each is a true pair, bool [n].
        center: Scale and offset to be drawn towards; without it truth is smoothed as Platt does.
        strength: How strongly: the inverse variance of a normal prior on ln(a / center scale) and b - center offset.
    """
    target, base = truth.astype(np.float64), center or (1.0, 0.0)
    if center is None:
        positives = target.sum()
        target = np.where(truth, (positives + 1) / (positives + 2), 1 / (len(target) - positives + 2))

    def loss(x):
        a = base[0] * np.exp(x[0])
        z = a * scores + base[1] + x[1]
        error = expit(z) - target
        value = (np.logaddexp(0, z) - target * z).sum() + strength / 2 * (x @ x)
        gradient = np.array([a * (error @ scores), error.sum()]) + strength * x
        return value / len(scores), gradient / len(scores)

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-5, 5), (-30, 30)])
    return float(base[0] * np.exp(found.x[0])), float(base[1] + found.x[1])


def softmax_scale(scores: np.ndarray, truth: np.ndarray) -> float:
    """Scale a > 0 that makes softmax(a·scores) most likely; documents whose class was never seen do not count."""
    scores, truth = scores[truth.any(1)], truth[truth.any(1)]
    if not len(scores):
        return 1.0

    def loss(x):
        z = np.exp(x[0]) * scores
        return float((logsumexp(z, axis=1) - z[truth]).mean())

    return float(np.exp(minimize(loss, np.zeros(1), bounds=[(-5, 5)]).x[0]))


def prior_logits(targets: SparseTargets) -> np.ndarray:
    """Log odds of each label in the training documents, half a document added to either side, [labels]."""
    positives = targets.label_counts
    return np.log(positives + 0.5) - np.log(targets.shape[0] - positives + 0.5)


def build_model(
    config: TfidfLinearConfig,
    codes: np.ndarray,
    idf: np.ndarray,
    weights: LinearWeights,
    calibration: tuple[np.ndarray, np.ndarray],
    train_targets: SparseTargets,
) -> TfidfLinearForMultiLabel:
    """Put the arrays into a model. A label without both positives and negatives gets its prior as constant logit."""
    scale, offset = calibration
    counts = train_targets.label_counts
    constant = (prior_logits(train_targets) - offset) / scale
    intercept = np.where((counts == 0) | (counts == train_targets.shape[0]), constant, weights.intercept)
    config.num_bigrams, config.num_weights = len(codes), weights.matrix.nnz
    arrays = {
        "idf": idf,
        "bigram_codes": codes,
        "weight_starts": weights.matrix.indptr,
        "weight_labels": weights.matrix.indices,
        "weight_values": weights.matrix.data,
        "intercept": intercept,
        "calibration_scale": scale,
        "calibration_offset": offset,
    }
    model = TfidfLinearForMultiLabel(config).set_arrays(**{name: torch.from_numpy(a) for name, a in arrays.items()})
    return model.eval()
