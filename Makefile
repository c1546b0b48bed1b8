# Every target uses one virtual environment: .venv, or VENV=... on the command line.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
RUN := VIRTUAL_ENV=$(abspath $(VENV)) PATH="$(abspath $(BIN)):$$PATH" PYO3_PYTHON=$(abspath $(BIN))/python
SOURCES := pyproject.toml Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)

.DEFAULT_GOAL := help
.PHONY: help demo ci develop test lint format bench bench-rust wheel clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.demo ## set up what it needs, then evaluate the built-in embeddings: a table and report.html
	@$(BIN)/nearwise $(DEMO)

# All of them by name: maturin does not expand the extra that names the others.
EXTRAS := cli,clustering,faiss,logging,metrics,parquet,plot,testers,torch

DEMO ?= evaluate --html report.html

ci: ## set up, then every check and every test: what must pass before a change lands
	@.ci/run

develop: $(VENV)/.develop ## set up the environment: the package (release build) with everything it can work with

test: $(VENV)/.develop ## the Rust and the Python tests alone
	$(RUN) cargo test --locked --profile develop -p nearwise-core
	$(RUN) python -m pytest

lint: ## the checks of formatting, lints, types and stubs alone
	@.ci/run lint

format: $(VENV)/.develop ## format the code, mend what ruff can mend
	cargo fmt --all
	$(RUN) ruff check --fix-only --quiet .
	$(RUN) ruff format .

KIND ?= table

bench: $(VENV)/.bench ## nearwise beside its peers; KIND=grid for many shapes, KIND=robustness for hard data, ARGS=--quick
	$(RUN) python benches/run.py $(KIND) $(ARGS)

bench-rust: ## criterion benches of the core
	cargo bench --locked -p nearwise-core

wheel: $(VENV)/.tools ## a wheel in target/wheels
	$(RUN) maturin build --locked --release --out target/wheels

clean: ## remove what was built, the environment too
	rm -rf target $(VENV) python/nearwise/_core*.so

$(VENV)/.tools:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip 'maturin>=1.9.4,<2'
	@touch $@

$(VENV)/.demo: $(VENV)/.tools $(SOURCES)
	$(RUN) maturin develop --locked --release --extras cli
	@touch $@

$(VENV)/.develop: $(VENV)/.tools $(SOURCES)
	$(RUN) maturin develop --locked --release --extras $(EXTRAS) --group test,lint
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.develop
	$(RUN) python -m pip install --quiet --disable-pip-version-check --group bench
	@touch $@
