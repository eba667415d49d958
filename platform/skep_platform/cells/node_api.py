"""REST: taking a node out of use, and who would notice."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting
from skep_platform.cells import draining, node_forecast
from skep_platform.cells.serializers import NodeForecastSerializer
from skep_platform.cluster import queries as cluster
from skep_platform.cluster import services
from skep_platform.cluster.api import NodeSerializer, show
from skep_platform.core.api import IsAdmin

TAGS = ["nodes"]


class ForecastQuery(serializers.Serializer[Any]):
    action = serializers.ChoiceField(list(node_forecast.ACTIONS), default="drain")


class DrainView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="drain_node", request=None, responses=NodeSerializer, tags=TAGS)
    def post(self, request: Request, name: str) -> Response:
        """Nothing new is placed there, and what runs is asked to go: gracefully, and back into
        the queue at its old place."""
        draining.drain(acting.user(request), name)
        return _one(request, name)


class UndrainView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="undrain_node", request=None, responses=NodeSerializer, tags=TAGS)
    def post(self, request: Request, name: str) -> Response:
        """The same as uncordon. Jobs that were asked to go still go."""
        services.uncordon(acting.user(request), name)
        return _one(request, name)


class ForecastView(APIView):
    @extend_schema(
        operation_id="forecast_node",
        parameters=[OpenApiParameter("action", str, enum=list(node_forecast.ACTIONS))],
        responses=NodeForecastSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Whom it would touch to drain, cordon or remove this node. Changes nothing."""
        query = ForecastQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        action = query.validated_data["action"]
        return Response(node_forecast.of(request.user, cluster.find(name), action))


def _one(request: Request, name: str) -> Response:
    return Response(show(request.user, [cluster.find(name)])[0])
