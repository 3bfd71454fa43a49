# Targets run scripts/bootstrap if they need it; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help bootstrap build deb demo test test-kerberos test-otlp test-kubernetes \
  test-keycloak test-rules test-chart test-churn test-peers test-proxy-ecosystem test-tutorial \
  test-adapter-faults attack lint bench published soak fuzz clean docs pictures

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
WEIR := $(TARGET_DIR)/release/weir
# Options for `weir demo`, for example: make demo DEMO="--out /tmp/runs"
DEMO ?=
# Options for `make published`, for example: make published PUBLISHED="--budget 30 --only '000-*'"
PUBLISHED ?=
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60
# Minutes of `make soak`.
SOAK_MINUTES ?= 30

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 \t\2/p' Makefile | expand -t 18

bootstrap: ## install missing prerequisites (scripts/bootstrap --check only reports them)
	@scripts/bootstrap

build: bootstrap ## build the release binary, target/release/weir; symbols in weir.debug
	@. scripts/env; cargo build --release --locked -p weir
	@scripts/split-symbols $(WEIR)

deb: build ## build the Debian package, target/deb/weir_*.deb
	@packaging/deb/build $(WEIR) $(TARGET_DIR)/deb

demo: build ## run broker, gateway and thousands of clients on this machine; writes a report
	@$(WEIR) demo $(DEMO)

test: ## run all tests: unit, property, end-to-end with a real broker, client SDKs, README
	@scripts/test

docs: bootstrap ## build the documentation as a searchable site, target/docs-site
	@scripts/docs

pictures: build ## make the pictures of the documentation, docs/pictures (two minutes)
	@scripts/pictures $(WEIR)

test-kerberos: ## build with Kerberos (feature gssapi) and test it against a KDC of its own
	@scripts/test-kerberos

test-otlp: ## test the export to OpenTelemetry collectors (feature otlp)
	@scripts/test-otlp

test-peers: ## measure Centrifugo next to the gateway, with delivery checked (builds it once)
	@. scripts/env; scripts/go-tool centrifugo --build; cargo test --locked -p weir --test gateways

test-chart: ## compare the Helm chart with the manifests (builds Helm once)
	@. scripts/env; scripts/go-tool helm --build; cargo test --locked -p weir --test packaging chart

test-kubernetes: ## run benchmarks as Jobs of a real API server (builds Kubernetes once, 20 minutes)
	@. scripts/env; nice scripts/go-tool kubernetes --build; \
	  WEIR_KUBERNETES=1 cargo test --locked -p weir --test kubernetes

test-keycloak: ## verify tokens of Keycloak (160 MB from Maven, half a minute)
	@. scripts/env; WEIR_KEYCLOAK=1 cargo test --locked -p weir-identity --test providers keycloak

test-rules: ## compare the item rules with their model in 1,000,000 cases (some minutes)
	@. scripts/env; PROPTEST_CASES=1000000 cargo test --locked -p weir-identity --test rules \
	  compiled_rules_decide_like_naive_evaluation

test-churn: ## clients of two tenants that come, go and recover at 10,000 records/s for ten minutes
	@. scripts/env; WEIR_CHURN_SECONDS=600 WEIR_CHURN_RATE=10000 cargo test --release --locked \
	  -p weir-gateway --test record_churn -- --nocapture

test-proxy-ecosystem: ## Kafka Streams, MirrorMaker, a registry and restarted brokers through the proxy
	@. scripts/env; WEIR_ECOSYSTEM=1 cargo test --locked -p weir-proxy --test proxy -- --nocapture \
	  connect:: streams:: tools_equal:: cluster::

test-adapter-faults: ## sessions while a remote adapter is killed, stopped and restarted, for an hour
	@. scripts/env; WEIR_ADAPTER_FAULT_SECONDS=3600 cargo test --release --locked \
	  -p weir-gateway --test adapter_faults -- --nocapture

test-tutorial: build ## time the tutorial of your own topic in a bare directory tree
	@scripts/time-tutorial $(WEIR)

attack: build ## run attacks next to regular clients, at full scale, against the release binary
	@. scripts/env; WEIR_ATTACK=full WEIR_ATTACK_BINARY=$(abspath $(WEIR)) \
	  cargo test --locked -p weir --test attack -- --nocapture

lint: ## run rustfmt, clippy, rustdoc, cargo-deny, shellcheck (if installed)
	@scripts/lint

bench: build ## run the benchmarks of bench/; raw results in bench/runs
	@WEIR=$(WEIR) bench/run

published: build ## repeat the published experiments cell by cell, at most 90 minutes per call; resumes
	@WEIR=$(abspath $(WEIR)) bench/published $(PUBLISHED)

soak: build ## run SOAK_MINUTES (30) with changing keys, clients and brokers; checks data and memory
	@WEIR=$(WEIR) scripts/soak --minutes $(SOAK_MINUTES)

fuzz: ## run every fuzz target for FUZZ_SECONDS (60); needs a nightly compiler
	@scripts/bootstrap
	@scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove build results (not weir-runs/)
	@. scripts/env; cargo clean
