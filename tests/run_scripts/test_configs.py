"""Every file of run_scripts/configs is understood by its script, and names real files, metrics and subsets."""

import json
import math
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from hf_labelattn import (
    DataArguments,
    InteractionArguments,
    LabelAttentionConfig,
    LabelAttnTrainingArguments,
    LEAMConfig,
    PlantArguments,
    RankingArguments,
    metrics_table,
    mimic_subset_names,
    multilabel_metrics,
    parse_arguments,
)

SCRIPTS = Path(__file__).parents[2] / "run_scripts"
CONFIGS = sorted(
    path for path in (SCRIPTS / "configs").glob("*.json") if not path.name.startswith(("compare_", "search_"))
)
SEARCHES = sorted((SCRIPTS / "configs").glob("search_*.json"))
METRICS = set(multilabel_metrics(np.eye(4), np.eye(4, dtype=bool))) | {"source"}
OURS = {"plant": "run_plant", "leam": "run_leam", "interaction": "run_interaction"}


def script_of(path: Path) -> str:
    return OURS.get(path.name.split("_")[0], "run_label_attention")


def classes_of(script: str) -> list[type]:
    common = [DataArguments, LabelAttnTrainingArguments]
    if script == "run_plant":
        return [PlantArguments, RankingArguments, *common]
    if script == "run_interaction":
        return [InteractionArguments, *common]
    return [runpy.run_path(str(SCRIPTS / f"{script}.py"))["ModelArguments"], *common]


def parse(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["script", *map(str, words)])
    return parse_arguments(*classes_of(script_of(Path(words[0]))))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_is_understood(monkeypatch, path):
    model, *_, data, training = parse(monkeypatch, path, "--output_dir", "runs/elsewhere", "--max_steps", 2)
    assert training.output_dir == "runs/elsewhere" and training.max_steps == 2
    subset = Path(data.train_file).parent.name
    assert subset in mimic_subset_names() and path.stem.endswith(subset.replace("-", "_"))
    for name in ("train", "validation", "test"):
        assert getattr(data, f"{name}_file") == f"data/{subset}/{name}.jsonl.gz"
    assert data.published.keys() <= METRICS and len(data.published) > 2
    assert all(0 < figure < 1 for name, figure in data.published.items() if name != "source")
    assert training.metric_for_best_model in METRICS | {"loss", None}
    overrides = getattr(model, "overrides", None) or {}
    if script_of(path) == "run_leam":
        LEAMConfig(num_labels=50, problem_type="multi_label_classification", **overrides)
    if script_of(path) == "run_label_attention" and model.preset not in ("linear", "plm_icd"):
        LabelAttentionConfig.preset(model.preset, num_labels=50, **overrides)
    if script_of(path) == "run_interaction":
        LabelAttentionConfig.preset(model.base, num_labels=50, **model.base_overrides)


@pytest.mark.parametrize("path", SEARCHES, ids=lambda path: path.stem)
def test_what_a_search_tries_can_be_set(monkeypatch, path):
    model, _, training = parse(monkeypatch, path, "--output_dir", "runs/elsewhere")
    combinations = math.prod(len(values) for values in model.search_space.values())
    assert 1 < model.search_trials <= combinations <= 16, "small, and none left out by chance"
    assert training.metric_for_best_model in METRICS
    for name, values in model.search_space.items():
        if name.startswith("overrides."):
            for value in values:
                fields = {**(model.overrides or {}), name.removeprefix("overrides."): value}
                LabelAttentionConfig.preset(model.preset, num_labels=5, **fields)
        else:
            assert hasattr(training, name)


def test_every_table_of_the_papers_is_there():
    sources = " ".join(json.loads(path.read_text())["published"]["source"] for path in CONFIGS)
    assert all(f"PLANT paper, Table {number}" in sources for number in (3, 4, 5, 6))
    assert "LEAM paper, Table 5" in sources and "Interaction matching paper, Table 2" in sources
    assert len(CONFIGS) == 25


def test_a_file_with_an_unknown_option_is_refused(monkeypatch, tmp_path, capsys):
    path = tmp_path / "leam_x.json"
    path.write_text('{"output_dir": "x", "windw": 3}')
    with pytest.raises(SystemExit):
        parse(monkeypatch, path)
    assert "has windw, which this script does not know" in capsys.readouterr().err
    path.write_text("{")
    with pytest.raises(SystemExit):
        parse(monkeypatch, path)
    assert "is not JSON" in capsys.readouterr().err


def test_values_of_a_file_keep_their_kinds(monkeypatch, tmp_path):
    path = tmp_path / "plant_x.json"
    fields = {"output_dir": "x", "unfreezing": ["^a b", "^c"], "learning_rate": 0.5, "use_cpu": True, "prior": None}
    path.write_text(json.dumps({**fields, "learning_rates": {"^a": 1e-4}, "published": {"f1_micro": 0.5}}))
    plant, _, data, training = parse(monkeypatch, path)
    assert training.unfreezing == ["^a b", "^c"] and training.learning_rate == 0.5 and training.use_cpu is True
    assert training.learning_rates in ({"^a": 1e-4}, '{"^a": 0.0001}') and plant.prior is None
    assert data.published == {"f1_micro": 0.5}


def test_published_figures_stand_beside_ours():
    metrics = {"validation": {"f1_micro": 0.5}, "test": {"f1_micro": 0.25, "auc_micro": 0.75}}
    table = metrics_table(metrics, {"source": "A paper, Table 1", "f1_micro": 0.4, "auc_micro": 0.8}).splitlines()
    assert table[0].split() == ["metric", "validation", "test", "published"]
    assert table[1].split() == ["f1_micro", "0.5000", "0.2500", "0.4000"]
    assert table[2].split() == ["auc_micro", "–", "0.7500", "0.8000"]
    assert table[-1] == "published: A paper, Table 1"
    assert "published" not in metrics_table(metrics)
