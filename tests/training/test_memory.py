"""Memory does not grow with the length of a document: measured as peak resident memory of a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys, torch
sys.path.insert(0, {root!r})
from tests import tiny
torch.set_num_threads(1)
mode, name, tokens = {mode!r}, {name!r}, {tokens}
sizes = dict(num_labels=50, embedding_size=64, hidden_size=64, attention_size=64)
model = tiny.CLASSIFIERS[name](chunk_size=128, bptt_chunks=8, **sizes)
ids = torch.randint(2, tiny.VOCAB, (1, tokens))
if mode == "inference":
    with torch.no_grad():
        model(ids)
else:
    model.train()(ids, labels=torch.zeros(1, 50)).loss.backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak(mode: str, name: str, tokens: int) -> float:
    root = str(Path(__file__).parent.parent.parent)
    program = PROGRAM.format(root=root, mode=mode, name=name, tokens=tokens)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "name"), [("inference", "caml"), ("training", "laat")])
def test_ten_times_the_tokens_take_the_same_memory(mode, name):
    short, long = peak(mode, name, 10_000), peak(mode, name, 100_000)
    assert long < 1.1 * short, f"{short:.0f} MB for 10,000 tokens, {long:.0f} MB for 100,000"
