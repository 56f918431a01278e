# `make` alone says what there is to do.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where the CPU wheel of torch comes from; see tools/install.py.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
SCRIPT_TESTS = $(wildcard tests/js/*/*.test.js)
# The tests of a file stay in one process, for they share fixtures.
# Durations go to a report per target, for tools/write_testing_page.py.
# The product lowers the priority of its runs.  Tests have the lowest priority too, or
# they would leave no time to the runs that other tests wait for.
PYTEST = nice -n 19 $(BIN)/pytest -q --instafail --maxprocesses 8 --dist loadfile \
	--junitxml=.pytest_cache/$@.xml

export TORCH_INDEX
# Each of the thousands of processes of the tests would compile the product's source.
unexport PYTHONDONTWRITEBYTECODE
# Tests and benchmarks compare times and bits: one thread each.
test test-all test-release bench: export OMP_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help run docs links test test-all test-release check lint types unit scripts format bench clean system-packages

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run.installed $(VENV)/noise.compiled ## Start the pages and the worker on http://127.0.0.1:8000 (HOST, PORT)
	@exec $(BIN)/python -m dpsgd_explorer serve

# Checking types takes half a minute of one core; the tests begin meanwhile.
test: system-packages lint $(VENV)/noise.compiled ## Check and test all that a change can break by mistake
	@$(MAKE) --no-print-directory --jobs 3 types scripts unit

# Long tests wait for processes and clocks: there are three test processes for two cores.
test-all test-release: PROCESSES = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
test-all: $(VENV)/dev.installed system-packages $(VENV)/noise.compiled ## Run the long tests, which `make test` leaves out
	@tools/system_packages.sh servers
	$(PYTEST) -n $(PROCESSES) --no-loadscope-reorder -m "long and not release"

test-release: $(VENV)/dev.installed system-packages $(VENV)/noise.compiled ## Run the tests of packages, fonts, sanitizers and benchmarks, before a release
	$(PYTEST) -n $(PROCESSES) --no-loadscope-reorder -m release

check: lint types docs ## Lint, format, types and documentation, without tests

docs: $(VENV)/docs.installed ## Build the documentation into built_docs/, which the site serves at /docs/
	@$(BIN)/python -m tools.build_docs

links: $(VENV)/docs.installed ## Follow the links of the documentation to other hosts; needs the network
	@$(BIN)/python -m sphinx --quiet --fresh-env -b linkcheck docs $(VENV)/links
	@echo "All links to other hosts work."

lint: $(VENV)/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint Dockerfile
	$(BIN)/python -m tools.plain_language

types: $(VENV)/dev.installed
	$(BIN)/mypy

unit: $(VENV)/dev.installed system-packages $(VENV)/noise.compiled
	$(PYTEST) -n auto -m "not long"

scripts: system-packages
	node --test $(SCRIPT_TESTS)

format: $(VENV)/dev.installed ## Put the code into the house's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev.installed $(VENV)/noise.compiled ## Measure speed and memory; writes benchmarks/results/
	$(BIN)/python -m benchmarks

clean: ## Remove the environment and all caches; runs in instance/ stay
	rm -rf $(VENV) build dist *.egg-info built_docs .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f dpsgd_explorer/dp/backends/native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

system-packages:
	@tools/system_packages.sh

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name one with PYTHON=.")'
	@echo "Making the environment $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.installed: requirements.txt tools/install.py | $(VENV)/bin/python
	@$(BIN)/python tools/install.py requirements.txt
	@touch $@

# Without a compiler torch draws the noise and multiplies patches, more slowly.
$(VENV)/noise.compiled: $(wildcard dpsgd_explorer/dp/backends/native/*.[ch]) tools/compile_noise.py pyproject.toml | $(VENV)/bin/python
	@$(BIN)/python tools/compile_noise.py
	@touch $@

$(VENV)/kernels.installed: requirements-kernels.txt tools/install.py | $(VENV)/bin/python
	@$(BIN)/python tools/install.py requirements-kernels.txt $(VENV)/kernels
	@touch $@

# The pages of the API import the library.
$(VENV)/docs.installed: requirements-docs.txt $(VENV)/run.installed
	@$(BIN)/python tools/install.py requirements-docs.txt
	@touch $@

$(VENV)/dev.installed: requirements-dev.txt requirements-docs.txt $(VENV)/run.installed $(VENV)/kernels.installed
	@$(BIN)/python tools/install.py requirements-dev.txt
	@touch $@
