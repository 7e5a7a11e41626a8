"""The pipelines: ours, and transformers' own text classification, on every model."""

import pytest
import torch
from datasets import Dataset
from transformers import pipeline

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.pipeline import IcdCodingPipeline, register_pipeline
from hf_labelattn.inference.prediction import Predictor
from hf_labelattn.inference.streaming import NoteReader, can_stream

from .. import tiny
from .notes import ALL, WORDS, make_predictor, piece_tokenizer, text

register_pipeline()


def make_coder(name: str = "caml", **options) -> IcdCodingPipeline:
    return pipeline("icd-coding", model=ALL[name](), tokenizer=word_tokenizer(WORDS), device="cpu", **options)


@pytest.fixture(scope="module")
def coder():
    torch.manual_seed(0)
    coder = make_coder()
    coder.model.config.label_descriptions = {"LABEL_1": "The second"}
    return coder


def test_a_text_gives_codes_with_scores_descriptions_and_evidence(coder):
    note = text(25)
    found = coder(note, top_k=3)
    scores = coder.predictor.scores([note])[0]
    assert [row["score"] for row in found] == sorted(scores.tolist(), reverse=True)[:3]
    for row in found:
        assert list(row) == ["label", "description", "score", "evidence"]
        assert row["description"] == ("The second" if row["label"] == "LABEL_1" else "")
        assert row["evidence"]
        assert all(note[span["start"] : span["end"]] == span["text"] for span in row["evidence"])


def test_lists_datasets_and_generators_give_the_same(coder):
    notes = [text(length, seed) for seed, length in enumerate([30, 0, 3, 12])]
    expected = [coder(note, top_k=2) for note in notes]
    assert coder(notes, top_k=2, batch_size=3) == _about(expected)
    rows = coder(Dataset.from_dict({"text": notes, "labels": [0, 1, 2, 3]}), top_k=2, batch_size=2)
    assert not isinstance(rows, list) and list(rows) == _about(expected)
    assert list(coder((note for note in notes), top_k=2)) == _about(expected)
    assert coder([]) == []


def _about(rows: list) -> list:
    """The same rows, with numbers compared to float32's precision."""
    near = []
    for row in rows:
        spans = [[{**s, "weight": pytest.approx(s["weight"], abs=1e-5)} for s in code["evidence"]] for code in row]
        codes = [{**code, "score": pytest.approx(code["score"], abs=1e-5)} for code in row]
        near.append([{**code, "evidence": found} for code, found in zip(codes, spans, strict=True)])
    return near


def test_a_generator_is_read_as_results_are_asked_for(coder):
    taken = []
    results = coder((taken.append(i) or text(5, i) for i in range(100)), batch_size=4)
    next(results)
    assert len(taken) == 4


def test_options_of_the_pipeline_and_of_a_call():
    coder = make_coder(top_k=4, evidence=False, batch_size=2)
    assert coder.predictor.batch_size == 2
    assert len(coder(text(9))) == 4 and "evidence" not in coder(text(9))[0]
    found = coder(text(9), top_k=1, evidence=True, top_tokens=1)
    assert len(found) == 1 and len(found[0]["evidence"]) == 1
    with pytest.raises(TypeError, match="top_n"):
        coder(text(9), top_n=3)


def test_the_stored_threshold_decides(coder):
    scores = sorted(coder.predictor.scores([text(20)])[0].tolist())
    coder.model.config.threshold = (scores[2] + scores[3]) / 2
    assert len(coder(text(20))) == 2
    coder.model.config.threshold = 0.5


def test_rows_without_text_are_refused(coder):
    with pytest.raises(ValueError, match=r"a row with \['note'\], expected a text"):
        coder([{"note": "x"}])


def test_save_and_load(tmp_path):
    coder = make_coder("plant")
    coder.save_pretrained(tmp_path)
    again = pipeline("icd-coding", model=str(tmp_path), device="cpu")
    assert isinstance(again, IcdCodingPipeline)
    assert [again(text(40), top_k=5)] == _about([coder(text(40), top_k=5)])


@pytest.mark.parametrize("name", ALL)
def test_a_growing_note_is_coded_as_if_read_whole(name):
    predictor, note = make_predictor(name), text(45)
    reader = NoteReader(predictor)
    for start in range(0, len(note), 50):  # cuts inside words
        scores = reader.add(note[start : start + 50])
        expected = predictor.scores([note[: start + 50]])[0]
        torch.testing.assert_close(scores, expected, atol=2e-5, rtol=1e-4)
    assert can_stream(predictor.model.config) == (len(reader.read) > 0)


def test_which_models_stream():
    streaming = {name for name, make in ALL.items() if can_stream(make().config)}
    forward = {"plant", "plant_bert", "plant_dot_zero_sigmoid", "plant_max", "plant_stateless", "plant_with_evidence"}
    joint = {"interaction", "interaction_plant", "interaction_bert"}
    assert streaming == forward | joint | {"plm_icd", "plm_ca", "swem", "fasttext"}


def test_streams_with_special_tokens_and_without_a_word():
    predictor = Predictor(tiny.zoo("plm_icd")(), piece_tokenizer(), device="cpu")
    reader = NoteReader(predictor)
    for piece in ["", " ", "fever co", "ugh fever asthma", " cough fever fe", "ver"]:
        scores = reader.add(piece)
        torch.testing.assert_close(scores, predictor.scores([reader.text])[0], atol=1e-5, rtol=1e-4)


def test_full_chunks_are_read_once():
    predictor, sizes = make_predictor("plant"), []
    predictor.model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    reader = NoteReader(predictor)
    for word in range(64):
        reader.add(f"{WORDS[word % 50]} ")
    assert sum(sizes) <= 64 * tiny.CHUNK and max(sizes) == tiny.CHUNK


def test_the_pipeline_streams_codes():
    coder = make_coder("plant", top_k=2)
    pieces = [text(20, 1), text(20, 2)]
    first, second = coder.stream(iter(pieces), evidence=True)
    assert [first, second] == _about([coder(pieces[0]), coder("".join(pieces))])
    assert "evidence" not in next(coder.stream(pieces))[0]


@pytest.mark.parametrize("name", ALL)
def test_text_classification_works_too(name):
    predictor = make_predictor(name)
    classify = pipeline("text-classification", predictor.model, tokenizer=predictor.tokenizer, device="cpu")
    note = text(6)
    found = classify(note, top_k=None, function_to_apply="sigmoid")
    scores = {row["label"]: row["score"] for row in found}
    expected = predictor.scores([note])[0]
    assert [scores[f"LABEL_{i}"] for i in range(5)] == pytest.approx(expected.tolist(), abs=1e-5)
