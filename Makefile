# Everything runs in .venv, which the targets make themselves; `make help` lists them.
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
PYTHON ?= python3
PYTEST_ARGS ?=
SOURCES := autotune kernels migrations profiles pega_tune tests

# Demos, tests and benchmarks must not see the user's own database.
unexport PEGA_TUNE_DB PEGA_TUNE_FLEET

.PHONY: help setup demo test check format gpu-test bench lock dist clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo      set up, sweep the GPU here (a simulated one if there is none), and ask for a plan'
	@echo 'make test      set up, run every check and every test'
	@echo 'make check     format, lint, types, layers'
	@echo 'make format    format and mend what the linter can'
	@echo 'make gpu-test  the tests that need an NVIDIA GPU'
	@echo 'make bench     timings that no test asserts'
	@echo 'make lock      renew requirements/ci.txt from pyproject.toml'
	@echo 'make dist      wheel and sdist into dist/'
	@echo 'make clean     remove what the other targets made'

# A virtual environment needs Python's own wheels (ensurepip), which Debian packs apart.
$(BIN)/python:
	@if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv; \
	  else \
	    echo 'error: no Python that can make virtual environments; install python3 and python3-venv' >&2; exit 3; \
	  fi; \
	fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'error: $(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12' >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)

# Doubly quiet: pip warns dozens of times of what a machine's index configuration lacks, and no user can act on it.
$(VENV)/.locked: requirements/ci.txt | $(BIN)/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements/ci.txt
	@touch $@

$(VENV)/.ready: pyproject.toml $(VENV)/.locked
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

setup: $(VENV)/.ready

demo: setup
	@mkdir -p $(DEMO)
	@echo '$$ pega-tune doctor'; \
	if $(BIN)/pega-tune --db $(DEMO)/demo.db doctor; then device=auto; \
	else device=sim:h200; printf '\nNo GPU to measure here: the demo goes on with the simulated device sim:h200.\n'; fi; \
	set -e; run() { printf '\n$$ pega-tune %s\n' "$$*"; $(BIN)/pega-tune --db $(DEMO)/demo.db "$$@"; }; \
	code=0; run sweep --device $$device --preset quick || code=$$?; \
	[ $$code = 0 ] || [ $$code = 5 ] || exit $$code; \
	run profiles list; \
	run decide --device $$device --ranges 16384 --bytes 67108864 --direction h2d; \
	run decide --device $$device --ranges 1 --bytes 67108864 --direction h2d

check: setup
	$(BIN)/ruff format --check --quiet $(SOURCES)
	$(BIN)/ruff check --quiet $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup
	$(BIN)/ruff check --quiet --fix $(SOURCES)
	$(BIN)/ruff format --quiet $(SOURCES)

test: check
	$(BIN)/python -m pytest -n auto --dist loadfile $(PYTEST_ARGS)

gpu-test: setup
	@$(BIN)/pega-tune doctor || { echo 'error: the tests would all be skipped' >&2; exit 3; }
	$(BIN)/python -m pytest -m gpu tests/gpu $(PYTEST_ARGS)

bench: setup
	@set -e; for file in tests/bench/*.py; do echo "== $$file"; \
	  PYTHONPATH=. $(BIN)/python $$file || [ $$? = 3 ]; done

# Exact versions for every Python and processor that we support; no index is written into it.
lock: setup
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra cu13 --extra dev --no-header --no-annotate \
	  --no-emit-index-url --output-file requirements/ci.txt pyproject.toml

dist: setup
	rm -rf dist
	$(BIN)/python -m build --quiet --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
