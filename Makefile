# Every target makes the environment in .venv when it is absent or out of date, and reuses it otherwise.
.DEFAULT_GOAL := help
.PHONY: help demo test fuzz torture lint format hooks bench docs release clean

# The first Python that runs and is new enough; empty when there is none.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ORACLES := $(VENV)/.oracles
DOCS := $(VENV)/.docs
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

demo: $(READY) ## learn a rotation from data and write a report
	$(BIN)/covary discover --symmetrize rotate:180 --num-train 3000 --network mlp:300 --baselines plain --out runs/demo --overwrite $(ARGS)

test: $(READY) $(ORACLES) ## run the tests
	$(BIN)/python -m pytest $(ARGS)

fuzz: $(READY) ## run random networks against brute force, and commands on malformed input
	PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

torture: $(READY) ## kill, starve and damage runs for 15 minutes at most, and print what held
	PYTHONPATH=tests $(BIN)/python -m torture $(ARGS)

lint: $(READY) ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## put the code into the format that lint asks for
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

hooks: $(READY) ## check each commit before it is made, by pre-commit
	$(BIN)/pre-commit install

bench: $(READY) ## measure time and memory of the curvature
	$(BIN)/covary bench curvature

docs: $(DOCS) ## build the documentation into site/
	$(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees docs site

release: $(READY) ## build sdist and wheel into dist/ and check them in a fresh environment
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python .ci/check_release.py

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist site docs/_build docs/tutorials docs/examples docs/reference/api docs/reference/commands.md docs/reference/settings.md .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "error: covary needs Python 3.11 or later; name one by: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || { echo "Installing torch and all that covary needs into $(VENV), once; this takes minutes and prints nothing."; $(PYTHON) -m venv $(VENV); }
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

# Other libraries that tests compare with or work inside of. Without their own dependencies: the list has them all, pinned.
$(ORACLES): oracles.txt $(READY)
	@$(PIP) install --no-deps -r oracles.txt \
		|| echo "note: the libraries in oracles.txt could not be installed; the tests that compare with them are skipped. To try again: rm $@"
	@touch $@

$(DOCS): $(READY)
	@$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@
