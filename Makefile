# Gridfleet: `make` lists what there is to do.

.DEFAULT_GOAL := help
.PHONY: help up test test-debian13 check check-types check-style check-imports check-architecture check-console test-programs console console-shots docs bench faults soak audit lock clean
.DELETE_ON_ERROR:

RUN := .venv/bin
RUNTIME := .venv/.installed-runtime
DEVELOPMENT := .venv/.installed-development
INSTALLERS := pyproject.toml $(wildcard scripts/*.sh)

# After an upgrade of the system, .venv can have a newer Python, without the packages: they are installed again.
$(shell $(RUN)/python -c 'import gridfleet' >/dev/null 2>&1 || rm -f $(RUNTIME) $(DEVELOPMENT))

# Without cached bytecode every process of every test would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(RUNTIME) ## Install what is missing and start the whole service on this machine
	@[ -n "$$GRIDFLEET_BROKER_URL" ] || scripts/ensure_rabbitmq.sh $(RUN)/python
	@scripts/build_console.sh
	@exec $(RUN)/gridfleet up

console: $(RUNTIME) ## Build the browser console into the package
	@scripts/build_console.sh --required

console-shots: $(DEVELOPMENT) ## Write screenshots of every screen of the console to build/console-shots
	@scripts/ensure_rabbitmq.sh $(RUN)/python
	@scripts/ensure_test_tools.sh
	@scripts/build_console.sh --required
	PYTHONPATH=tests $(RUN)/python scripts/console_shots.py $(ARGS)

test: $(DEVELOPMENT) ## Run the checks and every test (ARGS="-k name" for some)
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target test-programs $(CHECKS)
	@scripts/build_console.sh --required
	$(RUN)/python -m pytest -n 4 --ignore=tests/architecture $(ARGS)

test-debian13: ## Run `make test` in a Debian 13 root, as root (ARGS as for test)
	@ARGS='$(ARGS)' scripts/test_debian13.sh

CHECKS := check-types check-style check-imports check-architecture check-console

check: $(DEVELOPMENT) ## Lint, formatting, types, import contracts, architecture, the console
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(CHECKS)

# Beside the checks, because it mostly waits for downloads.
test-programs:
	@scripts/ensure_rabbitmq.sh $(RUN)/python
	@scripts/ensure_redis.sh
	@scripts/ensure_test_tools.sh

check-types:
	$(RUN)/mypy

check-style:
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

check-imports:
	$(RUN)/lint-imports

check-architecture:
	$(RUN)/python -m pytest -q tests/architecture

check-console: $(DEVELOPMENT)
	@scripts/check_console.sh

docs: $(DEVELOPMENT) ## Build these docs as a site, in build/docs
	$(RUN)/python -m sphinx -W --keep-going -q docs build/docs
	@echo "file://$(CURDIR)/build/docs/index.html"

bench: $(DEVELOPMENT) ## Measure speed and memory, and print every figure beside its goal (ARGS=--quick)
	@scripts/ensure_rabbitmq.sh $(RUN)/python
	@scripts/ensure_test_tools.sh
	@scripts/build_console.sh --required
	$(RUN)/python -m bench $(ARGS)

faults: $(DEVELOPMENT) ## Kill processes under load and compare ledgers
	@scripts/ensure_rabbitmq.sh $(RUN)/python
	@scripts/ensure_redis.sh
	$(RUN)/python -m pytest -m faults $(if $(ARGS),,--figures=bench/results/faults.json) $(ARGS)

soak: $(DEVELOPMENT) ## Keep 1,000 plants at work for a quarter of an hour: no error, no growth
	@scripts/ensure_rabbitmq.sh $(RUN)/python
	$(RUN)/python -m bench.soak $(ARGS)

audit: $(DEVELOPMENT) ## Check the locked packages for known vulnerabilities, and write build/sbom.json
	$(RUN)/python scripts/audit.py

lock: $(RUNTIME) ## Choose the newest versions that fit and write the lock files
	@scripts/ensure_openapi_tools.sh
	$(RUN)/python -m pip install --quiet --disable-pip-version-check uv
	$(RUN)/uv pip compile $(LOCK_OPTIONS) --upgrade pyproject.toml --group build -o requirements.lock
	$(RUN)/uv pip compile $(LOCK_OPTIONS) --upgrade pyproject.toml --extra otel --group dev -c requirements.lock -o requirements-dev.lock
	$(RUN)/uv pip compile $(LOCK_OPTIONS) --upgrade tests/openapi/requirements.in -o tests/openapi/requirements.lock
	.tools/bin/npm update --prefix tests/openapi --package-lock-only --omit-lockfile-registry-resolved
	$(RUN)/uv pip compile $(LOCK_OPTIONS) --upgrade console/node.in -o console/node.lock
	.tools/bin/npm update --prefix console --package-lock-only --omit-lockfile-registry-resolved

LOCK_OPTIONS := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links

clean: ## Remove the virtual environment and caches; the service's data stays
	rm -rf .venv .tools .node console/node_modules build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): requirements.lock $(INSTALLERS)
	@scripts/ensure_environment.sh requirements.lock
	@touch $@

$(DEVELOPMENT): requirements-dev.lock $(INSTALLERS)
	@scripts/ensure_environment.sh requirements-dev.lock
	@touch $@ $(RUNTIME)
