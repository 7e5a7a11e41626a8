"""What the README shows runs, and what it names exists."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    assert len(code.strip().splitlines()) <= 16
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "f1_micro" in printed
    assert len(printed.strip().splitlines()[-3:]) == 3
    assert (tmp_path / "runs/readme/results.json").exists()


def test_every_script_it_names_exists():
    root = Path(__file__).parent.parent
    named = set(re.findall(r"run_scripts/(\w+\.py)", README))
    assert named and all((root / "run_scripts" / name).exists() for name in named)
