"""Pages by keyset: any order, also by columns in which thousands of rows are equal.

REST framework's cursor counts equal rows by an offset, and stops at a thousand.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from skep_platform.core.api import CursorPages
from skep_platform.core.errors import NotFound

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The row next to which a page begins, and whether the page lies before it."""

    value: Any
    pk: Any
    backwards: bool = False

    def encode(self) -> str:
        plain = json.dumps([str(self.value), str(self.pk), self.backwards])
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def keyset_page(
    request: Request,
    rows: QuerySet[Row],
    show: Callable[[list[Row]], list[Any]],
    field: str,
    *,
    descending: bool,
    among: Sequence[Q] = (),
) -> Response:
    """One page of `rows` by `field` (a column that is never null), then by primary key.

    `among`: only rows to which one of these alternatives applies. Each is asked for its own first
    rows, so that an index answers it; one OR of them all would be found by walking the table."""
    limit, cursor = _limit(request), _decode(rows.model, field, request)
    backwards = cursor is not None and cursor.backwards
    downwards = descending ^ backwards
    if among:
        parts = [_ordered(rows.filter(q), field, downwards, cursor) for q in among]
        first, *others = [part.values("pk")[: limit + 1] for part in parts]
        rows = rows.filter(pk__in=first.union(*others))
    found = list(_ordered(rows, field, downwards, cursor)[: limit + 1])
    more, found = len(found) > limit, found[:limit]
    if backwards:
        found.reverse()
    after = backwards or more
    before = more if backwards else cursor is not None
    body = {
        "results": show(found),
        "next": _link(request, field, found[-1:], False) if after else None,
        "previous": _link(request, field, found[:1], True) if before else None,
    }
    return Response(body)


def _ordered(
    rows: QuerySet[Row], field: str, descending: bool, cursor: Cursor | None
) -> QuerySet[Row]:
    sign, beyond = ("-", "lt") if descending else ("", "gt")
    if cursor is not None:
        # The first term lets the index begin at the right place.
        rows = rows.filter(
            Q(**{f"{field}__{beyond}e": cursor.value})
            & (Q(**{f"{field}__{beyond}": cursor.value}) | Q(**{f"pk__{beyond}": cursor.pk}))
        )
    return rows.order_by(f"{sign}{field}", f"{sign}pk")


def _limit(request: Request) -> int:
    asked = request.query_params.get(CursorPages.page_size_query_param, "")
    if not asked.isdecimal() or int(asked[:9]) == 0:
        return CursorPages.page_size
    return min(int(asked[:9]), CursorPages.max_page_size)


def _decode(model: type[Model], field: str, request: Request) -> Cursor | None:
    text = request.query_params.get("cursor")
    if not text:
        return None
    try:
        plain = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        value, pk, backwards = json.loads(plain)
        columns: Any = model._meta
        return Cursor(
            columns.get_field(field).to_python(value), columns.pk.to_python(pk), bool(backwards)
        )
    except (ValueError, TypeError, binascii.Error, ValidationError, RecursionError):
        raise NotFound("Invalid cursor") from None


def _link(request: Request, field: str, row: list[Row], backwards: bool) -> str:
    url = request.build_absolute_uri()
    if not row:  # turned around at an end of the list
        return str(remove_query_param(url, "cursor"))
    cursor = Cursor(_text(getattr(row[0], field)), row[0].pk, backwards)
    return str(replace_query_param(url, "cursor", cursor.encode()))


def _text(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
