# Two commands do everything from a fresh clone: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two steps of one environment: what the main job needs, and everything.
CORE := $(VENV)/.core
INSTALLED := $(VENV)/.installed
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
OUT := out/demo

.DEFAULT_GOAL := help
.PHONY: help install axe demo desk test lint types docs unit test-long bench-smoke bench-ranking recipe-docs page-tables results-docs formats-docs world clean

help: ## List the commands.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED) ## Make .venv with the package and every extra.

# torch comes first and by its exact version, so that no other package chooses another build.
$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "npugraph needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $$(grep '^torch==' constraints.txt)
	$(PIP_INSTALL) -c constraints.txt -e .
	@touch $@

$(INSTALLED): $(CORE)
	$(PIP_INSTALL) -c constraints.txt -e '.[all,dev,docs]'
	@touch $@

# For the tests of the desk's pages alone; no part of the package.
AXE := axe-core-4.14.0

axe: out/axe-core/axe.min.js ## Fetch axe-core, which tests look for barriers in the pages with; needs npm.

out/axe-core/axe.min.js:
	mkdir -p out/axe-core
	cd out/axe-core && npm pack --silent $(subst axe-core-,axe-core@,$(AXE))
	tar -xzf out/axe-core/$(AXE).tgz -C out/axe-core --strip-components=1 package/axe.min.js package/LICENSE
	@touch $@

demo: $(CORE) ## Plant wrong facts in the bundled graph, audit it, and say how many were found.
	$(BIN)/npugraph audit --out $(OUT)

desk: $(CORE) ## Judge the demo's facts in a browser.
	$(PIP_INSTALL) -c constraints.txt -e '.[review]'
	@test -f $(OUT)/audit.json || $(BIN)/npugraph audit --out $(OUT)
	$(BIN)/npugraph review $(OUT)

test: install lint types docs unit ## Lint, types, the documentation site and all tests.

lint: $(INSTALLED) ## Style, formatting and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(INSTALLED) ## Static types, strict.
	$(BIN)/mypy

docs: $(INSTALLED) ## Build the documentation site in out/docs; a warning is an error.
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet docs out/docs
	@echo "The site is in out/docs; open out/docs/index.html in a browser."

# One thread per worker: two workers with two threads each would wait for one another.
unit: $(INSTALLED) ## All tests.
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile

# The same tests where they may try more often: tests/effort.py says how much.
test-long: $(INSTALLED) ## The tests of the desk with hundreds of tries; takes long.
	NPUGRAPH_LONG=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile -m 'long or not long' tests/review

bench-smoke: $(INSTALLED) ## Every system on small graphs, through the bench; within five minutes on two cores.
	$(BIN)/npugraph bench run smoke --out out/bench-smoke --workers 2

bench-ranking: $(INSTALLED) ## Speed of exact ranking against PyKEEN, on one machine, in one run.
	$(BIN)/python -m benchmarks.speed.ranking

recipe-docs: $(INSTALLED) ## Write docs/recipes.md and docs/recipes/ again from the recipes and the measured results.
	$(BIN)/python scripts/build_recipe_docs.py

page-tables: $(INSTALLED) ## Put the tables of the pages in place again from the results.
	$(BIN)/python scripts/build_page_tables.py

results-docs: $(INSTALLED) ## Write docs/results.md, docs/results/ and the figures again from the bench's results.
	$(BIN)/python scripts/build_results_docs.py

formats-docs: $(INSTALLED) ## Write docs/formats.md again from the schemas.
	$(BIN)/python scripts/build_formats_docs.py

world: $(INSTALLED) ## Build the bundled graph again from its source package.
	$(BIN)/python scripts/build_world_graph.py

clean: ## Remove what the commands made, the environment too.
	rm -rf $(VENV) out build .pytest_cache .mypy_cache .ruff_cache .hypothesis
