"""Joint models read at inference what they read in training: words of their own, and unknown words by identity."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.evidence import evidence_quality, explain
from hf_labelattn.inference.matching import MatchReader, pieces_as_text
from hf_labelattn.inference.prediction import Predictor
from hf_labelattn.inference.streaming import NoteReader
from hf_labelattn.models.modeling_interaction import InteractionForMultiLabel
from hf_labelattn.models.word_reading import MATCH_TOKENIZER_FILE

from .. import tiny
from .notes import piece_tokenizer

DESCRIPTIONS = {"LABEL_0": "cough asthma", "LABEL_1": "fever", "LABEL_2": "strange fever"}
NOTE = "Fever fever cough, cough asthma. Fever cough fever cough!"


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Predictor:
    """BERT reads pieces (two to a word), the matcher words; saved and loaded, so that nothing but files is used."""
    folder, words = tmp_path_factory.mktemp("joint"), word_tokenizer(["cough", "fever", "asthma"])
    model = tiny.interaction(tiny.bert_classifier, match_vocab_size=len(words), match_weight=9)()
    model.set_label_descriptions(DESCRIPTIONS, words)
    model.save_pretrained(folder)
    piece_tokenizer().save_pretrained(folder)
    words.backend_tokenizer.save(str(folder / MATCH_TOKENIZER_FILE))
    return Predictor(folder, device="cpu")


def test_pieces_become_text_again():
    ids = piece_tokenizer()("fever cough", add_special_tokens=False)["input_ids"]
    text, spans = pieces_as_text(piece_tokenizer(), ids)
    assert text.split() == ["fever", "cough"] and [text[a:b] for a, b in spans] == ["fe", "ver", "co", "ugh"]


def test_byte_pieces_become_text_again():
    vocabulary = {token: i for i, token in enumerate(["Ġfi", "è", "Ã", "¨", "vre", "Ġtoux"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    text, spans = pieces_as_text(PreTrainedTokenizerFast(tokenizer_object=tokenizer), [0, 4, 5])
    assert text == " fivre toux" and [text[a:b] for a, b in spans] == ["fi", "vre", "toux"]


def test_the_matcher_finds_words_and_the_evidence_is_in_the_text(bert):
    assert isinstance(bert.model, InteractionForMultiLabel) and bert.matching.separate
    found = explain(bert, NOTE, ["LABEL_0"], top_tokens=2)["LABEL_0"]
    assert found[0].text == "cough asthma" and NOTE[found[0].start : found[0].end] == found[0].text


def test_texts_and_tokens_score_the_same(bert):
    ids = np.array(bert.tokenizer(NOTE, add_special_tokens=False)["input_ids"])
    np.testing.assert_allclose(bert.score_ids([ids]), bert.scores([NOTE]), atol=1e-6)
    quality = evidence_quality(bert, [NOTE], [["LABEL_0", "LABEL_1"]], top_tokens=2)
    assert quality["comprehensiveness"] > quality["comprehensiveness_random"]


def test_a_note_that_grows(bert):
    reader = NoteReader(bert)
    for piece in ("Fever fever cough, cough ", "asth", "ma. Fever"):
        np.testing.assert_allclose(reader.add(piece), bert.scores([reader.text])[0], atol=1e-6)


def test_an_unknown_word_matches_itself():
    model = tiny.interaction(tiny.zoo("swem"))()
    tokenizer = word_tokenizer([f"w{i}" for i in range(tiny.VOCAB - 2)])
    assert MatchReader.of(model, tokenizer) is None
    model.set_label_descriptions({"LABEL_0": "strange"}, tokenizer)
    predictor = Predictor(model, tokenizer, device="cpu")
    scores = predictor.scores(["w4 Strange w5", "w4 stranger w5", "w5 w6"])[:, 0]
    with torch.no_grad():
        base = model.base(torch.tensor([[6, 1, 7]])).logits[0, 0].sigmoid().item()
    assert scores[0] > scores[1] + 0.05 and scores[1] == pytest.approx(base, abs=1e-2)
