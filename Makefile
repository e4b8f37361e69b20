# Two commands do everything: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
BIN := .venv/bin

# Two processes, each without threads of its own for linear algebra; one that is done takes tests of the other.
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

.PHONY: demo test quick test-long test-portable lint types compile docs links bench results dist clean

# Modules are compiled when they are imported, which most of those of the dependencies never are.
.venv/for-use: pyproject.toml src/sysbags/_common/__init__.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable .
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
	$(BIN)/lint-imports --no-cache

types: .venv/installed
	$(BIN)/mypy

# Compiled before the tests, so that they load what would be compiled by each of their processes.
compile: .venv/installed
	$(BIN)/sysbags warm-up

# Linter, types and compilation run side by side.
test: .venv/installed
	$(MAKE) --no-print-directory --jobs=2 lint types compile
	$(PYTEST)

# The fast part of the tests, in less than a minute when everything is compiled.
quick: .venv/installed
	$(PYTEST) -m "not slow"

# Statistical and exhaustive tests that take minutes: before a release, not with every change.
test-long: .venv/installed
	$(PYTEST) -m long

# What computes, as an older processor would run it: NumPy without dispatched instructions, OpenBLAS with
# another kernel, Numba for a generic processor and with a cache of its own, OpenCV and torch without AVX.
PORTABLE = NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python tests/dispatched.py)" OPENBLAS_CORETYPE=Prescott \
	NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=$(CURDIR)/.venv/numba-portable \
	OPENCV_CPU_DISABLE=AVX2,AVX,FP16 ATEN_CPU_CAPABILITY=default
COMPUTING = kernels systems distances means classifiers

test-portable: .venv/installed
	$(PORTABLE) $(BIN)/sysbags warm-up
	$(PORTABLE) $(PYTEST) tests/_numba $(COMPUTING:%=tests/%) $(COMPUTING:%=src/sysbags/%)

# The peers that the benchmarks measure against are large, so they are installed only here.
bench: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks --write docs/benchmarks.md

# The pages, in docs/_build/html. Tutorials and examples run once, and again when they have changed.
docs: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# Links between pages are checked by `make docs`; those to other sites need a network.
links: docs
	$(BIN)/sphinx-build -D plot_gallery=0 -b linkcheck docs docs/_build/links

# The figures of README.md and docs/, measured again beside those that are written there: `make results DATA=folder` with
# the folder of real data, whose figures are not checked without it. LONG=1 runs what takes hours, too.
results: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks.claims $(if $(DATA),--data '$(DATA)') $(if $(LONG),--long)

# What is uploaded at a release. Both files are tried in environments of their own, outside of this folder, with
# $(PYTHON): `make dist PYTHON=python3.13` tries another version.
dist: .venv/for-use
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	tests/check_distribution.sh dist/*.whl $(PYTHON)
	tests/check_distribution.sh dist/*.tar.gz $(PYTHON)

clean:
	rm -rf .venv demo docs/_build docs/api docs/api.rst docs/commands.rst docs/gallery docs/tutorials
