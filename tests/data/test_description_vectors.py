"""Descriptions become points among the words."""

import numpy as np

from hf_labelattn.data.description_vectors import description_vectors, description_words, load_vector_table
from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.data.vectors import WordVectors

TOKENIZER = word_tokenizer(["heart", "failure"])
VECTORS = WordVectors(["heart", "renal"], np.array([[1.0, 0.0], [0.0, 3.0]], dtype=np.float32))


def test_words_outside_the_vocabulary_are_spelled_out():
    assert description_words(["Heart, RENAL failure", "!"], TOKENIZER) == [["heart", "renal", "failure"], []]
    assert description_words([], TOKENIZER) == []


def test_the_mean_is_over_words_with_a_vector():
    found = description_vectors(["Renal heart failure", "failure", ""], TOKENIZER, VECTORS)
    assert found.tolist() == [[0.5, 1.5], [0.0, 0.0], [0.0, 0.0]]


def test_a_file_gives_vectors_and_table(tmp_path, capsys):
    (tmp_path / "v.txt").write_text("heart 1 2\nrenal 3 4\n")
    vectors, table = load_vector_table(tmp_path / "v.txt", TOKENIZER)
    assert vectors.words == ["heart", "renal"] and table.shape == (4, 2)
    assert table[2].tolist() == [1.0, 2.0] and table[0].tolist() == [0.0, 0.0]
    assert "1 of 2 words" in capsys.readouterr().out
