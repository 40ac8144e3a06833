# Two commands from a fresh clone: `make profile` runs the main job, `make test` the tests. Neither needs a GPU.
# Everything is installed into a virtual environment of its own; PYTHON picks the interpreter (3.10 or newer).

PYTHON ?= python3
VENV   ?= .venv
SAMPLE ?= S1/ICVXKH
ARGS   ?=

BIN := $(VENV)/bin
# Of fourteen thousand files few are ever imported: those are compiled when they are.
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: setup profile test check clean

setup: $(VENV)/.with-test

profile: $(VENV)/.installed
	$(BIN)/profkit profile $(SAMPLE) $(ARGS)

# UTF-8 as in .ci/run: programs and runners are then forks of one server. Many tests wait for processes of theirs: two at
# a time leave two cores partly idle.
test: export PYTHONUTF8 = 1
test: setup
	$(BIN)/python -m pytest -n 3 -m "not slow and not gpu" $(ARGS)

check: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The marks are remade when the dependencies change; what tests need holds what profkit needs.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --no-compile -c constraints.txt -e .
	@touch $@

$(VENV)/.with-test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --no-compile -c constraints.txt -e '.[test]'
	@touch $(VENV)/.installed $@

$(VENV)/.with-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --no-compile -c constraints.txt -e '.[test,dev]'
	@touch $(VENV)/.installed $@
