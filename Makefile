# What developers of weft type. Users need none of it.
.DEFAULT_GOAL := help
.PHONY: help test race generate lint tidy bench budget gpu-bundle ci clean

export CGO_ENABLED := 0
GO ?= go
MODULES = work

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run all tests on the CPU
	$(GO) test $(MODULES)
	cd beam && $(GO) test ./...

race: ## run the tests of the CPU engines under the race detector
	CGO_ENABLED=1 $(GO) test -race ./device/cpu ./linear ./internal/... ./internal/table/... ./cmd/weft/internal/...

generate: ## compile the kernels (needs clang-19)
	$(GO) generate ./...
	cd lab && GOWORK=off $(GO) generate ./...

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet $(MODULES)
	cd tools && GOWORK=off $(GO) build -o ../out/tools/ honnef.co/go/tools/cmd/staticcheck
	out/tools/staticcheck $(MODULES)

tidy: export GOWORK := off
tidy: ## go mod tidy of all modules
	$(GO) mod tidy
	cd arrow && $(GO) mod edit -replace github.com/weftgo/weft=.. && $(GO) mod tidy; $(GO) mod edit -dropreplace github.com/weftgo/weft
	for module in internal/table cmd/weft mpi; do (cd $$module && \
		$(GO) mod edit -replace github.com/weftgo/weft=$(CURDIR) -replace github.com/weftgo/weft/arrow=$(CURDIR)/arrow -replace github.com/weftgo/weft/internal/table=$(CURDIR)/internal/table && $(GO) mod tidy; \
		$(GO) mod edit -dropreplace github.com/weftgo/weft -dropreplace github.com/weftgo/weft/arrow -dropreplace github.com/weftgo/weft/internal/table); done
	cd beam && $(GO) mod edit -replace github.com/weftgo/weft=.. -replace github.com/weftgo/weft/arrow=../arrow -replace github.com/weftgo/weft/internal/table=../internal/table && $(GO) mod tidy; \
		$(GO) mod edit -dropreplace github.com/weftgo/weft -dropreplace github.com/weftgo/weft/arrow -dropreplace github.com/weftgo/weft/internal/table
	cd lab && $(GO) mod tidy
	cd tools && $(GO) mod tidy

bench: ## measure this machine (BENCH="linear --quick" for less)
	cd lab && GOWORK=off $(GO) run ./cmd/weft-bench run $(BENCH)

budget: export GOFLAGS := -gcflags=all=-dwarf=false
budget: ## compare what weft weighs with tools/budget/budgets.txt
	cd tools && GOWORK=off $(GO) build -o ../out/tools/ ./budget
	out/tools/budget tools/budget/budgets.txt

gpu-bundle: ## build out/gpu, to be carried to a Linux machine with a GPU: out/gpu/run.sh RESULTS
	tools/gpu-bundle out/gpu

ci: ## everything a change has to pass
	.ci/run

clean: ## remove what was built
	rm -rf out bin
