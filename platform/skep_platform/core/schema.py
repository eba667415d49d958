"""What drf-spectacular cannot see by itself: every operation may answer with a typed error."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers


class ErrorSerializer(serializers.Serializer[Any]):
    """Every refusal has this shape. `code` is stable, `message` says what to do."""

    code = serializers.CharField()
    message = serializers.CharField()
    details = serializers.DictField()


class Schema(AutoSchema):
    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None:
            schema = self.resolve_serializer(ErrorSerializer, "response").ref
            content = {"application/json": {"schema": schema}}
            error = {"description": "Refused.", "content": content}
            operation["responses"].setdefault("default", error)
        return operation


PAGE_PARAMETERS = [
    OpenApiParameter("limit", int, description="Rows per page, at most 500 (default 50)."),
    OpenApiParameter("cursor", str, description="From `next` or `previous` of another page."),
]


def page_of(serializer: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """The shape of a page of these, for `extend_schema(responses=...)`."""
    return inline_serializer(
        name=serializer.__name__.removesuffix("Serializer") + "Page",
        fields={
            "results": serializer(many=True),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
        },
    )
