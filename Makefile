# `make run` shows the main job on this machine, `make test` checks everything. Both set up what they need.
#
# Where PYTHON already has every dependency (a GPU image without a network, say) it is used as it is; else
# a virtual environment is made. `make VENV_FLAGS=--system-site-packages` builds one on an installed torch.

PYTHON ?= python3
VENV ?= .venv
VENV_FLAGS ?=
JOBS ?= 3

RUNTIME := ninja numpy pynvml pandas platformdirs pydantic rich torch typer
DEVELOPMENT := build hypothesis importlinter mypy pytest pytest_timeout xdist ruff scipy setuptools
has_all = $(shell $(PYTHON) -c "import sys; from importlib.util import find_spec as f; \
	print('yes' if sys.version_info >= (3, 11) and all(f(m) for m in sys.argv[1:]) else 'no')" $(1) 2>/dev/null)

STAMP := $(VENV)/.kbench-installed
ifeq ($(wildcard $(STAMP)),)
RUN_READY := $(call has_all,$(RUNTIME))
TEST_READY := $(call has_all,$(RUNTIME) $(DEVELOPMENT))
endif

# This checkout first, then what the caller's Python finds its dependencies by.
SEARCH_PATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
RUN_PYTHON := $(if $(filter yes,$(RUN_READY)),PYTHONPATH=$(SEARCH_PATH) $(PYTHON),$(VENV)/bin/python)
TEST_PYTHON := $(if $(filter yes,$(TEST_READY)),PYTHONPATH=$(SEARCH_PATH) $(PYTHON),$(VENV)/bin/python)

# Full size on a GPU, or as many samples as leave room for five copies of them; a smaller case on a CPU.
define CHOOSE
import torch
if torch.cuda.is_available():
    fitting = torch.cuda.mem_get_info()[0] // (5 * 64 * 512 * 512 * 4)
    print("two_kernel", "" if fitting >= 112 else f"--set batch_size={max(fitting, 1)}")
else:
    print("cpp_openmp --case cpu --device cpu --max-processes 3 --precision 10%")
endef
export CHOOSE

.PHONY: run test evidence screenshots reference docs clean

run: $(if $(filter yes,$(RUN_READY)),,$(STAMP))
	@chosen=$$($(RUN_PYTHON) -c "$$CHOOSE") && set -x && $(RUN_PYTHON) -m kbench run group_norm $$chosen

# In parts that take the next test as soon as they are free, the longest first (tests/conftest.py). Three parts keep two
# processors busy: tests wait for processes in turn. What tests start keeps its bytecode, whatever the caller's
# environment says.
test: $(if $(filter yes,$(TEST_READY)),,$(STAMP))
	@PYTHONDONTWRITEBYTECODE= $(TEST_PYTHON) -m pytest -n $(JOBS)

# README's table and the plot, from results/h200.
evidence: $(if $(filter yes,$(RUN_READY)),,$(STAMP))
	@$(RUN_PYTHON) docs/evidence.py

# The pictures in docs/images, from results; needs Chromium.
screenshots: $(if $(filter yes,$(RUN_READY)),,$(STAMP))
	@$(RUN_PYTHON) docs/screenshots.py

# docs/reference, from the code.
reference: $(if $(filter yes,$(RUN_READY)),,$(STAMP))
	@$(RUN_PYTHON) docs/generate_reference.py

# The pages as a site, in site/. Needs `pip install -c constraints.txt '.[docs]'` beside the rest.
docs: $(if $(filter yes,$(RUN_READY)),,$(STAMP))
	@$(RUN_PYTHON) -c "import mkdocs" 2>/dev/null || \
		{ echo "mkdocs is missing: run \`pip install -c constraints.txt '.[docs]'\`"; exit 1; }
	@$(RUN_PYTHON) -m mkdocs build

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'kbench needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)
	@echo "installing torch and the other packages, which prints nothing for a minute or two"
	$(VENV)/bin/python -m pip install -q --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(VENV)/bin/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1; true # on all processors: pip uses one
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
