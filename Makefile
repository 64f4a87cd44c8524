# The two commands of the README, `make demo` and `make test`, and what they are made of.

CARGO ?= cargo
SETUP := tests/setup
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

.DEFAULT_GOAL := help
.PHONY: help demo package test setup format lint check replay floor instructions docs fuzz

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## Build, serve a small tree, search its capacity, and write the report to target/thalweg-demo.html
	@$(SETUP) build
	$(CARGO) build --locked --release --package thalweg-cli --bin thalweg
	@mkdir -p target
	@# A limit that was missed (1) and a host too busy to measure (3) are results too, and have a report.
	$(CARGO) run --locked --release --quiet --package thalweg-cli --bin thalweg -- demo --out target/thalweg-demo.html \
	    || case $$? in 1 | 3) ;; *) exit 1 ;; esac

package: ## Build the Debian package and the tarball, in target/package
	@$(SETUP) build
	$(CARGO) build --locked --release --package thalweg-cli --bin thalweg
	packaging/package $${CARGO_TARGET_DIR:-target}/release/thalweg target/package

# One after the other, the quick ones first.
test: ## Run all checks, as CI does
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory floor
	@$(MAKE) --no-print-directory instructions
	@$(MAKE) --no-print-directory docs

setup: ## Install the packages that the tests need, or list the missing ones
	@$(SETUP) test

format: ## Check that the code is formatted
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path bench/floor/Cargo.toml --all --check

lint: ## Lint all targets; warnings are errors
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# The end-to-end tests share the CPUs among themselves (tests/end_to_end/machine.rs), and those that wait for their turn take a thread:
# the more threads, the fewer turns. Their names begin with an e, those of all other integration tests with something else.
check: ## Run the tests: unit, property, simulated, driver contract, fuzz corpus, end to end
	@status=0; \
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-3} $(CARGO) test --locked --workspace --no-fail-fast --lib --bins --test '[!e]*' \
	    || status=$$?; \
	$(CARGO) build --locked --package thalweg-cli --examples || status=$$?; \
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-12} $(CARGO) test --locked --workspace --no-fail-fast --test 'e*' || status=$$?; \
	exit $$status

replay: ## Run the fuzz targets on their stored corpus
	$(CARGO) test --locked --workspace --test replay

# It shares what it has in common with the workspace's build.
floor: ## Check that the canned client and server of bench/ work
	$(CARGO) clippy --locked --manifest-path bench/floor/Cargo.toml --target-dir target --all-targets -- -D warnings
	$(CARGO) test --locked --manifest-path bench/floor/Cargo.toml --target-dir target --no-fail-fast

instructions: ## Count the instructions of a request, and compare them with the stored counts
	bench/instructions

docs: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

fuzz: ## Fuzz each target for FUZZ_SECONDS; needs a nightly toolchain and cargo-fuzz
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || { \
	    echo "make fuzz: missing: a nightly toolchain or cargo-fuzz (rustup toolchain install nightly; cargo install cargo-fuzz)" >&2; exit 1; }
	@# What it finds goes to a scratch corpus first; the one in the repository only grows by hand.
	@set -e; for target in $(FUZZ_TARGETS); do \
	    mkdir -p fuzz/target/corpus/$$target; \
	    $(CARGO) +nightly fuzz run --fuzz-dir fuzz --features libfuzzer $$target fuzz/target/corpus/$$target fuzz/corpus/$$target \
	        -- -max_total_time=$(FUZZ_SECONDS); done
