"""What drf-spectacular cannot see by itself: every operation may answer with a typed error."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
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
            operation["responses"].setdefault("default", self._error())
        return operation

    def _error(self) -> dict[str, Any]:
        schema = self._map_serializer_or_ref()
        return {"description": "Refused", "content": {"application/json": {"schema": schema}}}

    def _map_serializer_or_ref(self) -> dict[str, Any]:
        return self.resolve_serializer(ErrorSerializer, "response").ref
