# Two commands do everything on a machine with Python 3.11 and make:
#   make demo    the whole journey on a real corpus, about six minutes
#   make test    the fast tests
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

# The list of files in ARCHITECTURE.md, from the modules' first lines.
architecture:
	$(PYTHON) docs/list_files.py

.PHONY: architecture demo test test-js test-slow check format lint types bench reference clean

demo: .stamps/demo
	$(BIN)/pocketquery demo --output demo

test: .stamps/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: .stamps/dev
	$(BIN)/python -m pytest -m slow

# The JavaScript SDK: needs Node 20 or later.
test-js:
	cd sdk/js && npm ci --no-audit --no-fund && npm test

check: .stamps/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python docs/list_files.py --check
	$(BIN)/mypy -p pocketquery
	$(BIN)/mypy tests examples benchmarks
	$(BIN)/python -m pytest -n 2 --dist loadfile

format: .stamps/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Every figure the README quotes; benchmarks/README.md says what each needs.
bench: .stamps/dev
	$(BIN)/python benchmarks/encode_latency.py
	$(BIN)/python benchmarks/cold_start.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/tokenizer.py
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/training_step.py
	$(BIN)/python benchmarks/federated_bytes.py
	$(BIN)/python benchmarks/aggregation.py
	$(BIN)/python benchmarks/mining.py
	$(BIN)/python benchmarks/js_contrast.py
	$(BIN)/python benchmarks/pretraining_throughput.py

.stamps/venv:
	$(PYTHON) -m venv $(VENV)
	@mkdir -p .stamps && touch $@

.stamps/demo: .stamps/venv pyproject.toml constraints.txt
	$(INSTALL) ".[demo]"
	@touch $@

.stamps/dev: .stamps/venv pyproject.toml constraints.txt
	$(INSTALL) ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .stamps .rivals demo build dist .pytest_cache .mypy_cache .ruff_cache
