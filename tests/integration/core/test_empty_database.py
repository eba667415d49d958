"""The schema with which empty databases begin, beside that which migrations make step by step."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from difflib import unified_diff

import psycopg
import pytest
from django.db import connection
from tests.support.schema_dump import create_database, drop_database, schema_dump

from skep_platform.accounts.models import User
from skep_platform.core.database import migrating

MONTHS = (
    "SELECT relname FROM pg_class WHERE relname ~ '^audit_entry_2' AND relkind = 'r' ORDER BY 1"
)


@pytest.fixture
def database() -> Iterator[str]:
    name = f"skep_empty_{os.getpid()}"
    yield create_database(name, os.environ["SKEP_DATABASE_URL"])
    drop_database(name, os.environ["SKEP_DATABASE_URL"])


def migrate(url: str, *options: str) -> str:
    """Run `django-admin migrate` on a database, and return what it prints."""
    more = {"SKEP_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "skep_platform.settings"}
    command = [sys.executable, "-m", "django", "migrate", "--noinput", *options]
    done = subprocess.run(
        command, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as opened:
        return opened.execute(query).fetchall()  # type: ignore[arg-type]


def test_an_empty_database_gets_what_all_migrations_make(database):
    assert "has the whole schema now" in migrate(database)
    at_once, months = schema_dump(database), rows(database, MONTHS)

    database = create_database(f"skep_empty_{os.getpid()}", database)
    assert "Applying accounts.0001" in migrate(database, "--step-by-step")

    by_steps = schema_dump(database)
    differences = list(unified_diff(by_steps.splitlines(), at_once.splitlines(), lineterm="", n=0))
    assert differences == [], "`make schema` writes schema.sql anew"
    assert months == rows(database, MONTHS)
    assert len(months) == 3


def test_it_holds_every_migration(database):
    assert "Applying" not in migrate(database), "`make schema` writes schema.sql anew"


@pytest.mark.django_db
def test_a_database_with_tables_is_left_as_it_is():
    assert not migrating.load_schema(connection)


@pytest.mark.django_db
def test_where_the_server_refuses_a_statement_migrations_follow_step_by_step(monkeypatch):
    monkeypatch.setattr(migrating, "EMPTY", "SELECT true")  # its first table is there already
    assert not migrating.load_schema(connection)
    assert User.objects.count() == 0
