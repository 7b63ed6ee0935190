# Everyday commands. `make demo` and `make test` need Python 3.10 or later and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0 numpy

.PHONY: demo test lint types docs bench clean

$(BIN)/anydevice: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.torch: $(BIN)/anydevice
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@touch $@

$(VENV)/.dev: $(VENV)/.torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.torch
	$(BIN)/anydevice demo

test: $(VENV)/.dev lint types
	$(BIN)/python -m pytest -q -m "not exhaustive"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/python tools/write_docs.py

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/scan_speed.py

clean:
	rm -rf $(VENV) build dist
