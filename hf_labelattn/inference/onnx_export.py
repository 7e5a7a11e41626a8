"""Writes the chunk step of a model as ONNX, and checks it against torch.

The file takes a chunk and a state and gives logits and a state, so a server needs onnxruntime and a tokenizer, and
reads documents of any length in constant memory; see `onnx_reader.py`. Needs `pip install "hf_labelattn[onnx]"`.
"""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from ..data.chunking import ChunkLayout, chunk_layout, cut
from ..storage import replacing_files
from .onnx_reader import METADATA, OnnxChunkReader
from .onnx_steps import ChunkStep, check_exportable, chunk_step

NEEDED = ("onnx", "onnxscript", "onnxruntime")


def export_onnx(
    model: PreTrainedModel, path: str | os.PathLike, tokenizer=None, chunk_size: int | None = None
) -> Path:
    """Write the step of a model from chunk to chunk; the file appears under its name only when it is complete.

    Args:
        model: PLANT that reads forward, or a model of the zoo that can be read chunk by chunk.
        path: Where to: .onnx.
        tokenizer: The model's, for the special tokens around each chunk of a transformer.
        chunk_size: Tokens per chunk, for models that do not fix it (default: the configuration's).

    Returns:
        The path. The batch size is free; the width of a chunk is not: the last one is padded.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"`--output` is {path.name}, but must end in .onnx.")
    check_exportable(model.config)
    check_installed()
    layout = step_layout(model.config, tokenizer, chunk_size)
    step = chunk_step(deepcopy(model).cpu().float().eval(), layout.chunk_size).eval()
    program = _trace(step)
    _forget_source(program.model)
    program.model.metadata_props[METADATA] = json.dumps(describe_step(model.config, layout))
    with replacing_files(path.parent, last=path.name) as folder:  # large weights lie in files of their own
        program.save(folder / path.name)
    return path


def check_installed() -> None:
    """Say what to install."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ValueError(f'ONNX export needs {", ".join(missing)}. Type `pip install "hf_labelattn[onnx]"`.')


def step_layout(config, tokenizer, chunk_size: int | None) -> ChunkLayout:
    """How documents are cut for the step."""
    fixed = chunk_layout(config, tokenizer)
    if fixed.chunk_size is None:
        return ChunkLayout(chunk_size or config.chunk_size)
    if chunk_size not in (None, fixed.chunk_size):
        raise ValueError(
            f"`chunk_size` is {chunk_size}, but this model reads {fixed.chunk_size} tokens at once, as in training. "
            "Leave `--chunk_size` out."
        )
    return fixed


def describe_step(config, layout: ChunkLayout) -> dict:
    """What a server must know besides the weights."""
    return {
        "model_type": config.model_type,
        "chunk_size": layout.chunk_size,
        "prefix": list(map(int, layout.prefix)),
        "suffix": list(map(int, layout.suffix)),
        "pad_token_id": config.pad_token_id or 0,
        "single_label": config.problem_type == "single_label_classification",
        "threshold": config.threshold if config.label_thresholds is None else config.label_thresholds,
        "labels": [config.id2label[i] for i in range(config.num_labels)],
        "terms": (config.training_data or {}).get("terms"),
    }


def _trace(step: ChunkStep):
    """The step as an ONNX program for any number of documents."""
    batch = torch.export.Dim("batch", min=1)
    ids = torch.zeros(2, step.width, dtype=torch.long)
    state = [torch.zeros(2, dtype=torch.long), *(torch.zeros_like(tensor) for tensor in step.fresh(2))]
    names = ["num_tokens", *(f"state_{i}" for i in range(len(state) - 1))]
    with torch.no_grad(), _quiet():
        return torch.onnx.export(
            step,
            (ids, torch.ones_like(ids), *state),
            dynamo=True,
            verbose=False,
            input_names=["input_ids", "attention_mask", *names],
            output_names=["logits", *(f"next_{name}" for name in names)],
            dynamic_shapes=({0: batch}, {0: batch}, {0: batch}, tuple({0: batch} for _ in state[1:])),
        )


def _forget_source(model) -> None:
    """Take out the lines of code each node comes from, which name folders of this machine."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for part in (graph, *graph.all_nodes()):
            part.metadata_props.clear()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks about libraries that are not needed here."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


@torch.no_grad()
def onnx_difference(
    model: PreTrainedModel, reader: OnnxChunkReader, num_chunks: int = 4, seed: int = 0
) -> tuple[float, int]:
    """Compare an exported step with torch, after every chunk, on documents of random words and unequal length.

    Args:
        model: What was exported, on the CPU.
        reader: The exported step.
        num_chunks: Chunks of the longest document.
        seed: Of the words.

    Returns:
        The largest difference of a logit from that of torch, which reads all chunks so far at once; and how many
        chunks were read.
    """
    draw, words = np.random.default_rng(seed), reader.layout.words_per_chunk
    pool = draw.integers(2, model.config.vocab_size, words)  # small, so that words stand more than once
    lengths = [num_chunks * words - words // 3, max(1, (num_chunks - 1) * words // 2), num_chunks * words, 1]
    documents = [cut(draw.choice(pool, length), reader.layout) for length in lengths]
    worst, state = 0.0, None
    rows = [reader.pad([d[i] if i < len(d) else () for d in documents]) for i in range(num_chunks)]
    for i, row in enumerate(rows):
        logits, state = reader.step(*row, state)
        ids, mask = (torch.from_numpy(np.stack(part, 1)) for part in zip(*rows[: i + 1], strict=True))
        worst = max(worst, float(np.abs(logits - model(ids, mask).logits.float().numpy()).max()))
    return worst, sum(map(len, documents))
