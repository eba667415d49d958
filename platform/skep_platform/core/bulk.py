"""Statements whose text does not depend on the number of rows, for the paths that run for every
job: building them once saves more than the database takes to run them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import AutoField, DateTimeField, Field, Model
from django.db.models.base import ModelState
from django.utils import timezone

M = TypeVar("M", bound=Model)


class UnstorableValue(TypeError):
    """A value of a row has no form in the database: a fault of the caller."""


def encode(rows: Any) -> str:
    """Return rows as the JSON that `recordset` reads. UUIDs, times and decimals become text.
    Raises UnstorableValue for every other object and for numbers that are not finite: an object
    is never stored as its repr."""
    try:
        return _encoder.encode(rows)
    except ValueError as error:
        raise UnstorableValue(f"a row cannot be stored: {error}") from None


def _text(value: object) -> str:
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    raise UnstorableValue(f"a {type(value).__name__} cannot be stored in a row")


# Made once: `json.dumps` makes one for each call with options. No row of ours refers to itself.
_encoder = json.JSONEncoder(
    default=_text, allow_nan=False, check_circular=False, separators=(",", ":")
)


def fetch(sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query; jsonb comes as text."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def database_time() -> datetime:
    """Return what time it is by the clock of the database: the one that all processes share, for
    what one of them writes and another one, or a query, compares. Times of rows that are inserted
    here are by the same clock."""
    [(now,)] = fetch("SELECT statement_timestamp()")
    return now


def deletion_time() -> datetime:
    """Return the time by which to choose what is too old to be kept: that of the database or of
    this process, whichever is earlier. A clock that is far ahead deletes nothing before its
    time."""
    return min(database_time(), timezone.now())


class Writes:
    """Statements that write rows and run as one: on the paths that run for every job, sending a
    statement costs more than what it does. They run in no order, none sees what another one
    writes, and no two may write the same row."""

    def __init__(self) -> None:
        self._statements: list[str] = []
        self._values: list[Any] = []

    def add(self, sql: str, *values: Any) -> None:
        """Add an INSERT, UPDATE or DELETE that does not begin with WITH."""
        self._statements.append(sql)
        self._values += values

    def update_rows(
        self, model: type[Model], fields: tuple[str, ...], rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add what the function of this name does, without a guard."""
        if rows:
            self.add(_update(model, fields, ""), encode(rows))

    def insert_rows(self, rows: Sequence[Model]) -> None:
        """Add what the function of this name does."""
        if rows:
            self.add(*insert(rows))

    def run(self) -> None:
        """Run what was added since the last run, inside the caller's transaction. Raises
        IntegrityError."""
        if not self._statements:
            return
        *first, last = self._statements
        names = ", ".join(f"w{number} AS ({sql})" for number, sql in enumerate(first))
        with connection.cursor() as cursor:
            cursor.execute(f"WITH {names} {last}" if first else last, self._values)
        self._statements, self._values = [], []


def update_rows(
    model: type[Model], fields: tuple[str, ...], rows: Sequence[Mapping[str, Any]], guard: str = ""
) -> int:
    """Set `fields` of each row that `rows` names by its `id`. `guard` is a condition in SQL on the
    table `t`: rows that do not meet it are left alone. Returns the number of rows changed."""
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_update(model, fields, guard), [encode(rows)])
        return int(cursor.rowcount)


@lru_cache
def recordset(model: type[Model], fields: tuple[str, ...], name: str = "v") -> str:
    """Return SQL for the rows of these fields in a list of objects in JSON:
    `jsonb_to_recordset(%s) AS v(column type, …)`."""
    found = [_field(model, field) for field in fields]
    columns = ", ".join(f'"{f.column}" {f.rel_db_type(connection)}' for f in found)
    return f"jsonb_to_recordset(%s::jsonb) AS {name}({columns})"


@lru_cache
def _update(model: type[Model], fields: tuple[str, ...], guard: str) -> str:
    columns = [_field(model, field).column for field in fields]
    assignments = ", ".join(f'"{column}" = v."{column}"' for column in columns)
    return (
        f'UPDATE "{model._meta.db_table}" AS t SET {assignments} '  # noqa: S608 names of ours
        f"FROM {recordset(model, ('id', *fields))} WHERE t.id = v.id"
        + (f" AND {guard}" if guard else "")
    )


def insert(rows: Sequence[Model]) -> tuple[str, str]:
    """Return an INSERT of unsaved rows (at least one, of one model) as SQL with one parameter, to
    be run alone or inside a WITH. Columns with `auto_now_add` or `auto_now` get the time of the
    database: clocks of processes jump, and differ."""
    plain, made = _sources(type(rows[0]))
    values = []
    for row in rows:
        known = row.__dict__
        value = {column: known[attribute] for column, attribute in plain}
        values.append(value | {field.column: field.pre_save(row, add=True) for field in made})
    return _insert(type(rows[0])), encode(values)


@lru_cache
def _sources(model: type[Model]) -> tuple[list[tuple[str, str]], list[Any]]:
    """Return (column, attribute) of the columns that are stored as the row has them, and the fields
    that make their values when they are stored."""
    plain, made = [], []
    for field in _columns(model):
        asked = type(field).pre_save is not Field.pre_save
        if not asked or (isinstance(field, DateTimeField) and not _is_time_of_insert(field)):
            plain.append((field.column, field.attname))
        else:
            made.append(field)
    return plain, made


def new(model: type[M], **values: Any) -> M:
    """Return an unsaved row, as `model(**values)` does in a fraction of the time: for the rows of
    each job. Values are those of fields, by their names or by those of their columns; no signal is
    sent. Raises TypeError for a name that is no field's."""
    known = _defaults(model)
    row = model.__new__(model)
    row._state = ModelState()
    data = row.__dict__
    data.update(known.plain)
    for attribute, make in known.made:
        if attribute not in values:
            data[attribute] = make()
    for name, value in values.items():
        if (key := known.related.get(name)) is not None:
            data[key] = None if value is None else value.pk
            row._state.fields_cache[name] = value
        elif name in data or name in known.made_names:
            data[name] = value
        else:
            raise TypeError(f"{model.__name__} has no field named {name}")
    return row


@dataclass(frozen=True, slots=True)
class _Defaults:
    """By attribute: values that rows without others share, and what makes one for each of them.
    `related`: the attribute of the key, by the name of a foreign key."""

    plain: Mapping[str, Any]
    made: Sequence[tuple[str, Callable[[], Any]]]
    made_names: frozenset[str]
    related: Mapping[str, str]


@lru_cache
def _defaults(model: type[Model]) -> _Defaults:
    fields = model._meta.concrete_fields
    made = [(f.attname, f.get_default) for f in fields if f.has_default() and callable(f.default)]
    names = frozenset(name for name, _ in made)
    plain = {f.attname: f.get_default() for f in fields if f.attname not in names}
    return _Defaults(plain, made, names, {f.name: f.attname for f in fields if f.is_relation})


def loaded(model: type[M], names: Sequence[str], values: Sequence[Any]) -> M:
    """Return a row that was read, as `model.from_db` does in a fraction of the time. `names` are
    the attributes of all its columns; no signal is sent."""
    row = model.__new__(model)
    row._state = ModelState()
    row._state.adding, row._state.db = False, connection.alias
    row.__dict__.update(zip(names, values, strict=True))
    return row


def insert_rows(rows: Sequence[Model]) -> None:
    """Insert unsaved rows of one model, in their order. Keys that the database counts up are not
    reported. Raises IntegrityError."""
    if rows:
        sql, values = insert(rows)
        with connection.cursor() as cursor:
            cursor.execute(sql, [values])


def _field(model: type[Model], name: str) -> Field[Any, Any]:
    found = model._meta.get_field(name)
    assert isinstance(found, Field)
    return found


@lru_cache
def _columns(model: type[Model]) -> list[Any]:
    """Return all columns but a key that the database counts up."""
    return [f for f in model._meta.concrete_fields if not isinstance(f, AutoField)]


@lru_cache
def _insert(model: type[Model]) -> str:
    names = ", ".join(f'"{field.column}"' for field in _columns(model))
    fields = tuple(field.name for field in _columns(model))
    values = ", ".join(
        "statement_timestamp()" if _is_time_of_insert(field) else f'"{field.column}"'
        for field in _columns(model)
    )
    return (
        f'INSERT INTO "{model._meta.db_table}" ({names}) '  # noqa: S608 names of ours
        f"SELECT {values} FROM {recordset(model, fields)}"
    )


def _is_time_of_insert(field: Any) -> bool:
    return isinstance(field, DateTimeField) and (field.auto_now_add or field.auto_now)
