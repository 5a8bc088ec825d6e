# What a user types. Every target sets up what it needs on first use.
STUDY ?= multi-buffer-pool
SCALE ?= quick
# A server that is only installed if asked for: make setup ALSO=mariadb-10.11
ALSO ?=
# How many tests run side by side.
WORKERS ?= 2
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash

# A shell that forbids bytecode would make every later start of the tools slow.
export PYTHONDONTWRITEBYTECODE :=
export ANSIBLE_CONFIG := playbooks/ansible.cfg
# When the user pressed Enter: the report says how long the set-up took.
ifndef INNOLAB_BEGAN
export INNOLAB_BEGAN := $(shell date +%s.%N)
endif

.PHONY: help setup report reports test test-measuring test-lab test-all lint docs jupyter lab lab-down bench evaluate references spreads texts lock clean

help:  ## list these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 16

setup: $(VENV)/.ready  ## Python environment, MySQL builds and base my.cnf
	@$(BIN)/innolab setup $(ALSO)

report: setup  ## run STUDY at SCALE, render its report, print the answer and the page
	@$(BIN)/innolab run $(STUDY) --scale $(SCALE) $(if $(EFFORT),--effort $(EFFORT))
	@$(BIN)/innolab index > /dev/null

reports: setup  ## run every study that this host can run, and say of the rest why not
	@for study in $$($(BIN)/innolab list --names); do \
	    $(BIN)/innolab run $$study --scale $(SCALE) $(if $(EFFORT),--effort $(EFFORT)) || [ $$? = 2 ] || failed=1; done; \
	$(BIN)/innolab index; exit $${failed:-0}

# Tests side by side, then one by one those that measure; $(1) narrows both, $(2) the second alone.
define both_parts
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not alone$(1)" || failed=1; \
	$(BIN)/python -m pytest -m "alone$(1)$(2)" || failed=1; exit $${failed:-0}
endef

test: setup lint  ## the tests that decide most, one real run among them
	$(call both_parts, and not thorough and not lab, and smoke)

test-measuring test-all: ALSO = mariadb-10.11

test-measuring: setup  ## the other tests that measure, on real servers, one by one
	@$(BIN)/python -m pytest -m "alone and not smoke and not thorough and not lab"

test-lab: setup  ## the tests of the lab that decide most: raised, refusals, taken down
	@$(BIN)/python -m pytest -m "lab and not thorough"

test-all: setup lint  ## every test: each kill and refusal, the whole lab
	$(call both_parts)

lint: $(VENV)/.ready  ## style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: $(VENV)/.ready  ## build the documentation as pages, and print their path
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo $(CURDIR)/site/index.html

jupyter: setup  ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab --notebook-dir notebooks

lab: $(VENV)/.ready  ## raise the QEMU lab: a host with eight slow disks to try site.yml on
	@$(BIN)/ansible-playbook playbooks/lab.yml

lab-down: $(VENV)/.ready  ## end the lab and delete its disks (its image stays)
	@$(BIN)/ansible-playbook playbooks/lab.yml -e '{"lab_state": "absent"}'

bench: setup  ## measure innolab itself, as ratios taken side by side
	@$(BIN)/ansible-playbook playbooks/workstation.yml -e '{"tools_wanted": ["fio", "mysql-client"]}'
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.scheduling

evaluate: setup  ## do our intervals hold? simulated, then sizes of pools and the same arm twice on real servers (root)
	@$(BIN)/python -m benchmarks.error_rates
	@$(BIN)/python -m benchmarks.pooling_rates
	@$(BIN)/python -m benchmarks.sizing
	@$(BIN)/python -m benchmarks.evaluation

references: $(VENV)/.ready  ## render the shipped reports by today's code, in the place of older renderings
	@$(BIN)/python -m benchmarks.references

spreads: $(VENV)/.ready  ## write data/spreads.csv: by how much restarts differ in our own reports
	@$(BIN)/python -m benchmarks.spreads

texts: $(VENV)/.ready  ## bring data/languages up to what notebooks, claims and pages say
	@PYTHONPATH=tests $(BIN)/python tests/texts.py

lock: $(VENV)/.ready  ## bring requirements.lock up to pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	    --python-version 3.11 --all-extras pyproject.toml --output-file requirements.lock
	@sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock | $(BIN)/uv pip compile --quiet --universal \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate - --output-file bootstrap.lock

clean:  ## remove the Python environment (reports and caches stay)
	rm -rf $(VENV)

$(VENV)/.ready: requirements.lock bootstrap.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "innolab needs Python 3.11 or later as $(PYTHON). On Debian 12: apt install python3-venv;" \
	         "elsewhere name one with: make PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	    echo "innolab needs the venv module of $(PYTHON). On Debian: apt install python3-venv"; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bootstrap.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps \
	    --no-build-isolation --editable .
	@touch $@
