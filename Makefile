# Two commands do everything on a machine with Python 3.11 and make:
#   make demo    the whole journey on a real corpus, about six minutes
#   make test    the fast tests, about five minutes
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

.PHONY: demo docs dist test test-slow test-packages test-research test-all test-device test-java test-transformers5 test-js test-bundlers check format lint types bench bench-check reference clean

demo: .stamps/demo
	$(BIN)/pocketquery demo --output demo

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

# OPTIONS: further ones of pytest's.
test: .stamps/dev
	$(PYTEST) $(OPTIONS)

# Those that CI runs, too; what test-bundlers runs is left to it.
BUNDLERS := $(wildcard tests/packaging/test_bundlers.py tests/packaging/test_react_native.py)
test-slow: .stamps/dev
	$(PYTEST) -m "slow and not very_slow and not research" $(addprefix --ignore=,$(BUNDLERS)) $(OPTIONS)

# Those of packages/, the fast and the slow.
test-packages: .stamps/dev
	$(PYTEST) packages -m "not very_slow" $(OPTIONS)

# The tests of research/, which users do not run.
test-research: .stamps/dev
	$(PYTEST) research/tests -m "research and not slow and not very_slow"

# Every test there is: hours. CI does not run this.
test-all: .stamps/dev
	$(PYTEST) tests packages research/tests -m ""

# The base install alone, with any Python that has wheels of what it needs: index, search, encode, verify, slice
# and doctor, which import nothing of the packages above the SDK, and the tutorial, block by block.
test-device:
	rm -rf build/test-device && $(PYTHON) -m venv build/test-device
	build/test-device/bin/python -m pip install --quiet --constraint constraints.txt . pytest pytest-timeout hypothesis "setuptools>=77"
	build/test-device/bin/python -m pocketquery.sdk doctor
	build/test-device/bin/python -m pytest tests/packaging/test_walks.py -k commands
	build/test-device/bin/python -m pytest tests/examples/test_pages.py -m "not very_slow" -k "prints and (tutorial or index or encoders)"

# Models, training and distillation with transformers 5, in an environment that has the rest of .venv. What
# exports is skipped: optimum reads transformers 4 alone.
TRANSFORMERS5 := transformers==5.24.0 huggingface_hub==2.4.0 tokenizers==0.23.3
test-transformers5: .stamps/dev
	rm -rf build/transformers5 && $(BIN)/python -m venv --without-pip build/transformers5
	$(BIN)/python -m pip --python build/transformers5/bin/python install --quiet --no-deps $(TRANSFORMERS5)
	$(BIN)/python -c "import site, sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> $$(echo build/transformers5/lib/python*/site-packages)/shared.pth
	build/transformers5/bin/python -m pytest -n 2 --dist worksteal $(OPTIONS) tests/server/modeling tests/server/objectives \
		tests/server/pretraining tests/server/corpus/test_new_tokenizer.py tests/distill tests/export tests/sdk/tokenizers

# The documentation as a site, which also works as files: open site/index.html.
docs: .stamps/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# What is published: sdist and wheel, checked, with the search page (Node 20 or later builds its scripts). Beside
# them what a device's install consists of, as a CycloneDX SBOM. The same commit gives the same wheel to the
# byte: it is built from the commit's own files, with their modes and times fixed, whatever lies in the folder
# and whatever the umask.
dist: .stamps/release
	rm -rf build dist && mkdir -p build/tree
	umask 022 && git archive HEAD | tar -x --no-same-permissions -C build/tree
	umask 022 && cd build/tree/sdk/js && npm ci --no-audit --no-fund && PYTHON=$(abspath $(BIN))/python npm run build && rm -rf node_modules
	umask 022 && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation \
		--outdir dist build/tree > .stamps/build.log
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m venv --without-pip build/device
	$(BIN)/python -m pip --python build/device/bin/python install --quiet --constraint constraints.txt dist/*.whl
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --mc-type library \
		--output-file dist/pocketquery.cdx.json build/device/bin/python

# The JavaScript SDK: needs Node 20 or later. Bun and Deno come from npm; what Python finds, they must find.
test-js: .stamps/dev
	rm -rf build/searches && mkdir -p build && $(BIN)/python -m tests.java.searches build/searches
	cd sdk/js/test/engines/tools && npm ci --ignore-scripts --no-audit --no-fund
	cd sdk/js && npm ci --no-audit --no-fund && npm test

# The JavaScript package in bundlers, test runners and compilers, which are installed from npm into build/: after test-js.
test-bundlers: .stamps/dev
	$(PYTEST) -m "slow and not very_slow" $(BUNDLERS) $(OPTIONS)

# The Java library: needs a JDK and sqlite-jdbc (Debian: default-jdk-headless, libxerial-sqlite-jdbc-java). What the
# vectors of conformance/ say, and searches whose hits Python writes beside the index first. With
# ONNXRUNTIME=/path/of/onnxruntime.jar what encodes runs, too, by onnxruntime's Java API.
JDBC ?= /usr/share/java/sqlite-jdbc.jar
ONNXRUNTIME ?=
JAVA_CLASSES := build/android/classes
JAVA_RUN := java -cp $(JAVA_CLASSES):$(JDBC):$(ONNXRUNTIME)
BUNDLES := sdk/default packages/pocketquery-multilingual/pocketquery_multilingual/bundle benchmarks/reference/bundle
test-java: .stamps/dev
	rm -rf build/android && mkdir -p build/android/searches
	$(BIN)/python -m tests.java.resources $(JAVA_CLASSES)
	javac --release 11 -Xlint:all,-serial -Werror -d $(JAVA_CLASSES) -cp $(JDBC):$(ONNXRUNTIME) \
		$$(find sdk/android/src/main sdk/android/src/test $(if $(ONNXRUNTIME),sdk/android/src/onnxruntime sdk/android/src/onnxruntimeTest) -name '*.java')
	$(BIN)/python -m tests.java.searches build/android/searches
	$(JAVA_RUN) pocketquery.Conformance conformance build/android/scratch build/android/searches
	$(if $(ONNXRUNTIME),$(JAVA_RUN) pocketquery.OnnxConformance conformance build/android/scratch $(BUNDLES))

check: .stamps/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p pocketquery -p pocketquery_research -p pocketquery_gateway -p pocketquery_attestation -p pocketquery_join -p pocketquery_mobile \
		-p pocketquery_privacy -p pocketquery_stores -p pocketquery_corpus -p pocketquery_demo -p pocketquery_simulation
	$(BIN)/mypy tests examples benchmarks packages/conftest.py packages/*/tests
	$(BIN)/mypy research/tests research/claims research/studies research/examples
	$(PYTEST)

format: .stamps/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All benchmarks, 50 minutes on two quiet cores: docs/results.md. One alone: benchmarks/run_all.py NAME. What they
# need is made first where it is missing, but for the public sets in data/ or $$POCKETQUERY_DATA (benchmarks/README.md).
bench: .stamps/dev demo/bundle/manifest.json sdk/js/dist/node.js benchmarks/transformers_js/node_modules
	$(BIN)/python benchmarks/rivals/environment.py
	$(BIN)/python benchmarks/run_all.py

demo/bundle/manifest.json: | .stamps/demo
	$(BIN)/pocketquery demo --output demo

sdk/js/dist/node.js: | .stamps/dev
	cd sdk/js && npm ci --no-audit --no-fund && npm run build

benchmarks/transformers_js/node_modules:
	cd benchmarks/transformers_js && npm ci --ignore-scripts --no-audit --no-fund

# Measures nothing: do the stored figures reach what they must?
bench-check: .stamps/dev
	$(BIN)/python benchmarks/run_all.py --check

.stamps/venv:
	$(PYTHON) -m venv $(VENV)
	@mkdir -p .stamps && touch $@

.stamps/demo: .stamps/venv pyproject.toml constraints.txt
	@echo "installing what the demo needs into $(VENV), torch among it: some minutes"
	$(INSTALL) ".[demo]" --editable ./packages/pocketquery-demo
	@touch $@

.stamps/docs: .stamps/venv pyproject.toml constraints.txt
	$(INSTALL) ".[docs]"
	@touch $@

.stamps/release: .stamps/venv pyproject.toml constraints.txt
	$(INSTALL) ".[release]"
	@touch $@

.stamps/dev: .stamps/venv pyproject.toml constraints.txt
	$(INSTALL) ".[dev]" --editable ./research \
		--editable ./packages/pocketquery-gateway --editable ./packages/pocketquery-attestation \
		--editable "./packages/pocketquery-corpus[ray]" --editable ./packages/pocketquery-demo --editable ./packages/pocketquery-join --editable ./packages/pocketquery-mobile \
		--editable ./packages/pocketquery-privacy --editable ./packages/pocketquery-simulation --editable "./packages/pocketquery-stores[faiss,parquet,postgres,qdrant]"
	@touch $@

clean:
	rm -rf $(VENV) .stamps .rivals demo build dist site .pytest_cache .mypy_cache .ruff_cache
