# The project's commands. Each sets the environment up first, from locked versions, where it is not there yet.
# With models of a hub: HF_HUB_OFFLINE=0 make repro
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENV := $(VENV)/installed
export PATH := $(abspath $(BIN)):$(PATH)
export DVC_NO_ANALYTICS := 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: repro plan test torture check base format bench lock latest cluster models preflight gammas queue-clean clean

repro: $(ENV)  ## run the whole pipeline with the profile in params.yaml, then print the headline table
	dvc repro
	python -m pipeline.report --print --out reports

plan: $(ENV)  ## hours, disk and memory of a profile on a machine: make plan PROFILE=paper MACHINE="8xA100 64 cores"
	python -m pipeline.plan --profile $(or $(PROFILE),paper) --machine "$(or $(MACHINE),2 cores)"

test: $(ENV)  ## run the tests
	python -m pytest

KILLS ?= 100
SEED ?= 1
torture: $(ENV)  ## kill the stages at 100 random moments, fill the disk and more: make torture KILLS=100 SEED=1
	KILLS=$(KILLS) SEED=$(SEED) python -m pytest tests/torture

check: $(ENV)  ## lint, formatting, types
	ruff check .
	ruff format --check .
	mypy

base: $(ENV)  ## the extra with the base-sized encoder (110 M parameters, 400 MB); then bundled:metric-base scores as well
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[base]'

format: $(ENV)  ## rewrite imports and formatting
	ruff check --fix .
	ruff format .

bench: $(ENV)  ## speed of scoring and training as ratios; pairs from RATINGS, else the collected rows, else the sample
	bleurt bench --threads 2 --ratings $(or $(RATINGS),$(if $(wildcard data/collect/part-*.parquet),data/collect,data/sample/ratings.tsv))

cluster: $(ENV)  ## the tests of docs/cluster.md, with Ray (three nodes on this machine), a server of S3 and DVC's queue
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --requirement requirements-cluster.lock
	python -m pytest -x --durations 10 tests/cluster

models: $(ENV)  ## train the bundled models again from data/real (see models/bundled/README.md); resumes after a kill
	cd models/bundled && dvc repro

preflight: $(ENV)  ## look for every model, file and address of the profile before a stage needs it; exit 1 if one lacks
	bleurt preflight

GAMMAS ?= 0.1 1 10
gammas: $(ENV)  ## queue a grid of gammas in the paper's three groups (section 4.3); WITH adds settings: WITH='-S profile=local'
	for one in $(GAMMAS); do for two in $(GAMMAS); do for three in $(GAMMAS); do \
	  dvc exp run --queue $(WITH) -S 'variants=[all]' \
	    -S pretrain.weights.bleu=$$one -S pretrain.weights.rouge=$$one -S pretrain.weights.bertscore=$$one \
	    -S pretrain.weights.backtranslation=$$two \
	    -S pretrain.weights.entailment=$$three -S pretrain.weights.flag=$$three || exit 1; \
	done; done; done

lock: ## write requirements.lock, and for `make cluster` requirements-cluster.lock, from pyproject.toml's ranges
	rm -rf .lock-env && $(PYTHON) -m venv .lock-env
	.lock-env/bin/pip install --quiet torch==2.13.0
	.lock-env/bin/pip install --quiet --editable '.[dev]'
	.lock-env/bin/pip freeze --all --exclude pip --exclude-editable | sed 's/+cpu$$//' > requirements.lock
	.lock-env/bin/pip install --quiet --constraint requirements.lock --editable '.[ray,remote-test,s3]'
	.lock-env/bin/pip freeze --all --exclude pip --exclude-editable | sed 's/+cpu$$//' | grep -vxFf requirements.lock \
	  > requirements-cluster.lock
	rm -rf .lock-env

latest:  ## the tests on the newest releases that pyproject.toml's ranges allow, in .latest-env: make latest TESTS=tests/core
	rm -rf .latest-env && $(PYTHON) -m venv .latest-env
	.latest-env/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.latest-env/bin/python tests/torture/releases.py requirements.lock
	PATH="$(CURDIR)/.latest-env/bin:$$PATH" .latest-env/bin/python -m pytest --tb=line -rfE $(TESTS)

queue-clean: $(ENV)  ## after a worker of DVC's queue was killed: its experiment counts as failed, the others go on
	python -m pipeline.report.orphans

clean:  ## forget unfinished work (finished outputs stay)
	rm -rf .work

$(ENV): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
