# What developers of weft type. Users need none of it: go get is enough.
.DEFAULT_GOAL := help
.PHONY: help test race generate lint bench gpu-bundle ci clean

export CGO_ENABLED := 0
GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run all tests on the CPU
	$(GO) test ./...

race: ## run the tests of the CPU engines under the race detector
	CGO_ENABLED=1 $(GO) test -race ./alloc ./device/cpu ./linear ./internal/...

generate: ## compile the kernels (needs clang-19)
	$(GO) generate ./...

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(TOOL) staticcheck ./...

bench: ## measure this machine (BENCH="linear --quick" for less)
	$(GO) run ./cmd/weft bench $(BENCH)

gpu-bundle: ## build out/gpu, to be carried to a Linux machine with a GPU: out/gpu/run.sh RESULTS
	tools/gpu-bundle out/gpu

ci: ## everything a change has to pass
	.ci/run

clean: ## remove what was built
	rm -rf out bin
