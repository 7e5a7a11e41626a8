"""Nothing in the code can run what a file says: no pickle, no eval, no unpacked archive, no shell."""

import ast
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from hf_labelattn import NotesError, load_notes, load_vector_table
from hf_labelattn.data.tokenization import word_tokenizer

from . import audit

ROOT = Path(__file__).parent.parent
CODE = sorted([*ROOT.glob("hf_labelattn/**/*.py"), *ROOT.glob("run_scripts/*.py")])
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "tarfile"}
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen", "yaml.load", "pd.read_pickle", "torch.jit.load"}
FORBIDDEN_CALLS |= {"joblib.load", "joblib.dump"}  # its processes are fine, its files are pickles
SAFE_OPTIONS = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}


def imported(tree: ast.AST) -> set[str]:
    plain = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {name.split(".")[0] for name in plain} | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        if not node.level
    }


def unsafe_calls(tree: ast.AST) -> list[str]:
    """Calls that run or unpack what a file says."""
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        options = {word.arg: getattr(word.value, "value", None) for word in call.keywords}
        option, value = SAFE_OPTIONS.get(name, (None, None))
        wrong = name in FORBIDDEN_CALLS or name.endswith((".extractall", ".extract"))
        wrong |= option is not None and options.get(option) is not value
        wrong |= (
            bool(options.get("shell")) or bool(options.get("trust_remote_code")) or bool(options.get("allow_pickle"))
        )
        found += [f"line {call.lineno}: {name}"] if wrong else []
    return found


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_can_run_code(path):
    tree = ast.parse(path.read_text())
    assert not imported(tree) & FORBIDDEN_MODULES
    assert not unsafe_calls(tree)


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(f)",
        "np.load(f)",
        "eval(x)",
        "run(x, shell=True)",
        "z.extractall(p)",
        "np.load(f, allow_pickle=True)",
        "joblib.load(f)",
    ],
)
def test_the_search_finds_what_it_looks_for(line):
    assert unsafe_calls(ast.parse(line))


def test_a_pickle_is_refused_where_data_is_read(tmp_path):
    array = io.BytesIO()
    np.save(array, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "vectors.npy").write_bytes(array.getvalue())
    (tmp_path / "vectors.txt").write_text("a\n")
    with pytest.raises(ValueError, match="vectors.npy"):
        load_vector_table(tmp_path / "vectors.npy", word_tokenizer(["a"]))
    (tmp_path / "notes.jsonl").write_bytes(array.getvalue())
    with pytest.raises(NotesError):
        load_notes(tmp_path / "notes.jsonl")


def test_names_in_the_data_never_become_paths(tmp_path):
    """Ids, groups and labels that look like paths are only strings."""
    up = "../../escaped"
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    rows = [{"id": f"{up}{i}", "group": f"/{up}{i}", "text": "x", "labels": [up, "C:\\x"]} for i in range(3)]
    (inside / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    notes = load_notes(inside / "notes.jsonl")
    assert notes["train"]["labels"][0] == [up, "C:\\x"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "notes.jsonl"]


class Database(BaseHTTPRequestHandler):
    """Knows a weakness of numpy."""

    def do_POST(self):  # noqa: N802
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        rows = [{"vulns": [{"id": "X-1"}]} if row["package"]["name"] == "numpy" else {} for row in asked]
        body = json.dumps({"results": rows}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Silent."""


def test_known_weaknesses_are_found_and_no_connection_is_said(capsys, monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), Database)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    assert audit.main(address) == 1
    assert "numpy" in (said := capsys.readouterr().out) and "1 with known weaknesses" in said
    monkeypatch.setitem(audit.ACCEPTED, "X-1", "a test")
    assert audit.main(address) == 0
    server.shutdown()
    server.server_close()
    assert audit.main(address) == 0
    assert "cannot be reached" in capsys.readouterr().out
