"""`upgrade`: the migrations of this release on the database of the one before with 1,000,000 jobs,
while its servers go on: how long they take, and how long a write or a read waits for them at most.

The schema is the one that `scripts/record-release` recorded, filled by SQL. Beside the migrations
one program each submits jobs, changes running ones, ends task attempts and writes events,
heartbeats and samples as servers of that release do, one reads jobs, one samples, and one has a
transaction open for LONG_S again and again, as a report or a backup does: a migration that waits
for it must not make the others wait.

SKEP_BENCH_JOBS=100000 makes a smaller one. The reference is the goal: 60 s, and 1 s for a write.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support import engines

engines.prepare_environment()
os.environ["DJANGO_SETTINGS_MODULE"] = "skep_platform.settings"
DATABASE = f"skep_bench_upgrade_{os.getpid()}"
SERVER = urlsplit(os.environ["SKEP_DATABASE_URL"])._replace(path="/postgres").geturl()
URL = urlsplit(SERVER)._replace(path=f"/{DATABASE}").geturl()
os.environ["SKEP_DATABASE_URL"] = URL

import django  # noqa: E402

django.setup()

import psycopg  # noqa: E402
from benchmarks.pages_fill import Size, fill  # noqa: E402
from benchmarks.report import report  # noqa: E402
from benchmarks.usage import cpu_seconds_of_tree  # noqa: E402
from django.db import connection  # noqa: E402
from tests.support.releases import RELEASES  # noqa: E402

GOAL_S, GOAL_WAIT_S = 60.0, 1.0
LONG_S, LONG_EVERY_S = 5.0, 6.0
PAUSE_S = 0.02
# What each program does again and again. Columns are those of the release before.
WRITES = {
    "submit": """
        INSERT INTO jobs_job SELECT (jsonb_populate_record(j, jsonb_build_object(
                   'id', gen_random_uuid(), 'name', gen_random_uuid(),
                   'created_at', clock_timestamp()))).*
          FROM (SELECT j FROM jobs_job j WHERE j.state = 'WAITING' LIMIT 1) one
    """,
    "change": """
        UPDATE jobs_job SET updated_at = clock_timestamp() WHERE id =
            (SELECT id FROM jobs_job WHERE state = 'RUNNING' ORDER BY created_at DESC LIMIT 1)
    """,
    "end": """
        UPDATE jobs_taskattempt SET updated_at = clock_timestamp() WHERE id =
            (SELECT id FROM jobs_taskattempt WHERE released_at IS NULL LIMIT 1)
    """,
    "event": """
        INSERT INTO core_event SELECT (jsonb_populate_record(e, jsonb_build_object(
                   'id', nextval(pg_get_serial_sequence('core_event', 'id')),
                   'at', clock_timestamp()))).* FROM (SELECT e FROM core_event e LIMIT 1) one
    """,
    "heartbeat": """
        UPDATE cluster_node SET last_heartbeat_at = clock_timestamp()
         WHERE id = (SELECT id FROM cluster_node LIMIT 1)
    """,
    "gpu_sample": """
        INSERT INTO telemetry_gpurollup AS r (device_id, at, seconds, samples, utilization_sum,
                                              utilization_max, memory_used_mb_max)
        SELECT uuid, date_trunc('minute', clock_timestamp()), 60, 1, 50, 50, 1024
          FROM (SELECT uuid FROM cluster_device LIMIT 8) one
            ON CONFLICT (device_id, at, attempt_id) DO UPDATE SET samples = r.samples + 1
    """,
    "task_sample": """
        INSERT INTO telemetry_taskrollup AS r (attempt_id, at, seconds, samples, cpu_percent_sum,
                                               cpu_percent_max, memory_mb_max)
        SELECT id, date_trunc('minute', clock_timestamp()), 60, 1, 50, 50, 1024
          FROM (SELECT id FROM jobs_taskattempt WHERE released_at IS NULL LIMIT 8) one
            ON CONFLICT (attempt_id, at) DO UPDATE SET samples = r.samples + 1
    """,
}
READS = {
    "read": "SELECT name, state FROM jobs_job ORDER BY created_at DESC LIMIT 20",
    "read_samples": """
        SELECT at, utilization_sum FROM telemetry_gpurollup
         WHERE attempt_id = (SELECT id FROM jobs_taskattempt LIMIT 1) ORDER BY at
    """,
}
LONG = "SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1) looked"
LOOKED_AT = (
    *("jobs_job", "jobs_taskattempt", "jobs_taskrole", "cluster_node", "storage_storage"),
    *("telemetry_gpurollup", "telemetry_taskrollup"),
)


def main() -> None:
    jobs = int(os.environ.get("SKEP_BENCH_JOBS", "1000000"))
    nodes = max(jobs // 100, 500)
    users = max(jobs // 200, 500)
    size = Size(jobs=jobs, audit=jobs, nodes=nodes, users=users, samples=jobs)
    with _database():
        began = time.perf_counter()
        fill(size)
        connection.close_pool()  # type: ignore[attr-defined]
        report("upgrade", "fill", time.perf_counter() - began, "s")
        with _programs() as programs:
            time.sleep(LONG_EVERY_S)
            quiet = {one.name: one.take() for one in programs}
            began = time.perf_counter()
            cpu = _migrate()
            seconds = time.perf_counter() - began
            waits = {one.name: one.take() for one in programs}
        report("upgrade", "migrations", seconds, "s", GOAL_S)
        report("upgrade", "migrations_cpu_django", cpu, "s")
        for name, (longest, statements) in waits.items():
            report("upgrade", f"longest_{name}", longest, "s", GOAL_WAIT_S)
            report("upgrade", f"longest_{name}_before", quiet[name][0], "s")
            report("upgrade", f"statements_{name}", statements, "statements")


@dataclass
class Program:
    """One statement, again and again on a connection of its own, with its longest time."""

    name: str
    sql: str
    over: threading.Event
    _longest: float = 0.0
    _count: int = 0
    _began: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    error: Exception | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(URL, autocommit=True, prepare_threshold=None) as database:
                while not self.over.wait(PAUSE_S):
                    self._began = time.perf_counter()
                    database.execute(self.sql)  # type: ignore[arg-type]
                    self._ended()
        except Exception as error:  # said by the thread that waits for this one
            self.error = error

    def take(self) -> tuple[float, int]:
        """Return the longest time and the number of the statements since the last call. Raises what
        a statement raised."""
        if self.error is not None:
            raise self.error
        with self._lock:
            found, self._longest, self._count = (self._longest, self._count), 0.0, 0
        return found

    def _ended(self) -> None:
        assert self._began is not None
        with self._lock:
            self._longest = max(self._longest, time.perf_counter() - self._began)
            self._count += 1


@contextmanager
def _programs() -> Iterator[list[Program]]:
    over = threading.Event()
    programs = [Program(name, sql, over) for name, sql in {**WRITES, **READS}.items()]
    threads = [threading.Thread(target=one.run) for one in programs]
    threads.append(threading.Thread(target=_hold_transactions, args=[over]))
    for thread in threads:
        thread.start()
    try:
        yield programs
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _hold_transactions(over: threading.Event) -> None:
    with psycopg.connect(URL) as database:
        while not over.is_set():
            with database.transaction():
                for table in LOOKED_AT:
                    database.execute(LONG.format(table))  # type: ignore[arg-type]
                over.wait(LONG_S)
            over.wait(LONG_EVERY_S - LONG_S)


def _migrate() -> float:
    """Run the migrations as an upgrade does, in a process of their own. Returns its CPU time."""
    process = subprocess.Popen([sys.executable, "-m", "django", "migrate", "--noinput", "-v0"])
    cpu = 0.0
    while process.poll() is None:
        cpu = max(cpu, cpu_seconds_of_tree(process.pid))
        time.sleep(0.1)
    if process.returncode:
        sys.exit(f"the migrations ended with {process.returncode}")
    return cpu


@contextmanager
def _database() -> Iterator[None]:
    """The newest recorded release's database, without the rows that `fill` makes of its own."""
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {DATABASE}")  # type: ignore[arg-type]
    try:
        dump = gzip.decompress((RELEASES[-1].folder / "database.sql.gz").read_bytes()).decode()
        with psycopg.connect(URL) as database:
            database.execute(dump)  # type: ignore[arg-type]
        with psycopg.connect(URL) as database:
            database.execute(EMPTY)
        yield
    finally:
        connection.close_pool()  # type: ignore[attr-defined]
        with psycopg.connect(SERVER, autocommit=True) as server:
            server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")  # type: ignore[arg-type]


EMPTY = """
SET LOCAL session_replication_role = replica;
TRUNCATE accounts_user, tenancy_virtualcluster, cluster_node, core_event, audit_entry,
         usage_usageday CASCADE
"""


if __name__ == "__main__":
    main()
