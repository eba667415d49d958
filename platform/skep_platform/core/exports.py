"""Lists as CSV files: all pages of a list, one after another, with the filter, the order and the
permissions of the list, and as many queries for each page as the list makes."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache, wraps
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from asgiref.sync import sync_to_async
from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from skep_platform.core.csv_files import CONTENT_TYPE, csv_text, flat_value
from skep_platform.core.errors import SkepError
from skep_platform.core.serving import at_database
from skep_platform.core.throttling import Exports

MOST_ROWS = 100_000  # of one file
PIECE = 500  # rows that are read at a time
OURS = ("format", "limit", "cursor")
FIRST = "skep_first_of_export"  # marks the request of an export's first page


def exported(view: Any, serializer: type[serializers.Serializer[Any]], name: str) -> Any:
    """Return the method of a view that answers with a page of rows, which also answers with all of
    them as CSV when it is asked for `format=csv`."""

    @wraps(view)
    def answer(self: APIView, request: Request, *args: Any, **kwargs: Any) -> Any:
        chosen = request.query_params.get("format", "")
        if chosen in ("", "json"):
            return view(self, request, *args, **kwargs)
        if chosen != "csv":
            message = "format is csv or json."
            raise SkepError(message, code="invalid_filter", parameter="format", value=chosen[:100])
        Exports().allow_request(request, self)

        def read(cursor: str) -> dict[str, Any]:
            data = view(self, _page_of(request, cursor), *args, **kwargs).data
            body: dict[str, Any] = json.loads(self.get_renderers()[0].render(data))
            return body

        # The first page is read here, where a refusal still has a status of its own.
        content = _pieces(_columns(serializer), read(""), read)
        response = StreamingHttpResponse(content, content_type=CONTENT_TYPE)
        file = f"{name}-{timezone.now():%Y%m%d-%H%M%S}.csv"
        response["Content-Disposition"] = f'attachment; filename="{file}"'
        return response

    return answer


def check(request: Request, rows: QuerySet[Any, Any], among: Sequence[Q]) -> None:
    """Refuse an export of too many rows before its first page is read. Other requests pass.

    Raises SkepError `too_many_rows`."""
    if not getattr(request, FIRST, False):
        return
    if among:
        first, *others = [rows.filter(q).order_by().values("pk") for q in among]
        rows = first.union(*others)
    if rows[MOST_ROWS : MOST_ROWS + 1].exists():
        message = f"A file has at most {MOST_ROWS:,} rows, and this list has more. Filter it first."
        raise SkepError(message, code="too_many_rows", most=MOST_ROWS)


async def _pieces(
    columns: tuple[str, ...], body: dict[str, Any], read: Callable[[str], dict[str, Any]]
) -> AsyncIterator[bytes]:
    """Between two pieces no database connection is held, however slowly the file is taken."""
    yield (csv_text([columns]) + _lines(columns, body)).encode()
    for _ in range(1, MOST_ROWS // PIECE):
        if not body["next"]:
            return
        cursor = parse_qs(urlsplit(body["next"]).query)["cursor"][0]
        body = await sync_to_async(at_database)(read, cursor)
        yield _lines(columns, body).encode()


def _lines(columns: tuple[str, ...], body: dict[str, Any]) -> str:
    return csv_text([flat_value(row, column) for column in columns] for row in body["results"])


def _page_of(request: Request, cursor: str) -> Request:
    """Return this request for one page of the list, which begins at `cursor`."""
    plain = copy.copy(request._request)
    query = request.query_params.copy()
    for name in OURS:
        query.pop(name, None)
    query["limit"] = str(PIECE)
    if cursor:
        query["cursor"] = cursor
    plain.GET = cast(Any, query)
    setattr(plain, FIRST, not cursor)
    asked = copy.copy(request)
    asked._request = plain
    return asked


@cache
def _columns(serializer: type[serializers.Serializer[Any]]) -> tuple[str, ...]:
    return tuple(_names(serializer(), ""))


def _names(serializer: serializers.Serializer[Any], before: str) -> list[str]:
    """Return the columns of a row: those of an object in it are "owner.name"."""
    found = []
    for name, field in serializer.fields.items():
        if isinstance(field, serializers.Serializer):
            found += _names(field, f"{before}{name}.")
        else:
            found.append(before + name)
    return found
