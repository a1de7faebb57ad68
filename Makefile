# Needs Python 3.11 or newer with venv and pip, and make. Everything else is installed into .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install demo test check check-code check-docs format bench lock clean

help:
	@echo "make demo    run the example's evals against a real local agent (no key needed)"
	@echo "make test    run the tests"
	@echo "make check   lint, types, layers, and the code blocks of the docs"
	@echo "make format  format and fix what ruff can fix"
	@echo "make bench   measure what starting and an attempt cost (quickly; see bench/)"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml requirements-dev.lock
	@test -n "$(PYTHON)" || { echo "no python3.11 or python3 on PATH; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "niceeval needs Python 3.11 or newer; set PYTHON=...")'
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.lock -e ".[all,dev]"
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/python examples/weather_desk/demo.py

# Tests of container backends need an engine: it is installed and started here where that can be done (Debian, as root).
# Without one they are left out, and the last lines of the output say how many, and how to get one.
test: $(INSTALLED)
	@scripts/docker-engine.sh --podman || echo "going on without: tests that need an engine are left out"
	$(BIN)/python -m pytest -n auto --ignore=tests/docs

check: check-code check-docs

check-docs: $(INSTALLED)
	$(BIN)/python -m pytest -n auto tests/docs

check-code: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The newest versions that the ranges in pyproject.toml admit. The project itself and paths of this machine stay out.
lock:
	rm -rf $(VENV)-lock && "$(PYTHON)" -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check -e ".[all,dev]"
	{ echo '# Versions that CI installs: `pip install -c requirements-dev.lock -e ".[all,dev]"`.'; \
	  echo '# Made by `make lock`, from a clean environment.'; \
	  $(VENV)-lock/bin/python -m pip freeze --exclude-editable | grep == ; } > requirements-dev.lock
	rm -rf $(VENV)-lock

bench: $(INSTALLED)
	@$(BIN)/python bench/startup.py --quick
	@$(BIN)/python bench/overhead.py --quick
	@$(BIN)/python bench/carry.py --quick
	@$(BIN)/python bench/sandbox.py --quick

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
