"""The house keeps its shape: imports point one way, models/ can travel alone, functions stay short."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hf_labelattn"
MAY_IMPORT = {
    "data": set(),
    "evaluation": set(),
    "models": set(),
    "hub": set(),
    "planting": {"data", "models"},
    "inference": {"data", "models"},
    "training": {"data", "evaluation", "models", "planting", "hub"},
}
TRAVELS_WITH = {"torch", "transformers", "numpy", "safetensors", "tokenizers", "huggingface_hub"}
STANDARD = {
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "re",
    "typing",
    "logging",
    "warnings",
    "json",
}
MODULES = sorted(PACKAGE.rglob("*.py"))
FILES = sorted([*MODULES, *ROOT.glob("run_scripts/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("tests/**/*.py")])


def imports(path: Path) -> list[tuple[int, str]]:
    """Absolute dotted names a file imports, with their lines."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: len(parts) - node.level]) + "." if node.level else ""
            found.append((node.lineno, (base + (node.module or "")).strip(".")))
    return found


def room(name: str) -> str | None:
    """The room of the package a dotted name lies in."""
    parts = name.split(".")
    return parts[1] if parts[0] == "hf_labelattn" and len(parts) > 1 and parts[1] in MAY_IMPORT else None


def functions(path: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_length(function) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_up_the_house(path):
    mine = path.relative_to(PACKAGE).parts[0]
    if mine not in MAY_IMPORT:
        return
    for line, name in imports(path):
        theirs = room(name)
        assert theirs is None or theirs == mine or theirs in MAY_IMPORT[mine], f"{path.name}:{line} imports {name}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "models").glob("*.py")), ids=lambda p: p.name)
def test_models_can_travel_inside_a_checkpoint(path):
    if path.name == "__init__.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{path.name}:{node.lineno} reaches outside models/"
            assert node.level == 1 or not (node.module or "").startswith("hf_labelattn"), f"{path.name}:{node.lineno}"
    tops = {name.split(".")[0] for _, name in imports(path)} - {"hf_labelattn", "__future__"}
    assert tops <= TRAVELS_WITH | STANDARD, f"{path.name} needs {tops - TRAVELS_WITH - STANDARD}"


def test_models_is_flat():
    assert not [p for p in (PACKAGE / "models").iterdir() if p.is_dir() and p.name != "__pycache__"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_functions_and_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 500, "split the file by what its parts do"
    for function in functions(path):
        assert body_length(function) <= 60, f"{function.name} has {body_length(function)} lines"


def test_scripts_use_public_names_and_stay_short():
    for path in ROOT.glob("run_scripts/*.py"):
        assert len(path.read_text().splitlines()) <= 150, path.name
        for line, name in imports(path):
            assert not name.startswith("hf_labelattn."), f"{path.name}:{line} imports {name}, not a public name"
        assert "python run_scripts/" in (ast.get_docstring(ast.parse(path.read_text())) or ""), path.name
