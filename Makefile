# Two commands matter: `make demo` and `make test`. Both work from nothing but Python 3.11, git and make.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PLACE := serve_configs/local
SAMPLE := var/sample
INSTALLED := $(VENV)/.installed

.PHONY: demo test check format stop clean

demo: $(INSTALLED)
	$(BIN)/quire demo --place $(PLACE) --sample $(SAMPLE)

test: $(INSTALLED)
	$(BIN)/quire fetch
	$(BIN)/pytest

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

stop: $(INSTALLED)
	$(BIN)/quire down

# EXTRA=gpu installs the GPU engine instead.
EXTRA ?= cpu
$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[$(EXTRA),dev]'
	$(BIN)/python -m jobs.setup_environment
	touch $(INSTALLED)

clean: stop
	rm -rf var
