# Two commands matter: `make demo` and `make test`. Each sets itself up; a second call starts in seconds.
# constraints.txt pins every version here and in CI; a user's `pip install deniable` is bound by pyproject.toml only.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
WORKERS ?= 2
PYTHONS ?= 3.11 3.12 3.13
BENCHES := $(if $(ROOM),bench/$(ROOM).py,$(filter-out bench/deep_models.py bench/history.py,$(sort $(wildcard bench/*.py))))
.DEFAULT_GOAL := help
.PHONY: help demo test check lint types imports cover lowest pythons mutate soak nightly bench docs looks screenshots release clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo  ## a made-up hospital asks, learns, is attacked and explains itself
	@$(BIN)/deniable demo

test: $(VENV)/.test  ## all tests, documentation examples included
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --quiet $(ARGS)

check: lint types imports test  ## style, types, import contracts, import time, then all tests

lint: $(VENV)/.test  ## style of every file
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.test  ## strict types of src; tests, benchmarks and scripts nearly so
	@$(BIN)/mypy

imports: $(VENV)/.test  ## what each room may import, and how long an import takes
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -c 'import time; start = time.perf_counter(); import deniable; print(f"import deniable: {time.perf_counter() - start:.3f} s")'

cover: $(VENV)/.test  ## all tests, slower, with the share of lines that they run and its floor
	@COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
		$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --quiet --cov --cov-report=term:skip-covered $(ARGS)

lowest: $(BIN)/python  ## the core's tests with the lowest versions that pyproject.toml allows
	@WORKERS=$(WORKERS) $(BIN)/python .ci/elsewhere.py lowest

pythons: $(BIN)/python  ## the core's tests with each Python at hand
	@WORKERS=$(WORKERS) $(BIN)/python .ci/elsewhere.py $(PYTHONS)

mutate: $(VENV)/.test  ## break the core in small ways and see whether its tests notice; today's eighth of all ways
	@WORKERS=$(WORKERS) $(BIN)/python .ci/mutate.py $(ARGS)

soak: $(VENV)/.test  ## the long forms of the tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --quiet -m soak $(ARGS)

nightly:  ## what takes too long for every change: cover, soak, mutate, lowest, pythons
	@failed=; for what in cover soak mutate lowest pythons; do \
		echo "== make $$what"; $(MAKE) --no-print-directory $$what || failed="$$failed $$what"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

bench: $(VENV)/.test  ## every benchmark under bench/, or one (make bench ROOM=noise); figures join the history
	@set -e; for file in $(BENCHES); do echo "== $$file"; $(BIN)/python $$file; done; $(BIN)/python bench/history.py --page

docs: $(VENV)/.docs  ## the documentation as a site under site/, numbers of the notes computed anew; a link that leads nowhere fails
	@$(BIN)/python -m docs.notes.pages
	@$(BIN)/python docs/website.py

looks: docs $(VENV)/.test  ## the site, the public page, the dashboard and the service in a headless browser: overflow, errors, accessibility; pictures
	@$(BIN)/python docs/looks.py
	@$(BIN)/python -m docs.live_service

release: $(VENV)/.test  ## wheel and sdist in dist/, each checked in empty environments, and the notes of the release
	@$(BIN)/python .ci/release.py $(PYTHONS)

screenshots: $(VENV)/.test  ## the pictures under docs/screenshots, by a headless browser
	@mkdir -p docs/screenshots
	@DENIABLE_SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest --quiet tests/explaining -k 'browser or overlaps'

clean:  ## remove everything that make created
	rm -rf $(VENV) $(VENV)-* .coverage site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# A stamp is newer than what it was installed from, or the installation runs again.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing deniable into $(VENV)"
	@$(PIP) --editable '.[learn]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing deniable and what its tests need into $(VENV)"
	@$(PIP) --editable '.[deep,dev,hf,ibis,learn,oidc,plot,postgres,proof,serve,spark]'
	@touch $(VENV)/.demo $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) --editable '.[docs,learn]'
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "deniable needs Python 3.11 or later; run: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "deniable needs Python 3.11 or later, and $(PYTHON) is older; name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "$(PYTHON) lacks the venv module; run: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
