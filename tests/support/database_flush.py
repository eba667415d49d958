"""Emptying the tables after a test whose transactions were really committed.

Django truncates every table and then makes permissions and content types anew, which takes 0.3 to
1 s where most tables had no row. This empties those that have rows, behind the same locks, and
leaves what is the same for all tests.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db import connection, transaction
from django.test import TransactionTestCase

from skep_platform.templates import shipping
from skep_platform.templates.models import Template

KEPT = {"django_content_type", "auth_permission"}


def install() -> None:
    """From now on tests end with it."""
    TransactionTestCase._fixture_teardown = lambda _: flush()  # type: ignore[attr-defined]


def flush() -> None:
    tables = _tables()
    with transaction.atomic(), connection.cursor() as cursor:
        # Wait for transactions that a test left open.
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            " UNION ALL ".join(
                f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables
            )
        )
        filled = {table for (table,) in cursor.fetchall()}
        # Not DELETE: what it leaves of tables would change how later queries are planned. Jobs in
        # any case: their trigger tells processes to read again what they remember.
        cursor.execute(f"TRUNCATE {', '.join(sorted(filled | {'jobs_job'}))} CASCADE")
    Template.objects.bulk_create(Template(**fields) for fields in _shipped())


@cache
def _shipped() -> list[dict[str, Any]]:
    """What `shipping.ship` writes into the empty table: it reads ten job files for that."""
    shipping.ship()
    shipped = list(Template.objects.values())
    Template.objects.all().delete()
    for fields in shipped:
        del fields["id"]
    return shipped


@cache
def _tables() -> tuple[str, ...]:
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return tuple(sorted(set(names) - KEPT))
