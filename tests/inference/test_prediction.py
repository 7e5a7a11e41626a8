"""Texts to labels, and the files they come from and go to."""

import gzip
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from hf_labelattn.data.rows import NotesError
from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference.evidence import Evidence
from hf_labelattn.inference.files import PredictionWriter, read_texts_to_code
from hf_labelattn.inference.prediction import Prediction, Predictor

from .. import tiny
from .notes import ALL, WORDS, make_leam, make_predictor, piece_tokenizer, text

NOTES = [text(length, seed) for seed, length in enumerate([30, 0, 3, 12, 1, 21])]


@pytest.mark.parametrize("name", ALL)
def test_scores_do_not_depend_on_the_batch(name):
    predictor = make_predictor(name, batch_size=4)
    together = predictor.scores(NOTES)
    assert together.shape == (6, 5) and together.dtype == np.float32
    alone = np.concatenate([predictor.scores([note]) for note in NOTES])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert len({tuple(row) for row in together.round(6)}) > 1


def test_scores_are_the_sigmoid_or_softmax_of_the_logits():
    predictor = make_predictor("caml")
    ids = torch.tensor([predictor.tokenizer(NOTES[0])["input_ids"]])
    with torch.no_grad():
        logits = predictor.model(ids).logits
    np.testing.assert_allclose(predictor.scores(NOTES[:1]), logits.sigmoid().numpy(), atol=1e-6)
    single = Predictor(make_leam("max", problem_type="single_label_classification"), predictor.tokenizer, device="cpu")
    np.testing.assert_allclose(single.scores(NOTES).sum(1), 1.0, atol=1e-5)
    assert [len(row) for row in single.predict(NOTES)] == [1] * 6
    assert [len(row) for row in single.predict(NOTES, top_k=3)] == [3] * 6


def test_chunks_have_the_tokenizers_special_tokens():
    predictor = Predictor(tiny.zoo("plm_icd")(), piece_tokenizer(), device="cpu")
    with torch.no_grad():
        ids = torch.tensor([[[2, 4, 5, 6, 7, 4, 5, 3], [2, 8, 9, 3, 0, 0, 0, 0]]])
        expected = predictor.model(ids).logits.sigmoid().numpy()
    np.testing.assert_allclose(predictor.scores(["fever cough fever asthma"]), expected, atol=1e-6)


def test_labels_above_the_threshold_best_first():
    predictor = make_predictor()
    probabilities = np.array([0.2, 0.9, 0.5, 0.7, 0.1], dtype=np.float32)
    assert [p.label for p in predictor.choose(probabilities)] == ["LABEL_1", "LABEL_3", "LABEL_2"]
    predictor.model.config.threshold = 0.6
    assert [p.label for p in predictor.choose(probabilities)] == ["LABEL_1", "LABEL_3"]
    predictor.model.config.label_thresholds = [0.1, 0.95, 0.5, 0.8, 0.2]
    assert [p.label for p in predictor.choose(probabilities)] == ["LABEL_2", "LABEL_0"]
    assert predictor.choose(probabilities, top_k=1) == [Prediction("LABEL_1", pytest.approx(0.9))]
    assert len(predictor.choose(probabilities, top_k=9)) == 5


def test_a_stream_keeps_order_and_holds_little():
    predictor, taken = make_predictor(), []
    rows = ((taken.append(i) or f"note {i}", NOTES[i % 6]) for i in range(20))
    results = predictor.stream(rows, top_k=2, buffer=6)
    first = next(results)
    assert len(taken) == 6
    everything = [first, *results]
    assert [name for name, _, _ in everything] == [f"note {i}" for i in range(20)]
    assert [found for _, _, found in everything[:6]] == predictor.predict(NOTES, top_k=2)
    assert [note for _, note, _ in everything[:6]] == NOTES
    assert list(predictor.stream([])) == []


def test_a_folder_is_enough(tmp_path):
    predictor = make_predictor("plant")
    predictor.model.save_pretrained(tmp_path)
    predictor.tokenizer.save_pretrained(tmp_path)
    again = Predictor(tmp_path, device="cpu")
    np.testing.assert_allclose(again.scores(NOTES), predictor.scores(NOTES), atol=1e-6)


def test_a_model_alone_is_refused():
    with pytest.raises(ValueError, match="Pass `tokenizer=` too"):
        Predictor(tiny.zoo("swem")())


def test_reading_notes_from_files(tmp_path):
    (tmp_path / "one.txt").write_text("Fever.\n", encoding="utf-8")
    assert list(read_texts_to_code(tmp_path / "one.txt")) == [("one", "Fever.\n")]
    with gzip.open(tmp_path / "many.jsonl.gz", "wt") as file:
        file.write('{"text": "a", "id": 7}\n{"text": "b"}\n')
    assert list(read_texts_to_code(tmp_path / "many.jsonl.gz")) == [("7", "a"), ("2", "b")]
    with pytest.raises(NotesError, match=r"no text in column `note` \(columns: id, text\).*--text_column"):
        list(read_texts_to_code(tmp_path / "many.jsonl.gz", text_column="note"))
    with pytest.raises(NotesError, match="does not exist"):
        list(read_texts_to_code(tmp_path / "none.txt"))


ROWS = [("a", [Prediction("x", 0.75), Prediction("y", 0.5)]), ("b", [])]
SPANS = {"x": [Evidence(0, 5, "Fever", 0.5)], "y": []}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("evidence", [False, True])
def test_predictions_are_written_as_they_come(tmp_path, ending, evidence):
    with PredictionWriter(tmp_path / f"codes.{ending}", rows_per_group=1, evidence=evidence) as writer:
        for name, predictions in ROWS:
            writer.write(name, predictions, SPANS if evidence else None)
        assert not writer.path.exists()
    assert writer.count == 2 and [path.name for path in tmp_path.iterdir()] == [f"codes.{ending}"]
    if ending == "parquet":
        rows = pq.read_table(writer.path).to_pylist()
    else:
        rows = [json.loads(line) for line in writer.path.read_text().splitlines()]
    expected = [{"id": "a", "labels": ["x", "y"], "scores": [0.75, 0.5]}, {"id": "b", "labels": [], "scores": []}]
    if evidence:
        expected[0]["evidence"] = [[{"start": 0, "end": 5, "text": "Fever", "weight": 0.5}], []]
        expected[1]["evidence"] = []
    assert rows == expected


def test_a_failed_run_leaves_no_file_and_shards_are_numbered(tmp_path):
    with pytest.raises(RuntimeError), PredictionWriter(tmp_path / "codes.jsonl") as writer:
        writer.write(*ROWS[0])
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with PredictionWriter(tmp_path / "codes.jsonl", shard=1, num_shards=3):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["codes-00001-of-00003.jsonl"]
    with pytest.raises(ValueError, match=r"must end in \.parquet or \.jsonl"):
        PredictionWriter(tmp_path / "codes.csv")


def test_words_of_the_vocabulary_are_found_whatever_their_case():
    predictor = Predictor(tiny.zoo("swem")(), word_tokenizer(WORDS), device="cpu")
    np.testing.assert_array_equal(predictor.scores([NOTES[0]]), predictor.scores([NOTES[0].upper()]))
