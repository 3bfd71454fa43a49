# Every target does its own set-up (scripts/bootstrap); `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help bootstrap build demo test attack lint bench soak fuzz clean

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
WEIR := $(TARGET_DIR)/release/weir
# Options for `weir demo`, for example: make demo DEMO="--out /tmp/runs"
DEMO ?=
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60
# Minutes of `make soak`.
SOAK_MINUTES ?= 30

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \t\2/p' Makefile | expand -t 18

bootstrap: ## install what is missing on this machine (scripts/bootstrap --check only reports)
	@scripts/bootstrap

build: bootstrap ## the release binary, target/release/weir, with its symbols in weir.debug
	@. scripts/env; cargo build --release --locked -p weir
	@scripts/split-symbols $(WEIR)

demo: build ## a broker, the gateway and thousands of clients on this machine; ends with a comparison and a report
	@$(WEIR) demo $(DEMO)

test: ## unit and property tests, end to end on a real broker, unmodified client SDKs, README commands
	@scripts/test

attack: build ## hostile peers next to well-behaved clients, at full scale, against the release binary
	@. scripts/env; WEIR_ATTACK=full WEIR_ATTACK_BINARY=$(abspath $(WEIR)) \
	  cargo test --locked -p weir --test attack -- --nocapture

lint: ## rustfmt, clippy, rustdoc, cargo-deny, shellcheck (if present)
	@scripts/lint

bench: build ## the benchmarks of bench/, raw results kept in bench/runs
	@WEIR=$(WEIR) bench/run

soak: build ## SOAK_MINUTES (30) of churning keys, clients and brokers: nothing lost, nothing stale, memory flat
	@WEIR=$(WEIR) scripts/soak --minutes $(SOAK_MINUTES)

fuzz: ## every fuzz target for FUZZ_SECONDS (60) each; needs a nightly compiler
	@scripts/bootstrap
	@scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove build results (not weir-runs/)
	@. scripts/env; cargo clean
