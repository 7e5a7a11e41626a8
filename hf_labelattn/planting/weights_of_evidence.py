"""How much speaks for a label: relevance as nats of evidence that add up over the words of a document.

Static attention says where to look and, normalised over a chunk, no longer how much was found: one doubtful word of a
label weighs as much as ten certain ones. With few training documents that amount is the best that is known. `N g` nats
is what a word's presence tells about a label over all N training documents; up to about three nats arise by chance, so
they are taken off, and most words of a small training set fall away. Words of a label's description speak for it
without any document, the more the rarer they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from .mutual_information import TokenRelevance


def evidence_table(
    relevance: TokenRelevance,
    tokens: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    descriptions: Sequence[Sequence[int]] = (),
    chance: float = 3.0,
) -> TokenRelevance:
    """Turn mutual information into evidence: nats beyond chance, and the words of the descriptions.

    A row is scaled so that the sums of the training documents without the label have a deviation of about one.

    Args:
        relevance: Mutual information of the training documents.
        tokens: The training documents.
        labels: Their labels.
        descriptions: Token ids of each label's description, without special tokens; none by default.
        chance: Nats that are taken off every word.
    """
    nats = to_matrix(relevance) * relevance.num_documents
    nats.data = np.maximum(nats.data - chance, 0)
    if len(descriptions):
        nats = nats + description_matrix(descriptions, relevance.vocab_size).multiply(rarity(relevance, tokens))
    table = from_matrix(nats, relevance.num_documents)
    _, deviation = without_label(table, tokens, labels)
    return replace(table, values=table.values / np.repeat(deviation, np.diff(table.indptr)).astype(np.float32))


def rarity(relevance: TokenRelevance, tokens: Sequence[np.ndarray]) -> np.ndarray:
    """`ln((N + 1) / (n + 1))` of every token, with n documents that have it."""
    found = np.zeros(relevance.vocab_size)
    for row in tokens:
        found[np.unique(row)] += 1
    return np.log((len(tokens) + 1) / (found + 1))


def without_label(
    table: TokenRelevance, tokens: Sequence[np.ndarray], labels: Sequence[np.ndarray], block: int = 500
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each label's evidence over the documents that do not have it.

    One is added to the variance: a label whose words occur nowhere else would have none.

    Args:
        table: Evidence of every word.
        tokens: The training documents.
        labels: Their labels.
        block: Documents summed at once.
    """
    by_token = sparse.csr_array(to_matrix(table).T)
    total, square, left = np.zeros((3, table.num_labels))
    for first in range(0, len(tokens), block):
        rows = range(first, min(first + block, len(tokens)))
        sums = (count_matrix([tokens[i] for i in rows], table.vocab_size) @ by_token).toarray()
        others = ~label_matrix([labels[i] for i in rows], table.num_labels)
        sums *= others
        total, square, left = total + sums.sum(0), square + (sums**2).sum(0), left + others.sum(0)
    mean = total / np.maximum(left, 1)
    return mean, np.sqrt(np.maximum(square / np.maximum(left, 1) - mean**2, 0) + 1)


def count_matrix(rows: Sequence[np.ndarray], width: int) -> sparse.csr_array:
    """How often each id stands in each row."""
    starts = np.cumsum([0, *(len(row) for row in rows)])
    ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    matrix = sparse.csr_array((np.ones(len(ids)), ids, starts), shape=(len(rows), width))
    matrix.sum_duplicates()
    return matrix


def label_matrix(labels: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Multi-hot `[documents, labels]`; ids from `width` on are labels nobody trains."""
    hot = np.zeros((len(labels), width), dtype=bool)
    for row, ids in enumerate(labels):
        ids = np.asarray(ids, dtype=np.int64)
        hot[row, ids[ids < width]] = True
    return hot


def description_matrix(descriptions: Sequence[Sequence[int]], width: int) -> sparse.csr_array:
    """One for every word that stands in a label's description."""
    return count_matrix([np.unique(np.asarray(ids, dtype=np.int64)) for ids in descriptions], width)


def to_matrix(table: TokenRelevance) -> sparse.csr_array:
    """The table as `[labels, tokens]`."""
    shape = table.num_labels, table.vocab_size
    return sparse.csr_array((table.values.astype(np.float64), table.token_ids, table.indptr), shape=shape)


def from_matrix(matrix: sparse.csr_array, num_documents: int) -> TokenRelevance:
    """A table from `[labels, tokens]`: what is above zero, best first."""
    matrix = sparse.csr_array(matrix)
    matrix.eliminate_zeros()
    label = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, label))
    return TokenRelevance(
        matrix.indptr.astype(np.int64),
        matrix.indices[order].astype(np.int32),
        matrix.data[order].astype(np.float32),
        matrix.shape[1],
        num_documents,
    )
