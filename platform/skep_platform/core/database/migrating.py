"""Migrations beside servers that go on, and the schema of databases that are still empty.

Most changes of a table take a lock that excludes all others, if only for milliseconds. A migration
that waits for it, behind a long report or a backup, makes every later query of that table wait
behind itself: for as long as the report runs no job is submitted and no heartbeat is stored. So a
migration gives up a lock after LOCK_TIMEOUT_MS, is rolled back whole, and is tried again. One that
PostgreSQL ended to resolve a deadlock with the servers is tried again, too.

Migrations without a transaction create and drop indexes concurrently. These wait without blocking
others, and would leave an invalid index behind if they gave up: they wait for as long as it takes.

Between two migrations Django builds the models of the whole platform anew. For an empty database
that is most of the time of `migrate`: 17 s of a processor, where the statements take one. So an
empty database gets `schema.sql`, which `make schema` writes from a database that was migrated step
by step. It records the migrations that it holds as applied; newer ones are applied as ever.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DatabaseError, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError

from skep_platform.core.failures import sqlstate

LOCK_TIMEOUT_MS = 400
PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0  # between attempts; it doubles
PATIENCE_S = 900.0  # for one migration
DEADLOCK, LOCK_TIMED_OUT = "40P01", "55P03"
SHOWN = 3  # transactions
HOLDERS = """
SELECT pid, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::int
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND xact_start < clock_timestamp() - make_interval(secs => %s)
 ORDER BY xact_start LIMIT %s
"""

SCHEMA = Path(__file__).with_name("schema.sql")
LOCK = 0x534B4550  # "SKEP": of several `migrate` on an empty database one loads the schema
EMPTY = """
SELECT current_schema() = 'public' AND NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
)
"""
# The months of the audit log are those of today, not those of the day on which the file was made.
AFTER = """
SELECT audit_add_month(date_trunc('month', now(), 'UTC') + make_interval(months => n, days => 9))
  FROM generate_series(0, 2) n
"""


class MigrationBlocked(Exception):
    """A migration did not get a lock within PATIENCE_S. Its text says whose transactions last."""


def load_schema(connection: Any) -> bool:
    """Create the tables in a database that has none. Returns whether it did: a database that has
    tables, or whose server does not take the file, is left as it was, to be migrated step by
    step."""
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            cursor.execute(EMPTY)
            if not cursor.fetchone()[0]:
                return False
            cursor.execute("SET LOCAL check_function_bodies = false")  # they precede the tables
            cursor.execute(SCHEMA.read_text(encoding="utf-8"))
            cursor.execute(AFTER)
    except DatabaseError:
        return False
    return True


class PatientExecutor(MigrationExecutor):
    """Applies migrations, and makes none wait long for a lock."""

    def apply_migration(
        self, state: Any, migration: Any, fake: bool = False, fake_initial: bool = False
    ) -> Any:
        """Apply a migration, as often as it takes to get its locks. Returns the state of the models
        after it. Raises `MigrationBlocked`, and what the migration itself raises."""
        began, pause = time.monotonic(), PAUSE_S
        while True:
            try:
                with self._short_locks(migration.atomic):
                    return super().apply_migration(state, migration, fake, fake_initial)
            except OperationalError as error:
                if not migration.atomic or sqlstate(error) not in (DEADLOCK, LOCK_TIMED_OUT):
                    raise
                if time.monotonic() - began > PATIENCE_S:
                    raise MigrationBlocked(self._why(migration)) from error
            self.waits(migration)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            # The attempt has changed `state`; all migrations before this one are recorded.
            self.loader.build_graph()
            state = self._create_project_state(True)  # type: ignore[attr-defined]

    def waits(self, migration: Any) -> None:
        """Called when an attempt was given up and another one will follow."""
        if self.progress_callback:
            self.progress_callback("apply_waits", migration)

    @contextmanager
    def _short_locks(self, wanted: bool) -> Iterator[None]:
        if not wanted:
            yield
            return
        self._set_lock_timeout(LOCK_TIMEOUT_MS)
        try:
            yield
        finally:
            self._set_lock_timeout(0)

    def _set_lock_timeout(self, milliseconds: int) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [str(milliseconds)])

    def _why(self, migration: Any) -> str:
        with self.connection.cursor() as cursor:
            cursor.execute(HOLDERS, [LOCK_TIMEOUT_MS / 1000, SHOWN])
            holders = [
                f"process {pid} ({name or 'no name'}, {state}, for {seconds} s)"
                for pid, name, state, seconds in cursor.fetchall()
            ]
        long = "; ".join(holders) or "none is open any more"
        return (
            f"{migration.app_label}.{migration.name} did not get a lock in {PATIENCE_S:.0f} s. "
            f"Long transactions: {long}. Wait for their end, or end them with "
            "pg_terminate_backend, and migrate again; what was applied before stays."
        )
