"""From tables to a trained model by the scripts alone: the mark of credentialed data arrives where it must."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from hf_labelattn import push_folder
from tests.data.mimic_tables import write_mimic3, write_mimic4

SCRIPTS = Path(__file__).parents[2] / "run_scripts"
SMALL = {"length_scale": 0.05, "num_labels": 80}


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a script in this process, as importing torch anew takes seconds; gives what it printed."""

    def run_script(script: str, *words, code: int | None = None):
        monkeypatch.setattr(sys, "argv", [str(SCRIPTS / script), *map(str, words)])
        if code is None:
            runpy.run_path(str(SCRIPTS / script), run_name="__main__")
        else:
            with pytest.raises(SystemExit) as stopped:
                runpy.run_path(str(SCRIPTS / script), run_name="__main__")
            assert stopped.value.code == code
        return capsys.readouterr()

    return run_script


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    write_mimic3(folder / "mimic3", 150, **SMALL)
    write_mimic4(folder / "mimic4", 150, **SMALL)
    return folder


def test_the_terms_of_mimic_reach_config_card_and_push(run, tables, tmp_path):
    done = run("prepare_mimic.py", "--mimic3", tables / "mimic3", "--subset", "mimic3-50", "--output_dir", tmp_path)
    assert "published 8,066" in done.out and "no patient is in two splits" in done.out
    data = tmp_path / "mimic3-50"
    splits = ("train", "validation", "test")
    files = [word for name in splits for word in (f"--{name}_file", data / f"{name}.jsonl.gz")]
    quiet = ["--use_cpu", "True", "--disable_tqdm", "True", "--max_steps", "2", "--eval_strategy", "no"]
    output = ["--label_file", data / "labels.jsonl", "--output_dir", tmp_path / "swem", "--save_strategy", "no"]
    run("run_label_attention.py", "--preset", "swem", *files, *output, *quiet)
    config = json.loads((tmp_path / "swem" / "config.json").read_text())
    assert config["training_data"]["terms"] == "physionet" and config["training_data"]["name"] == "mimic3-50"
    assert len(config["id2label"]) == 50
    card = (tmp_path / "swem" / "README.md").read_text()
    assert "physionet-credentialed-health-data-license-1.5.0" in card
    with pytest.raises(ValueError, match="forbids passing them on to the public"):
        push_folder(tmp_path / "swem", "somebody/swem", public=True)
    test = ["--test_file", data / "test.jsonl.gz", "--use_cpu", "True", "--code_levels", "True"]
    printed = run("evaluate.py", tmp_path / "swem", *test).out
    assert ["metric", "code", "category", "chapter"] in [line.split() for line in printed.splitlines()]
    levels = json.loads((tmp_path / "swem" / "results_evaluate.json").read_text())["levels"]
    assert levels["code"]["num_labels"] == 50 > levels["category"]["num_labels"] > levels["chapter"]["num_labels"]
    again = run("prepare_mimic.py", "--mimic3", tables / "mimic3", "--subset", "mimic3-50", "--output_dir", tmp_path)
    assert "there already" in again.out


def test_mimic4_and_its_notes_in_two_folders(run, tables, tmp_path):
    words = ["--mimic4", tables / "mimic4" / "hosp", "--mimic4_note", tables / "mimic4" / "note"]
    done = run("prepare_mimic.py", *words, "--output_dir", tmp_path, "--compress", "False")
    assert "mimic4-icd10-50" in done.out
    for name in ("mimic4-icd10-full", "mimic4-icd9-full", "mimic4-icd10-50"):
        assert (tmp_path / name / "test.jsonl").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Pass either `--mimic3 DIR` or `--mimic4 DIR`"),
        (["--mimic3", "nowhere"], "There is no folder nowhere"),
        (["--mimic3", "{tables}/mimic3", "--subset", "mimic3-51"], "there is no subset 'mimic3-51'"),
        (["--mimic4", "{tables}/mimic3"], "no table discharge.csv"),
    ],
)
def test_a_mistake_is_one_line(run, tables, tmp_path, words, message):
    words = [word.format(tables=tables) for word in words]
    done = run("prepare_mimic.py", *words, "--output_dir", tmp_path, code=2)
    assert message in done.err and len(done.err.strip().splitlines()) == 1


def test_the_generic_twin(run, tmp_path):
    notes = "".join(f'{i},p{i // 2},"letter {i},\nend"\n' for i in range(40))
    (tmp_path / "notes.csv").write_text(f"visit,person,note\n{notes}")
    (tmp_path / "codes.csv").write_text("visit,icd\n" + "".join(f"{i},I10\n{i},E119\n" for i in range(40)))
    columns = "--stay_column visit --text_column note --patient_column person --code_column icd --code_system icd10"
    words = ["--notes_file", tmp_path / "notes.csv", "--codes_file", tmp_path / "codes.csv", *columns.split()]
    done = run("prepare_tables.py", *words, "--output_dir", tmp_path / "clinic")
    assert "clinic" in done.out and "E11.9" in (tmp_path / "clinic" / "labels.jsonl").read_text()
    wrong = run("prepare_tables.py", *words, "--output_dir", tmp_path / "other", "--terms", "secret", code=2)
    assert "known are: physionet" in wrong.err


def test_help_explains(run):
    assert "--split_ids" in run("prepare_mimic.py", "--help", code=0).out
    assert "--patient_column" in run("prepare_tables.py", "--help", code=0).out
