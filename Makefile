# make repro: set up, compute every number, check a sample of recorded answers, show them.   make test: set up, run all tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# What serves some: each is installed by an extra of the core too.
PACKAGES := $(addprefix ./,$(wildcard packages/*))
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)

.PHONY: setup repro test fuzz mutants machines families lint readme docs release

setup: .venv/installed

# torch first and by its exact version, that of constraints.txt: on its own it is the one download that
# can take gigabytes. Modules are compiled where they are used; all of them take as long as installing.
.venv/installed: pyproject.toml constraints.txt $(PACKAGES:=/pyproject.toml)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv .venv
	python -m pip install --quiet --no-compile --constraint constraints.txt torch==2.13.0
	python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]' \
	  $(addprefix --editable ,$(PACKAGES))
	touch $@

repro: setup
	dvc repro
	refract verify --sample 24
	refract page
	refract show

# One thread each: more would wait for each other. A process more than two cores, since some tests wait.
test: setup
	OMP_NUM_THREADS=1 python -m pytest -n 3 --dist worksteal --durations 10

# Ten minutes of made-up params, suites, replies and stores; no part of make test.
fuzz: setup
	OMP_NUM_THREADS=1 python -m tests.fuzz 600

# Whether the tests of a folder notice one-line mistakes in it: 100 of them, a quarter of an hour.
mutants: setup
	OMP_NUM_THREADS=1 python -m tools.mutants

# Exact answers under other arithmetics of this machine and other releases (6 GB each), half an hour.
machines: setup
	python -m tools.machines --environments .venv/releases

# Answers of small models of many families beside an independent float64, half an hour.
families: setup
	OMP_NUM_THREADS=1 python benchmarks/bench_families.py
	OMP_NUM_THREADS=1 python benchmarks/bench_families.py --every --out benchmarks/families.md

lint: setup
	ruff check .
	ruff format --check .
	mypy

# The pages as a site, in site/; a link that leads nowhere fails it. Served (python -m http.server --directory site) it has
# search. The pages are copied under their own paths, since some stand beside what they are about.
docs: setup
	python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	rm -rf build/pages && mkdir -p build/pages
	git ls-files -z -- docs metrics packages tools '*.md' CITATION.cff LICENSE ':!tests' | tar -c --null -T - | tar -x -C build/pages
	NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict

# Sdists and wheels of what is committed, in dist/, tried in fresh environments of three Pythons, half an hour.
release: setup
	python -m tools.release

# What the docs show of results and commands.
readme: setup
	python -m tools.reference
	python -m tools.pages
	python -m tools.picture
	python -m tests.judges.test_judged_languages
