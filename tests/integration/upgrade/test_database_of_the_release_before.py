"""The database of the release before, as `scripts/record-release` recorded it with rows, under the
migrations and the servers of this one; and servers of that release beside ours meanwhile."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.support.releases import NAMES, RELEASES

ROOT = Path(__file__).parents[3]
OWN = ("django_migrations", "django_content_type", "auth_permission")  # Django adds rows of its own
TABLES = """
SELECT table_name FROM information_schema.tables
 WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""
COLUMNS = """
SELECT table_name || '.' || column_name,
       is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES'
  FROM information_schema.columns WHERE table_schema = 'public'
"""


class Database:
    """A database of its own on the server of the tests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]

    def columns(self) -> dict[str, bool]:
        """Return each column, and whether a row can be inserted without it."""
        return {str(name): bool(optional) for name, optional in self.query(COLUMNS)}

    def counts(self) -> dict[str, int]:
        tables = [str(name) for (name,) in self.query(TABLES)]
        counted = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in tables)
        return {str(name): int(str(count)) for name, count in self.query(counted)}

    def run(self, *arguments: str) -> str:
        """Run Python on it, in a process of its own; the servers are those of this checkout."""
        more = {"SKEP_DATABASE_URL": self.url, "DJANGO_SETTINGS_MODULE": "skep_platform.settings"}
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="module", params=RELEASES, ids=NAMES)
def before(request: pytest.FixtureRequest) -> Iterator[Database]:
    """As the release left it."""
    server = urlsplit(os.environ["SKEP_DATABASE_URL"])._replace(path="/postgres").geturl()
    name = f"skep_upgrade_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    found = Database(urlsplit(server)._replace(path=f"/{name}").geturl())
    dump = gzip.decompress((request.param.folder / "database.sql.gz").read_bytes()).decode()
    with psycopg.connect(found.url) as connection:
        connection.execute(dump)  # type: ignore[arg-type]
    yield found
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def test_migrations_keep_every_row_and_ours_run_on_it_beside_the_old_ones(before):
    counts, columns = before.counts(), before.columns()
    assert counts["jobs_job"] == 5
    before.run("-m", "django", "migrate", "--noinput", "--verbosity=0")

    after = before.counts()
    kept = {table: after.get(table) for table in counts if table not in OWN}
    assert kept == {table: count for table, count in counts.items() if table not in OWN}
    now = before.columns()
    # Servers of the release before go on until they are replaced: they read and write what they
    # know, and leave out what they do not know.
    assert columns.keys() - now.keys() == set()
    tables = {column.split(".")[0] for column in columns}
    required = {c for c, optional in now.items() if not optional and c.split(".")[0] in tables}
    assert required <= columns.keys()

    said = before.run("-m", "tests.support.upgraded").splitlines()
    assert said == [
        "jobs 200 5",
        "nodes 200 2",
        "of the scheduler: 1 waits",
        "placed 1",
    ]
