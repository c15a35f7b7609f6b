# Each target works alone on a fresh clone: it sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The package as it is installed, with meta/ and converters/ in it, for tools that read sources.
TYPED := rm -rf build/typed && mkdir -p build/typed/graph_quant && \
	ln -s $(CURDIR)/graph_quant/* $(CURDIR)/meta $(CURDIR)/converters build/typed/graph_quant/

.PHONY: help setup demo test lint index types docs docs-pages docs-images bench coverage compat versions wheel clean

help:
	@echo "make demo      show what it does, in under a minute"
	@echo "make test      run the tests"
	@echo "make lint      ruff, oxlint, codespell and mypy"
	@echo "make docs      build the documentation into build/site, and check its links"
	@echo "make index     write graph_quant/operator_index.py, after an operator or kernel was added or moved"
	@echo "make bench     measure, as ratios within one run"
	@echo "make coverage  run all of TorchAir's declared cases, PyTorch's OpInfos in all forms and core ATen in graphs on the host NPU"
	@echo "make compat    run other projects' tests and documents' examples; CHECKOUTS=folder says where they are"
	@echo "make versions  run with other releases of torch_npu, each in a new environment; RELEASES=\"2.10.0.post4 ...\" selects"
	@echo "make wheel     build the wheel into dist/; ARCH=aarch64 builds that one, with aarch64-linux-gnu-gcc"
	@echo "make setup     only create $(VENV)"

setup: $(READY)

# torch and torch_npu go first and by their exact versions: the packages after them accept what is installed.
$(READY): pyproject.toml setup.py $(wildcard graph_quant/host/shim/* graph_quant/native/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0 torch_npu==2.13.0
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py

# Two processes with one thread each: most of the time goes into compiling, which has but one. Hundreds of tests start
# a Python of their own, which finds the package compiled by the first.
test: $(READY)
	env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint --quiet --config graph_quant/dumps/render/page/.oxlintrc.json graph_quant/dumps/render/page
	$(BIN)/codespell
	$(MAKE) --no-print-directory types

types: $(READY)
	@$(TYPED)
	MYPYPATH=build/typed:graph_quant/start/outside $(BIN)/mypy -p graph_quant

# The site is built from docs/ and the docstrings, then checked: every link, and that nothing is loaded from the network.
docs: $(VENV)/.docs docs-pages
	@$(TYPED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	GRAPH_QUANT_SITE=build/site $(BIN)/python -m pytest tests/docs/test_site.py

# The pages that are written by code: environment variables and settings, the command line.
docs-pages: $(READY)
	$(BIN)/python docs/pages.py

# The pictures of the README; needs Chromium and its driver.
docs-images: $(READY)
	$(BIN)/python docs/images/make.py

$(VENV)/.docs: $(READY)
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $(VENV)/.docs

index: $(READY)
	$(BIN)/python -m graph_quant.generate_index

bench: $(READY)
	$(BIN)/python benchmarks/run.py

coverage: $(READY)
	$(BIN)/python tests/host/opinfo.py
	cd tests && ../$(BIN)/python -m host.variants
	$(BIN)/python tests/engine/coverage.py
	cd tests && ../$(BIN)/python -m engine.core_aten
	GRAPH_QUANT_RANDOM_GRAPHS=5000 $(BIN)/python -m pytest tests/passes/test_random_graphs.py
	GRAPH_QUANT_KERNEL_CASES=400 $(BIN)/python -m pytest tests/kernels/test_against_aten.py
	GRAPH_QUANT_MODELS=all $(BIN)/python -m pytest tests/models/test_unmodified_models.py
	GRAPH_QUANT_CAPTURED_MODELS=llama,qwen,moe GRAPH_QUANT_REPLAYS=1000 $(BIN)/python -m pytest tests/models/test_captured_decoders.py
	for ranks in 2 4; do $(BIN)/python -m graph_quant run --ranks $$ranks tests/ranks/models.py llama,mixture npu npugraph_ex || exit 1; done
	$(BIN)/python -m graph_quant verify --ranks 2 tests/ranks/verified.py
	$(BIN)/python tests/ranks/torch_tests.py --ranks 4
	GRAPH_QUANT_STARTS=200 $(BIN)/python -m pytest tests/ranks/test_starts.py
	cd tests && ../$(BIN)/python -m capture.opinfo
	GRAPH_QUANT_EXAMPLES=40 $(BIN)/python -m pytest tests/capture/test_options.py tests/operators/test_graph_mode.py tests/operators/test_wrong_calls.py

# CHECKOUTS holds checkouts of op-plugin, torchair, pytorch (Ascend's), vllm-ascend, sglang and cann-recipes-infer; those that are
# missing are left out.
CHECKOUTS ?= ../checkouts
compat: $(READY)
	$(BIN)/python -m pip install --quiet accelerate datasets einops fastapi pillow requests
	$(BIN)/python -m compat $(CHECKOUTS) --write

# Downloads up to 2 GB for each release, and CUDA's libraries for each of their versions into FOLDER, where they stay.
RELEASES ?=
FOLDER ?= build/versions
versions: $(READY)
	$(BIN)/python -m compat.versions $(RELEASES) --folder $(FOLDER)

# With Debian's cross compiler, for another machine: packages gcc-aarch64-linux-gnu and libc6-dev-arm64-cross.
ARCH ?= $(shell uname -m)
ifneq ($(ARCH),$(shell uname -m))
wheel: export CC = $(ARCH)-linux-gnu-gcc
endif
wheel: $(READY)
	$(BIN)/python -m pip wheel --quiet --no-deps --config-settings=--build-option=--plat-name=linux_$(ARCH) --wheel-dir dist .

clean:
	rm -rf build dist *.egg-info graph_quant/host/lib graph_quant/native/*.so $(VENV)
