.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
SOURCES := hf_labelattn run_scripts tests benchmarks

.PHONY: help install demo test stress bench bench-peers style quality clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@echo "installing hf_labelattn and its test tools into $(VENV) (a few minutes the first time)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --progress-bar off -e ".[test]"
	@touch $@

install: $(STAMP)  ## make .venv and install the package in it (the other targets do this by themselves)

demo: $(STAMP)  ## train the best model on the embedded notes and show what it predicts, within minutes
	@$(RUN) run_scripts/demo.py

test: $(STAMP)  ## run every test and doctest
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist worksteal

stress: $(STAMP)  ## kill, fill, damage, flood and search for minutes; prints one table
	@$(RUN) -m tests.stress.run

bench: $(STAMP)  ## measure speed and memory as ratios, side by side (some twenty minutes)
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.run

bench-peers:  ## make .venv-peers with the libraries the comparisons name (not dependencies of this one)
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@echo "installing libmultilabel, fasttext and fastai into .venv-peers (a few minutes)"
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --progress-bar off \
		torch==2.13.0 "libmultilabel[nn]==0.10.0" "setuptools<81" fasttext fastai
	@.venv-peers/bin/python -m pip uninstall --quiet --yes torchvision  # of another build than torch, it breaks both

style: $(STAMP)  ## format the code
	@$(RUN) -m ruff check --fix --quiet $(SOURCES)
	@$(RUN) -m ruff format --quiet $(SOURCES)

quality: $(STAMP)  ## check format, lint and known weaknesses of the installed packages without changing anything
	@$(RUN) -m ruff check $(SOURCES)
	@$(RUN) -m ruff format --check $(SOURCES)
	@$(RUN) -m tests.audit

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .venv-peers runs build *.egg-info .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
