# Two commands matter: `make report` does the main job, `make test` checks everything.
# Another Python: make PYTHON=python3.12 … (the environment in .venv is then made anew).

PYTHON ?= python3
VENV   ?= .venv
OUT    ?= report
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

BIN     := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
STAMP   := $(VENV)/.installed-$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help venv report test docs lab bench lint format clean

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

venv: $(STAMP) ## make .venv and install the workbench into it, with the releases of constraints.txt

# The prerequisites are checked first: a missing compiler should not show after a long download.
$(STAMP): setup.py pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "make: there is no program '$(PYTHON)'. Name one: make PYTHON=/path/to/python3" >&2; exit 3; }
	@"$(PYTHON)" -I workbench/doctor.py || { \
	  echo "make: the above is needed before the workbench can be installed." >&2; exit 3; }
	@"$(BIN)/python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' 2>/dev/null \
	  || "$(PYTHON)" -m venv --clear "$(VENV)"
	"$(BIN)/python" -m pip install --quiet -c constraints.txt -e '.[test]'
	@rm -f "$(VENV)"/.installed-*; touch "$@"

report: $(STAMP) ## rebuild kernels over a grid, execute every notebook, write report/index.html
	@"$(BIN)/workbench" build lm_head >/dev/null || true # the twin's runtime, once: no notebook waits for it
	"$(BIN)/workbench" report --out "$(OUT)"

test: $(STAMP) ## run every test this machine can run, and say what it could not and why
	"$(BIN)/python" tests/run_all.py --jobs "$(JOBS)"

docs: $(STAMP) ## write site/: the documents, the reference, and the notebooks of the last `make report`
	WORKBENCH_REPORT="$(OUT)" NO_MKDOCS_2_WARNING=1 "$(BIN)/mkdocs" build --site-dir site

lab: $(STAMP) ## open the notebooks in JupyterLab (with options: .venv/bin/workbench lab --port N --no-browser)
	"$(BIN)/workbench" lab

bench: $(STAMP) ## measure the figures of docs/benchmarks.md: ONLY=linear,startup a part, QUICK=1 toy sizes
	"$(BIN)/python" benchmarks/_all.py --only "$(ONLY)" $(if $(filter-out 0,$(QUICK)),--quick)

lint: $(STAMP) ## ruff and mypy
	"$(BIN)/python" tests/run_all.py --lint-only

format: $(STAMP) ## format the code, and write each notebook's .py over into its .ipynb
	"$(BIN)/ruff" check --fix --quiet . || true
	"$(BIN)/ruff" format .
	"$(BIN)/jupytext" --quiet --to ipynb --update notebooks/*.py
	"$(BIN)/python" tests/strip_notebooks.py notebooks/*.ipynb

clean: ## remove what was made here, except .venv and the build cache (workbench cache clear)
	rm -rf report site build dist *.egg-info test-artefacts .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
