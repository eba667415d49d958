"""REST: the limits of a virtual cluster."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting
from skep_platform.core.api import Body, validated
from skep_platform.core.errors import Forbidden
from skep_platform.tenancy import limits, queries
from skep_platform.tenancy.limits import LIMITS
from skep_platform.tenancy.models import VirtualCluster

TAGS = ["virtual-clusters"]


class LimitSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.IntegerField()
    default = serializers.IntegerField()
    minimum = serializers.IntegerField()
    maximum = serializers.IntegerField()
    unit = serializers.CharField(help_text='What the number counts; "switch" is 0 or 1.')
    description = serializers.CharField()
    is_set = serializers.BooleanField(help_text="Whether an admin set it; else it is the default.")


class LimitsSerializer(serializers.Serializer[Any]):
    limits = LimitSerializer(many=True)


class LimitBody(Body):
    value = serializers.IntegerField()


class LimitsView(APIView):
    @extend_schema(operation_id="list_limits", responses=LimitsSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        """All limits of a virtual cluster, for its managers and for admins."""
        vc = queries.find(request.user, name)
        if not queries.manages(request.user, vc):
            raise Forbidden(f"Only managers of {vc.name} and admins may see its limits.")
        return Response(LimitsSerializer({"limits": _rows(vc)}).data)


class LimitView(APIView):
    @extend_schema(
        operation_id="set_limit", request=LimitBody, responses=LimitSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str, limit: str) -> Response:
        """Set one limit. It holds for what is submitted from now on."""
        vc = queries.find(request.user, name)
        user = acting.admin(request)
        limits.set_limit(user, vc, limit, validated(LimitBody, request)["value"])
        return Response(_row(vc, limit))

    @extend_schema(operation_id="reset_limit", responses=LimitSerializer, tags=TAGS)
    def delete(self, request: Request, name: str, limit: str) -> Response:
        """Return one limit to its default."""
        vc = queries.find(request.user, name)
        limits.reset_limit(acting.admin(request), vc, limit)
        return Response(_row(vc, limit))


def _row(vc: VirtualCluster, name: str) -> Any:
    (row,) = (row for row in _rows(vc) if row["name"] == name)
    return LimitSerializer(row).data


def _rows(vc: VirtualCluster) -> list[dict[str, Any]]:
    own = limits.overrides(vc)
    return [
        {
            "name": name,
            "value": own.get(name, known.default),
            "default": known.default,
            "minimum": known.minimum,
            "maximum": known.maximum,
            "unit": known.unit,
            "description": known.description,
            "is_set": name in own,
        }
        for name, known in LIMITS.items()
    ]
