"""The properties of `make stress`, with few inputs each; and the gradients of every custom function."""

import ast
import inspect
import json
from pathlib import Path

import pytest

import hf_labelattn

from .stress.forked import SCRIPTS
from .stress.inputs import PROPERTIES, try_property
from .stress.numbers import all_functions_are_checked, gradients, softmax_at_the_edge

SLOW = {"sizes", "long_words", "climb_codes"}  # seconds each: only in `make stress`

# Public names that meet no input of their own, and why.
SPARED = {
    "compare.py, whose files they read": ["Comparison", "Workshop", "collect", "draw_cost_scatter", "draw_gains"]
    + [
        "draw_frequency_bars",
        "draw_learning_curves",
        "markdown_tables",
        "put_into_readme",
        "read_external",
        "run_comparison",
    ],  # read what compare.py wrote
    "called by run_plant.py": ["plant_attention"],
    "tests/inference/test_figures.py": ["class_means", "cosine_matrix", "draw_cosine_matrix", "draw_joint_space"]
    + ["joint_space"],
    "called by fit_tfidf_linear, explain": ["inverse_document_frequency", "window_characters", "match_figure"],
    "at import": ["__version__", "register_auto_classes", "register_pipeline"],
    "tests/test_storage.py": ["replacing"],
    "tests/data/test_description_vectors.py": ["load_vector_table"],
    "the embedded corpus": ["synthetic_label_descriptions"],
}


def imported(path: Path) -> set[str]:
    """What a file takes from this library."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in found if (node.module or "").startswith("hf_labelattn") for alias in node.names}


def test_every_public_function_meets_generated_input():
    """By a property, or in a script that `make stress` runs on odd files; outputs and arguments come with them."""
    files = list(Path(__file__).parent.glob("stress/*.py"))
    text = "".join(path.read_text() for path in files)
    files += [path for path in SCRIPTS.glob("*.py") if path.name in text or f'"{path.stem}"' in text]
    tried = {name for path in files for name in imported(path)} | {name for names in SPARED.values() for name in names}
    functions = {name for name in hf_labelattn.__all__ if inspect.isroutine(getattr(hf_labelattn, name))}
    assert not functions - tried


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name not in SLOW])
def test_holds_for_generated_input(name, tmp_path):
    try_property(PROPERTIES[name], tmp_path, 0, tmp_path / "report.json", examples=15)
    counted = json.loads((tmp_path / "report.json").read_text())
    assert counted["inputs"] > 1 and not counted["failures"]


@pytest.mark.parametrize("name", gradients())
def test_gradient_equals_finite_differences(name):
    gradients()[name]()


def test_every_custom_function_is_among_them():
    all_functions_are_checked()


def test_label_softmax_is_stable():
    softmax_at_the_edge()
