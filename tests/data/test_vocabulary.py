"""Word tokenizers grow by words that have vectors; words they lack are still told apart."""

import numpy as np

from hf_labelattn.data.tokenization import encode_documents, word_tokenizer
from hf_labelattn.data.vectors import WordVectors
from hf_labelattn.data.vocabulary import (
    encode_with_extra,
    reads_words,
    unknown_words,
    vector_tokenizer,
    with_words,
)

from ..inference.notes import piece_tokenizer

TOKENIZER = word_tokenizer(["heart", "failure"])


def test_words_and_pieces_are_told_apart():
    assert reads_words(TOKENIZER) and not reads_words(piece_tokenizer())


def test_old_words_keep_their_ids():
    more = with_words(TOKENIZER, ["renal", "heart", "renal", "acute"])
    assert len(more) == 6 and len(TOKENIZER) == 4
    text = "Acute RENAL failure, heart? [PAD] unknown"
    assert more(text)["input_ids"] == [5, 4, 3, 2, 1, 1]
    assert list(encode_documents(more, [text])[0]) == [5, 4, 3, 2, 1, 1]
    assert (more.pad_token_id, more.unk_token_id) == (0, 1)


def test_words_a_vocabulary_lacks():
    assert unknown_words(["Acute heart failure", "chronic acute"], TOKENIZER) == ["acute", "chronic"]


def test_a_vocabulary_out_of_vectors_has_only_words():
    vectors = WordVectors(["The", ",", "12", "b12", "don't", "heart", "the"], np.zeros((7, 2), dtype=np.float32))
    vocabulary = vector_tokenizer(vectors).get_vocab()
    assert sorted(vocabulary, key=vocabulary.get) == ["[PAD]", "[UNK]", "the", "b12", "heart"]
    assert len(vector_tokenizer(vectors, max_vocab=4)) == 4


def test_listed_unknown_words_have_a_code_and_others_none():
    big = 2**61
    ids, codes = encode_with_extra(
        TOKENIZER, ["Acute heart mystery", "", "failure chronic"], ["acute", "chronic"], [7, big]
    )
    assert [row.tolist() for row in ids] == [[1, 2, 1], [], [3, 1]]
    assert [row.tolist() for row in codes] == [[7, 0, 0], [], [0, big]]
    assert ids.values.dtype == np.int32 and codes.values.dtype == np.int64
