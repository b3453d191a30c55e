# Two commands matter: `make demo` and `make test`. Both work from nothing but Python 3.11, git and make.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := var/sample
QUESTION ?= "What does error ERR_4031 mean and how do I clear it?"
INSTALLED := $(VENV)/.installed

.PHONY: demo test check format stop clean

demo: $(INSTALLED)
	$(BIN)/quire fetch
	$(BIN)/python -m bench.sample.build $(SAMPLE) --force
	$(BIN)/quire keys bench/sample/principals.yaml
	@# The language model loads while the documents are indexed.
	$(BIN)/quire up --app engine
	$(BIN)/quire ingest --submit $(SAMPLE)
	$(BIN)/quire up
	$(BIN)/quire ask --as engineer $(QUESTION)
	@echo 'The service keeps running. Pages: http://127.0.0.1:8000/docs. Stop it with: make stop'

test: $(INSTALLED)
	$(BIN)/quire fetch
	$(BIN)/quire fetch --model quire-reranker
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
