"""Evidence points into the text as given, is what the models weigh, and its quality is measured by the book."""

import numpy as np
import pytest
import torch

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.evidence import Evidence, TokenizedNote, evidence_quality, explain, note_weights
from hf_labelattn.inference.prediction import Predictor
from hf_labelattn.inference.token_weights import _leam, _ngrams, input_gradients, token_weights
from hf_labelattn.models.modeling_plant import PlantForICDCoding

from .. import tiny
from .notes import (
    ALL,
    WORDS,
    make_interaction,
    make_leam,
    make_predictor,
    piece_tokenizer,
    text,
    word_classifier,
    words,
)

LABELS = [f"LABEL_{i}" for i in range(5)]


# Max-pooled LEAM has one attention for all labels: its evidence is that times what each word adds. That of a
# bidirectional pair is the mean of two attentions; that of a joint model lies between the base's and the match.
OTHERWISE = {"leam_max", "plant_bidirectional", *(name for name in tiny.CLASSIFIERS if name.startswith("interaction"))}
ATTENTIVE = sorted(set(tiny.CLASSIFIERS) - tiny.WITHOUT_ATTENTION - OTHERWISE) + ["leam_label"]


@pytest.mark.parametrize("name", ALL)
def test_spans_index_the_original_text(name):
    note = text(30)
    found = explain(make_predictor(name), note, LABELS, top_tokens=6)
    assert list(found) == LABELS
    for spans in found.values():
        assert 0 <= sum(span.weight for span in spans) <= 1 + 1e-6
        assert [span.weight for span in spans] == sorted((span.weight for span in spans), reverse=True)
        reading = sorted(spans, key=lambda span: span.start)
        assert all(a.end <= b.start for a, b in zip(reading, reading[1:], strict=False))
        assert all(note[span.start : span.end] == span.text == span.text.strip() != "" for span in spans)
    assert any(found.values())


@pytest.mark.parametrize("name", ALL)
def test_a_note_without_a_word_has_no_evidence(name):
    predictor = make_predictor(name)
    assert explain(predictor, "", LABELS) == explain(predictor, " 12 .", LABELS) == {label: [] for label in LABELS}


@pytest.mark.parametrize("name", ATTENTIVE)
def test_attention_is_the_evidence(name):
    predictor, note = make_predictor(name), text(30)
    tokens = TokenizedNote.read(predictor.tokenizer, note)
    batch = predictor.collate([{"input_ids": tokens.ids}])
    with torch.no_grad():
        weights = predictor.model(batch["input_ids"], batch["attention_mask"], output_attentions=True).label_attentions
    expected = weights[0][[3, 1], : len(tokens.ids)].numpy()
    np.testing.assert_allclose(note_weights(predictor, tokens.ids, [3, 1]), expected, atol=1e-5)
    (best,) = explain(predictor, note, ["LABEL_3"], top_tokens=1)["LABEL_3"]
    assert (best.start, best.end) == tuple(tokens.borders[expected[0].argmax()])


def test_evidence_of_a_pair_is_the_mean_of_its_readers():
    forward, backward = tiny.plant()(), tiny.plant(direction="backward")()
    pair = PlantForICDCoding.join(forward, backward)
    predictors = [Predictor(model, word_tokenizer(WORDS), device="cpu") for model in (forward, backward, pair)]
    ids = TokenizedNote.read(predictors[0].tokenizer, text(30)).ids  # four chunks, the last one not full
    one, other, both = (note_weights(predictor, ids, [3, 1]) for predictor in predictors)
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose(both, (one + other) / 2, atol=1e-6)


def test_chunks_with_special_tokens_map_back_to_words():
    predictor = Predictor(tiny.zoo("plm_icd")(), piece_tokenizer(), device="cpu")
    note = "fever  cough asthma fever asthma cough fever cough."
    tokens = TokenizedNote.read(predictor.tokenizer, note)
    assert len(tokens.ids) == 17 and len(tokens.borders) == 9  # the full stop is the unknown token
    batch = predictor.collate([{"input_ids": tokens.ids}])
    assert batch["input_ids"].shape == (1, 3, tiny.CHUNK)
    with torch.no_grad():
        weights = predictor.model(batch["input_ids"], batch["attention_mask"], output_attentions=True).label_attentions
    flat, real = weights[0, 2].numpy(), batch["input_ids"].flatten().numpy()
    kept = flat[~np.isin(real, [0, 2, 3])]
    pairs = kept[:16].reshape(8, 2).sum(1) / kept.sum()
    (best,) = explain(predictor, note, ["LABEL_2"], top_tokens=1)["LABEL_2"]
    expected = tokens.borders[np.append(pairs, kept[16] / kept.sum()).argmax()]
    assert (best.start, best.end) == tuple(expected)
    assert best.text in {"fever", "cough", "asthma", "."}


@pytest.mark.parametrize("name", ["cnn", "bigru", "xmlcnn", "swem"])
def test_gradient_times_input_is_the_slope_of_each_word(name):
    model = ALL[name]().double()
    model.config.bptt_chunks = 1  # windows of 8 tokens, which the explanation must not see
    ids = torch.arange(10, 31)[None, None]  # every word once, so that scaling its vector scales that place
    found = input_gradients(model, ids, torch.ones_like(ids), torch.tensor([4, 2]))
    assert model.config.bptt_chunks == 1
    table, step = model.embeddings.weight, 1e-3
    for place in (0, 7, 8, 20):
        logits = []
        for sign in (1, -1):
            with torch.no_grad():
                kept = table[10 + place].clone()
                table[10 + place] *= 1 + sign * step
                model.config.bptt_chunks = 50
                logits.append(model(ids).logits.double()[0, [4, 2]])
                model.config.bptt_chunks = 1
                table[10 + place] = kept
        torch.testing.assert_close(found[:, place], (logits[0] - logits[1]) / (2 * step), atol=2e-4, rtol=0.02)
    assert found.abs().median() > 1e-3


def test_contributions_of_linear_pooling_add_up_to_the_logit():
    ids = torch.tensor([[[5, 7, 7, 9, 30, 5, 7]]])
    for name in ("swem", "fasttext"):
        model = ALL[name]()
        with torch.no_grad():
            model.label_bias.normal_()
            gain = (model(ids).logits - model.label_bias)[0]
            labels = torch.arange(5)
            parts = _ngrams(model, ids, labels) if name == "fasttext" else None
        parts = input_gradients(model, ids, torch.ones_like(ids), labels) if parts is None else parts
        torch.testing.assert_close(parts.sum(1), gain, atol=1e-5, rtol=1e-4)
        assert parts[:, 1].allclose(parts[:, 2]) == (name == "swem")  # only n-grams tell the two apart


def test_shared_weights_of_leam_are_told_apart_by_what_words_add():
    model, ids = make_leam("max", classifier_hidden_size=0), torch.tensor([[[5, 7, 7, 9, 30, 5, 7]]])
    with torch.no_grad():
        model.label_bias.normal_()
        gain = (model(ids).logits - model.label_bias)[0, [3, 1]]
        parts = _leam(model, ids, torch.ones_like(ids), torch.tensor([3, 1]))
    torch.testing.assert_close(parts.sum(1), gain, atol=1e-6, rtol=1e-4)


def test_a_note_of_one_word_is_its_own_evidence():
    for name in ("fasttext", "swem", "caml"):
        weights = token_weights(ALL[name](), torch.tensor([[[9]]]), torch.tensor([[[1]]]), torch.arange(5))
        assert set(weights.flatten().tolist()) <= {0.0, 1.0} and weights.any()


def test_neighbours_become_one_passage_but_not_across_a_long_gap():
    note = "acute 2 renal failure 1234567890123 today"
    tokens = TokenizedNote.read(word_tokenizer(note.split()), note)
    found = tokens.passages([3, 0, 1, 2], np.array([0.1, 0.2, 0.3, 0.4]))
    assert [(e.start, e.end, e.text, round(e.weight, 6)) for e in found] == [
        (0, 21, "acute 2 renal failure", 0.6),
        (36, 41, "today", 0.4),
    ]


def test_offsets_survive_characters_that_the_tokenizer_changes():
    note = "İ Cafe\u0301 😀 FEVER"
    predictor = Predictor(word_classifier({"a": 2, "b": 3}), word_tokenizer(["fever", "café"]), device="cpu")
    found = explain(predictor, note, ["a", "b"])
    assert [[span.text for span in spans] for spans in found.values()] == [["FEVER"], ["Cafe\u0301"]]


def test_white_space_that_counts_to_a_token_is_not_shown():
    tokens = TokenizedNote("a fever ", np.array([3, 4]), np.array([0, 1]), np.array([[0, 1], [1, 8]]))
    assert tokens.passages([1], np.array([0.0, 1.0])) == [Evidence(2, 7, "fever", 1.0)]


def test_the_matching_window_is_the_evidence_of_interaction():
    model = make_interaction("swem")
    model.add_labels({"new": f"{WORDS[20]} {WORDS[21]} {WORDS[22]}"}, word_tokenizer(WORDS))
    predictor = Predictor(model, word_tokenizer(WORDS), device="cpu")
    note = f"{text(12)}{WORDS[20].upper()} {WORDS[21]},\n{WORDS[22]} {words(50, 51)}"
    (found,) = explain(predictor, note, ["new"])["new"]
    assert found.text == f"{WORDS[20].upper()} {WORDS[21]},\n{WORDS[22]}"
    assert found.weight == pytest.approx(1.0)
    tokens = TokenizedNote.read(predictor.tokenizer, note)
    base = Predictor(model.base, word_tokenizer(WORDS), device="cpu")
    undescribed = note_weights(predictor, tokens.ids, [4])
    np.testing.assert_allclose(undescribed, note_weights(base, tokens.ids, [4]), atol=1e-6)


def test_unknown_labels_are_refused():
    with pytest.raises(ValueError, match=r"no labels \['X'\]"):
        explain(make_predictor(), "a", ["LABEL_0", "X"])


@pytest.mark.parametrize("name", ALL)
def test_quality_is_measured_for_every_model(name):
    note = text(20)
    true = [{"label": label, "start": 0, "end": len(note) // 2} for label in LABELS]
    found = evidence_quality(make_predictor(name), [note, ""], [LABELS, LABELS], [true, []], top_tokens=4)
    assert (found["documents"], found["explained"]) == (2, 5)
    assert all(np.isfinite(value) for value in found.values())
    assert 0 < found["span_precision"] < 1 and 0 <= found["span_recall"] <= 1
    assert len({found[name] for name in found if "ness" in name or "sufficiency" in name}) == 4


def test_quality_is_perfect_for_a_model_of_single_words():
    model = word_classifier({"a": 5, "b": 9})
    predictor = Predictor(model, word_tokenizer(WORDS), device="cpu")
    notes = [words(20, 5, 21, 22, 9, 23, 24, 25), words(9, 30, 31, 9, 32, 33), words(40, 41)]
    labels = [["a", "b", "unknown"], ["b"], []]
    spans = []
    for note, row in zip(notes, labels, strict=True):
        marks = {"a": words(5), "b": words(9)}
        places = [(label, i) for label in row if label in marks for i in _places(note, marks[label])]
        spans.append([{"label": label, "start": i, "end": i + len(marks[label])} for label, i in places])
    found = evidence_quality(predictor, notes, labels, spans, top_tokens=4)
    assert (found["documents"], found["explained"]) == (3, 3)
    assert found["span_precision"] == found["span_recall"] == 1.0
    assert found["span_precision_random"] < 1.0
    assert found["comprehensiveness"] > found["comprehensiveness_random"]
    assert found["sufficiency"] < found["sufficiency_random"]
    whole, without, alone = (
        [predictor.scores([note])[0, i] for note, i in rows]
        for rows in (
            [(notes[0], 0), (notes[0], 1), (notes[1], 1)],
            [(notes[0].replace(words(5), ""), 0), (notes[0].replace(words(9), ""), 1), (words(30, 31, 32, 33), 1)],
            [(words(5), 0), (words(9), 1), (words(9, 9), 1)],
        )
    )
    assert found["comprehensiveness"] == pytest.approx(np.mean(np.subtract(whole, without)), abs=1e-6)
    assert found["sufficiency"] == pytest.approx(np.mean(np.subtract(whole, alone)), abs=1e-6)


def _places(note: str, word: str) -> list[int]:
    return [i for i in range(len(note)) if note.startswith(word, i)]


def test_quality_counts_characters_and_spans():
    predictor = Predictor(word_classifier({"a": 5}), word_tokenizer(WORDS), device="cpu")
    note = words(20, 5, 21)
    true = [{"label": "a", "start": 0, "end": 10}, {"label": "a", "start": 15, "end": 20}]
    found = evidence_quality(predictor, [note], [["a"]], [true], top_tokens=1)
    assert WORDS[3] == note[7:13]
    assert found["span_precision"] == 3 / 6 and found["span_recall"] == 1 / 2
    without_truth = evidence_quality(predictor, [note], [["a"]], top_tokens=1)
    assert not any(name.startswith("span") for name in without_truth)
    assert without_truth == evidence_quality(predictor, [note], [["a"]], top_tokens=1)
