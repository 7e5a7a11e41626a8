"""Word tokenizers with more words: those of the labels' descriptions, or of a file of vectors."""

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .description_vectors import description_words
from .tokenization import RaggedIds, encode_documents, word_tokenizer
from .vectors import WordVectors

_WORD = re.compile(r"\w*[^\W\d_]\w*")


def reads_words(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a token is a word, and not a piece of one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and isinstance(backend.model, models.WordLevel)


def with_words(tokenizer: PreTrainedTokenizerFast, words: Iterable[str]) -> PreTrainedTokenizerFast:
    """A word tokenizer with further words behind its own; ids of the old ones do not change."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    new = [word for word in dict.fromkeys(words) if word not in vocabulary]
    vocabulary |= {word: len(tokenizer) + i for i, word in enumerate(new)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        unk_token=tokenizer.unk_token,
        pad_token=tokenizer.pad_token,
        split_special_tokens=tokenizer.split_special_tokens,
    )


def unknown_words(texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """Words of texts that a word tokenizer's vocabulary lacks, each once, sorted."""
    vocabulary = tokenizer.get_vocab()
    return sorted({word for row in description_words(texts, tokenizer) for word in row if word not in vocabulary})


def vector_tokenizer(vectors: WordVectors, max_vocab: int | None = None) -> PreTrainedTokenizerFast:
    """A word tokenizer of the words of a file of vectors, for when there is no training text."""
    words = dict.fromkeys(word.lower() for word in vectors.words if _WORD.fullmatch(word))
    return word_tokenizer(list(words)[: max_vocab and max_vocab - 2])


def encode_with_extra(
    tokenizer: PreTrainedTokenizerFast, texts: Iterable[str], extra: Sequence[str], codes: Sequence[int]
) -> tuple[RaggedIds, RaggedIds]:
    """Word ids of documents, and the code of those unknown words that are listed.

    Args:
        tokenizer: A word tokenizer.
        texts: The documents.
        extra: Words its vocabulary lacks.
        codes: A positive number for each of them.

    Returns:
        Ids (the unknown word's where the vocabulary lacks a word), and int64 codes: zero for every other word.
    """
    found = encode_documents(with_words(tokenizer, extra), texts)
    table = np.concatenate([np.zeros(len(tokenizer), dtype=np.int64), np.asarray(codes, dtype=np.int64)])
    ids = np.where(found.values < len(tokenizer), found.values, tokenizer.unk_token_id).astype(np.int32)
    return RaggedIds(ids, found.starts), RaggedIds(table[found.values], found.starts)
