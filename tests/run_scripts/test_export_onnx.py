"""The export script: a folder in, a checked .onnx file out, or one line that says what to do."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from hf_labelattn import OnnxChunkReader, Predictor, load_tokenizer

from ..inference.notes import make_predictor, text

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "export_onnx.py"


def save(name: str, folder: Path) -> Path:
    predictor = make_predictor(name)
    predictor.model.save_pretrained(folder)
    predictor.tokenizer.save_pretrained(folder)
    return folder


def export(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_a_checked_file_is_written(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
    pytest.importorskip("onnxscript", reason="needs the extra `onnx`")
    folder, output = save("caml", tmp_path / "caml"), tmp_path / "served" / "step.onnx"
    export(monkeypatch, folder, "--output", output, "--chunk_size", 12)
    printed = capsys.readouterr().out
    assert "5 labels, 12 tokens a step" in printed
    assert float(re.search(r"logits over 11 chunks: (\S+)", printed)[1]) < 1e-5
    reader, predictor = OnnxChunkReader(output, load_tokenizer(folder)), Predictor(folder, device="cpu")
    assert reader.scores([text(40)]) == pytest.approx(predictor.scores([text(40)]), abs=1e-5)
    with pytest.raises(SystemExit):
        export(monkeypatch, folder, "--output", output, "--tolerance", -1)
    assert "Do not serve the file" in capsys.readouterr().err


def test_what_cannot_be_exported_is_said(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        export(monkeypatch, save("plant_bidirectional", tmp_path / "both"), "--output", tmp_path / "step.onnx")
    assert ended.value.code == 2
    assert "Export a model trained with `--direction forward`" in capsys.readouterr().err
    assert not (tmp_path / "step.onnx").exists()
