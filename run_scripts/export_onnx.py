"""Write a trained model as an ONNX step from chunk to chunk, and check it with onnxruntime.

    python run_scripts/export_onnx.py runs/plant --output step.onnx

Works for PLANT that reads forward (over an AWD-LSTM or a transformer) and for the models of the zoo that can read
chunk by chunk; others are refused with what to do. The file takes a chunk and the state and gives logits and the next
state, for any number of documents; `OnnxChunkReader("step.onnx", load_tokenizer("runs/plant"))` serves it.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from hf_labelattn import OnnxChunkReader, Predictor, export_onnx, onnx_difference, parse_arguments, run


@dataclass
class ExportArguments:
    """What to export, and where to."""

    model: str = field(metadata={"help": "Folder or Hub id of a trained model."})
    output: str = field(default="step.onnx", metadata={"help": "Where to write it: .onnx."})
    chunk_size: int | None = field(
        default=None, metadata={"help": "Tokens per chunk, for models that do not fix it (default: 512)."}
    )
    tolerance: float = field(default=1e-3, metadata={"help": "Largest difference of a logit from torch's allowed."})


def main() -> None:
    """Model → ONNX → the same documents through both."""
    (args,) = parse_arguments(ExportArguments)
    predictor = Predictor(args.model, device="cpu")
    print("exporting (about a minute for a large model)", file=sys.stderr)
    path = export_onnx(predictor.model, args.output, predictor.tokenizer, args.chunk_size)
    reader = OnnxChunkReader(path)
    size = sum(part.stat().st_size for part in (path, Path(f"{path}.data")) if part.is_file())
    labels, width = len(reader.labels), reader.layout.chunk_size
    print(f"wrote {path} ({size / 2**20:.1f} MB): {labels:,} labels, {width} tokens a step")
    difference, chunks = onnx_difference(predictor.model, reader)
    print(f"largest difference from torch's logits over {chunks} chunks: {difference:.1e}")
    if difference > args.tolerance:
        raise ValueError(
            f"The logits of {path} differ by {difference:.1e} from torch's, more than the `--tolerance` of "
            f"{args.tolerance:.1e}. Do not serve the file; serve the model with the pipeline."
        )


if __name__ == "__main__":
    # The model may be named without a flag, as the first word.
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not sys.argv[1].endswith(".json"):
        sys.argv.insert(1, "--model")
    run(main)
