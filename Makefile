# Everything a contributor or a build machine runs. `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Steps share the target folder and the processors: one at a time, whatever -j says.
.NOTPARALLEL:

CARGO ?= cargo
# Seconds per target in `make fuzz`.
FUZZ_SECONDS ?= 120

TOOLS := $(CURDIR)/target/tools
BENCH := target/quality/venv
DENY := $(TOOLS)/bin/cargo-deny
MDBOOK := $(TOOLS)/bin/mdbook

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: set-up
set-up: ## Install what the build needs (a C++ compiler, where there is none)
	@scripts/set-up

.PHONY: test
# One kind of build for all of it: that whose instructions are counted.
test: export CARGO_INCREMENTAL := 0
test: set-up figures unit pages instructions cluster model-check python ## Set up and run every test, the model check and the fuzzer's repeatable part
	@fuzz/run check

.PHONY: instructions
instructions: ## Compare the instructions of a small run with the stored count (scripts/instructions --record stores a new one)
	@scripts/instructions

.PHONY: unit
unit: ## Unit, integration and documentation tests
	$(CARGO) test --workspace --locked

# Few tests at a time: each has servers and workers of its own. The whole workspace, so that nothing is compiled again.
.PHONY: cluster
cluster: ## Tests of the cluster against real NATS servers, which are fetched into target/nats
	scripts/nats-set-up
	scripts/cluster-tests

# The interleavings of the central posterior's lock, explored by shuttle.
.PHONY: model-check
model-check: ## Model check of the central posterior
	$(CARGO) test -p anabranch --features shuttle --test central_model --locked

.PHONY: python
python: set-up ## Build the Python package and test it in a fresh virtual environment
	@python/run-tests

.PHONY: fuzz
fuzz: set-up ## Fuzz every reader and the model file for FUZZ_SECONDS seconds each
	@fuzz/run $(FUZZ_SECONDS)

.PHONY: seeds
seeds: ## Write the files that the fuzzer starts from
	$(CARGO) test -p anabranch-io --features arrow --locked --test it -- --ignored --exact fuzz_seeds::write_the_seeds

.PHONY: lint
lint: format-check clippy lean doc-check headers deny ## Formatting, clippy, lean builds, documentation, headers, licences

.PHONY: format
format: ## Format all code
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml
	$(CARGO) fmt --manifest-path python/Cargo.toml

.PHONY: format-check
format-check:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) fmt --manifest-path python/Cargo.toml --check

.PHONY: clippy
clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	cd python && $(CARGO) clippy --locked -- -D warnings

.PHONY: lean
lean: ## Builds without optional features: crates, compilation, and what they say of what was left out
	@scripts/lean-builds

# The command and the library share their name, so only libraries are documented.
.PHONY: doc-check
doc-check:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --lib --no-deps --locked

.PHONY: headers
headers:
	scripts/check-headers

# Advisories need a database from outside: they are checked where there is a network.
.PHONY: deny
deny: $(DENY)
	$(DENY) --locked check licenses bans sources
	$(DENY) --manifest-path fuzz/Cargo.toml --config deny.toml --locked check licenses bans sources
	$(DENY) --manifest-path python/Cargo.toml --config deny.toml --locked check licenses bans sources

$(DENY):
	$(CARGO) install --locked cargo-deny --root $(TOOLS)

.PHONY: docs
docs: $(MDBOOK) ## Build the guide, with mdBook, into target/guide, and check its links
	scripts/guide $(MDBOOK)

$(MDBOOK):
	$(CARGO) install --locked mdbook --root $(TOOLS)

.PHONY: pages
# The program that the tests use, so that nothing is compiled again.
pages: ## Look at the pages of reports, experiments and the guide (where it is built) in Chromium
	$(CARGO) test --workspace --locked --test it --no-run --quiet
	@scripts/pages

.PHONY: wheel
wheel: ## Build and check the Python wheel for any Linux with glibc 2.17 or newer
	scripts/wheel

.PHONY: archive
archive: ## Pack the command with manual pages, completions and licences
	scripts/archive

.PHONY: figures
figures: ## Check that every figure in the documents is in bench/results
	@scripts/figures --check

.PHONY: bench
bench: ## Run the benchmarks: inference, identification, readers
	$(CARGO) bench -p anabranch -p anabranch-io --features anabranch-io/arrow --bench identify --bench infer --bench read --locked

.PHONY: bench-products
bench-products: ## Measure the machine's limits and the crates that could multiply our matrices
	$(CARGO) run --release --locked --manifest-path bench/products/Cargo.toml --target-dir target/products

.PHONY: bench-speed
bench-speed: $(BENCH)/installed ## Measure time and quality next to scikit-learn and river, and store bench/results/speed.json
	$(CARGO) build --release --locked
	$(BENCH)/bin/python bench/speed.py --write

.PHONY: bench-answers
bench-answers: $(BENCH)/installed ## Measure predict next to scikit-learn, the latency of one row, and all threads next to the machine
	$(CARGO) build --release --locked
	$(BENCH)/bin/python bench/answers.py $(if $(DATA),--data $(DATA))
	$(CARGO) bench -p anabranch --bench answers --locked
	scripts/bench-answers

.PHONY: bench-threads
bench-threads: ## Measure how the speed grows with threads
	$(CARGO) build --release --locked
	scripts/bench-threads

# Folder with the real data that no package brings, for `make bench-quality`.
DATA ?=

.PHONY: bench-quality
bench-quality: $(BENCH)/installed ## Measure the quality of fits next to scikit-learn, and store bench/results/quality.json
	$(BENCH)/bin/python bench/quality.py --write --fresh $(if $(DATA),--data $(DATA))

.PHONY: bench-clusters
bench-clusters: $(BENCH)/installed ## Measure clusters of any shape next to scikit-learn, and store bench/results/clusters.json (DATA=DIR)
	$(CARGO) build --release --locked --bin anabranch
	$(BENCH)/bin/python bench/clusters.py --write --scale $(if $(DATA),--data $(DATA))

.PHONY: bench-drift
bench-drift: $(BENCH)/installed ## Streams that change next to river's clusterers (FILES="ROWS.npy:CHANGE …" adds streams of your own)
	$(BENCH)/bin/pip install --quiet maturin
	cd python && ../$(BENCH)/bin/maturin build --release --locked --quiet --interpreter ../$(BENCH)/bin/python --out ../$(BENCH)/wheels
	$(BENCH)/bin/pip install --quiet --no-deps --force-reinstall $(BENCH)/wheels/*.whl
	$(BENCH)/bin/python bench/drift.py --write $(FILES)

.PHONY: bench-easy
bench-easy: $(BENCH)/installed ## Count clusters that anybody can see: separated, few rows, sorted, overlapping (DATA=DIR adds real data)
	$(CARGO) build --release --locked --bin anabranch
	$(BENCH)/bin/python bench/easy.py --write $(if $(DATA),--data $(DATA))

.PHONY: bench-topics
bench-topics: $(BENCH)/installed ## Measure topics next to tomotopy, gensim and scikit-learn, and write docs/topics.md (DATA=DIR)
	$(CARGO) build --release --locked --bin anabranch
	$(BENCH)/bin/python bench/topics.py --write --data $(DATA)

.PHONY: bench-features
bench-features: $(BENCH)/installed ## Count planted features and rebuild rows next to scikit-learn's factors, and store bench/results/features.json
	$(CARGO) build --release --locked --bin anabranch
	$(BENCH)/bin/python bench/features.py --write

$(BENCH)/installed: bench/requirements.txt
	python3 -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --requirement $<
	touch $@

.PHONY: bench-cluster
bench-cluster: ## Speed, bytes and folding for each row of 1, 2, 4 and 8 worker processes against one process
	scripts/nats-set-up
	$(CARGO) build --release --locked --bin anabranch
	scripts/bench-cluster

.PHONY: demo
demo: ## Fit the synthetic stream of the paper and write a report
	$(CARGO) run --release --locked --bin anabranch -- demo

.PHONY: clean
clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/artifacts fuzz/corpus
