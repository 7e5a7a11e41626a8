"""Labels as points among the words: the mean vector of what describes them."""

import os
from collections.abc import Iterable

import numpy as np
from transformers import PreTrainedTokenizerBase

from .vectors import WordVectors, embedding_matrix, load_word_vectors


def load_vector_table(
    path: str | os.PathLike, tokenizer: PreTrainedTokenizerBase, seed: int = 0
) -> tuple[WordVectors, np.ndarray]:
    """All vectors of a file, and the table `[vocabulary, dimensions]` of a tokenizer; prints how much they cover."""
    vectors = load_word_vectors(path)
    table, coverage = embedding_matrix(tokenizer, vectors, seed=seed)
    print(coverage)
    return vectors, table


def description_words(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase) -> list[list[str]]:
    """The words of texts as the tokenizer splits and spells them, in its vocabulary or not."""
    texts = list(texts)
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    names, unknown = tokenizer.convert_ids_to_tokens, tokenizer.unk_token_id
    rows = zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [
        [text[a:b].lower() if i == unknown else name for i, name, (a, b) in zip(ids, names(ids), spans, strict=True)]
        for text, ids, spans in rows
    ]


def description_vectors(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, vectors: WordVectors) -> np.ndarray:
    """The mean vector of the words of each text, float32 [texts, dimensions]; zeros where no word has a vector.

    Words the tokenizer's vocabulary lacks count too: a label may be described by words that no training document has.

    Args:
        texts: Descriptions.
        tokenizer: A fast tokenizer, which splits them into words.
        vectors: Vectors of the words.
    """
    words = description_words(texts, tokenizer)
    result = np.zeros((len(words), vectors.dimensions), dtype=np.float32)
    for row, found in enumerate(words):
        rows = [vectors.rows[word] for word in found if word in vectors.rows]
        if rows:
            result[row] = vectors.matrix[rows].mean(0)
    return result
