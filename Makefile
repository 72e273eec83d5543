# Two commands are enough: `make train` and `make test`. Both set up .venv if it is missing. `make help` lists all targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAIN ?= model=transformer

.PHONY: help setup train check test-fast test test-full test-wheel docs release clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## install heed and its development tools into .venv

# constraints.txt pins every package, torch included, so that one resolution finds all of them.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

train: setup  ## train a transformer on the built-in corpus; other options: make train TRAIN='model=rnn'
	$(BIN)/python train.py $(TRAIN)

check: setup  ## lint, format, types, import rules (seconds)
	$(BIN)/python scripts/test.py check

# The tests that tests/conftest.py marks as fast.
test-fast: setup  ## the tests of computation (one minute)
	$(BIN)/python scripts/test.py fast

# Excludes the markers browser and full. This is what CI runs.
test: setup  ## check, then the tests that CI runs (eight minutes on two idle cores)
	$(BIN)/python scripts/test.py

# Also tests in headless Chromium, 3,000 fuzz cases, and the soak test.
test-full: setup  ## check, all tests, a long fuzz test and the soak test (two hours)
	$(BIN)/python scripts/test.py full

test-wheel: setup  ## build the wheel and train from it in an empty environment
	$(BIN)/python scripts/test.py wheel

docs: setup  ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# `twine check` reads the README as PyPI shows it.
release: setup  ## build the wheel and the sdist into dist/, check them, and print the commands that publish them
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	@version=$$($(BIN)/python -c 'import heed; print(heed.__version__)'); echo "To publish $$version:"; \
	echo "  git tag -a v$$version -m 'heed $$version' && git push origin v$$version"; \
	echo "  $(BIN)/python -m twine upload dist/*"

clean:  ## delete caches and build outputs
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site src/*.egg-info
