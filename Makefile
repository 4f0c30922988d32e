# "make test" is all that stands between a change and main.

GOLANGCI_LINT_VERSION := v2.15.0
BIN := $(CURDIR)/bin
# The race detector needs cgo, and cgo a C compiler: without one, Go turns cgo
# off by itself and the tests run without the detector.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

.PHONY: all build test unit conformance conformance-long mutation e2e soak chaos lint generate verify fuzz cover sandbox clean bench

all: build lint test

build: ## the plug-in, as kubectl finds it on PATH
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/kubectl-volume_doctor .

test: unit conformance e2e ## everything

unit: ## unit, corpus and command tests
	go vet ./...
	go test -shuffle=on ./snapshot ./reconcile ./diagnose ./output
	go test $(RACE) -shuffle=on . ./cluster ./repair ./cmd # the only ones that start goroutines

conformance: ## the model against the real controllers of ten releases, over random clusters
	cd e2e && go test -timeout 45m ./conformance/...

N ?= 2000
SEED ?= 1
conformance-long: ## the same over N clusters for each release; ends with the table of docs/conformance.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestReleases$$' -v ./conformance -clusters $(N) -seed $(SEED)

mutation: ## one wrong edit to the model at a time, and which controller contradicts it; writes docs/mutation.md
	cd e2e && go run ./mutation

e2e: build ## the command against a real control plane
	cd e2e && go vet ./... && go test -timeout 30m $$(go list ./... | grep -v /conformance)

SOAK ?= 10m
soak: ## pods come, move and go for SOAK while the command finds nothing; writes the end of docs/modes.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestMovingPodsAreNotReported$$' -v ./command -soak $(SOAK) -write-soak

FAULTS ?= 10000
chaos: build ## repairs while everything goes wrong, until FAULTS faults have happened; writes the end of docs/chaos.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestChaos$$' -v ./chaos -rounds 300 -faults $(FAULTS) -seed $(SEED) -write

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
	$< run ./...
	cd e2e && $< run -c ../.golangci.yml ./...

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@

generate: ## docs/codes.md, and the expectations of the corpus
	go test . ./diagnose ./output -update

verify: generate ## fails where a generated file is stale
	git diff --exit-code

FUZZTIME ?= 30s
fuzz: ## each decoder for FUZZTIME
	go test ./snapshot -fuzz FuzzRead -fuzztime $(FUZZTIME)

bench: ## speed and memory beside raw transfer and kubectl, up to 5,000 nodes; writes docs/performance.md
	cd e2e && go run ./bench -page ../docs/performance.md

cover:
	go test -coverprofile=cover.out ./... && go tool cover -func=cover.out | tail -1

sandbox: ## a real control plane on loopback with a broken pod
	cd e2e && go build -o bin/sandbox ./cmd/sandbox && exec bin/sandbox

clean:
	rm -rf $(BIN) e2e/bin cover.out
