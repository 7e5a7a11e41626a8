"""The script that collects cards."""

import runpy
import sys
from pathlib import Path

import pytest

from ..hub.test_model_card import save_run

SCRIPT = Path(__file__).parents[2] / "run_scripts" / "collect_cards.py"


def collect(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_runs_become_cards_and_an_index(tmp_path, monkeypatch, capsys):
    for name in ("first", "second"):
        save_run(tmp_path / name)
    collect(monkeypatch, tmp_path / "first", tmp_path / "second", "--output", tmp_path / "cards")
    assert f"wrote 2 cards and {tmp_path / 'cards'}/README.md" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "cards").iterdir()) == ["README.md", "first.md", "second.md"]


def test_a_folder_without_a_run_is_said(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        collect(monkeypatch, tmp_path, "--output", tmp_path / "cards")
    assert ended.value.code == 2 and "holds no finished run" in capsys.readouterr().err
