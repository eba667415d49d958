"""Rows are shown as REST framework's own serializers show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from rest_framework import serializers

from skep_platform.core.rendering import renderer


class InnerSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()


class RowSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    owner = serializers.CharField(source="owner.username")
    state = serializers.ChoiceField([("A", "a"), ("B", "b")])
    number = serializers.IntegerField()
    share = serializers.FloatField()
    good = serializers.BooleanField()
    at = serializers.DateTimeField(allow_null=True)
    tags = serializers.ListField(child=serializers.CharField())
    reason = InnerSerializer(allow_null=True)
    twice = serializers.SerializerMethodField()
    size = serializers.IntegerField(default=7)
    left_out = serializers.IntegerField(required=False)

    def get_twice(self, row: Any) -> int:
        return 2 * (row["number"] if isinstance(row, dict) else row.number)


ROW = {
    "id": UUID(int=5),
    "owner": SimpleNamespace(username="alice"),
    "state": "A",
    "number": 3,
    "share": 0.5,
    "good": True,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    "tags": ["x"],
    "reason": {"code": "quota"},
}
UNUSUAL = {
    "id": str(UUID(int=6)),
    "state": "",
    "number": "4",
    "share": 1,
    "good": "false",
    "at": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    "reason": None,
    "size": lambda: 9,
}


@pytest.mark.parametrize("changes", [{}, UNUSUAL, {"at": None, "left_out": 1, "number": None}])
def test_a_row_is_shown_as_its_serializer_shows_it(changes: dict[str, Any]) -> None:
    row = ROW | changes
    if row["number"] is None:
        row |= {"number": 0, "share": None}
    for given in (SimpleNamespace(**row), row):
        assert renderer(RowSerializer())(given) == RowSerializer().to_representation(given)


def test_what_a_row_lacks_is_an_error_as_before() -> None:
    with pytest.raises(KeyError):
        renderer(InnerSerializer())({})
