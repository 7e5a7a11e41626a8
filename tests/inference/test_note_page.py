"""One note from text to page."""

from hf_labelattn import explain_note

from . import notes


def test_note_is_explained_on_a_page(tmp_path):
    model = notes.word_classifier({"fever": 5, "cough": 9, "rash": 20})
    model.config.label_descriptions = {"fever": "High temperature"}
    predictor = notes.Predictor(model, notes.word_tokenizer(notes.WORDS), device="cpu")
    text = notes.words(30, 31, 5, 32, 33)
    found = explain_note(predictor, text, tmp_path / "note.html", "Codes of a note", top_k=2)
    assert [p.label for p in found.predictions][0] == "fever" and len(found.predictions) == 2
    lines = found.summary(["fever"]).splitlines()
    assert lines[0].startswith("* fever") and lines[0].endswith("High temperature")
    assert notes.words(5) in lines[1] and lines[2].startswith("  ")
    assert notes.words(5) in (tmp_path / "note.html").read_text()
