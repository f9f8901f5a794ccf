# Two commands do everything from a fresh clone: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OUT := out/demo

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types unit bench-smoke bench-ranking recipe-docs audit-docs results-docs world clean

help: ## List the commands.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED) ## Make .venv with the package and every extra.

# torch comes first and by its exact version, so that no other package chooses another build.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fast,rdf,tune,cluster,dev]'
	@touch $@

demo: $(INSTALLED) ## Plant wrong facts in the bundled graph, audit it, and say how many were found.
	$(BIN)/npugraph audit --out $(OUT)

test: install lint types unit ## Lint, types and all tests.

lint: $(INSTALLED) ## Style, formatting and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(INSTALLED) ## Static types, strict.
	$(BIN)/mypy

# One thread a worker: two workers with two threads each would wait for one another.
unit: $(INSTALLED) ## All tests.
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile

bench-smoke: $(INSTALLED) ## Every system on small graphs, through the bench; within five minutes on two cores.
	$(BIN)/npugraph bench run smoke --out out/bench-smoke --workers 2

bench-ranking: $(INSTALLED) ## Speed of exact ranking against PyKEEN, on one machine, in one run.
	$(BIN)/python -m benchmarks.speed.ranking

recipe-docs: $(INSTALLED) ## Write docs/recipes.md again from the recipes and the measured results.
	$(BIN)/python scripts/build_recipe_docs.py

audit-docs: $(INSTALLED) ## Put the tables of docs/audit.md in place again from the measured results.
	$(BIN)/python scripts/build_audit_docs.py

results-docs: $(INSTALLED) ## Write docs/results.md, docs/results/ and the figures again from the bench's results.
	$(BIN)/python scripts/build_results_docs.py

world: $(INSTALLED) ## Build the bundled graph again from its source package.
	$(BIN)/python scripts/build_world_graph.py

clean: ## Remove what the commands made, the environment too.
	rm -rf $(VENV) out build .pytest_cache .mypy_cache .ruff_cache .hypothesis
