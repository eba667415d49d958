"""The sums of usage as a CSV file to download."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from skep_platform.core.csv_files import CONTENT_TYPE, csv_text


def csv_response(
    filename: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> HttpResponse:
    """Return a file to download with a line of column names."""
    lines = ([row.get(column) for column in columns] for row in rows)
    answer = HttpResponse(csv_text([columns]) + csv_text(lines), content_type=CONTENT_TYPE)
    answer["Content-Disposition"] = content_disposition_header(True, filename) or "attachment"
    return answer
