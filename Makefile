# The two that matter are `make demo` and `make test`; each makes its environment first.
# `make` alone lists the rest.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.installed
LOCK   := .ci/requirements.lock

.PHONY: help demo test test-alone test-simulated test-registry demo-cluster cluster-up cluster-down test-cluster test-cluster-long check proto bench bench-cluster sim fmt lock clean

help: ## list these commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## one training run over three regions of this machine, from intent to result
	@$(BIN)/python -m broker.demo

# Two rounds of pytest: what starts real processes or measures waits until the rest is done. It
# mostly waits, so the simulator, which never does, fills the time beside it.
test: check ## lint, types, layers, and every test: under 15 minutes on 2 cores
	$(BIN)/pytest -n 2 --dist worksteal -m "not alone"
	$(MAKE) -j 2 test-alone test-simulated

test-alone:
	$(BIN)/pytest -m alone

test-simulated:
	nice $(BIN)/python -m tests.simulation --seeds 0:200 --jobs 1

# Debian's docker-registry and skopeo are needed for it: apt-get install docker-registry skopeo.
test-registry: $(STAMP) ## image copies between real registries, with skopeo's second opinion
	$(BIN)/pytest tests/registry

# The rig: etcd, Kubernetes, Kueue and JobSet from pinned Go modules, with pods as processes. The
# first use builds it, about 20 minutes on 2 cores; what is built stays in the user's cache.
cluster-up: $(STAMP) ## brokerd on three real Kueue regions of this machine; says what to type
	@$(BIN)/python -m tests.cluster.rig up

cluster-down: $(STAMP) ## end them
	@$(BIN)/python -m tests.cluster.rig down

demo-cluster: $(STAMP) ## the demo on three real Kueue regions of this machine
	@$(BIN)/python -m tests.cluster.rig.demo

test-cluster: $(STAMP) ## the tests that need real control planes, real Kueue, real processes
	@$(BIN)/python -m tests.cluster.rig build
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder tests/cluster -m "cluster and not long"

test-cluster-long: $(STAMP) ## those of them that take long: 200 hedged runs, with faults
	@$(BIN)/python -m tests.cluster.rig build
	$(BIN)/pytest tests/cluster -m "cluster and long"

check: $(STAMP) ## lint, types, layers, protos: under 30 seconds when warm
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/lint-imports --no-logo
	$(BIN)/python proto/generate.py --check
	$(BIN)/mypy

proto: $(STAMP) ## generate broker/v1 from proto/
	$(BIN)/python proto/generate.py

bench: $(STAMP) ## the figures, as ratios; writes build/bench.json
	$(BIN)/python -m tests.bench

bench-cluster: $(STAMP) ## the figures of real Kueue regions; writes build/bench-cluster.json
	$(BIN)/python -m tests.bench.clusters

sim: $(STAMP) ## the simulator, over many more worlds than `make test`: SEEDS=0:5000
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),0:5000)

fmt: $(STAMP) ## format the code and the protos
	$(BIN)/ruff check --quiet --fix-only
	$(BIN)/ruff format --quiet
	$(BIN)/buf format -w proto

lock: ## resolve the dependencies anew and write the lock file
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv==0.13.9
	build/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
	  --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
	  --extra daemon --extra demo --extra gcp --group dev --output-file $(LOCK) pyproject.toml

clean: ## remove what was built; the environment stays
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find broker regions replicator proto tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python 3.11 or newer is needed; $(PYTHON) is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12")'
	@echo "Making the environment in .venv (once, about a minute)"
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
