# Two commands do everything: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types bench clean

.venv/for-use: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# The tests need more, torch among it, which nobody should have to wait for to see the demo.
.venv/installed: .venv/for-use
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/for-use
	$(BIN)/sysbags demo --out demo

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

test: lint types
	$(BIN)/pytest -n 2 --dist worksteal

# The peers that the benchmarks measure against are large, so they are installed only here.
bench: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks --write benchmarks/RESULTS.md

clean:
	rm -rf .venv demo
