"""Rows for bulk statements as JSON: what has no form there is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from django.db.models import F, TextChoices

from skep_platform.core.bulk import UnstorableValue, encode


class State(TextChoices):
    OPEN = "open"


def test_values_of_columns_have_a_form():
    row = {
        "id": UUID(int=7),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "day": datetime(2026, 1, 2, tzinfo=UTC).date(),
        "cost": Decimal("1.50"),
        "state": State.OPEN,
        "data": {"list": [1, 2.5, None, True, "ä"]},
    }
    assert json.loads(encode([row])) == [
        {
            "id": "00000000-0000-0000-0000-000000000007",
            "at": "2026-01-02T00:00:00+00:00",
            "day": "2026-01-02",
            "cost": "1.50",
            "state": "open",
            "data": {"list": [1, 2.5, None, True, "ä"]},
        }
    ]


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"bytes", Path("/x"), F("id"), timedelta(1), lambda: 1, ValueError("x"),
     float("nan"), float("inf")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("place", [lambda v: v, lambda v: {"deep": [v]}], ids=["flat", "deep"])
def test_what_has_no_form_is_never_stored_as_its_repr(value, place):
    with pytest.raises(UnstorableValue):
        encode([{"id": 1, "data": place(value)}])
