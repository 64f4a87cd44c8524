# The two commands of the README, `make demo` and `make test`, and what they are made of.

CARGO ?= cargo
SETUP := tests/setup
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

.DEFAULT_GOAL := help

# The commit since which `make check` looks for changes.
SINCE ?= HEAD
# Most tests wait more than they compute: .config/nextest.toml.
THREADS ?= $(shell echo $$((2 * $$(nproc))))
NEXTEST = PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/thalweg-tests/bin:$$PATH" $(CARGO) nextest run --locked --test-threads $(THREADS)

.PHONY: help demo package test test-full check setup format lint tests mutations doctests replay instructions docs fuzz

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## Build, serve a small tree, search its capacity, and write the report to target/thalweg-demo.html
	@$(SETUP) build
	$(CARGO) build --locked --release --package thalweg-cli --bin thalweg
	@mkdir -p target
	@# A limit that was missed (1) and a host too busy to measure (3) are results too, and have a report.
	$(CARGO) run --locked --release --quiet --package thalweg-cli --bin thalweg -- demo --out target/thalweg-demo.html \
	    || case $$? in 1 | 3) ;; *) exit 1 ;; esac

package: ## Build the Debian package and the tarball, in target/package
	@$(SETUP) build
	$(CARGO) build --locked --profile dist --package thalweg-cli --bin thalweg
	packaging/package $${CARGO_TARGET_DIR:-target}/dist/thalweg target/package

# One after the other, the quick ones first.
test: ## Run all checks, as CI does
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory tests
	@$(MAKE) --no-print-directory doctests
	@$(MAKE) --no-print-directory instructions
	@$(MAKE) --no-print-directory docs

# For nights and releases.
test-full: export THALWEG_TEST_FULL = 1
test-full: export THALWEG_TEST_DRIVERS = all
test-full: ## Run all checks with both drivers, long seeds, live tools and mutations, and fuzz each target for FUZZ_SECONDS
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory tests NEXTEST_OPTIONS="--run-ignored all"
	@$(MAKE) --no-print-directory mutations
	@$(MAKE) --no-print-directory doctests
	@$(MAKE) --no-print-directory instructions
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory fuzz || echo "make test-full: the fuzz targets were not fuzzed (see above); their corpus was replayed"

# The end-to-end tests and those of crates that the change cannot affect are left to `make test`. The whole workspace is built all the same: a
# selection of packages has other features, for which their dependencies would be built anew.
check: ## Run what a change of the working tree needs before a commit: format, lints, house rules, tests of affected crates
	@$(MAKE) --no-print-directory format
	@affected=$$(tests/affected $(SINCE)) || exit 1; \
	if [ -z "$$affected" ]; then echo "make check: no crate has changed"; $(NEXTEST) --workspace --test tidy; exit; fi; \
	$(MAKE) --no-print-directory lint && \
	$(NEXTEST) --workspace --filterset "binary(tidy) or (($$affected) and not binary(end_to_end))"

setup: ## Install what the tests need, or list what is missing
	@$(SETUP) test

format: ## Check that the code is formatted
	$(CARGO) fmt --all --check

lint: ## Lint all targets; warnings are errors
	$(CARGO) clippy --locked --profile test --workspace --all-targets -- -D warnings

tests: ## Run the tests: unit, property, simulated, driver contract, fuzz corpus, end to end
	$(NEXTEST) --workspace $(NEXTEST_OPTIONS)

mutations: ## Put back defects that were fixed once, one at a time, and see whether their tests notice
	tests/mutations/run

doctests: ## Run the examples in the documentation of the crates that have some
	$(CARGO) test --locked --doc --workspace

replay: ## Run the fuzz targets on their stored corpus
	$(NEXTEST) --package thalweg-fuzz

instructions: ## Count the instructions of a request, and compare them with the stored counts
	bench/instructions

docs: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --profile test --workspace --no-deps

fuzz: ## Fuzz each target for FUZZ_SECONDS; needs a nightly toolchain and cargo-fuzz
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || { \
	    echo "make fuzz: missing: a nightly toolchain or cargo-fuzz (rustup toolchain install nightly; cargo install cargo-fuzz)" >&2; exit 1; }
	@# What it finds goes to a scratch corpus first; the one in the repository only grows by hand.
	@set -e; for target in $(FUZZ_TARGETS); do \
	    mkdir -p fuzz/target/corpus/$$target; \
	    $(CARGO) +nightly fuzz run --fuzz-dir fuzz --features libfuzzer $$target fuzz/target/corpus/$$target fuzz/corpus/$$target \
	        -- -max_total_time=$(FUZZ_SECONDS); done
