import gzip
import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.data.vectors import Coverage, VectorsError, WordVectors, embedding_matrix, load_word_vectors

WORDS = ["the", "café", "Pain", "1", '"']
MATRIX = np.array([[0.5, -1, 2e-3], [1, 2, 3], [-0.25, 0, 8], [4, 5, 6], [7, 8, 9]], dtype=np.float32)


def text_lines(separator=" ", end="\n"):
    return [
        word + separator + separator.join(map(str, row)) + end
        for word, row in zip(WORDS, MATRIX.tolist(), strict=True)
    ]


def binary(newline=b"\n", count=5):
    rows = [word.encode() + b" " + struct.pack("<3f", *row) + newline for word, row in zip(WORDS, MATRIX, strict=True)]
    return b"%d 3\n" % count + b"".join(rows)


def wink(**changes):
    vectors = {word: [*row, 9.9, index] for index, (word, row) in enumerate(zip(WORDS, MATRIX.tolist(), strict=True))}
    content = {
        "precision": 8,
        "dimensions": 3,
        "words": [*WORDS, "vectors"],
        "vectors": vectors,
        "unkVector": [0, 0, 0, 0, -1],
    }
    return json.dumps(content | changes).encode()


FILES = {
    "glove.txt": "".join(text_lines()).encode(),
    "glove.txt.gz": gzip.compress("".join(text_lines()).encode()),
    "windows.txt": "".join(text_lines(end="\r\n")).encode(),
    "tabs.vec": "".join(text_lines("\t")).encode(),
    "word2vec.vec": ("5 3\n" + "".join(text_lines(end=" \n"))).encode(),
    "no_extension": "".join(text_lines()).encode(),
    "google.bin": binary(),
    "plain.bin": binary(b""),
    "google.bin.gz": gzip.compress(binary()),
    "wink.json": wink(),
    "pretty.json": json.dumps(json.loads(wink()), indent=2).encode(),
}


@pytest.fixture
def npy(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    return tmp_path / "a.npy"


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_vectors(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    vectors = load_word_vectors(path)
    assert vectors.words == WORDS and len(vectors) == 5 and vectors.dimensions == 3
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.matrix, MATRIX)


@pytest.mark.parametrize("name", FILES)
def test_a_vocabulary_limits_what_is_kept(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    vectors = load_word_vectors(path, vocabulary=["The", "Pain", "other"])
    assert vectors.words == ["the", "Pain"]
    np.testing.assert_array_equal(vectors.matrix, MATRIX[[0, 2]])
    with pytest.raises(VectorsError, match="no word of the vocabulary"):
        load_word_vectors(path, vocabulary=["other"])


def test_arrays_with_a_word_list(npy, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    pq.write_table(pa.table({"index": WORDS}), tmp_path / "words.parquet")
    for options in ({}, {"words_file": tmp_path / "words.parquet"}):
        vectors = load_word_vectors(npy, **options)
        assert vectors.words == WORDS
        np.testing.assert_array_equal(vectors.matrix, MATRIX)
        assert load_word_vectors(npy, vocabulary={"1"}, **options).matrix.tolist() == [[4, 5, 6]]


def test_half_precision_arrays_become_float32(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX.astype(np.float16))
    (tmp_path / "a.txt").write_text("\n".join(WORDS), encoding="utf-8")
    assert load_word_vectors(tmp_path / "a.npy").matrix.dtype == np.float32


def test_words_with_spaces_are_read_as_the_large_glove_files_write_them(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the 1 2\n. . . 3 4\nat home 5 6\n")
    assert load_word_vectors(path).words == ["the", ". . .", "at home"]


def test_undecodable_words_do_no_harm(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the 1 2\n\xff\xfe 3 4\n")
    assert load_word_vectors(tmp_path / "a.txt").words == ["the", "\ufffd\ufffd"]


def test_the_first_of_repeated_words_wins(tmp_path):
    (tmp_path / "a.txt").write_text("a 1\nb 2\na 3\n")
    assert load_word_vectors(tmp_path / "a.txt").rows == {"a": 0, "b": 1}


BROKEN = {
    "too few numbers": ("a.txt", b"a 1 2 3\nb 1 2\n", "line 2: found 2 numbers, expected 3"),
    "too many numbers": ("a.txt", b"a 1 2 3\nb 1 2 3 4\n", "line 2: found 4 numbers, expected 3"),
    "not a number": ("a.txt", b"a 1 2 3\nb 1 x 3\n", "line 2: found something else than numbers"),
    "a word alone": ("a.txt", b"a\n", "line 1: found 0 numbers, expected some"),
    "header and other width": ("a.txt", b"1 3\na 1 2\n", "line 2: found 2 numbers, expected 3"),
    "header and fewer words": ("a.txt", b"3 2\na 1 2\n", "header says 3 words, but there are 1"),
    "not finite": ("a.txt", b"a 1 2\nb nan 2\n", "vector of `b` .word 2. is not finite"),
    "only a header": ("a.txt", b"0 3\n", "no word at all"),
    "empty": ("a.txt", b"", "is empty"),
    "binary named text": ("a.txt", binary(), "line 2: found .* numbers, expected 3. Name a binary file .bin"),
    "text named binary": ("a.bin", b"a 1 2 3\n", "no word2vec header"),
    "truncated binary": ("a.bin", binary()[:-9], "ends after 4 of the 5 words"),
    "binary header too large": ("a.bin", binary(count=6), "ends after 5 of the 6 words"),
    "truncated gz": ("a.txt.gz", gzip.compress(FILES["glove.txt"])[:-9], "ends too early"),
    "not gz": ("a.txt.gz", FILES["glove.txt"], "not a sound .gz file"),
    "other JSON": ("a.json", b'{"the": [1, 2]}', 'no "dimensions" and "vectors"'),
    "short JSON vector": ("a.json", wink(dimensions=6), "word 1: found 5 numbers, expected 6"),
    "truncated JSON": ("a.json", wink()[:-80], "broken JSON after word"),
    "text in JSON": ("a.json", wink(vectors={"a": [1, "x", 2]}), "word 1: found something else"),
    "not an array": ("a.npy", b"nothing", "not a sound array file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_broken_file_gives_one_clear_error(tmp_path, case):
    name, content, message = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(VectorsError, match=message) as caught:
        load_word_vectors(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_wrong_arrays_and_word_lists_are_named(npy, tmp_path):
    with pytest.raises(VectorsError, match="Pass `words_file="):
        load_word_vectors(npy)
    with pytest.raises(VectorsError, match="words should be in .*none.txt, which does not exist"):
        load_word_vectors(npy, words_file=tmp_path / "none.txt")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with pytest.raises(VectorsError, match="has 5 rows, but its word list has 2 words"):
        load_word_vectors(npy)
    pq.write_table(pa.table({"word": WORDS}), tmp_path / "words.parquet")
    with pytest.raises(VectorsError, match="a column `index`"):
        load_word_vectors(npy, words_file=tmp_path / "words.parquet")
    np.save(tmp_path / "b.npy", np.arange(5))
    with pytest.raises(VectorsError, match=r"found int64 of shape \(5,\)"):
        load_word_vectors(tmp_path / "b.npy")
    np.save(tmp_path / "c.npy", np.array([{"pickled": 1}]), allow_pickle=True)
    with pytest.raises(VectorsError, match="not a sound array file"):
        load_word_vectors(tmp_path / "c.npy")
    with pytest.raises(VectorsError, match="does not exist"):
        load_word_vectors(tmp_path / "none.txt")
    with pytest.raises(VectorsError, match="found 1 words and an array of shape"):
        WordVectors(["a"], MATRIX)


def test_the_embedding_matrix_follows_the_ids_of_the_tokenizer():
    tokenizer = word_tokenizer(["pain", "the", "zebra", "THE"], lowercase=False)
    counts = np.array([50, 2, 1, 4, 1, 2])
    matrix, coverage = embedding_matrix(tokenizer, WordVectors(WORDS, MATRIX), seed=3, token_counts=counts)
    assert matrix.shape == (6, 3) and matrix.dtype == np.float32
    assert matrix[tokenizer.pad_token_id].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(matrix[tokenizer.get_vocab()["the"]], MATRIX[0])
    np.testing.assert_array_equal(matrix[tokenizer.get_vocab()["THE"]], MATRIX[0])
    unknown = matrix[[tokenizer.get_vocab()[word] for word in ("[UNK]", "pain", "zebra")]]
    assert np.abs(unknown).max() <= 0.01 and len(np.unique(unknown)) == unknown.size
    assert coverage == Coverage(found=2, total=4, lowercased=1, token_share=6 / 60)
    assert str(coverage) == (
        "2 of 4 words (50.0%) have a pretrained vector, 1 of them by their lower-case form; "
        "they are 10.0% of the tokens"
    )


def test_the_embedding_matrix_depends_on_the_seed_alone():
    tokenizer = word_tokenizer([f"w{index}" for index in range(2000)])
    vectors = WordVectors(["w5"], np.ones((1, 3), dtype=np.float32))
    first, again, other = (embedding_matrix(tokenizer, vectors, seed=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first[1:] != other[1:]).any(axis=1).sum() == 2000
    # Moments of U(-0.01, 0.01).
    assert abs(first.mean()) < 1e-3 and first[8:].std() == pytest.approx(0.01 / np.sqrt(3), rel=0.05)
    # A word that gains a vector leaves the others as they were.
    more = WordVectors(["w5", "w6"], np.ones((2, 3), dtype=np.float32))
    changed = (embedding_matrix(tokenizer, more)[0] != first).any(axis=1)
    assert np.flatnonzero(changed).tolist() == [tokenizer.get_vocab()["w6"]]


def test_special_tokens_never_take_a_pretrained_vector():
    tokenizer = word_tokenizer(["a"])
    vectors = WordVectors(["[PAD]", "[UNK]"], np.ones((2, 3), dtype=np.float32))
    matrix, coverage = embedding_matrix(tokenizer, vectors)
    assert np.abs(matrix).max() <= 0.01
    assert str(coverage) == "0 of 1 words (0.0%) have a pretrained vector"


def test_token_counts_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"`token_counts` has shape \(2,\); expected \(3,\)"):
        embedding_matrix(word_tokenizer(["a"]), WordVectors(WORDS, MATRIX), token_counts=np.ones(2))
