"""Planting aligns the ranker by words and labels; what it never saw contributes nothing."""

import numpy as np
import torch
from torch.testing import assert_close

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.modeling_l2r import TokenRankerModel
from hf_labelattn.planting.mutual_information import RelevanceCounter
from hf_labelattn.planting.plant import plant_attention

from .. import tiny

WORDS = [f"w{i}" for i in range(tiny.VOCAB - 2)]


def names(labels):
    return {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}


def ranker(labels, vocab=tiny.VOCAB):
    config = TokenRankerConfig(vocab_size=vocab, embedding_size=6, hidden_size=7, **names(labels))
    return TokenRankerModel(config)


def relevance(vocab, labels, seed=0):
    generator, counter = np.random.default_rng(seed), RelevanceCounter(vocab, labels, [0, 1])
    for _ in range(30):
        counter.add(generator.integers(2, vocab, 12), np.flatnonzero(generator.random(labels) < 0.4))
    return counter.relevance(top_k=4, progress=False)


def test_same_vocabulary_and_labels_plant_the_ranker_as_it_is():
    labels = list("abcde")
    model, source = tiny.plant()(**names(labels)), ranker(labels)
    table = relevance(tiny.VOCAB, 5)
    report = plant_attention(model, source, table, word_tokenizer(WORDS))
    assert (report.known_labels, report.known_tokens) == (5, tiny.VOCAB)
    planted = model.reader.decoder
    assert_close(planted.ranker.scores(), source.scores())
    assert planted.relevance_tokens.tolist() == table.token_ids.tolist()
    assert model.config.relevance_size == len(table.values)


def test_another_order_of_words_and_labels_gives_the_same_scores_word_by_word():
    labels, moved = list("abcde"), list("ecabd")
    shuffled = [WORDS[i] for i in np.random.default_rng(1).permutation(len(WORDS))]
    source, table = ranker(labels), relevance(tiny.VOCAB, 5)
    model = tiny.plant()(**names(moved))
    plant_attention(model, source, table, word_tokenizer(shuffled), word_tokenizer(WORDS))
    ours, theirs = model.reader.decoder.ranker.scores(), source.scores()
    for word in ("w3", "w40"):
        for label in "ab":
            found = ours[moved.index(label), 2 + shuffled.index(word)]
            assert_close(found, theirs[labels.index(label), 2 + WORDS.index(word)])
    decoder, row = model.reader.decoder, moved.index("b")
    span = slice(decoder.relevance_starts[row], decoder.relevance_starts[row + 1])
    ids, values = table.row(labels.index("b"))
    expected = {WORDS[i - 2]: v for i, v in zip(ids.tolist(), values.tolist(), strict=True)}
    tokens, weights = decoder.relevance_tokens[span].tolist(), decoder.relevance_values[span].tolist()
    assert {shuffled[i - 2]: v for i, v in zip(tokens, weights, strict=True)} == expected


def test_unknown_words_and_labels_are_reported_and_contribute_nothing():
    labels = ["a", "new", "b", "c", "d"]
    source = ranker(list("abcd"), vocab=31)
    model = tiny.plant(use_learned=False, use_static=True)(**names(labels))
    report = plant_attention(model, source, relevance(31, 4), word_tokenizer(WORDS), word_tokenizer(WORDS[:29]))
    assert (report.known_labels, report.labels, report.known_tokens) == (4, 5, 31)
    assert "4 of 5 labels" in str(report)
    ids, mask = tiny.documents((20,))
    scores = model(ids, mask).logits[0]
    assert_close(scores[1], model.label_bias[1])
    assert not torch.allclose(scores[0], model.label_bias[0])
    far = torch.full_like(ids, tiny.VOCAB - 1) * mask
    assert_close(model(far, mask).logits[0], model.label_bias)


def test_a_planted_model_saves_and_loads(tmp_path):
    labels = list("abcde")
    model = tiny.plant()(**names(labels))
    plant_attention(model, ranker(labels), relevance(tiny.VOCAB, 5), word_tokenizer(WORDS))
    model.save_pretrained(tmp_path)
    ids, mask = tiny.documents()
    again = type(model).from_pretrained(tmp_path)
    assert_close(again(ids, mask).logits, model(ids, mask).logits)
