# Everything here runs on a laptop as it runs in CI. `make help` lists the targets.

export CGO_ENABLED := 0
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TOOLS := bin/tools
NEXT := bin/next
CONTROLPLANE := $(TOOLS)/etcd $(TOOLS)/kube-apiserver $(TOOLS)/kube-controller-manager $(TOOLS)/kubectl
POLICYTOOLS := $(TOOLS)/opa $(TOOLS)/kustomize
TESTTOOLS := $(TOOLS)/cosign $(TOOLS)/prometheus $(TOOLS)/actionlint $(TOOLS)/helm $(TOOLS)/operator-verify
DELIVERYTOOLS := $(TOOLS)/argocd $(TOOLS)/miniredis
SOURCES := $(shell find operator policies kustomize/base/crds -name '*.go' -o -name '*.rego' -o -path '*crds/*.yaml') go.mod go.sum
IMAGE ?= registry.example.com/sluice/manager:dev
OVERLAYS := dev ci e2e prod
FUZZTIME ?= 10s
# Of a release: where its images go, and how they are signed (without flags: by identity).
VERSION ?= 0.0.0-dev
REPOSITORY ?= registry.example.com/sluice
PLATFORMS ?= linux/amd64 linux/arm64
DIST ?= dist
SIGN ?= --yes
HELM_FLAGS ?=
# Of a promotion: the overlays, and flags, such as --gate with the keys that the Gates name.
FLEET ?= kustomize/overlays
PROMOTE_FLAGS ?=
# What the image trusts registries by; Fedora has it at /etc/pki/tls/certs/ca-bundle.crt.
AUTHORITIES ?= /etc/ssl/certs/ca-certificates.crt
IMAGETOOL = SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct) go run ./operator/packaging/image --version=$(VERSION) --authorities=$(AUTHORITIES)
N ?= 1000

##@ Start here

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build tools bin/demo ## Start a cluster and see the gate at work; KEEP=1 leaves it running
	@bin/demo $(if $(KEEP),--keep)

.PHONY: test
test: tools $(TESTTOOLS) build ## Run every test: Go, Rego, overlays, against a real API server
	go vet ./...
	go test -timeout 20m ./...
	$(TOOLS)/opa test policies/

.PHONY: e2e
e2e: build tools $(DELIVERYTOOLS) bin/e2e ## Deliver an image from dev to prod with a real Argo CD; KEEP=1 leaves it running
	@bin/e2e $(if $(KEEP),--keep)

# What needs a cluster and is not about one part of it; bin/next has the same tools, but for the API server.
.PHONY: next
next: build tools $(TESTTOOLS) bin/demo $(NEXT)/kube-apiserver ## Run the tests that need a cluster, and the demo, with the API server of the newest Kubernetes
	@for tool in $(TOOLS)/*; do [ $${tool##*/} = kube-apiserver ] || ln -sf "$(CURDIR)/$$tool" $(NEXT)/; done
	SLUICE_TOOLS_DIR=$(CURDIR)/$(NEXT) go test -count=1 -timeout 30m ./operator/internal/admission ./operator/internal/controller/... ./operator/internal/delta ./operator/test/conformance
	SLUICE_TOOLS_DIR=$(CURDIR)/$(NEXT) bin/demo

.PHONY: cases
cases: tools ## Run the known cases, each with its right answer and ours
	@go run ./operator/test/cases

##@ Build

.PHONY: build
build: bin/sluice bin/manager bin/lab ## Build bin/sluice, bin/manager and bin/lab

bin/sluice bin/manager: bin/%: $(SOURCES)
	@echo "building $@ (with empty caches about 3 min on 2 cores) ..."
	@start=$$(date +%s); go build -trimpath -ldflags "-s -w" -o $@ ./operator/cmd/$* && echo "built $@ in $$(($$(date +%s) - start)) s"

bin/lab bin/demo bin/e2e bin/benchreconcile bin/benchmemory: bin/%: $(SOURCES)
	@go build -trimpath -ldflags "-s -w" -o $@ ./operator/test/$*

bin/judgebench: $(SOURCES)
	@go build -trimpath -ldflags "-s -w" -o $@ ./operator/test/bench/judgebench

.PHONY: image
image: ## Build the operator's image (needs Docker): IMAGE=...
	docker build -t $(IMAGE) .

##@ Release it

# The digest is the same wherever the commit is built with this Go and these authorities.
.PHONY: image-oci
image-oci: ## Build the operator's image for PLATFORMS without Docker, and push it to REPOSITORY
	@mkdir -p $(DIST)
	@for p in $(PLATFORMS); do \
		GOOS=$${p%/*} GOARCH=$${p#*/} go build -trimpath -ldflags "-s -w" -o $(DIST)/manager_$${p%/*}_$${p#*/} ./operator/cmd/manager || exit 1; done
	$(IMAGETOOL) push $(REPOSITORY)/manager:$(VERSION) $(MANAGERS) > $(DIST)/image.txt
	$(IMAGETOOL) sbom $(MANAGERS) > $(DIST)/sbom.spdx.json
	SOURCE_COMMIT=$$(git rev-parse HEAD) $(IMAGETOOL) provenance > $(DIST)/provenance.json
	@cat $(DIST)/image.txt
MANAGERS = $(foreach p,$(PLATFORMS),$(DIST)/manager_$(subst /,_,$(p)))
# needs FILE,TARGET: FILE of DIST, which TARGET writes, is there.
needs = @test -s "$(DIST)/$(1)" || { echo '$(DIST)/$(1) is not there: run make $(2) first' >&2; exit 1; }

.PHONY: chart-oci
chart-oci: $(TOOLS)/helm ## Pack the chart with the image that was pushed, and push it to REPOSITORY/charts
	$(call needs,image.txt,image-oci)
	hack/chart/package $(TOOLS)/helm $(VERSION) $$(cat $(DIST)/image.txt) $(DIST)
	$(TOOLS)/helm push $(HELM_FLAGS) $(DIST)/sluice-$(VERSION).tgz oci://$(REPOSITORY)/charts > $(DIST)/chart.log 2>&1 || { cat $(DIST)/chart.log; exit 1; }
	@sed -n 's|^Digest: |$(REPOSITORY)/charts/sluice@|p' $(DIST)/chart.log > $(DIST)/chart.txt
	@test -s $(DIST)/chart.txt && cat $(DIST)/chart.txt

.PHONY: bundle-oci
bundle-oci: $(TOOLS)/operator-verify ## Make the OLM bundle of the image that was pushed, and push it to REPOSITORY
	$(call needs,image.txt,image-oci)
	go run ./operator/packaging/bundle $(DIST)/bundle $$(sed 's|@|:$(VERSION)@|' $(DIST)/image.txt)
	$(TOOLS)/operator-verify manifests $(DIST)/bundle
	$(IMAGETOOL) bundle $(REPOSITORY)/bundle:$(VERSION) $(DIST)/bundle > $(DIST)/bundle.txt
	@cat $(DIST)/bundle.txt

.PHONY: sign
sign: $(TOOLS)/cosign ## Sign what was pushed, and attest how it was built and of what; SIGN=cosign's flags
	$(call needs,image.txt,image-oci)
	$(call needs,chart.txt,chart-oci)
	$(call needs,bundle.txt,bundle-oci)
	$(TOOLS)/cosign sign $(SIGN) $$(cat $(DIST)/image.txt $(DIST)/chart.txt $(DIST)/bundle.txt)
	$(TOOLS)/cosign attest $(SIGN) --type=spdxjson --predicate=$(DIST)/sbom.spdx.json $$(cat $(DIST)/image.txt)
	$(TOOLS)/cosign attest $(SIGN) --type=slsaprovenance1 --predicate=$(DIST)/provenance.json $$(cat $(DIST)/image.txt)

.PHONY: release-binaries
release-binaries: ## Build the command for every platform into DIST, with checksums and the krew manifest
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) hack/release-binaries $(VERSION) $(DIST)

.PHONY: sign-binaries
sign-binaries: $(TOOLS)/cosign ## Sign the checksums of the release's files
	$(call needs,checksums.txt,release-binaries)
	$(TOOLS)/cosign sign-blob $(SIGN) --bundle=$(DIST)/checksums.txt.sigstore.json $(DIST)/checksums.txt > /dev/null

.PHONY: release-notes
release-notes: ## Write the changelog's part about VERSION to DIST
	@mkdir -p $(DIST)
	@awk -v want='## [$(VERSION)]' 'index($$0, "## ") == 1 { on = index($$0, want) == 1; next } on' CHANGELOG.md > $(DIST)/notes.md
	@test -s $(DIST)/notes.md || { echo 'CHANGELOG.md has nothing about $(VERSION)'; exit 1; }

.PHONY: promote
promote: export FLEET := $(FLEET)
promote: bin/sluice ## Propose what runs in FROM for TO, as a pull request where there is a token
	@# The shell reads these as texts: what stands in one is no command.
	bin/sluice promote --from="$$FROM" --to="$$TO" --overlays="$$FLEET" $$PROMOTE_FLAGS

.PHONY: pipeline
pipeline: build $(TOOLS)/cosign $(TOOLS)/helm $(TOOLS)/operator-verify ## Run the release and the promotion against a registry on this machine, and check what comes of it
	@go run ./operator/test/pipeline

##@ Tools

.PHONY: tools
tools: $(CONTROLPLANE) $(POLICYTOOLS) ## Build the control plane, kubectl, opa and kustomize into bin/tools

$(TOOLS)/etcd: hack/tools/controlplane/go.sum
	@hack/tools/build controlplane go.etcd.io/etcd/server/v3 $@ '1 min'
$(TOOLS)/kube-apiserver: hack/tools/controlplane/go.sum
	@hack/tools/build controlplane k8s.io/kubernetes/cmd/kube-apiserver $@ '4 min'
# Newer than the Kubernetes that is compiled in, see docs/decisions/019-kubernetes-own-defaults.md.
$(NEXT)/kube-apiserver: hack/tools/controlplane-next/go.sum
	@hack/tools/build controlplane-next k8s.io/kubernetes/cmd/kube-apiserver $@ '4 min'
$(TOOLS)/kube-controller-manager: hack/tools/controlplane/go.sum
	@hack/tools/build controlplane k8s.io/kubernetes/cmd/kube-controller-manager $@ '1 min'
$(TOOLS)/kubectl: hack/tools/controlplane/go.sum
	@hack/tools/build controlplane k8s.io/kubernetes/cmd/kubectl $@ '30 s'
$(TOOLS)/kustomize: hack/tools/kustomize/go.sum
	@hack/tools/build kustomize sigs.k8s.io/kustomize/kustomize/v5 $@ '15 s'
$(TOOLS)/opa: hack/tools/opa/go.sum
	@hack/tools/build opa github.com/open-policy-agent/opa $@ '1 min'
$(TOOLS)/conftest: hack/tools/conftest/go.sum
	@hack/tools/build conftest github.com/open-policy-agent/conftest $@ '5 min'
$(TOOLS)/cosign: hack/tools/cosign/go.sum
	@hack/tools/build cosign github.com/sigstore/cosign/v3/cmd/cosign $@ '3 min'
# Without the service discoveries: clouds' client libraries are most of the program.
$(TOOLS)/prometheus: hack/tools/prometheus/go.sum
	@hack/tools/build prometheus github.com/prometheus/prometheus/cmd/prometheus $@ '2 min' remove_all_sd
$(TOOLS)/argocd: hack/tools/argocd/go.sum
	@hack/tools/build argocd github.com/argoproj/argo-cd/v3/cmd $@ '5 min'
# In Redis's place where that is not installed: for Argo CD it is a cache and no more.
$(TOOLS)/miniredis: hack/tools/argocd/go.sum hack/tools/argocd/miniredis/main.go
	@hack/tools/build argocd ./miniredis $@ '10 s'
$(TOOLS)/helm: hack/tools/helm/go.sum
	@hack/tools/build helm helm.sh/helm/v4/cmd/helm $@ '1 min'
$(TOOLS)/operator-verify: hack/tools/bundle/go.sum
	@hack/tools/build bundle github.com/operator-framework/api/cmd/operator-verify $@ '30 s'
$(TOOLS)/controller-gen: hack/tools/codegen/go.sum
	@hack/tools/build codegen sigs.k8s.io/controller-tools/cmd/controller-gen $@ '30 s'
$(TOOLS)/staticcheck: hack/tools/lint/go.sum
	@hack/tools/build lint honnef.co/go/tools/cmd/staticcheck $@ '20 s'
$(TOOLS)/deadcode: hack/tools/lint/go.sum
	@hack/tools/build lint golang.org/x/tools/cmd/deadcode $@ '10 s'
$(TOOLS)/actionlint: hack/tools/lint/go.sum
	@hack/tools/build lint github.com/rhysd/actionlint/cmd/actionlint $@ '10 s'

##@ Keep it right

.PHONY: generate
generate: $(TOOLS)/controller-gen $(TOOLS)/kustomize ## Write everything that is generated: deepcopy, CRDs, RBAC, docs, chart, bundle
	$(TOOLS)/controller-gen object paths=./operator/api/...
	$(TOOLS)/controller-gen crd:crdVersions=v1 output:crd:dir=kustomize/base/crds paths=./operator/api/...
	$(TOOLS)/controller-gen rbac:roleName=sluice-manager output:rbac:dir=kustomize/base/rbac paths=./operator/internal/...
	go run ./operator/internal/gate/policy/policydocs > docs/policies.md
	go run ./operator/internal/rollout/rolloutdocs docs/rollout.md
	go run ./operator/internal/argocd/argocdconfig > kustomize/argocd/config/argocd-cm.yaml
	hack/chart/generate $(TOOLS)/kustomize charts/sluice/files
	go run ./operator/packaging/bundle bundle

.PHONY: verify
verify: generate lint overlays crd-check ## Fail if anything generated, formatted, linted or built is off
	@hack/verify-clean

.PHONY: lint
lint: $(TOOLS)/staticcheck $(TOOLS)/deadcode $(TOOLS)/actionlint $(TOOLS)/opa ## Run the linters
	@test -z "$$(gofmt -l operator policies hack kustomize)" || { gofmt -l operator policies hack kustomize; echo 'run gofmt -w on these'; exit 1; }
	go mod tidy -diff
	$(TOOLS)/staticcheck ./...
	@dead=$$($(TOOLS)/deadcode -test ./...) && test -z "$$dead" || { echo "dead code:"; echo "$$dead"; exit 1; }
	$(TOOLS)/opa check --strict policies/
	@test -z "$$($(TOOLS)/opa fmt --list policies/)" || { $(TOOLS)/opa fmt --list policies/; echo 'run opa fmt -w on these'; exit 1; }
	$(TOOLS)/actionlint

.PHONY: overlays
overlays: $(TOOLS)/kustomize bin/sluice ## Build every overlay with stock kustomize, and lint them
	@for o in $(OVERLAYS); do $(TOOLS)/kustomize build kustomize/overlays/$$o > /dev/null && echo "kustomize/overlays/$$o builds" || exit 1; done
	@bin/sluice lint overlays kustomize/overlays --expect=spec.storage.retain

.PHONY: bench
bench: tools ## Run the benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem ./operator/...

.PHONY: bench-reconcile
bench-reconcile: build tools bin/benchreconcile ## Measure the operator under N Workloads; fails on too many requests
	@bin/benchreconcile -n $(N)

.PHONY: bench-memory
bench-memory: build tools bin/benchmemory ## Measure the operator's memory under hostile evidence; fails near what its container has
	@bin/benchmemory

.PHONY: bench-check
bench-check: bin/sluice bin/judgebench $(TOOLS)/kustomize $(TOOLS)/conftest ## Time sluice check beside kustomize and conftest
	@go run ./operator/test/bench/checkbench bin/sluice $(TOOLS)/kustomize $(TOOLS)/conftest bin/judgebench

# Packages in which goroutines share something. Those whose tests are bounded by time are left
# out: with the detector they end as on a machine that is too slow. The controller's take ten
# minutes on two cores.
RACE := collector leader gate gate/promotion lru registry bundle notary metrics overlay kustomize trust analysis admission promote cli controller/workload
.PHONY: race
race: tools $(TESTTOOLS) ## Run the tests of what runs side by side with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 30m $(addprefix ./operator/internal/,$(RACE))

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME
	@hack/fuzz $(FUZZTIME)

.PHONY: crd-check
crd-check: bin/sluice ## Fail if the CRDs break what the last release accepted
	@hack/crd-check kustomize/base/crds

##@ Use it

.PHONY: lab
lab: build tools ## Start a local cluster that runs Sluice, until Ctrl-C
	@bin/lab

.PHONY: install
install: $(TOOLS)/kubectl ## Install the CRDs into the cluster of the current context
	$(TOOLS)/kubectl apply --server-side -k kustomize/base/crds

.PHONY: deploy
deploy: install ## Install CRDs and operator into the cluster of the current context
	$(TOOLS)/kubectl apply --server-side -k kustomize/base

.PHONY: undeploy
undeploy: $(TOOLS)/kubectl ## Remove the operator; CRDs and Workloads stay, so delete Workloads first
	$(TOOLS)/kubectl delete --ignore-not-found -k kustomize/base/webhook
	$(TOOLS)/kubectl delete --ignore-not-found -k kustomize/base/manager
	$(TOOLS)/kubectl delete --ignore-not-found -k kustomize/base/rbac

.PHONY: clean
clean: ## Remove what was built, tools included
	rm -rf bin
