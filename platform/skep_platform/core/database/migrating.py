"""Migrations beside servers that go on, and the schema of databases that are still empty.

Most changes of a table take a lock that excludes all others, if only for milliseconds. A migration
that waits for it, behind a long report or a backup, makes every later query of that table wait
behind itself: for as long as the report runs no job is submitted and no heartbeat is stored. So a
migration gives up a lock after LOCK_TIMEOUT_MS, is rolled back whole, and is tried again: as soon
as a transaction has ended that lasted at the failure, which may be followed by the next one within
a second. One that PostgreSQL ended to resolve a deadlock with the servers is tried again, too.

A lock is held until the commit, and between two statements Django builds models for up to seconds
on a busy machine. So the statements of a migration that only adds are held back, and sent together
at its end.

Migrations without a transaction create and drop indexes concurrently. These wait without blocking
others, and would leave an invalid index behind if they gave up: they wait for as long as it takes.

Between two migrations Django builds the models of the whole platform anew. For an empty database
that is most of the time of `migrate`: 17 s of a processor, where the statements take one. So an
empty database gets `schema.sql`, which `make schema` writes from a database that was migrated step
by step. It records the migrations that it holds as applied; newer ones are applied as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from django.db import DatabaseError, migrations, transaction
from django.db.backends.postgresql.schema import DatabaseSchemaEditor
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError

from skep_platform.core.failures import sqlstate

log = structlog.get_logger(__name__)

LOCK_TIMEOUT_MS = 400
PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0  # between attempts; it doubles
LEAST_S = 2.0  # of a pause of that length or more, also when a transaction ends before
LOOK_S = 0.05
PATIENCE_S = 900.0  # for one migration
DEADLOCK, LOCK_TIMED_OUT = "40P01", "55P03"
SHOWN = 3  # transactions
# They read nothing of the database: their statements are the same now or later.
ADDING = (
    migrations.CreateModel,
    migrations.AddField,
    migrations.AddIndex,
    migrations.AddConstraint,
    migrations.RunSQL,
)
LASTING = """
SELECT pid, xact_start FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND xact_start < clock_timestamp() - make_interval(secs => %s)
"""
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
# Months are those of today, not those of the day on which the file was made.
AFTER = """
SELECT audit_add_month(month), add_month('telemetry_gpurollup', month),
       add_month('telemetry_taskrollup', month)
  FROM (SELECT date_trunc('month', now(), 'UTC') + make_interval(months => n, days => 9) AS month
          FROM generate_series(0, 2) n) months
"""


def _at_once() -> None:
    """What is called before the statements of a first attempt."""


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
    except DatabaseError as error:
        log.warning("schema_not_loaded", problem=str(error).strip())
        return False
    return True


class LateSchemaEditor(DatabaseSchemaEditor):
    """Calls `ready` before the first statement. With `hold` it sends all statements at the end."""

    def __init__(self, *args: Any, hold: bool, ready: Callable[[], object], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hold, self._ready = hold, ready
        self._held: list[str] = []

    def __enter__(self) -> Any:
        entered = super().__enter__()
        if not self._hold:
            self._ready()
        return entered

    def execute(self, sql: Any, params: Any = ()) -> None:
        """Execute a statement, or hold it back."""
        if not self._hold:
            return super().execute(sql, params)
        if params is not None:
            sql = self.connection.ops.compose_sql(str(sql), params)
        self._held.append(str(sql))
        return None

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if exc_type is None and self._hold:
            self._hold = False
            statements = [*self._held, *map(str, self.deferred_sql)]
            self.deferred_sql.clear()
            try:
                self._ready()
                for statement in statements:
                    super().execute(statement, None)
            except BaseException as error:
                super().__exit__(type(error), error, error.__traceback__)
                raise
        super().__exit__(exc_type, exc_value, traceback)


class PatientExecutor(MigrationExecutor):
    """Applies migrations, and makes none wait long for a lock."""

    def apply_migration(
        self, state: Any, migration: Any, fake: bool = False, fake_initial: bool = False
    ) -> Any:
        """Apply a migration, as often as it takes to get its locks. Returns the state of the models
        after it. Raises `MigrationBlocked`, and what the migration itself raises."""
        began, pause = time.monotonic(), PAUSE_S
        ready: Callable[[], object] = _at_once
        while True:
            try:
                with self._short_locks(migration.atomic), self._late(migration, ready):
                    return super().apply_migration(state, migration, fake, fake_initial)
            except OperationalError as error:
                if not migration.atomic or sqlstate(error) not in (DEADLOCK, LOCK_TIMED_OUT):
                    raise
                if time.monotonic() - began > PATIENCE_S:
                    raise MigrationBlocked(self._why(migration)) from error
            failed, lasting = time.monotonic(), self._lasting()
            self.waits(migration)
            # The attempt has changed `state`; all migrations before this one are recorded.
            self.loader.build_graph()
            state = self._create_project_state(True)  # type: ignore[attr-defined]
            ready = partial(self._wait, failed, pause, lasting)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def waits(self, migration: Any) -> None:
        """Called when an attempt was given up and another one will follow."""
        if self.progress_callback:
            self.progress_callback("apply_waits", migration)

    def _lasting(self) -> set[tuple[int, Any]]:
        """Return the transactions of others that last for longer than we wait for a lock."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees no change
            cursor.execute(LASTING, [LOCK_TIMEOUT_MS / 1000])
            return set(cursor.fetchall())

    def _wait(self, failed: float, pause: float, lasting: set[tuple[int, Any]]) -> None:
        """Wait until `pause` seconds after the failure, or until one of these transactions is over.
        The servers get LEAST_S anyway, to do what had waited for us."""
        while (passed := time.monotonic() - failed) < pause:
            if passed >= LEAST_S and lasting - self._lasting():
                return
            time.sleep(LOOK_S)

    @contextmanager
    def _late(self, migration: Any, ready: Callable[[], object]) -> Iterator[None]:
        only_adds = all(type(operation) in ADDING for operation in migration.operations)
        hold = bool(migration.atomic) and only_adds
        usual = self.connection.SchemaEditorClass
        late = partial(LateSchemaEditor, hold=hold, ready=ready)
        self.connection.SchemaEditorClass = late  # type: ignore[assignment]
        try:
            yield
        finally:
            self.connection.SchemaEditorClass = usual

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
