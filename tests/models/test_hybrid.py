"""The hybrid is the weighted sum of its parts, whatever they read; labels can be added to it."""

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel

from hf_labelattn import HybridConfig, HybridForMultiLabel, Predictor
from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.evidence import explain
from hf_labelattn.models.word_reading import MATCH_TOKENIZER_FILE

from .. import tiny
from ..inference.notes import piece_tokenizer

WORDS = word_tokenizer([f"w{i}" for i in range(tiny.VOCAB - 2)])


def test_logits_are_the_weighted_sum():
    model, (ids, mask) = tiny.hybrid(), tiny.documents()
    with torch.no_grad():
        model.part_weights.copy_(torch.tensor([0.5, 2.0]))
        model.bias.fill_(-1.0)
    output = model(ids, mask)
    parts = [part(ids, mask).logits for part in model.parts]
    assert_close(output.logits, 0.5 * parts[0] + 2.0 * parts[1] - 1.0)
    assert_close(output.part_logits, torch.stack(parts, 1))


def test_a_part_reads_words_in_chunks_beside_one_that_reads_pieces():
    plant, sentence, (ids, mask) = tiny.plant()(), tiny.zoo("sentence")(), tiny.documents()
    plant.config.vocab_size = tiny.VOCAB - 1  # as if of another tokenizer
    model = HybridForMultiLabel.from_parts({"plant": plant, "sentence": sentence}, match_vocab_size=tiny.VOCAB - 1)
    assert model.config.reads_pieces == [False, True]
    words = ids.flatten(1).clamp(max=tiny.VOCAB - 2)
    real = mask.flatten(1)
    found = model(ids, mask, match_input_ids=words, match_attention_mask=real).part_logits
    size = plant.config.chunk_size
    chunks = [words[:, i : i + size] for i in range(0, words.shape[1], size)]
    state = None
    for number, chunk in enumerate(chunks):
        output = plant(chunk, real[:, number * size : (number + 1) * size], decoder_state=state)
        state = output.decoder_state
    assert len(chunks) > 1
    assert_close(found[:, 0], output.logits)
    assert_close(found[:, 1], sentence(ids, mask).logits)


def test_added_labels_are_scored_by_the_parts_that_read_descriptions():
    model, (ids, mask) = tiny.hybrid(unseen_logits=[-3.0, -4.0]), tiny.documents()
    old = model(ids, mask).logits
    model.add_labels({"new": "w3 w4"}, WORDS)
    new = model(ids, mask)
    assert_close(new.logits[:, :5], old)
    matched = model.matching(ids, mask).logits[:, 5]
    assert_close(new.logits[:, 5], matched - 4.0)
    assert model.config.id2label[5] == "new" and model.config.label_descriptions["new"] == "w3 w4"


def test_refusals():
    model, (ids, mask) = tiny.hybrid(), tiny.documents()
    with pytest.raises(ValueError, match="exist already"):
        model.add_labels({"LABEL_1": "w3"}, WORDS)
    with pytest.raises(ValueError, match="whole document at once"):
        model(ids, mask, decoder_state=())
    with pytest.raises(ValueError, match="only classifiers of this library"):
        HybridConfig(part_configs=[{"model_type": "bert"}])
    with pytest.raises(ValueError, match="`part_names` has 2 entries, but there are 1 parts"):
        HybridConfig(part_configs=[model.parts[0].config], part_names=["a", "b"])
    other = tiny.zoo("caml")(4)
    with pytest.raises(ValueError, match="other labels than the others"):
        HybridForMultiLabel.from_parts({"a": model.parts[1], "b": other})
    alone = HybridForMultiLabel.from_parts({"caml": tiny.zoo("caml")()})
    with pytest.raises(ValueError, match="No part of this model reads descriptions"):
        alone.add_labels({"new": "w3"}, WORDS)


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Predictor:
    """One part reads pieces of words, the other words; saved and loaded, so that nothing but files is used."""
    folder, words = tmp_path_factory.mktemp("hybrid"), word_tokenizer(["cough", "fever", "asthma"])
    joint = tiny.interaction(None)()
    joint.set_label_descriptions({"LABEL_0": "cough asthma", "LABEL_1": "fever"}, words)
    parts = {"words": joint, "sentence": tiny.zoo("sentence")()}
    model = HybridForMultiLabel.from_parts(parts, match_vocab_size=len(words))
    model.save_pretrained(folder)
    piece_tokenizer().save_pretrained(folder)
    words.backend_tokenizer.save(str(folder / MATCH_TOKENIZER_FILE))
    return Predictor(folder, device="cpu")


def test_two_readings_of_one_text(both):
    text = "Fever fever cough, cough asthma."
    assert isinstance(both.model, HybridForMultiLabel) and both.matching.separate
    found = explain(both, text, ["LABEL_0"], top_tokens=2)["LABEL_0"]
    assert found[0].text == "cough asthma"
    with pytest.raises(ValueError, match="Pass `match_input_ids`"):
        both.model(torch.ones(1, 4, dtype=torch.long))


def test_a_loaded_model_takes_new_labels_with_both_of_its_tokenizers(both, tmp_path):
    model = AutoModel.from_pretrained(both.model.config.name_or_path)
    model.add_labels({"wheeze": "cough fever"})
    predictor = Predictor(model.eval(), both.tokenizer, device="cpu")
    assert predictor.scores(["cough fever"]).shape == (1, 6)
    model.save_pretrained(tmp_path)
    assert AutoModel.from_pretrained(tmp_path).config.id2label[5] == "wheeze"
