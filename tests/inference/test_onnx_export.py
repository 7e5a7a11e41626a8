"""The ONNX step: read chunk by chunk, its logits are those of torch for the whole document."""

import json
import re
import textwrap

import numpy as np
import pytest
import torch

from hf_labelattn.data.tokenization import word_tokenizer
from hf_labelattn.inference import onnx_export, onnx_planted, onnx_reader
from hf_labelattn.inference.onnx_export import export_onnx, onnx_difference
from hf_labelattn.inference.onnx_reader import OnnxChunkReader
from hf_labelattn.inference.onnx_steps import check_exportable, chunk_step
from hf_labelattn.inference.prediction import Predictor

from .. import tiny
from .notes import ALL, WORDS, piece_tokenizer, text

EXPORTABLE = {
    **{name: tiny.zoo(name) for name in ("cnn", "caml", "dr_caml", "multirescnn", "fasttext", "swem")},
    **{name: tiny.CLASSIFIERS[name] for name in ("plm_icd", "plm_ca")},
    **{f"{name}_forward": lambda name=name: tiny.zoo(name)(bidirectional=False) for name in ("bigru", "laat")},
    "joint_laat_forward": lambda: tiny.zoo("joint_laat")(bidirectional=False),
    "fasttext_words": lambda: tiny.zoo("fasttext")(max_ngram=1),
    **{name: make for name, make in tiny.CLASSIFIERS.items() if name.startswith("plant")},
    "plant_all_tokens": tiny.plant(inattention_k=None),
    "plant_as_many_as_tokens": tiny.plant(inattention_k=tiny.CHUNK),
    "plant_zero_as_many": tiny.plant(inattention_k=tiny.CHUNK, inattention_mode="zero"),
    "plant_learned_only": tiny.plant(use_static=False, use_planted=False),
    "plant_planted_only": tiny.plant(use_static=False, use_learned=False),
    "plant_evidence_only": tiny.plant(use_static=False, use_planted=False, use_evidence=True),
    "plant_blocks_of_labels": tiny.plant(),
    "plant_pairs_computed": tiny.plant(),
    "plant_pairs_computed_bert": tiny.plant("bert"),
}
REFUSED = {
    "plant_backward": "`--direction forward`",
    "plant_bidirectional": "`--direction forward`",
    "plant_with_prior": "without `--prior`",
    "interaction_caml": "folder of its base model",
    "leam": "needs the whole document",
    "tfidf_linear": "needs the whole document",
    "laat": '{"bidirectional": false}',
    "bigru": '{"bidirectional": false}',
    "xmlcnn": "parts of the whole document",
}
SERVED = ["plant", "plant_pairs_computed_bert", "caml", "laat_forward", "fasttext", "plm_icd"]
for name in set(EXPORTABLE) & set(REFUSED):
    del EXPORTABLE[name]


@pytest.mark.parametrize("name", EXPORTABLE)
def test_the_step_reads_what_the_model_reads(name, monkeypatch):
    model = EXPORTABLE[name]()
    if name.endswith("blocks_of_labels"):
        monkeypatch.setattr(onnx_planted.PlantedChunk, "_blocks", _pairs_of_labels)
    if "pairs_computed" in name:
        monkeypatch.setattr(onnx_planted, "MAX_PAIRS", 0)
    known = getattr(getattr(model, "reader", None), "decoder", None)
    if getattr(known, "ranker", None) is not None:  # some tokens and labels are unknown to the ranker
        known.ranker.token_known[::5], known.ranker.label_known[1] = False, False
    step = chunk_step(model, tiny.CHUNK)
    ids, mask = tiny.documents((29, 17, 5, 8, 0))
    ids = torch.stack([torch.randperm(tiny.VOCAB - 2)[: ids[0, 0].numel()] + 2 for _ in ids.flatten(0, 1)])
    ids = ids.view_as(mask) * mask  # no word twice in a chunk: `torch.topk` breaks ties as it likes
    state = [torch.zeros(5, dtype=torch.long), *map(torch.zeros_like, step.fresh(5))]
    with torch.no_grad():
        for i in range(ids.shape[1]):
            logits, *state = step(ids[:, i], mask[:, i], *state)
            torch.testing.assert_close(logits, model(ids[:, : i + 1], mask[:, : i + 1]).logits, atol=1e-5, rtol=1e-4)
    assert state[0].tolist() == mask.sum((1, 2)).tolist()


def _pairs_of_labels(self) -> list[slice]:
    return [slice(0, 2), slice(2, 4), slice(4, 5)]


@pytest.mark.parametrize("name", REFUSED)
def test_models_without_a_step_are_refused(name):
    with pytest.raises(ValueError, match="no chunk step to export.*" + re.escape(REFUSED[name])):
        check_exportable(ALL[name]().config)


def test_attending_to_padding_is_refused(tmp_path):
    with pytest.raises(ValueError, match="attends to padding"):
        export_onnx(tiny.zoo("caml")(attend_to_padding=True), tmp_path / "step.onnx")


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "find_spec", lambda name: None if name == "onnxscript" else True)
    with pytest.raises(ValueError, match=r'needs onnxscript. Type `pip install "hf_labelattn\[onnx\]"'):
        export_onnx(tiny.zoo("swem")(), tmp_path / "step.onnx")
    with pytest.raises(ValueError, match="step.pt, but must end in .onnx"):
        export_onnx(tiny.zoo("swem")(), tmp_path / "step.pt")


def test_the_chunks_of_training_are_kept(tmp_path):
    with pytest.raises(ValueError, match="`chunk_size` is 16, but this model reads 8 tokens"):
        onnx_export.step_layout(tiny.plant()().config, None, 16)
    assert onnx_export.step_layout(tiny.zoo("caml")().config, None, 16).chunk_size == 16


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Makes (model, reader, path) of a tiny model, once."""
    pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
    pytest.importorskip("onnxscript", reason="needs the extra `onnx`")
    made = {}

    def make(name: str):
        if name not in made:
            torch.manual_seed(0)
            model, path = EXPORTABLE[name](), tmp_path_factory.mktemp(name) / "step.onnx"
            model.config.threshold = 0.4
            tokenizer = piece_tokenizer() if name == "plm_icd" else word_tokenizer(WORDS)
            with pytest.MonkeyPatch.context() as patch:
                if "pairs_computed" in name:
                    patch.setattr(onnx_planted, "MAX_PAIRS", 0)
                export_onnx(model, path, tokenizer, chunk_size=tiny.CHUNK)
            made[name] = model, tokenizer, path
        return made[name]

    return make


@pytest.mark.parametrize("name", SERVED)
def test_onnxruntime_gives_the_logits_of_torch(exported, name):
    model, tokenizer, path = exported(name)
    reader = OnnxChunkReader(path, tokenizer, batch_size=2)
    difference, chunks = onnx_difference(model, reader)
    assert difference < 1e-5 and chunks == 11
    notes = (
        ["fever cough asthma fever cough.", "asthma " * 9, ""] if name == "plm_icd" else [text(21), "", text(50, 1)]
    )
    predictor = Predictor(model, tokenizer, device="cpu")
    np.testing.assert_allclose(reader.scores(notes), predictor.scores(notes), atol=1e-5)
    for found, expected in zip(reader.predict(notes), predictor.predict(notes), strict=True):
        assert [row.label for row in found] == [row.label for row in expected]


def test_a_wrong_step_is_noticed(exported):
    model, tokenizer, path = exported("caml")
    torch.manual_seed(1)
    other = tiny.zoo("caml")()
    assert onnx_difference(other, OnnxChunkReader(path, tokenizer))[0] > 1e-3


def test_the_file_knows_what_a_server_needs_and_no_path_of_this_machine(exported):
    model, _, path = exported("plant")
    about = OnnxChunkReader(path).about
    assert about["labels"] == [f"LABEL_{i}" for i in range(5)] and about["threshold"] == 0.4
    assert (about["chunk_size"], about["pad_token_id"], about["single_label"]) == (tiny.CHUNK, 0, False)
    assert b".py" not in path.read_bytes() and [p.name for p in path.parent.iterdir()] == ["step.onnx"]


def test_serving_without_this_library_takes_the_lines_shown(exported, tmp_path, monkeypatch):
    for name in ("plant", "plm_icd"):
        model, tokenizer, path = exported(name)
        note = "fever cough asthma fever cough asthma cough" if name == "plm_icd" else text(30)
        tokenizer.save_pretrained(path.parent)
        monkeypatch.chdir(path.parent)
        names = {"text": note}
        exec(textwrap.dedent(onnx_reader.__doc__.split("\n\n")[2]), names)
        expected = Predictor(model, tokenizer, device="cpu").scores([note])[0]
        np.testing.assert_allclose([names["scores"][f"LABEL_{i}"] for i in range(5)], expected, atol=1e-5)


def test_another_onnx_file_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info("x", 1, [1])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value],
        [onnx.helper.make_tensor_value_info("y", 1, [1])],
    )
    opset = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "other.onnx")
    with pytest.raises(ValueError, match="no chunk step of this library"):
        OnnxChunkReader(tmp_path / "other.onnx")


def test_text_needs_a_tokenizer(exported):
    with pytest.raises(ValueError, match="Pass `tokenizer=`"):
        OnnxChunkReader(exported("caml")[2]).scores(["a"])


def test_metadata_is_json(exported):
    reader = OnnxChunkReader(exported("plm_icd")[2])
    assert json.loads(json.dumps(reader.about)) == reader.about and reader.layout.prefix == (2,)
