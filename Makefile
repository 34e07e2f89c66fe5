# Everything a fresh machine needs is Python 3.11 to 3.13 and make.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p -c "" 2>/dev/null && echo $$p && break; done)
CHECK_PYTHON := import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"electrify needs Python 3.11 to 3.13, found {v}: make PYTHON=/path/to/python3.11")
BIN := .venv/bin
TPU_BIN := .venv-tpu/bin
DOCS_BIN := .venv-docs/bin
CONFIG ?= configs/demo.toml

.PHONY: help demo test test-slow cluster-test check setup clean-venv tpu-env test-tpu docs image
# of a container: "docker build", "podman build" or "buildah bud"
BUILDER ?= docker build

help:  ## what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup  ## raw text to a scored model on the bundled sample
	$(BIN)/electrify run $(CONFIG)

# a process a core; one that is done takes half of what another has left, so that few files are split;
# a test that hangs shows where, and fails
test: setup  ## the whole test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal \
		-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test-slow: setup  ## runs that are killed, damaged, starved of memory and disk; a page in a browser; other libraries (pip, npm): half an hour
	$(BIN)/python -m pytest tests/slow
	$(BIN)/python -m pytest -m slow

# as root, with ip, Java 17, Maven and Go; some 4 GB below $ELECTRIFY_CLUSTER, else /var/tmp/electrify-cluster
cluster-test: setup  ## every Beam stage on Flink, Spark and Prism, in network namespaces: an hour
	$(BIN)/python -m tools.cluster.run

check: setup  ## style, types, import fences
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: .venv/ready  ## .venv with the pinned versions

# torch first: on Linux it brings CUDA's libraries, some GB, and runs without a GPU all the same.
# On a CUDA machine install the torch you want into .venv beforehand: a fitting one is kept.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	@echo "setup 1/3: an environment of its own, .venv"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "setup 2/3: torch, unless .venv has one; with CUDA's libraries some GB, so it may take minutes"
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install $(shell grep '^torch==' constraints.txt) -c constraints.txt
	@echo "setup 3/3: electrify and the other libraries, hundreds of MB again"
	@$(BIN)/python -m pip install -e '.[dev]' -c constraints.txt
	@touch $@
	@echo "setup: done"

tpu-env: .venv-tpu/ready  ## an environment of its own for TPU: docs/tpu.md

# torch_xla works with the torch of its own number alone, here an older one than .venv has
.venv-tpu/ready: pyproject.toml constraints-tpu.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	@echo "tpu-env 1/2: an environment of its own, .venv-tpu"
	@$(TPU_BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-tpu
	@echo "tpu-env 2/2: electrify, torch and torch_xla, some GB"
	@$(TPU_BIN)/python -m pip install -e '.[tpu]' pytest -c constraints-tpu.txt
	@touch $@
	@echo "tpu-env: done"

test-tpu: tpu-env  ## the XLA tests, on XLA's CPU backend; and training itself under this torch
	PJRT_DEVICE=CPU $(TPU_BIN)/python -m pytest -m xla tests/model/devices/test_xla.py
	$(TPU_BIN)/python -m pytest -m 'not xla' tests/model/test_step.py tests/model/test_pretrain.py

docs: .venv-docs/ready  ## the pages of docs/ as a site with search: site/index.html
	NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/python -m mkdocs build --strict
	@echo "docs: site/index.html"

.venv-docs/ready: constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	@echo "docs 1/2: an environment of its own, .venv-docs"
	@$(DOCS_BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-docs
	@echo "docs 2/2: mkdocs-material, some 20 MB"
	@$(DOCS_BIN)/python -m pip install mkdocs-material -c constraints.txt
	@touch $@

image:  ## a container image with electrify, for CPU and CUDA (7 GB): docs/usage.md
	$(BUILDER) -t electrify .

clean-venv:  ## remove the virtual environments
	rm -rf .venv .venv-tpu .venv-docs
