"""Queries that PostgreSQL plans for their own values, not for those of an average query."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import QuerySet


def fetch_planned(rows: QuerySet[Any, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query by `values_list`, with its values written into its text.

    Statements are prepared, and after a few executions PostgreSQL keeps one plan for all values of
    its parameters. That is wrong where one value matches a million rows and another one none."""
    connection = connections[rows.db]
    try:
        sql, values = rows.query.sql_with_params()
    except EmptyResultSet:  # as `pk__in=[]`, which Django asks no database for
        return []
    with connection.cursor() as cursor:
        cursor.execute(connection.ops.compose_sql(sql, values))  # type: ignore[attr-defined]
        return list(cursor.fetchall())
