"""Pages of lists: {"results", "next", "previous"}, by the parameters `limit` and `cursor`.

A page of rows begins next to the row that its cursor names (a keyset), so that any order works,
also by columns in which thousands of rows are equal, and no table is ever counted. A page of what
is made from memory begins at a number. With `format=csv`, a list is a file of all of its pages.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import DataError
from django.db.models import Model, OrderBy, Q, QuerySet
from django.db.models.functions import Coalesce
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from skep_platform.core import exports
from skep_platform.core.errors import NotFound, SkepError

F = TypeVar("F", bound=Callable[..., Any])
Row = TypeVar("Row")  # a model, or what `values` of its rows are
ROWS = 50  # per page, without `limit`
MAX_ROWS = 500
# What reading a cursor that no page has given out raises.
INVALID = (
    ArithmeticError,
    AttributeError,
    DataError,
    RecursionError,
    TypeError,
    ValidationError,
    ValueError,
)
PAGE_PARAMETERS = [
    OpenApiParameter("limit", int, description="Rows per page, at most 500 (default 50)."),
    OpenApiParameter("cursor", str, description="From `next` or `previous` of another page."),
]
FORMAT = OpenApiParameter(
    "format",
    str,
    enum=["csv", "json"],
    description=f"csv: all rows as a file, at most {exports.MOST_ROWS:,}, whatever `limit`.",
)


@cache  # one component of the schema, also where two routes list the same rows
def page_of(serializer: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """Return the shape of a page of these rows, for `extend_schema(responses=...)`."""
    return inline_serializer(
        name=serializer.__name__.removesuffix("Serializer") + "Page",
        fields={
            "results": serializer(many=True),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
        },
    )


def paged(
    operation_id: str,
    serializer: type[serializers.Serializer[Any]],
    tags: list[str],
    *parameters: OpenApiParameter,
) -> Callable[[F], F]:
    """Describe, for the API's schema, a view that answers with a page of these rows, and let it
    answer with all of them as CSV. `parameters`: those beside `limit`, `cursor` and `format`."""
    described: Callable[[Any], Any] = extend_schema(
        operation_id=operation_id,
        parameters=[*PAGE_PARAMETERS, FORMAT, *parameters],
        responses={
            (200, "application/json"): page_of(serializer),
            (200, "text/csv"): OpenApiTypes.STR,
        },
        tags=tags,
    )

    def decorate(view: F) -> F:
        name = operation_id.removeprefix("list_").replace("_", "-")
        decorated: F = described(exports.exported(view, serializer, name))
        return decorated

    return decorate


def page(
    request: Request,
    rows: QuerySet[Any, Row],
    show: Callable[[list[Row]], list[Any]],
    *columns: str,
    descending: bool = False,
    among: Sequence[Q] = (),
    sort: bool = False,
) -> Response:
    """Return a page of `rows` in the order of these columns, which together are unique and never
    null. `show` renders the rows of the page together, so that what they share is read once.

    `among`: only rows to which one of these alternatives applies. Each is asked for its own first
    rows, so that an index answers it; one OR of them all would be found by walking the table.

    Raises NotFound for a cursor that no page has given out, and SkepError `too_many_rows`."""
    limit = _limit(request)
    exports.check(request, rows, among)
    try:
        cursor = _decode(rows.model, columns, request)
        backwards = cursor is not None and cursor.backwards
        found = _read(rows, columns, descending ^ backwards, cursor, among, limit + 1, sort)
    except INVALID as error:
        if not request.query_params.get("cursor"):
            raise
        raise NotFound("Invalid cursor") from error
    more, found = len(found) > limit, found[:limit]
    if backwards:
        found.reverse()
    after = backwards or more
    before = more if backwards else cursor is not None
    body = {
        "results": show(found),
        "next": _next_to(request, columns, found[-1:], False) if after else None,
        "previous": _next_to(request, columns, found[:1], True) if before else None,
    }
    return Response(body)


def numbered_page(
    request: Request, rows: list[Any], cursor: int, limit: int, *, more: bool
) -> dict[str, Any]:
    """Return a page of what is made from memory: the rows from number `cursor` on."""
    before = max(cursor - limit, 0)
    return {
        "results": rows,
        "next": link(request, cursor + len(rows)) if more else None,
        "previous": link(request, before) if cursor else None,
    }


def link(request: Request, cursor: int | str | None) -> str:
    """Return the address of this request with another cursor; without one for the first page."""
    url = request.build_absolute_uri()
    if not cursor:
        return str(remove_query_param(url, "cursor"))
    return str(replace_query_param(url, "cursor", cursor))


@dataclass(frozen=True, slots=True)
class Cursor:
    """The row next to which a page begins, by its columns, and whether the page lies before it."""

    values: tuple[Any, ...]
    backwards: bool = False

    def encode(self) -> str:
        plain = json.dumps([*map(_text, self.values), self.backwards])
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def read_cursor(request: Request, *types: Callable[[str], Any]) -> Cursor | None:
    """Return the cursor of a request, for pages that are not made of a model's rows. `types` make
    its values of texts. Raises NotFound for a cursor that no page has given out."""
    try:
        given = _texts(request)
        if given is None:
            return None
        values, backwards = given
        return Cursor(tuple(of(v) for of, v in zip(types, values, strict=True)), backwards)
    except INVALID as error:
        raise NotFound("Invalid cursor") from error


def _read(
    rows: QuerySet[Any, Row],
    columns: tuple[str, ...],
    descending: bool,
    cursor: Cursor | None,
    among: Sequence[Q],
    most: int,
    sort: bool,
) -> list[Row]:
    if among:
        parts = [_ordered(rows.filter(q), columns, descending, cursor, sort) for q in among]
        first, *others = [part.values("pk")[:most] for part in parts]
        rows = rows.filter(pk__in=first.union(*others))
        sort = False  # what is left is a page
    return list(_ordered(rows, columns, descending, cursor, sort)[:most])


def _ordered(
    rows: QuerySet[Any, Row],
    columns: tuple[str, ...],
    descending: bool,
    cursor: Cursor | None,
    sort: bool,
) -> QuerySet[Any, Row]:
    if cursor is not None:
        rows = rows.filter(_beyond(columns, cursor.values, "lt" if descending else "gt"))
    if sort:  # by the same values, in a form that no index has
        keys = [OrderBy(Coalesce(column, column), descending=descending) for column in columns]
        return rows.order_by(*keys)
    return rows.order_by(*(f"-{column}" if descending else column for column in columns))


def _beyond(columns: tuple[str, ...], values: tuple[Any, ...], side: str) -> Q:
    """Return the condition that a row lies beyond these values, in the order of the columns."""
    (column, *others), (value, *more) = columns, values
    beyond = Q(**{f"{column}__{side}": value})
    if not others:
        return beyond
    # The first term lets the index begin at the right place.
    return Q(**{f"{column}__{side}e": value}) & (beyond | _beyond(tuple(others), tuple(more), side))


def _limit(request: Request) -> int:
    """Return the rows per page. Raises SkepError `invalid_filter`."""
    asked = request.query_params.get("limit", "")
    if not asked:
        return ROWS
    if not asked.isdecimal() or not int(asked[:9]):
        message = f"limit is a whole number from 1 to {MAX_ROWS}."
        raise SkepError(message, code="invalid_filter", parameter="limit", value=asked[:100])
    return min(int(asked[:9]), MAX_ROWS)


def _decode(model: type[Model], columns: tuple[str, ...], request: Request) -> Cursor | None:
    """Return the cursor of a request. Raises ValueError, TypeError and ValidationError."""
    given = _texts(request)
    if given is None:
        return None
    values, backwards = given
    found = [_value(model, name, v) for name, v in zip(columns, values, strict=True)]
    return Cursor(tuple(found), backwards)


def _texts(request: Request) -> tuple[list[Any], bool] | None:
    """Return the values of a cursor as texts. Raises ValueError and TypeError."""
    text = request.query_params.get("cursor")
    if not text:
        return None
    try:
        plain = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(text) from error
    *values, backwards = json.loads(plain)
    return values, bool(backwards)


def _value(model: type[Model], column: str, text: Any) -> Any:
    """Return a value of a cursor as its column has it; an annotation is a text."""
    try:
        field: Any = model._meta.pk if column == "pk" else model._meta.get_field(column)
    except FieldDoesNotExist:
        return str(text)
    value = field.to_python(text)
    if value is None:
        raise ValueError(text)
    return value


def _next_to(request: Request, columns: tuple[str, ...], row: list[Any], backwards: bool) -> str:
    if not row:  # turned around at an end of the list
        return link(request, None)
    known = row[0]
    values = [known[c] if isinstance(known, Mapping) else getattr(known, c) for c in columns]
    return link(request, Cursor(tuple(values), backwards).encode())


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
