"""Queries of Django's that are compiled to SQL once, for the paths that run for every job.

Compiling a query takes Django longer than PostgreSQL takes to run it, and each length of an `IN`
list makes a text of its own, which PostgreSQL plans anew. Here lists are one parameter, so that the
text stays the same, and after some runs of a connection its plan does, too.

    JOBS = Compiled(lambda: Job.objects.filter(Among("pk", "jobs")), "id", "name")
    for pk, name in JOBS.rows(jobs=[…]): …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import BooleanField, F, Func, QuerySet
from django.db.models.expressions import Value

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Parameter:
    """Stands in the compiled query for a value that is given with each run."""

    name: str


class Given(Value):
    """An expression for the value that is given as `name` with each run."""

    def __init__(self, name: str, output_field: Any = None) -> None:
        super().__init__(_Parameter(name), output_field)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self.value]


class Among(Func):
    """A condition: the column is one of the list that is given as `name` with each run."""

    template = "%(expressions)s = ANY(%%s)"
    output_field = BooleanField()

    def __init__(self, column: str, name: str) -> None:
        super().__init__(F(column))
        self._parameter = _Parameter(name)

    def as_sql(self, compiler: Any, connection: Any, *args: Any, **more: Any) -> Any:
        sql, params = super().as_sql(compiler, connection, *args, **more)
        return sql, [*params, self._parameter]


@dataclass(frozen=True, slots=True)
class _Statement:
    """`converters`: what Django makes of the values of a column, by its position."""

    sql: str
    params: tuple[Any, ...]
    converters: tuple[tuple[int, list[Any], Any], ...]


class Compiled:
    """A query for some columns, without any: for whether it finds a row. `make` returns it and is
    called once, when it runs first; nothing in it may depend on when that is. Safe for threads."""

    def __init__(self, make: Callable[[], QuerySet[Any]], *columns: str) -> None:
        self.columns = columns
        self._make = make
        self._statement: _Statement | None = None

    def rows(self, **values: Any) -> list[Row]:
        """Run it with what `Given` and `Among` name; return its rows, as `values_list` does."""
        known = self._statement = self._statement or self._compiled()
        params = [values[p.name] if isinstance(p, _Parameter) else p for p in known.params]
        with connection.cursor() as cursor:
            cursor.execute(known.sql, params)
            found: list[Row] = cursor.fetchall()
        return [_converted(row, known) for row in found] if known.converters else found

    def dicts(self, **values: Any) -> list[dict[str, Any]]:
        """Run it; return its rows, as `values` does."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows(**values)]

    def finds(self, **values: Any) -> bool:
        """Run it; return whether there is a row, as `exists` does."""
        return bool(self.rows(**values))

    def _compiled(self) -> _Statement:
        if self.columns:
            query = self._make().values_list(*self.columns).query
        else:
            query = self._make().query.exists()
        compiler = query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        selected = [column for column, *_ in compiler.select[: compiler.col_count]]
        converters = compiler.get_converters(selected).items()
        return _Statement(sql, tuple(params), tuple((at, *found) for at, found in converters))


def _converted(row: Row, statement: _Statement) -> Row:
    values = list(row)
    for at, converters, expression in statement.converters:
        for convert in converters:
            values[at] = convert(values[at], expression, connection)
    return tuple(values)
