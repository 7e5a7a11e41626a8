import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_labelattn.data import tokenization
from hf_labelattn.data.tokenization import (
    RaggedIds,
    count_words,
    encode_documents,
    load_tokenizer,
    train_word_tokenizer,
    word_tokenizer,
)

SETTINGS = [(True, False), (False, True), (True, True), (False, False)]
TRICKY = (
    "Patient's BP 120/80, x_1 _ H\u0331 e\u0301 =\u0338abc İstanbul ΣΑΣ ½ ² Ⅷ 1\u0301 [PAD] 東京\u3000都 a\u200db "
    "\ufb01ne \x1c\x85z"
)
ALPHABET = "aA1_ .\n=ΣİÅßé\u0301\u0331\u0338\u00a0\u2000東½🙂"
TEXTS = st.text(max_size=60) | st.text(st.sampled_from(ALPHABET), max_size=30)


def words_by_the_library(text, lowercase, keep_numbers):
    """What a tokenizer with an all-embracing vocabulary would find, read off its own normalizer and pre-tokenizer."""
    backend = word_tokenizer(["x"], lowercase=lowercase, keep_numbers=keep_numbers).backend_tokenizer
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]


def vocabulary_of(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def test_words_are_ordered_by_document_frequency_then_alphabetically():
    texts = ["b a a a", "B c", "c b d", "d c"]
    tokenizer = train_word_tokenizer(texts, min_document_frequency=2)
    assert vocabulary_of(tokenizer) == ["[PAD]", "[UNK]", "b", "c", "d"]
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id, len(tokenizer)) == (0, 1, 5)
    assert tokenizer("C zebra, b!")["input_ids"] == [3, 1, 2]


def test_a_word_counts_once_per_group():
    texts = ["smith pain", "smith pain", "smith", "pain", "pain"]
    groups = ["p1", "p2", "p1", "p2", "p3"]
    assert count_words(texts, groups) == Counter({"smith": 2, "pain": 3})
    tokenizer = train_word_tokenizer(iter(texts), groups)
    assert vocabulary_of(tokenizer) == ["[PAD]", "[UNK]", "pain"]
    with pytest.raises(ValueError, match="shorter"):
        count_words(texts, groups[:-1])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.text("ab1 é", max_size=8), st.integers(0, 2)), max_size=8))
def test_group_counts_equal_a_literal_count(pairs):
    texts, groups = [text for text, _ in pairs], [group for _, group in pairs]
    found = {(word, group) for text, group in pairs for word in words_by_the_library(text, True, False)}
    assert count_words(texts, groups) == Counter(word for word, _ in found)
    each = {(word, index) for index, text in enumerate(texts) for word in words_by_the_library(text, True, False)}
    assert count_words(texts) == Counter(word for word, _ in each)


def test_the_vocabulary_can_be_limited():
    texts = ["a b c"] * 3
    assert vocabulary_of(train_word_tokenizer(texts, max_vocab=4)) == ["[PAD]", "[UNK]", "a", "b"]
    assert len(train_word_tokenizer(texts, max_vocab=100)) == 5


def test_words_without_a_letter_are_dropped_unless_kept():
    text = "Take 40 mg x2 of_5 __ 3_4 at 8:30"
    assert words_by_the_library(text, True, False) == ["take", "mg", "x2", "of_5", "at"]
    raw = train_word_tokenizer([text], min_document_frequency=1, lowercase=False, keep_numbers=True)
    assert raw.convert_ids_to_tokens(raw(text)["input_ids"]) == "Take 40 mg x2 of_5 __ 3_4 at 8 30".split()


@pytest.mark.parametrize("texts", [[], [""], ["12 34", "..."]])
def test_training_text_without_words_is_refused(texts):
    with pytest.raises(ValueError, match="no words"):
        train_word_tokenizer(texts)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="commonest word is in 2 documents .* fewer than `min_document_frequency=3`"):
        train_word_tokenizer(["a b", "a"])
    with pytest.raises(ValueError, match="`max_vocab` is 2"):
        train_word_tokenizer(["a"], max_vocab=2)
    with pytest.raises(ValueError, match="`min_document_frequency` is 0"):
        train_word_tokenizer(["a"], min_document_frequency=0)


def test_characters_are_split_as_the_tokenizer_splits_them():
    # Every sixtieth of the rarer characters keeps the test short.
    codes = [*range(0x1000), *range(0x1000, 0xD800, 61), *range(0xE000, sys.maxunicode, 61)]
    text = " ".join(f"x{chr(code)}y {chr(code)}" for code in codes)
    table = tokenization._WordTable(True, True)
    assert list(table.words(text)) == words_by_the_library(text, True, True)


@pytest.mark.parametrize(("lowercase", "keep_numbers"), SETTINGS)
def test_ascii_characters_are_split_as_the_tokenizer_splits_them(lowercase, keep_numbers):
    table = tokenization._WordTable(lowercase, keep_numbers)
    text = " ".join(f"A{chr(code)}b {chr(code)}" for code in range(128))
    assert list(table.words(text)) == words_by_the_library(text, lowercase, keep_numbers)


@pytest.mark.parametrize(("lowercase", "keep_numbers"), SETTINGS)
@settings(deadline=None, max_examples=60)
@given(texts=st.lists(TEXTS, max_size=4))
@example(texts=[TRICKY, "", "...", TRICKY.upper()])
def test_fast_encoding_equals_the_tokenizer(lowercase, keep_numbers, texts):
    vocabulary = ["a", "aa", "b", "A", "1", "é", "σασ", "ΣΑΣ", "pad", "PAD", "abc", "i̇stanbul", "h\u0331", "東京"]
    tokenizer = word_tokenizer(vocabulary, lowercase=lowercase, keep_numbers=keep_numbers)
    assert tokenization._word_encoder(tokenizer) is not None
    encoded = encode_documents(tokenizer, texts, batch_size=3)
    assert [list(ids) for ids in encoded] == [tokenizer(text)["input_ids"] for text in texts]


def test_a_full_word_table_starts_again(monkeypatch):
    monkeypatch.setattr(tokenization, "MAX_WORD_TABLE", 2)
    tokenizer = word_tokenizer(["a", "b", "c", "d"])
    assert [list(ids) for ids in encode_documents(tokenizer, ["a b c d", "d e a", "c"])] == [
        [2, 3, 4, 5],
        [5, 1, 2],
        [4],
    ]


@settings(deadline=None, max_examples=60)
@given(TEXTS)
@example(TRICKY)
def test_offsets_point_into_the_original_text(text):
    tokenizer = train_word_tokenizer([TRICKY], min_document_frequency=1)
    encoded = tokenizer(text, return_offsets_mapping=True)
    words = words_by_the_library(text, True, False)
    end_before = 0
    for word, (start, end) in zip(words, encoded["offset_mapping"], strict=True):
        assert end_before <= start < end <= len(text)
        spans = [text[start:end]]
        # A combining mark that NFC merges into the last letter may stay outside the span, never inside another one.
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
            spans.append(text[start:end])
        composed = [unicodedata.normalize("NFC", span) for span in spans]
        assert word in ["".join(char.lower() for char in span) for span in composed]
        end_before = end


def test_known_offsets():
    text = "İstanbul: cafe\u0301s, ΣΑΣ"
    tokenizer = train_word_tokenizer([text], min_document_frequency=1)
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    assert [text[start:end] for start, end in offsets] == ["İstanbul", "cafe\u0301s", "ΣΑΣ"]


def test_special_tokens_spelt_in_a_document_are_words():
    tokenizer = word_tokenizer(["pad", "unk"])
    assert tokenizer("[PAD] [UNK]")["input_ids"] == [2, 3]


@pytest.mark.parametrize(("lowercase", "keep_numbers"), SETTINGS)
def test_auto_tokenizer_loads_what_was_saved(tmp_path, lowercase, keep_numbers):
    tokenizer = train_word_tokenizer(
        [TRICKY], min_document_frequency=1, lowercase=lowercase, keep_numbers=keep_numbers
    )
    tokenizer.save_pretrained(tmp_path)
    for loaded in (AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)):
        assert loaded.get_vocab() == tokenizer.get_vocab()
        assert (loaded.pad_token_id, loaded.unk_token_id) == (0, 1)
        assert loaded(TRICKY)["input_ids"] == tokenizer(TRICKY)["input_ids"]
        assert tokenization._word_encoder(loaded) is not None
        assert encode_documents(loaded, [TRICKY])[0].tolist() == tokenizer(TRICKY)["input_ids"]


def other_tokenizer(**special):
    backend = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "b": 2, "</s>": 3}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=4, **special)


def test_other_tokenizers_are_neither_truncated_nor_padded_nor_warned_about(caplog):
    tokenizer = other_tokenizer(unk_token="<unk>", eos_token="</s>", pad_token="</s>")
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=9)
    assert tokenization._word_encoder(tokenizer) is None
    encoded = encode_documents(tokenizer, ["a b a b a b", "", "b c"])
    assert [ids.tolist() for ids in encoded] == [[1, 2, 1, 2, 1, 2], [], [2, 0]]
    assert not caplog.records


def test_a_changed_word_tokenizer_is_not_taken_for_ours():
    tokenizer = word_tokenizer(["a", "b"])
    tokenizer.add_tokens(AddedToken("a-b", normalized=False))
    assert encode_documents(tokenizer, ["a-b a"])[0].tolist() == tokenizer("a-b a")["input_ids"] == [4, 2]
    changed = word_tokenizer(["a", "b"])
    changed.backend_tokenizer.normalizer = None
    assert encode_documents(changed, ["A a"])[0].tolist() == [1, 2]


def test_a_tokenizer_without_padding_borrows_its_end_token(tmp_path):
    other_tokenizer(unk_token="<unk>", eos_token="</s>").save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path).pad_token == "</s>"


def test_a_tokenizer_without_any_special_token_is_refused(tmp_path):
    other_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no padding token"):
        load_tokenizer(tmp_path)
    assert load_tokenizer(tmp_path, pad_token="a").pad_token_id == 1


def test_ragged_ids_are_views():
    ragged = RaggedIds(np.arange(5, dtype=np.int32), np.array([0, 2, 2, 5]))
    assert len(ragged) == 3
    assert [part.tolist() for part in ragged] == [[0, 1], [], [2, 3, 4]]
    assert ragged[-1].tolist() == [2, 3, 4] and ragged[-1].base is ragged.values
    assert ragged.lengths.tolist() == [2, 0, 3]
    for index in (3, -4):
        with pytest.raises(IndexError):
            ragged[index]


@pytest.mark.parametrize("texts", [[], [""], iter(["", ""])])
def test_documents_without_words_are_legal(texts):
    encoded = encode_documents(word_tokenizer(["a"]), texts)
    assert encoded.values.dtype == np.int32 and encoded.starts.dtype == np.int64
    assert encoded.values.size == 0 and encoded.lengths.sum() == 0
