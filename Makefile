# Everything you do with this checkout. Each target first installs what the machine lacks.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# A Skep has many processes, and each would compile all of its modules at every start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up down test test-long lint format bench chaos docs webui openapi schema lock

help: ## list the targets
	@grep -hE '^[a-z-]+: ##' $(MAKEFILE_LIST) | sed 's/: ## /\t/' | expand -t 12

demo: ## start Skep with two simulated nodes, run a distributed job to success, leave it up
	@scripts/bootstrap python web docker
	@scripts/demo

up: ## start Skep on this machine in the background; make up ARGS="--nodes 2 --gpus 8"
	@scripts/bootstrap python web docker
	@skep up --detach $(ARGS)

down: ## stop it
	@scripts/bootstrap python
	@skep down

test: ## every test but those that take minutes: they are in make test-long
	@scripts/bootstrap test
	@scripts/test

test-long: ## the tests that take minutes: longer and more faults, larger clusters, more examples
	@scripts/bootstrap test
	@scripts/bootstrap-long
	@pytest -m "long or hypothesis" --hypothesis-profile="any machine"

lint: ## every static check, and that language and structure do not get worse
	@scripts/bootstrap python web
	@python scripts/lint

format:
	@scripts/bootstrap python web
	@ruff check --fix --quiet . ; ruff format --quiet .
	@npm --prefix webui run --silent format

bench: ## measure beside references; make bench BENCH=start for one of them
	@scripts/bootstrap python docker
	@python -m benchmarks $(BENCH)

chaos: ## break a whole Skep again and again, and see that nothing is lost; make chaos FAULTS=200 SEED=1
	@scripts/bootstrap python
	@python -m chaos --faults $(or $(FAULTS),200) $(if $(SEED),--seed $(SEED)) $(ARGS)

docs: ## build the pages of docs/ into site/
	@scripts/bootstrap python
	@zensical build --clean --strict

webui: ## build the web page into the platform's static files
	@scripts/bootstrap python web

openapi: ## write the API's schema and the web page's types of it
	@scripts/bootstrap python web
	@python scripts/openapi
	@npm --prefix webui run --silent api

schema: ## write the schema with which empty databases begin, after new migrations
	@scripts/bootstrap python
	@python scripts/schema

lock: ## pin all Python packages again
	@scripts/bootstrap python
	@pip install --quiet uv
	@uv pip compile pyproject.toml --extra server --extra embedded --extra tracing --group dev --universal \
		--python-version 3.11 --no-header --quiet --output-file requirements.lock
	@echo 'python-ldap>=3.4.8,<4' | uv pip compile - --constraint requirements.lock --universal \
		--python-version 3.11 --no-header --quiet --output-file requirements-ldap.lock
	@uv pip compile pyproject.toml --extra server --extra tracing --constraint requirements.lock --universal \
		--python-version 3.11 --no-header --quiet --output-file requirements-server.lock
	@uv pip compile pyproject.toml --extra agent --extra tracing --constraint requirements.lock --universal \
		--python-version 3.11 --no-header --quiet --output-file requirements-agent.lock
	@uv pip compile --group image --constraint requirements.lock --universal \
		--python-version 3.11 --no-header --quiet --output-file requirements-image.lock
