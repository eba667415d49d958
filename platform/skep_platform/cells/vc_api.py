"""REST: what a virtual cluster owns and uses, who waits in it, and how that was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.cells import history, queue, virtual
from skep_platform.cells.serializers import (
    VcCellsSerializer,
    VcHistorySerializer,
    VcQueueSerializer,
)
from skep_platform.core.schema import PAGE_PARAMETERS
from skep_platform.tenancy import queries as tenancy

TAGS = ["virtual-clusters"]


class TreeQuery(serializers.Serializer[Any]):
    chain = serializers.CharField(required=False, default="")
    under = serializers.CharField(required=False, default="")
    after = serializers.CharField(required=False, default="")


class QueueQuery(serializers.Serializer[Any]):
    limit = serializers.IntegerField(min_value=1, max_value=100, default=50)
    cursor = serializers.IntegerField(min_value=0, max_value=1_000_000, default=0)


class HistoryQuery(serializers.Serializer[Any]):
    since = serializers.DateTimeField(required=False)
    step = serializers.IntegerField(min_value=60, max_value=86400 * 31, required=False)


class CellsView(APIView):
    @extend_schema(
        operation_id="get_vc_cells",
        parameters=[
            OpenApiParameter("chain", str, description="Only this chain."),
            OpenApiParameter("under", str, description="Only the cell with this address."),
            OpenApiParameter("after", str, description="Cells of the chain after this address."),
        ],
        responses=VcCellsSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Its cells by type, and as trees over the physical cells that they are bound to."""
        vc = tenancy.find(request.user, name)
        query = TreeQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        return Response(virtual.cells(request.user, vc, **query.validated_data))


class QueueView(APIView):
    @extend_schema(
        operation_id="get_vc_queue",
        parameters=PAGE_PARAMETERS,
        responses=VcQueueSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Who runs, and who waits in which order, with the starts that the scheduler expects."""
        vc = tenancy.find(request.user, name)
        query = QueueQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        return Response(queue.page(request, vc, **query.validated_data))


class HistoryView(APIView):
    @extend_schema(
        operation_id="get_vc_history",
        parameters=[
            OpenApiParameter("since", str, description="Default: a day ago."),
            OpenApiParameter("step", int, description="Seconds per point; may be made larger."),
        ],
        responses=VcHistorySerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """GPUs that it owned, used, borrowed and lent, by model."""
        vc = tenancy.find(request.user, name)
        query = HistoryQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        since = asked.get("since") or timezone.now() - timedelta(days=1)
        return Response(history.of(vc, since, asked.get("step", 0)))
