"""Rows as CSV (RFC 4180) that a spreadsheet reads as data, never as formulas."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

CONTENT_TYPE = "text/csv; charset=utf-8"
# A cell that begins with one of these is a formula to spreadsheets (OWASP, "CSV injection").
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(lines: Iterable[Iterable[Any]]) -> str:
    """Return these lines of values as a part of a file."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([_cell(value) for value in line] for line in lines)
    return text.getvalue()


def flat_value(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column such as "owner.name" in a row as the API shows it. A list of
    plain values is joined by "; ", and whatever else has parts is JSON."""
    value: Any = row
    for name in column.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return "; ".join(map(str, value))
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return value


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value
