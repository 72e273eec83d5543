# Two commands are enough: `make train` and `make test`. Both set up .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAIN ?= model=transformer

.PHONY: setup train test check clean

setup: $(VENV)/.ready

# constraints.txt pins every package, torch included, so that all of it arrives in one resolution.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

train: setup  ## the main job: a transformer on the built-in corpus
	$(BIN)/python train.py $(TRAIN)

check: setup  ## style, types, who imports whom
	scripts/check

test: setup  ## check, then every test
	scripts/check
	scripts/test

clean:
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build src/*.egg-info
