"""A folder of cards: every finished run has one, and the index lists them all."""

import json

import pytest

from hf_labelattn.hub.card_index import collect_cards, finished_runs

from .. import tiny
from .test_model_card import save_run


@pytest.fixture
def runs(tmp_path):
    """Two runs, the stage and the checkpoint of one of them, and one that has not ended."""
    save_run(tmp_path / "runs/caml")
    save_run(tmp_path / "runs/notes/laat", tiny.zoo("laat"))
    for part in ("stages/language_model", "checkpoint-3"):
        (tmp_path / "runs/caml" / part).mkdir(parents=True)
        (tmp_path / "runs/caml" / part / "config.json").write_text("{}")
    (tmp_path / "runs/unfinished").mkdir()
    (tmp_path / "runs/unfinished/config.json").write_text("{}")
    return tmp_path / "runs"


def set_figure(run, value: float, **config) -> None:
    results = json.loads((run / "results.json").read_text())
    results["metrics"]["test"] |= {"f1_micro": value, "f1_micro/count_1-10": 0.1}
    (run / "results.json").write_text(json.dumps(results))
    stored = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**stored, **config}))


def test_every_finished_run_has_a_card(runs, tmp_path):
    set_figure(runs / "notes/laat", 0.4)
    written = collect_cards([runs], tmp_path / "cards", prefix="org/")
    assert [path.name for path in written] == ["caml.md", "notes-laat.md"]
    assert 'Predictor("org/caml")' in written[0].read_text() and "count_1-10" not in written[1].read_text()
    index = (tmp_path / "cards/README.md").read_text()
    rows = [line for line in index.splitlines() if line.startswith("| [")]
    assert rows == [  # best first
        "| [notes-laat](notes-laat.md) | LAAT | 5 | 0.4000 |",
        "| [caml](caml.md) | CAML | 5 | 0.2500 |",
    ]
    assert index.count("## synthetic_notes") == 1 and "credentialed" not in index


def test_cards_of_earlier_runs_stay_in_the_index(runs, tmp_path):
    set_figure(runs / "notes/laat", 0.4, training_data={"name": "mimic3-50", "terms": "physionet"})
    collect_cards([runs / "caml"], tmp_path / "cards")
    collect_cards([runs / "notes/laat"], tmp_path / "cards")
    index = (tmp_path / "cards/README.md").read_text()
    assert index.index("## mimic3-50") < index.index("[laat](laat.md) *") < index.index("## synthetic_notes")
    assert "[caml](caml.md) |" in index and "under the terms of credentialed data" in index
    before = {path.name: path.read_bytes() for path in (tmp_path / "cards").iterdir()}
    collect_cards([runs / "caml"], tmp_path / "cards")
    assert {path.name: path.read_bytes() for path in (tmp_path / "cards").iterdir()} == before


def test_runs_of_one_name_are_not_mixed_up(runs, tmp_path):
    save_run(tmp_path / "other/caml")
    with pytest.raises(ValueError, match="would both become caml.md"):
        collect_cards([runs / "caml", tmp_path / "other/caml"], tmp_path / "cards")


def test_a_folder_without_a_run_is_refused(runs, tmp_path):
    for folder in (runs / "unfinished", tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="holds no finished run"):
            collect_cards([folder], tmp_path / "cards")
    assert finished_runs(runs) == [runs / "caml", runs / "notes/laat"]
