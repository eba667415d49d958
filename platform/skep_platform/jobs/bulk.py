"""Many rows changed by one statement, whatever their number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Model


def update_rows(
    model: type[Model], fields: tuple[str, ...], rows: Sequence[Mapping[str, Any]], guard: str = ""
) -> int:
    """Set `fields` of each row that `rows` names by its `id`. `guard` is a condition in SQL on the
    table `t`: rows that do not meet it are left alone. Returns the number of rows changed."""
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_statement(model, fields, guard), [json.dumps(rows, default=str)])
        return int(cursor.rowcount)


@lru_cache
def _statement(model: type[Model], fields: tuple[str, ...], guard: str) -> str:
    columns = {model._meta.get_field(f).attname: model._meta.get_field(f) for f in fields}
    types = ", ".join(f'"{name}" {field.db_type(connection)}' for name, field in columns.items())
    assignments = ", ".join(f'"{name}" = v."{name}"' for name in columns)
    key = model._meta.pk.db_type(connection)
    return (
        f'UPDATE "{model._meta.db_table}" AS t SET {assignments} '  # noqa: S608 names of ours
        f"FROM jsonb_to_recordset(%s::jsonb) AS v(id {key}, {types}) "
        f"WHERE t.id = v.id{f' AND {guard}' if guard else ''}"
    )
