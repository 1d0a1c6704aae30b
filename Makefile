# The only list of commands. `make` prints it; CI calls `make test`.

VENV := .venv
PYTHON ?= python3
TARGET := $(or $(CARGO_TARGET_DIR),target)
# One profile for commands, tests and wheel, so that nothing is compiled twice.
CARGO_FLAGS := --release --locked
# Devices for use_gpu, beside the CPU: cuda, vulkan or wgpu.
FEATURES ?=
COMMANDS := paddle paddlecloud paddle_k8s
WHEEL_SCRIPTS := python/paddlecloud.data/scripts

.DEFAULT_GOAL := help
.PHONY: help demo test test-clusters chaos chaos-jobs test-gpu simulate build wheel lint fmt fuzz bench clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: build ## Show a cloud at work: a user, a distributed training, its logs and its model
	@bash scripts/demo.sh $(VENV)

test: lint build ## Run everything: format, lints, Rust tests, Python tests, the repository's rules
	@bash scripts/stage.sh "cargo test" cargo test $(CARGO_FLAGS) --workspace
	@bash scripts/stage.sh "pytest" $(VENV)/bin/pytest -c python/pyproject.toml python/tests

# CLUSTERS_SECONDS limits the time; CLUSTERS="minio" picks some.
test-clusters: ## Run the stories that need MinIO, HDFS or Kubernetes: builds what is cold, starts it, stops it
	@bash scripts/clusters/run.sh $(CLUSTERS)

# The rounds of a release; `make test` runs 10 of the first and 20 of the second.
chaos: ## Kill and stop processes of jobs that train, ROUNDS times (100); SEED repeats a round
	PADDLE_CHAOS_TRAINING_ROUNDS=$(or $(ROUNDS),100) PADDLE_CHAOS_SEED=$(SEED) \
		cargo test $(CARGO_FLAGS) --workspace --test backend chaos::training -- --nocapture

chaos-jobs: ## Kill what runs jobs at random moments, here, on ssh, MPI and Slurm, ROUNDS times (200); SEED repeats a round
	PADDLE_CHAOS_ROUNDS=$(or $(ROUNDS),200) PADDLE_CHAOS_SEED=$(SEED) cargo test $(CARGO_FLAGS) \
		--workspace --test backend chaos::jobs -- --nocapture

test-gpu: ## Run the layer tests on a GPU, or Mesa's stand-in for one, and compile for CUDA
	bash scripts/test_gpu.sh

simulate: ## Run servers, master and trainers under simulated faults: SEED=n for one run, SEEDS=n for many
	SIMULATION_SEED=$(SEED) SIMULATION_SEEDS=$(SEEDS) cargo test $(CARGO_FLAGS) --workspace \
		--test simulation every_seed -- --nocapture

build: $(VENV)/installed ## Build the commands and a virtual environment with the wheel installed

lint: $(VENV)/tools ## Check formatting, lints and Python's types, warnings denied
	@bash scripts/stage.sh "rustfmt" cargo fmt --all --check
	@bash scripts/stage.sh "ruff" $(VENV)/bin/ruff check .
	@bash scripts/stage.sh "ruff format" $(VENV)/bin/ruff format --check .
	@bash scripts/stage.sh "mypy" $(VENV)/bin/mypy --config-file python/pyproject.toml \
		python/paddle python/recordio
	@MYPYPATH=bench $(VENV)/bin/mypy --config-file python/pyproject.toml bench/harness bench/run.py
	@bash scripts/stage.sh "clippy" cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	@bash scripts/stage.sh "client alone" cargo check $(CARGO_FLAGS) -p cli --bin paddlecloud --no-default-features

fmt: $(VENV)/tools ## Format the code
	cargo fmt --all
	$(VENV)/bin/ruff check --quiet --select I --fix .
	$(VENV)/bin/ruff format .

wheel: $(VENV)/tools ## Build the wheel, with the commands in it, into dist/
	@bash scripts/stage.sh "cargo build" cargo build $(CARGO_FLAGS) --workspace --features "$(FEATURES)"
	@mkdir -p $(WHEEL_SCRIPTS) && rm -f dist/*.whl
	@for command in $(COMMANDS); do install $(TARGET)/release/$$command $(WHEEL_SCRIPTS)/; done
	@bash scripts/stage.sh "wheel" $(VENV)/bin/maturin build $(CARGO_FLAGS) --quiet \
		--features "$(FEATURES)" --manifest-path python/Cargo.toml --interpreter $(VENV)/bin/python --out dist

fuzz: ## Fuzz every decoder: many mutations, then libFuzzer for five minutes
	bash scripts/fuzz.sh 300

bench: build ## Run the benchmarks and print their tables
	$(VENV)/bin/python bench/run.py

clean: ## Remove everything that was built
	rm -rf target dist $(VENV) python/paddlecloud.data fuzz/target .mypy_cache .ruff_cache

$(VENV)/tools: python/requirements-dev.txt
	@$(PYTHON) -m venv $(VENV)
	@bash scripts/stage.sh "pip install" $(VENV)/bin/pip install --quiet -r $<
	@touch $@

# Phony in effect: cargo and maturin know best what is out of date, and are quick to say so.
$(VENV)/installed: wheel
	@$(VENV)/bin/pip install --quiet --force-reinstall --no-deps dist/*.whl
	@touch $@
