# make demo   the whole product on this machine, until Ctrl-C
# make test   every test, on a real PostgreSQL
# make check  style, types, import contracts, migrations, deployment settings
# make servers  what others wrote and `make test` tests against (no network: those are skipped)
# make lock   compile the locks again (needs uv and npm)

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
DATA_DIR ?= .data
PIP_OPTIONS := install --quiet --disable-pip-version-check --require-hashes
PIP_INSTALL := $(BIN)/python -m pip $(PIP_OPTIONS)
UV_COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
# Servers of others have locks and environments of their own: nothing of theirs is imported here.
SERVER_LOCKS := tests/conformance/servers
SERVERS := $(VENV)/servers
THROW_AWAY := $(BIN)/python -c "import secrets; print(secrets.token_urlsafe(60))"

export DATA_DIR
export PYTHONUNBUFFERED := 1

.PHONY: demo test check lock browser servers clean
.DEFAULT_GOAL := demo

demo: $(VENV)/product.stamp
	@exec $(BIN)/python -m config.demo

test: $(VENV)/tools.stamp browser servers
	@exec env DJANGO_ENV=test $(BIN)/python -m config.embedded --data-dir $(DATA_DIR)/test run \
		$(BIN)/python -m pytest -n 2 --dist loadgroup --durations 10

check: $(VENV)/tools.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	DJANGO_ENV=test $(BIN)/mypy
	$(BIN)/lint-imports
	@# The history in a database is not what is checked here: the address leads nowhere on purpose.
	DJANGO_ENV=test DATABASE_URL=postgresql://nobody@127.0.0.1:1/none \
		$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@echo "manage.py check --deploy (production settings, throw-away secrets)"
	@DJANGO_ENV=production DATABASE_URL=postgresql://nobody@127.0.0.1:1/none \
		SECRET_KEY="$$($(THROW_AWAY))" STRIPE_API_KEY="sk_live_$$($(THROW_AWAY))" \
		STRIPE_WEBHOOK_SECRET="whsec_$$($(THROW_AWAY))" ERP_URL=https://erp.example.com \
		ALLOWED_HOSTS=refunds.example.com \
		$(BIN)/python manage.py check --deploy --fail-level WARNING

lock:
	$(UV_COMPILE) requirements.in --output-file requirements.txt
	$(UV_COMPILE) requirements-dev.in --output-file requirements-dev.txt
	$(UV_COMPILE) $(SERVER_LOCKS)/localstripe.in --output-file $(SERVER_LOCKS)/localstripe.txt
	cd $(SERVER_LOCKS) && npm install --package-lock-only --silent

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Each stamp is older than its lock exactly when the lock has changed since the last install.
$(VENV)/product.stamp: requirements.txt | $(BIN)/python
	$(PIP_INSTALL) --requirement requirements.txt
	@touch $@

$(VENV)/tools.stamp: requirements-dev.txt | $(BIN)/python
	$(PIP_INSTALL) --requirement requirements-dev.txt
	@touch $@

$(BIN)/python:
	@set -e; \
	for python in python3.11 python3.12 python3; do \
		if command -v $$python >/dev/null 2>&1; then \
			$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
			echo "$$python -m venv $(VENV)"; \
			exec $$python -m venv $(VENV); \
		fi; \
	done; \
	echo "Python 3.11 or newer is needed and was not found." >&2; exit 1

# The browser tests need Chromium. Only root can install it; without it they are skipped.
browser:
	@if command -v chromium >/dev/null 2>&1; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "Installing Chromium for the browser tests"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install \
			--yes --no-install-recommends chromium; } >/dev/null 2>&1 || true; \
	fi; \
	command -v chromium >/dev/null 2>&1 || echo "No Chromium here: the browser tests are skipped."

# Two servers that speak Stripe's dialect and are not ours. Without them their tests are skipped;
# where CI is set, the tests say that they are missing.
servers: | $(BIN)/python
	@$(MAKE) --silent --keep-going $(SERVERS)/localstripe/stamp $(SERVERS)/stateful-mock/stamp \
		|| echo "Not every server of others could be installed: their tests are skipped."

$(SERVERS)/localstripe/stamp: $(SERVER_LOCKS)/localstripe.txt | $(BIN)/python
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip $(PIP_OPTIONS) --requirement $<
	@touch $@

$(SERVERS)/stateful-mock/stamp: $(addprefix $(SERVER_LOCKS)/,package.json package-lock.json .npmrc)
	@if ! command -v npm >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] \
			&& command -v apt-get >/dev/null 2>&1; then \
		echo "Installing Node.js for a server of the conformance tests"; \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install \
			--yes --no-install-recommends nodejs npm; } >/dev/null 2>&1 || true; \
	fi
	mkdir -p $(@D)
	cp $^ $(@D)
	npm ci --silent --prefix $(@D)
	@touch $@
