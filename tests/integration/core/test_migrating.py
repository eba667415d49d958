"""Migrations beside transactions that last, and beside writers that must not wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, migrations
from django.db.models import IntegerField
from django.db.utils import OperationalError, ProgrammingError

from skep_platform.core.database import migrating
from skep_platform.core.database.migrating import MigrationBlocked, PatientExecutor
from skep_platform.operations.management.commands.migrate import Command

pytestmark = pytest.mark.django_db(transaction=True)

ADD = "ALTER TABLE core_event ADD COLUMN tried integer"
DROP = """
ALTER TABLE core_event DROP COLUMN IF EXISTS tried, DROP COLUMN IF EXISTS tried_again
"""


class Watched(PatientExecutor):
    """Sets `waited` when it gave up a lock."""

    def __init__(self) -> None:
        super().__init__(connection)
        self.waited = Event()

    def waits(self, migration: Any) -> None:
        self.waited.set()

    def record_migration(self, migration: Any) -> None:
        """What is tried here is no migration of the app."""


def migration(*statements: str, atomic: bool = True) -> migrations.Migration:
    found = migrations.Migration("9999_tried", "core")
    found.operations = [migrations.RunSQL(statement) for statement in statements]
    found.atomic = atomic
    return found


@pytest.fixture
def other(transactional_db: None) -> Iterator[psycopg.Connection]:
    """A connection of another program."""
    with connect() as opened:
        yield opened
    with connection.cursor() as cursor:
        cursor.execute(DROP)


def connect() -> psycopg.Connection:
    given = connection.get_connection_params()
    known = {
        name: given[name]
        for name in ("host", "port", "user", "password", "dbname")
        if name in given
    }
    return psycopg.connect(**known, autocommit=True)


def columns() -> set[str]:
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, "core_event")
    return {column.name for column in described}


def apply(executor: PatientExecutor, wanted: migrations.Migration) -> None:
    executor.apply_migration(executor._create_project_state(True), wanted)


def test_writers_go_on_while_a_migration_waits_for_a_transaction_that_lasts(other, monkeypatch):
    monkeypatch.setattr(migrating, "PAUSE_S", 0.01)
    executor = Watched()
    failures: list[BaseException] = []

    def migrate() -> None:
        try:
            apply(executor, migration(ADD))
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    with other.transaction():
        other.execute("SELECT 1 FROM core_event LIMIT 1")  # as a report does, and goes on
        thread = Thread(target=migrate)
        thread.start()
        assert executor.waited.wait(30)
        with connect() as writer:
            # It would wait behind the migration until the report is over.
            writer.execute("SET statement_timeout = '20s'")
            writer.execute("UPDATE core_event SET kind = kind")
        assert "tried" not in columns()
    thread.join(30)
    assert not thread.is_alive()
    assert failures == []
    assert "tried" in columns()


# The table of another worker's database may have the same number.
HELD_BY_OTHERS = """
SELECT mode FROM pg_locks JOIN pg_database d ON d.oid = database
 WHERE d.datname = current_database()
   AND relation = 'core_event'::regclass AND pid <> pg_backend_pid()
"""


def test_one_that_adds_sends_its_statements_when_all_of_its_python_is_done(other):
    """A lock is held from its statement to the commit, and writers wait for as long."""
    seen: list[set[str]] = []

    class Field(IntegerField):
        """Looks at the locks of others while Django makes the statement of the next field."""

        def db_type(self, connection: Any) -> str:
            held = other.execute(HELD_BY_OTHERS).fetchall()
            seen.append({mode for (mode,) in held})
            return "integer"

    added = migration()
    added.operations = [
        migrations.AddField("event", "tried", Field(null=True)),
        migrations.AddField("event", "tried_again", Field(null=True)),
    ]
    apply(Watched(), added)
    assert {"tried", "tried_again"} <= columns()
    assert len(seen) > 1
    assert "AccessExclusiveLock" not in set().union(*seen)


def test_a_statement_that_fails_at_the_end_takes_all_of_them_back(other):
    with pytest.raises(ProgrammingError):
        apply(Watched(), migration(ADD, "SELECT no_such_column FROM core_event"))
    assert "tried" not in columns()


def test_the_end_of_a_transaction_that_lasts_is_not_missed(other, monkeypatch):
    """The next one begins within a second."""
    monkeypatch.setattr(migrating, "PAUSE_S", 600.0)
    monkeypatch.setattr(migrating, "LONGEST_PAUSE_S", 600.0)
    monkeypatch.setattr(migrating, "LEAST_S", 0.0)
    executor, ended = Watched(), Event()

    def report() -> None:
        with other.transaction():
            other.execute("SELECT 1 FROM core_event LIMIT 1")
            begun.set()
            executor.waited.wait(30)
        ended.set()

    begun = Event()
    thread = Thread(target=report)
    thread.start()
    assert begun.wait(30)
    apply(executor, migration(ADD))
    thread.join(30)
    assert ended.is_set()
    assert executor.waited.is_set()
    assert "tried" in columns()


def test_a_migration_that_never_gets_its_lock_says_whose_transaction_lasts(other, monkeypatch):
    monkeypatch.setattr(migrating, "PAUSE_S", 0.01)
    monkeypatch.setattr(migrating, "PATIENCE_S", 0.0)
    other.execute("SET application_name = 'monthly report'")
    with other.transaction():
        other.execute("SELECT 1 FROM core_event LIMIT 1")
        with pytest.raises(MigrationBlocked) as blocked:
            apply(Watched(), migration(ADD))
    assert "core.9999_tried did not get a lock in 0 s" in str(blocked.value)
    assert "(monthly report, idle in transaction, for" in str(blocked.value)
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_one_that_a_deadlock_ended_is_applied_again(monkeypatch, other):
    monkeypatch.setattr(migrating, "PAUSE_S", 0.01)
    executor, wanted = Watched(), migration(ADD)
    raised = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$"
    wanted.operations.append(migrations.RunSQL(raised))
    executor.waits = lambda one: wanted.operations.pop()  # type: ignore[assignment]
    apply(executor, wanted)
    assert "tried" in columns()


@pytest.mark.parametrize("code", ["55P03", "53100"])
def test_any_other_failure_ends_it_and_so_does_one_without_a_transaction(other, code):
    raised = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"
    executor = Watched()
    with pytest.raises(OperationalError):
        apply(executor, migration(raised, atomic=code != "55P03"))
    assert not executor.waited.is_set()


def test_an_index_is_made_beside_others_without_a_limit(other):
    apply(Watched(), migration("SET lock_timeout = '0'", atomic=False))
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_the_command_of_django_is_ours(monkeypatch):
    def blocked(*_: Any, **__: Any) -> None:
        raise MigrationBlocked("It waits for a report.")

    monkeypatch.setattr(PatientExecutor, "migrate", blocked)
    with pytest.raises(CommandError, match="It waits for a report"):
        call_command("migrate", verbosity=0)
    assert Command.help
