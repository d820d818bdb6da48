# Needs Python >= 3.11 and a C compiler; everything else goes into $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2 # processes that share the tests
SOURCES := meson.build pyproject.toml $(shell find src -type f -not -name '*.pyc')

# A second BLAS thread makes these small problems slower, not faster.
export OPENBLAS_NUM_THREADS ?= 1
# Or every process of the tests compiles the libraries that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
DATA := $(wildcard ../shared/data)
ifneq ($(DATA),)
export PRIVLR_DATA ?= $(abspath $(DATA))
endif

# uv resolves and unpacks several times faster than pip; pip serves where uv cannot be had.
UV := $(BIN)/uv pip install --python $(BIN)/python
PIP := $(BIN)/python -m pip install
comma := ,
dependencies = $(UV) -r pyproject.toml $(addprefix --extra ,$(subst $(comma), ,$(1))) || $(PIP) '.[$(1)]'
package = $(UV) --no-build-isolation --no-deps --reinstall-package privlr $(1) . \
    || $(PIP) --no-build-isolation --no-deps $(1) .

.PHONY: demo test test-slow test-federated lint bench asan coverage fuzz valgrind docs oldest clean

demo: $(VENV)/demo.stamp $(VENV)/package.stamp
	$(BIN)/privlr demo

test: lint
	$(BIN)/python -m pytest -n $(JOBS)

test-slow: $(VENV)/test.stamp $(VENV)/package.stamp
	$(BIN)/python -m pytest -m slow --durations=10

# Processes, certificates and, for root on Linux, network namespaces: some ten minutes.
test-federated: $(VENV)/test.stamp $(VENV)/federated.stamp $(VENV)/package.stamp
	-$(MAKE) $(VENV)/align.stamp # the alignment is left out where its wheel cannot be had
	$(BIN)/python -m pytest -m federated --durations=10

lint: $(VENV)/test.stamp $(VENV)/package.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stubtest --ignore-missing-stub --ignore-disjoint-bases $(addprefix privlr._solvers.,$(basename $(notdir $(wildcard src/privlr/_solvers/*.pyi))))
	$(BIN)/lint-imports
	PATH="$(abspath $(BIN)):$$PATH" cython-lint src # it looks for pycodestyle on the path
	$(BIN)/numpydoc lint $$(find src/privlr -name '*.py' -not -path '*/_*/*')
	find src tests/fuzz \( -name '*.c' -o -name '*.h' \) -exec $(BIN)/clang-format --dry-run -Werror {} +

bench: $(VENV)/bench.stamp $(VENV)/package.stamp
	cd bench && ../$(BIN)/asv run --quick --show-stderr --python=same

docs: $(VENV)/docs.stamp $(VENV)/package.stamp
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html

# The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, built apart from the package.
ASAN := build/asan
sanitizer = $$($(or $(CC),cc) -print-file-name=lib$(1).so)
KERNEL_TESTS = $(shell grep -lE 'privlr\._solvers' tests/*.py | grep -v architecture)
asan: $(VENV)/test.stamp
	$(call package,--target $(ASAN)/site -Cbuild-dir=$(ASAN)/work \
	    -Csetup-args=-Db_sanitize=address$(comma)undefined -Csetup-args=-Db_lundef=false)
	LD_PRELOAD="$(call sanitizer,asan) $(call sanitizer,ubsan)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	PYTHONMALLOC=malloc PYTHONPATH=$(ASAN)/site $(BIN)/python -m pytest -p no:cacheprovider $(KERNEL_TESTS)

# Lines of the C core that the same tests reach.
COVERAGE := build/coverage
coverage: $(VENV)/test.stamp
	$(call package,--target $(COVERAGE)/site -Cbuild-dir=$(COVERAGE)/work \
	    -Csetup-args=-Db_coverage=true -Csetup-args=-Dc_args=-fprofile-update=atomic)
	find $(COVERAGE)/work -name '*.gcda' -delete
	PYTHONPATH=$(COVERAGE)/site $(BIN)/python -m pytest -p no:cacheprovider $(KERNEL_TESTS)
	$(BIN)/gcovr --filter 'src/_solvers/.*\.[ch]$$' --fail-under-line 95 $(COVERAGE)/work

# The tests with the oldest version of every direct dependency.
OLDEST := build/oldest
oldest: $(VENV)/made.stamp
	$(PYTHON) -m venv $(OLDEST)
	$(BIN)/uv pip install --python $(OLDEST)/bin/python --resolution lowest-direct \
	    -r pyproject.toml --extra build --extra plots --extra parquet --extra test
	PATH="$(abspath $(OLDEST))/bin:$$PATH" $(BIN)/uv pip install --python $(OLDEST)/bin/python \
	    --no-build-isolation --no-deps --reinstall-package privlr -Cbuild-dir=build/oldest-package .
	$(OLDEST)/bin/python -m pytest -W ignore::DeprecationWarning # of each other's newer versions

# The C core against random input, as long as FUZZ_SECONDS says for each target.
CLANG ?= $(firstword $(foreach name,clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14,$(shell command -v $(name))))
FUZZ_SECONDS ?= 30
FUZZERS := $(basename $(notdir $(wildcard tests/fuzz/*.c)))
fuzz: $(addprefix fuzz-,$(FUZZERS))
fuzz-%:
	mkdir -p build/fuzz/$*
	$(or $(CLANG),$(error make fuzz needs clang with libFuzzer)) -O1 -g -march=native \
	    -Wno-unknown-pragmas -ffp-contract=off -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined -DPRIVLR_VARIANT=baseline -Isrc/_solvers \
	    src/_solvers/*.c tests/fuzz/$*.c -lm -o build/fuzz/$*.out
	build/fuzz/$*.out -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -artifact_prefix=build/fuzz/ \
	    build/fuzz/$*

# The same with pseudo-random input, VALGRIND_RUNS for each target, without clang.
VALGRIND_RUNS ?= 200
valgrind: $(addprefix valgrind-,$(FUZZERS))
valgrind-%:
	mkdir -p build/valgrind
	$(or $(CC),cc) -O1 -g -mavx2 -mfma -Wno-unknown-pragmas -ffp-contract=off \
	    -DPRIVLR_VARIANT=baseline -Isrc/_solvers src/_solvers/*.c tests/fuzz/$*.c \
	    tests/fuzz/replay/main.c -lm -o build/valgrind/$*.out
	valgrind -q --error-exitcode=1 --leak-check=full build/valgrind/$*.out $(VALGRIND_RUNS)

clean:
	rm -rf $(VENV) build docs/_build docs/api docs/generated out .asv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# The environment is made once, and again only when the declared dependencies change.
$(VENV)/made.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "privlr needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	-$(PIP) --quiet uv
	touch $@

EXTRAS_demo := build,plots
EXTRAS_test := build,plots,parquet,test,lint,docs
EXTRAS_bench := build,bench
EXTRAS_federated := federated
EXTRAS_align := align
EXTRAS_docs := build,plots,docs
$(VENV)/%.stamp: $(VENV)/made.stamp pyproject.toml
	$(call dependencies,$(EXTRAS_$*))
	touch $@

$(VENV)/package.stamp: $(SOURCES) | $(VENV)/demo.stamp
	$(call package,-Cbuild-dir=build/package)
	touch $@
