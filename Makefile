# `make demo` and `make test` need nothing but a Python of 3.12 to 3.14: what else they use goes into .venv.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

# One thread in each of the two test processes.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1

# The environment belongs to this folder (the install is editable) and to the Python asked for. The stamp holds both, is
# removed before an install and written after it: where it differs or is absent, the environment is made from scratch.
MADE_FOR := $(CURDIR) $(PYTHON)
made_for := $(shell cat $(STAMP) 2>/dev/null)

.PHONY: help venv demo test slow lint types format clean

help:  ## Show these targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile | while IFS='	' read -r target text; do \
		printf '  make %-8s %s\n' "$$target" "$$text"; \
	done
	@echo
	@echo 'PYTHON=python3.12 names the Python to use, VENV=.venv312 another place for it, ARGS="-k groups" more for pytest.'

venv: $(STAMP)  ## Make .venv with HSPR and the pinned versions of all it needs

demo: $(STAMP)  ## Recover a score from a tenth of the tasks, as an example
	@$(BIN)/hspr demo

test: $(STAMP)  ## Run the test suite, but for the long checks
	@$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal -m 'not slow' $(ARGS)

slow: $(STAMP)  ## Run the long checks: killed and resumed runs, workers against workers
	@$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal -m slow $(ARGS)

lint: $(STAMP) types  ## Check style, layout and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

# mypy does not understand editable installs, so it is shown the root under the package's name.
types: $(STAMP)
	@mkdir -p $(VENV)/typing && ln -sfn "$(CURDIR)" $(VENV)/typing/hspr
	@MYPYPATH=$(VENV)/typing $(BIN)/mypy -p hspr

format: $(STAMP)  ## Rewrite the code in the project's layout, with what ruff can repair
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

clean:  ## Remove the environment and everything else that is made
	rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The path of a Python, or an end with the line that says why there is none.
python = $(call path_or_error,$(shell PYTHON='$(PYTHON)' sh .ci/find-python 2>&1))
path_or_error = $(if $(findstring HSPR needs,$1),$(error $1),$1)

ifneq ($(strip $(made_for)),$(strip $(MADE_FOR)))
.PHONY: $(STAMP)
make_venv = @'$(python)' -m venv --clear $(VENV)
endif
$(STAMP): pyproject.toml constraints.txt
	$(make_venv)
	@rm -f $@
	@echo 'Installing HSPR and what it needs into $(VENV): a few minutes the first time.'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,nuts]'
	@echo '$(strip $(MADE_FOR))' > $@
