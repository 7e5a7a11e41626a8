"""The properties of `make stress`, with few inputs each; and the gradients of every custom function."""

import json

import pytest

from .stress.inputs import try_property
from .stress.numbers import all_functions_are_checked, gradients, softmax_at_the_edge
from .stress.properties import ALL


@pytest.mark.parametrize("name", [name for name in ALL if name != "sizes"])
def test_holds_for_generated_input(name, tmp_path):
    try_property(ALL[name], tmp_path, 0, tmp_path / "report.json", examples=15)
    counted = json.loads((tmp_path / "report.json").read_text())
    assert counted["inputs"] > 5 and not counted["failures"]


@pytest.mark.parametrize("name", gradients())
def test_gradient_equals_finite_differences(name):
    gradients()[name]()


def test_every_custom_function_is_among_them():
    all_functions_are_checked()


def test_label_softmax_is_stable():
    softmax_at_the_edge()
