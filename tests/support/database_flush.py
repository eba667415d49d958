"""Emptying the tables after a test whose transactions were really committed.

Django truncates every table and then makes permissions and content types anew, which takes 0.3 to
1 s where most tables had no row. This empties those that have rows, behind the same locks, and
leaves what is the same for all tests.
"""

from __future__ import annotations

from functools import cache

from django.db import connection, transaction
from django.test import TransactionTestCase

from skep_platform.templates import shipping

# As the trigger of TRUNCATE does: what processes remember of the database is read again.
EMPTIED = """
INSERT INTO scheduling_change (txid, kind, subject, at)
VALUES (pg_current_xact_id()::text::bigint, 'all', '', statement_timestamp())
"""
KEPT = {"django_content_type", "auth_permission"}


def install() -> None:
    """From now on tests end with it."""
    TransactionTestCase._fixture_teardown = lambda _: flush()  # type: ignore[attr-defined]


def flush() -> None:
    tables = _tables()
    with transaction.atomic(), connection.cursor() as cursor:
        # As TRUNCATE does, wait for transactions that a test left open.
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            " UNION ALL ".join(
                f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables
            )
        )
        filled = [table for (table,) in cursor.fetchall()]
        cursor.execute("SET LOCAL session_replication_role = replica")  # no triggers, any order
        for table in filled:
            cursor.execute(f"DELETE FROM {table}")
        cursor.execute(EMPTIED)
    shipping.ship()


@cache
def _tables() -> tuple[str, ...]:
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return tuple(sorted(set(names) - KEPT))
