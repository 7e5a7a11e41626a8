"""The view of one note: the model's codes, and labels of one's own found by their descriptions."""

import re

import pytest

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.note_view import MAX_LABELS, NoteView
from hf_labelattn.inference.prediction import Predictor
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel

from .notes import WORDS, make_predictor, word_classifier, words

NOTE = f"{words(20, 5, 21)}.\n{WORDS[30].upper()} {WORDS[31]}, {WORDS[32]} {words(50)}"
NEW = {"new": f"{WORDS[30]} {WORDS[31]} {WORDS[32]}", "far": f"{WORDS[40]} {WORDS[41]}"}


def make_view(**options) -> NoteView:
    """A joint model in which the word 5 makes the label a."""
    model = InteractionForMultiLabel.from_base(word_classifier({"a": 5, "b": 9}), match_embedding_size=16)
    model.set_label_descriptions({"a": words(5), "b": words(9)}, word_tokenizer(WORDS))
    return NoteView(Predictor(model.eval(), word_tokenizer(WORDS), device="cpu"), **options)


def listed(page: str) -> dict[str, str]:
    """Label to score, as the page lists them."""
    return dict(re.findall(r'<b>(.*?)</b><span class="score">(.*?)</span>', page))


def test_added_labels_stand_before_the_models_with_their_window():
    view = make_view()
    page = view.page(NOTE, added=NEW)
    assert list(listed(page)) == ["new", "far", "a"]
    assert f"{NEW['new']} (added)" in page
    (best, spans), (worse, _) = view.score_added(NOTE, NEW)
    assert (best.label, worse.label) == ("new", "far") and best.score > worse.score
    assert [span.text for span in spans] == [f"{WORDS[30].upper()} {WORDS[31]}, {WORDS[32]}"]
    assert NOTE[spans[0].start : spans[0].end] == spans[0].text and spans[0].weight == pytest.approx(1.0)


def test_an_added_label_scores_as_if_the_model_had_it():
    view = make_view()
    found = {row.label: row.score for row, _ in view.score_added(NOTE, NEW)}
    assert list(view.predictor.model.config.label2id) == ["a", "b"]  # other visitors see nothing of it
    view.predictor.model.add_labels(NEW, word_tokenizer(WORDS))
    scores = Predictor(view.predictor.model, word_tokenizer(WORDS), device="cpu").scores([NOTE])[0]
    assert [found["new"], found["far"]] == pytest.approx(scores[2:].tolist(), abs=1e-5)


def test_a_note_without_a_word_is_shown():
    view = make_view()
    assert listed(view.page("", added=NEW)) == {"new": "0.00", "far": "0.00"}
    assert "12 ." in view.page(" 12 .", top_k=2)


def test_other_models_show_codes_and_refuse_labels():
    view = NoteView(make_predictor("plant"))
    assert len(listed(view.page(NOTE, top_k=3))) == 3 and not view.scores_new_labels
    with pytest.raises(ValueError, match="only the labels it was trained on"):
        view.with_label("new", "words", {})


@pytest.mark.parametrize(
    ("name", "description", "message"),
    [
        (" ", "fever", "needs a name and a description"),
        ("new", "", "needs a name and a description"),
        ("a", "fever", "a label a already"),
        ("x" * 200, "fever", "at most 100 characters"),
    ],
)
def test_labels_that_cannot_be_scored_are_refused(name, description, message):
    with pytest.raises(ValueError, match=message):
        make_view().with_label(name, description, {})


def test_labels_are_counted():
    view, added = make_view(), {}
    for i in range(MAX_LABELS):
        added = view.with_label(f" n{i} ", f"{WORDS[i]} ", added)
    assert added["n3"] == WORDS[3] and view.with_label("n3", "other", added)["n3"] == "other"
    with pytest.raises(ValueError, match="50 added labels already"):
        view.with_label("one more", "words", added)


def test_a_long_note_is_refused_without_quoting_it():
    with pytest.raises(ValueError, match="has 11 characters, at most 10 are read") as error:
        make_view(max_characters=10).page("secret name")
    assert "secret" not in str(error.value)
