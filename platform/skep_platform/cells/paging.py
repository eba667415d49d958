"""Pages of what is made from memory: they begin at a number."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.utils.urls import remove_query_param, replace_query_param


def answer(
    request: Request, rows: list[Any], cursor: int, limit: int, *, more: bool
) -> dict[str, Any]:
    """{"results", "next", "previous"}, as every page."""
    before = max(cursor - limit, 0)
    return {
        "results": rows,
        "next": link(request, cursor + len(rows)) if more else None,
        "previous": link(request, before) if cursor else None,
    }


def link(request: Request, cursor: int) -> str:
    url = request.build_absolute_uri()
    return str(
        replace_query_param(url, "cursor", cursor) if cursor else remove_query_param(url, "cursor")
    )
