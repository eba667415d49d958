"""The database of the release before, as `scripts/record-release` recorded it with rows, under the
migrations and the servers of this one; and servers of that release beside ours meanwhile."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
# As its servers have stored and merged use of GPUs and of tasks: now, and 40 days ago.
ROLLUPS = """
WITH attempts AS (
  SELECT id, gpu_uuids->>0 AS device FROM jobs_taskattempt ORDER BY id LIMIT 2
), moments AS (
  SELECT date_trunc('hour', now()) - make_interval(days => days, mins => minute) AS at,
         CASE WHEN days < 200 THEN 60 ELSE 3600 END AS seconds
    FROM (VALUES (0), (40), (200)) d(days), generate_series(0, 119, 1) minute
   WHERE days < 200 OR minute % 60 = 0
), tasks AS (
  INSERT INTO telemetry_taskrollup (attempt_id, at, seconds, samples, cpu_percent_sum,
                                    cpu_percent_max, memory_mb_max)
  SELECT id, at, seconds, 12, 600, 50, 100 FROM attempts, moments
)
INSERT INTO telemetry_gpurollup (device_id, attempt_id, at, seconds, samples, utilization_sum,
                                 utilization_max, memory_used_mb_max)
SELECT device, id, at, seconds, 12, 600, 50, 100 FROM attempts, moments
"""
# What its servers go on with.
OLD_STORE = """
INSERT INTO telemetry_{kind}rollup AS r ({columns}, at, seconds, samples, {names})
SELECT {columns}, at, 60, {samples}, {values}
  FROM (SELECT id AS attempt_id, gpu_uuids->>0 AS device_id FROM jobs_taskattempt
         ORDER BY id LIMIT 1) a,
       (SELECT max(at) FROM telemetry_{kind}rollup {more}) moments(at)
    ON CONFLICT ({unique}) DO UPDATE SET samples = r.samples + excluded.samples
"""


def old_stores(samples: int, more: str = "") -> tuple[str, str]:
    """Return the statements for a GPU and for a task: more samples in the newest row, and in the
    rows of what else `more` selects."""
    gpu = OLD_STORE.format(
        kind="gpu",
        columns="device_id, attempt_id",
        names="utilization_sum, utilization_max, memory_used_mb_max",
        values="250, 50, 100",
        unique="device_id, at, attempt_id",
        samples=samples,
        more=more,
    )
    task = OLD_STORE.format(
        kind="task",
        columns="attempt_id",
        names="cpu_percent_sum, cpu_percent_max, memory_mb_max",
        values="250, 50, 100",
        unique="attempt_id, at",
        samples=samples,
        more=more,
    )
    return gpu, task


KEEP = """
import django
django.setup()
from skep_platform.telemetry import tasks
tasks.delete_old_rollups()
"""


class Database:
    """A database of its own on the server of the tests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.url) as connection:
            for sql in statements:
                connection.execute(sql)  # type: ignore[arg-type]

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
    found.execute("SET search_path = public", ROLLUPS)
    yield found
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def migrated(before: Database) -> tuple[Database, dict[str, int], dict[str, bool]]:
    """It, and its rows and columns of before; its servers have stored samples meanwhile."""
    counts, columns = before.counts(), before.columns()
    with _storing(before):
        before.run("-m", "django", "migrate", "--noinput", "--verbosity=0")
    return before, counts, columns


@contextmanager
def _storing(before: Database) -> Iterator[None]:
    """Servers that store no new sample, all the time. A statement of theirs locks the table of
    samples, then the ones that it refers to: a migration that locks these first, and then waits for
    the samples, finds them in between again and again, and never ends."""
    over = threading.Event()

    def store(sql: str) -> None:
        with psycopg.connect(before.url, autocommit=True) as connection:
            while not over.is_set():
                connection.execute(sql)  # type: ignore[arg-type]

    with ThreadPoolExecutor() as pool:
        stores = [pool.submit(store, sql) for sql in old_stores(0)]
        try:
            yield
        finally:
            over.set()
    for each in stores:
        each.result()


def test_migrations_keep_every_row_and_ours_run_on_it_beside_the_old_ones(migrated):
    before, counts, columns = migrated
    assert counts["jobs_job"] == 5

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


def test_rollups_of_before_stay_where_they_are_and_are_merged(migrated):
    """In tables that are partitioned now, beside servers that know nothing of it."""
    before, *_ = migrated
    for kind in ("gpu", "task"):
        [(place, _)] = before.query(
            f"SELECT tableoid::regclass::text, count(*) FROM telemetry_{kind}rollup GROUP BY 1"
        )
        assert str(place).startswith(f"telemetry_{kind}rollup_until_")
    before.execute(*old_stores(5, "UNION ALL SELECT now() + '100 days'"))
    for kind in ("gpu", "task"):
        places = before.query(f"SELECT DISTINCT tableoid FROM telemetry_{kind}rollup")
        assert len(places) == 2, "one is of a later month"
        assert before.query(f"SELECT count(*) FROM telemetry_{kind}rollup") == [(2 * 242 + 1,)]
        [(total,)] = before.query(f"SELECT sum(samples) FROM telemetry_{kind}rollup")
        assert total == 2 * 242 * 12 + 10

    before.run("-c", KEEP)
    for kind in ("gpu", "task"):
        query = "SELECT seconds, count(*), sum(samples) FROM telemetry_{} GROUP BY 1 ORDER BY 1"
        assert before.query(query.format(f"{kind}rollup")) == [(60, 241, 2 * 120 * 12 + 10)]
        hours, days = before.query(query.format(f"{kind}history"))
        assert hours[::2] == (3600, 2 * 120 * 12)
        assert days[::2] == (86400, 2 * 2 * 12)
