# "make test" is the gate: all that stands between a change and main. "make prove" is
# everything: each proof at its full length, with seeds that nobody has seen.

GOLANGCI_LINT_VERSION := v2.15.0
BIN := bin
SERVE_PROGRAM := ./standing/kubectl-volume_doctor-serve
# The race detector needs cgo, and cgo a C compiler: without one, Go turns cgo
# off by itself and the tests run without the detector.
RACE := $(if $(filter 1,$(shell CGO_ENABLED= go env CGO_ENABLED)),-race)

# A release, as in .goreleaser.yaml: the same commit and the same Go give the same
# bytes, wherever they are built.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
RELEASE_ENV := CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0
RELEASE_FLAGS := -trimpath -buildvcs=true -ldflags='-s -w'
VULNDB := https://vuln.go.dev

IMAGE_PLATFORMS := linux/amd64 linux/arm64
DIST := dist

.PHONY: image dist notices reproducible release-check publish-check licences vuln new-user screenshots
.PHONY: all build test unit corpus race recorded stories record prove whole alerts holmes base chart world world-older world-real conformance conformance-long histories kubelet-oracle e2e e2e-long soak soak-serve serve-modes chaos chaos-data add-check wrong-edits lint lint-all vet-all linked generate verify fuzz fuzz-corpus cover demo sandbox clean bench bench-serve fleet

all: build test

build: ## the plug-in, and the program of its command serve, as kubectl finds them on PATH
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/kubectl-volume_doctor .
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/kubectl-volume_doctor-serve $(SERVE_PROGRAM)
	@echo 'The plug-in is $(CURDIR)/bin/kubectl-volume_doctor, and kubectl-volume_doctor-serve, beside it, is its'
	@echo 'command serve. kubectl finds them once that folder is on PATH:'
	@echo '    export PATH="$(CURDIR)/bin:$$PATH"'

# What the gate builds it builds once: without cgo and with -trimpath, as the plug-in and
# the control plane are built. The stories mostly wait for what is real: they are told
# beside the rest.
GATE := lint unit corpus race recorded
BESIDE := stories
# The tests keep the whole corpus in memory: to collect garbage four times as seldom saves a
# quarter of the processor, and takes up to 4 GB for a package.
GATE_ENV := CGO_ENABLED=0 GOFLAGS=-trimpath GOGC=400
test: ## the gate: each part, how long it took, and the sum
	@$(GATE_ENV) scripts/parts.sh $(BESIDE) -- $(GATE)

# Properties draw the same clusters each time: a change that is right is never stopped by
# chance. "make whole" draws others.
PROPERTIES = $(shell grep -rl --include='*_test.go' --exclude-dir=e2e --exclude-dir=tools '^	"pgregory.net/rapid"' . | xargs -n1 dirname | sort -u)
# What looks at each case of the corpus in many ways, or builds the plug-in, takes a
# third of the time of all tests.
CORPUS := Pictures|Drawn|ColorsAreColors|NothingContradicts|TraceCorpus|MountChecksKeepUpWithTrace|NoControllerLeads|NoNameStays|KeptVolumeInUse|HealthyClustersForgetNothing|EachFormatHasItsCases|GeneratedModelPage|GapsOfEveryCommand|AnswersSayWhomAdviceHits|NoAgeOfWhatHasNone|ForgedReport|HonestReports|SameFindings|GeneratedFormats|Actions|AdviceNamesItsHits|NothingRefusedIsOffered|LogOnlyAdds|LostEntriesOfReleases|EveryFormatSaysWhomAdviceHits|Fingerprints|NoDetachInProse|KeptVolumes|NothingIsToldTwiceInTheSameWords|NothingForWhatIsRefused|CommandsFollowTheirSentences|ApplyLines|NarrowedToNamespace
# The two commands run side by side: packages that only wait leave the processor to the others.
unit: ## every package with -short sizes and fixed seeds: for every change of the code
	export $(GATE_ENV); \
	go test -short -vet=off -p 4 -parallel 16 -skip '^Test($(CORPUS))$$' $$(go list ./... | grep -vxF "$$(go list $(PROPERTIES))") & others=$$!; \
	go test -short -vet=off -p 2 -skip '^Test($(CORPUS))$$' $(PROPERTIES) -rapid.seed=1 -rapid.nofailfile; failed=$$?; \
	wait $$others && exit $$failed

corpus: ## the tests that unit leaves out, because they take long
	$(GATE_ENV) go test -short -vet=off -p 4 -run '^Test($(CORPUS))$$' ./cmd ./diagnose ./diagnose/facts ./output ./repair -rapid.seed=1 -rapid.nofailfile
	$(GATE_ENV) go test -short -vet=off -p 4 -run '^Test($(CORPUS))$$' ./internal/hashnames ./diagnose/preflight ./diagnose/storage ./internal/house

race: ## the race detector where goroutines share something
	CGO_ENABLED= GOFLAGS=-trimpath go test -short $(RACE) -vet=off ./internal/sidebyside ./snapshot ./cluster ./standing
	CGO_ENABLED= GOFLAGS=-trimpath go test -short $(RACE) -vet=off -run '^Test(OneCostsNothingElse|BoundsOfAPass|Interrupted)$$' ./cmd

recorded: ## the model against what the controllers and kubelets of the releases have answered (make record)
	cd e2e && $(GATE_ENV) go test -vet=off -run '^TestRecorded' ./recorded ./conformance ./histories ./kubelettrace

STORIES := TestCuredDetach|TestReviewedPlan|TestDeleteFenced|TestDeleteFencedRefusesTheLiving|TestReplacedAttachment
stories: ## some repairs on one real control plane
	cd e2e && $(GATE_ENV) go test -count 1 -vet=off -timeout 80m -run '^($(STORIES))$$' ./repair

record: ## asks the controllers and the kubelets of all releases again, as root, and keeps what they say
	cd e2e && go test -timeout 0 -count 1 -run 'TestRecord$$' -v ./conformance ./histories -record
	cd e2e && go test -timeout 0 -count 1 -run 'Test(States|Random)$$' -v ./kubelettrace -record -releases all -states 50

PART ?= all
prove: ## every proof, or PART=one of scripts/prove.tsv, with fresh seeds; writes docs/evidence/README.md
	scripts/prove.sh $(PART)

whole: ## all packages at full length, with random seeds, and the race detector where goroutines are started
	go vet ./...
	go test -vet=off -timeout 40m -shuffle=on ./internal/... $$(go list ./snapshot/... | grep -v 'snapshot$$') ./reconcile ./evidence/... ./diagnose/... ./output ./explain
	go test -vet=off -timeout 0 -run '^TestShownOfRandomClusters$$' ./diagnose -rapid.checks=100000
	go test $(RACE) -vet=off -timeout 40m -shuffle=on ./cluster ./snapshot ./repair/... ./mcp ./standing/... ./cmd # what starts goroutines, and what makes a whole look

conformance: ## the model against the real controllers of ten releases, over random clusters
	cd e2e && go test -timeout 45m ./conformance/...

N ?= 2000
SEED ?= 1
conformance-long: ## the same over N clusters for each release; ends with the table of docs/evidence/conformance.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestReleases$$' -v ./conformance -clusters $(N) -seed $(SEED)

DEEP ?=
histories: ## N random histories of a controller at work for each release, DEEP=v1.36.3:1000 for one of them; writes docs/evidence/histories.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestHistories$$' -v ./histories -histories $(N) -deep '$(DEEP)' -seed $(SEED) -page ../../docs/evidence/histories.md

STATES ?= 2000
TALLIES ?=
kubelet-oracle: ## STATES pods for each release in random states against the volume half of its kubelet, as root; writes docs/evidence/kubelet.md and what they said; a run that was stopped goes on with the releases that TALLIES=folder lacks
	cd e2e && go test -timeout 0 -count 1 -parallel 8 -run 'Test(States|Sayings|SayingsDown|DataLost|Random)$$' -v ./kubelettrace -releases all -states $(STATES) -seed $(SEED) -tallies '$(TALLIES)' -page ../../docs/evidence/kubelet.md -said ../../testdata/kubelet/said.txt

e2e: build ## the command against a real control plane
	cd e2e && go vet ./... && go test -p 4 -timeout 40m $$(go list ./... | grep -v -e /conformance -e /world/history -e /world/demo) # they mostly wait

# The world links upstream's parts with two lines of theirs changed: see the script. A run that was
# stopped goes on after what TALLIES keeps, while the program stays the same.
WORLDS ?= 500
world: ## the stories and WORLDS random histories in virtual time; writes docs/evidence/world.md
	cd e2e && go test -timeout 0 -count 1 ./world/promises ./world/driver ./world/claims && \
	flags=$$(world/overlay.sh) && go test -count 1 $$flags ./world/demo && \
	go test -timeout 0 -count 1 -v $$flags ./world/history -histories $(WORLDS) -seed $(SEED) -shrink 20 -copies -ask 10 -tallies '$(TALLIES)' -page ../../../docs/evidence/world.md

OLDER ?= 500
world-older: ## OLDER random histories with the attach/detach controller of each of three older releases; TALLIES keeps them for the page that "make world" writes
	cd e2e && for release in v1.30.14 v1.33.13 v1.36.3; do \
		flags=$$(world/overlay.sh $$release) && go test -timeout 0 -count 1 -v $$flags ./world/history -run 'TestHistories$$' \
			-histories $(OLDER) -seed $(SEED) -shrink 20 -tallies '$(TALLIES)' || exit 1; \
	done

REAL ?= 1000
world-real: ## REAL random histories with the volume managers of the kubelets; TALLIES keeps them for the page that "make world" writes
	cd e2e && flags=$$(world/overlay.sh) && go test -timeout 0 -count 1 -v $$flags ./world/history -run 'TestHistories$$' \
		-real -histories $(REAL) -seed $(SEED) -shrink 20 -tallies '$(TALLIES)'

alerts: ## the alert rules and the dashboard, with promtool and Prometheus' own rule engine
	cd e2e/alerts && go vet . && go test -timeout 40m .

e2e-long: build ## what e2e has the clock moved on for, or leaves out, because a check waits for a quarter of an hour
	cd e2e && go test -timeout 60m -count 1 -v -run 'Touch|WaitedOut|Dangling|Strip|CuredDetach' ./repair -long

screenshots: ## the HTML pages in a real browser, at three widths, light and dark; pictures in build/screenshots
	rm -rf build/screenshots
	cd e2e && go test -timeout 10m -count 1 -run InABrowser ./browser -screenshots '$(CURDIR)/build/screenshots'

SOAK ?= 10m
soak: ## pods come, move and go for SOAK while the command finds nothing; writes the end of docs/evidence/modes.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestMovingPodsAreNotReported$$' -v ./command -soak $(SOAK) -write-soak

SERVE ?= 20m
soak-serve: build ## serve for SERVE while pods come and go and the API server restarts twice: it finds nothing and does not grow
	cd e2e && go test -timeout 0 -count 1 -run 'TestSoak$$' -v ./serve -soak $(SERVE)

SERVE_MODES ?= 20m
serve-modes: build ## serve for SERVE_MODES while failures are provoked, the API server restarts twice, the leader dies and the watches are cut; writes docs/evidence/serving.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestServing$$' -v ./modes -serve $(SERVE_MODES) -write-serving

FAULTS ?= 20000
chaos: build ## repairs while everything goes wrong, until FAULTS faults have happened; writes the end of docs/evidence/chaos.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestChaos$$' -v ./chaos -rounds 200 -every 1 -in-flight 100 -faults $(FAULTS) -seed $(SEED) -write

chaos-data: build ## rounds in which machines write to the volumes, until FAULTS faults have happened, as root; writes docs/evidence/chaos.md
	cd e2e && go test -timeout 0 -count 1 -run 'TestData$$' -v ./chaos -data-faults $(FAULTS) -seed $(SEED) -write

add-check: ## the steps of CONTRIBUTING.md, with a check of no use in a copy of the module
	go test -timeout 30m -count 1 -run 'TestAddACheck$$' -v ./internal/house -add-check

wrong-edits: ## twenty wrong edits, each of which a test of the gate has to notice
	go test -timeout 60m -count 1 -run 'TestWrongEdits$$' -v ./internal/house -wrong-edits

vet-all: ## all packages and their tests compile for the other systems of a release, too
	$(GATE_ENV) GOOS=windows go vet ./...
	$(GATE_ENV) GOOS=darwin go vet ./...

# The linters have all that go vet looks for.
lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee -a /dev/stderr)"
	$(GATE_ENV) $< run ./...

lint-all: lint vet-all ## the other modules, too, for which all that they link has to be built
	cd e2e && ../bin/golangci-lint-$(GOLANGCI_LINT_VERSION) run -c ../.golangci.yml ./...
	cd e2e/alerts && ../../bin/golangci-lint-$(GOLANGCI_LINT_VERSION) run -c ../../.golangci.yml ./...
	cd tools && ../bin/golangci-lint-$(GOLANGCI_LINT_VERSION) run -c ../.golangci.yml ./...

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	$(GATE_ENV) GOBIN='$(CURDIR)/bin' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv $(BIN)/golangci-lint $@

generate: ## docs/codes.md, rows of docs/offline.md, deploy/alerts, and the expectations of the corpus, by the tests named TestGenerated...; nothing where one fails
	rm -rf $(BIN)/generated
	$(GATE_ENV) go test -run '^TestGenerated' ./internal/house ./snapshot ./diagnose ./diagnose/trace ./output ./repair/apply -update='$(CURDIR)/bin/generated'
	cp -R $(BIN)/generated/. .
	rm -rf $(BIN)/generated

verify: generate ## fails where a generated file is stale
	git diff --exit-code

FUZZTIME ?= 30s
JOBS ?= 1
FUZZ ?= .
fuzz: ## every fuzz target for FUZZTIME, JOBS of them at once; WRITE=1 writes docs/evidence/fuzzing.md
	cd tools && go build -o ../bin/fuzz ./fuzz && exec ../bin/fuzz -time $(FUZZTIME) -jobs $(JOBS) -match '$(FUZZ)' $(if $(WRITE),-page ../docs/evidence/fuzzing.md)

fuzz-corpus: ## keeps, of the inputs found so far, up to 50 of each target that reach new code
	cd tools && go build -o ../bin/fuzz ./fuzz && exec ../bin/fuzz -corpus 50 -match '$(FUZZ)'

bench: ## speed and memory beside raw transfer and kubectl, up to 5,000 nodes; writes docs/evidence/performance.md
	cd e2e && go run ./bench -page ../docs/evidence/performance.md

bench-serve: ## memory and CPU of serve with 150,000 pods, 50 of which change in each second; writes docs/evidence/serving.md
	cd e2e && go run ./bench -serve 5000/150000/30000 -page ../docs/evidence/serving.md

fleet: ## 500 API servers, ten of which hang, refuse or lie, in one report; writes docs/evidence/fleet.md
	cd e2e && go test -timeout 10m -count 1 -run 'TestFleet$$' -v ./fleet -servers 500 -page ../../docs/evidence/fleet.md

cover:
	go test -coverprofile=cover.out ./... && go tool cover -func=cover.out | tail -1

HOLMES ?= build/holmesgpt
holmes: ## examples/holmesgpt, read and called by HolmesGPT's own code, its source in HOLMES; needs python3 with pydantic, jinja2, pyyaml and requests
	test -d '$(HOLMES)' || { git clone -q https://github.com/robusta-dev/holmesgpt '$(HOLMES)' && \
		git -C '$(HOLMES)' checkout -q 97e0d7c41ab66e79382b9073fd60f1d23b42286b; }
	HOLMES='$(abspath $(HOLMES))' go test -count 1 -run 'TestHolmes' -v ./cmd

build/helm: e2e/helm/go.mod
	cd e2e/helm && CGO_ENABLED=0 go build -ldflags='-s -w' -o ../../build/helm helm.sh/helm/v4/cmd/helm

base: build/helm ## deploy/kustomize/volume-doctor.yaml, from the chart
	{ echo '# Written by "make base" from deploy/chart.' && build/helm template volume-doctor deploy/chart -n volume-doctor; } \
		>deploy/kustomize/volume-doctor.yaml

chart: build/helm ## the chart as one file: build/chart/volume-doctor-VERSION.tgz
	build/helm lint --strict deploy/chart
	build/helm package deploy/chart -d build/chart

demo: ## a failure that comes, becomes certain and heals, in virtual time: real controllers, no cluster; the first time it builds them, which takes some minutes
	cd e2e && { test -x bin/demo || echo 'building the controllers of Kubernetes once, which takes some minutes'; } && \
	flags=$$(world/overlay.sh) && $(GATE_ENV) go test -c -vet=off -o bin/demo $$flags ./world/demo && \
	bin/demo -test.run '^TestDemo$$' -show -color=$$(test -t 1 && echo true || echo false)

SCENARIO ?= backoff-drop
PORT ?= 0
sandbox: ## a real control plane on loopback with a broken pod; SCENARIO=help lists what can be broken, PORT=n is the first of its five ports
	cd e2e && $(GATE_ENV) go build -o bin/sandbox ./cmd/sandbox && exec bin/sandbox --scenario $(SCENARIO) --port $(PORT)

dist: ## the two programs for each of PLATFORMS, and their checksums, with nothing but Go
	rm -rf $(DIST)
	set -e; for p in $(PLATFORMS); do \
		exe=; case $$p in windows/*) exe=.exe;; esac; \
		for program in kubectl-volume_doctor=. kubectl-volume_doctor-serve=$(SERVE_PROGRAM); do \
			GOFLAGS= GOOS=$${p%/*} GOARCH=$${p#*/} $(RELEASE_ENV) go build $(RELEASE_FLAGS) \
				-o $(DIST)/$${program%=*}_$${p%/*}_$${p#*/}$$exe $${program#*=}; \
		done; \
	done
	cd $(DIST) && sha256sum kubectl-* >SHA256SUMS && cat SHA256SUMS

image: notices ## the container image of IMAGE_PLATFORMS, without a container engine: build/image/layout, and image.tar beside it
	$(MAKE) --no-print-directory dist DIST=build/image PLATFORMS='$(IMAGE_PLATFORMS)'
	cd tools && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run ./image -out ../build/image \
		-version "$$(git describe --tags --always --dirty)" -revision "$$(git rev-parse HEAD)" ../build/image/kubectl-*

reproducible: ## the last commit built twice, in two folders, is the same, and so is its image
	scripts/reproducible.sh

linked: ## the linker leaves unused methods out of the programs
	go test -count 1 -run 'TestUnusedMethodsAreLeftOut$$' ./internal/house

release-check: linked ## what goreleaser, krew and the workflows read is what they take
	cd tools && go vet ./... && go test -count 1 ./... # Go's cache does not see files outside the module

publish-check: ## what a release still needs from a person, each with how it was checked; fails while something is missing
	cd tools && go run ./publish ..

licences: ## fails where something is linked whose licence is not allowed or not known
	cd tools && go run ./licences .. $(SERVE_PROGRAM:./%=../%) >/dev/null

notices: ## the licences of all that is linked, for the archives of a release
	mkdir -p $(BIN) && cd tools && go run ./licences .. $(SERVE_PROGRAM:./%=../%) >../bin/NOTICES

vuln: ## known vulnerabilities that the command reaches; fails, too, where VULNDB cannot be read
	cd tools && go tool govulncheck -C .. -db $(VULNDB) ./...

new-user: ## a fresh clone, installed, and a pod repaired with it in a sandbox, in under five minutes
	scripts/new-user.sh

clean:
	rm -rf $(BIN) build dist e2e/bin cover.out
