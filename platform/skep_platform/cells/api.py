"""REST: the cluster's cells, who owns them, and the HiveD file that may say how they are laid out;
the cells, queue and history of a virtual cluster; draining of nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.cells import fairness, layout, queries, services
from skep_platform.cells.serializers import (
    AssignmentSerializer,
    CellsSerializer,
    CheckedAssignmentSerializer,
    NodeForecastSerializer,
    PhysicalCellSerializer,
    VcCellsSerializer,
    VcFairnessSerializer,
    VcHistorySerializer,
    VcQueueSerializer,
)
from skep_platform.cluster import queries as cluster
from skep_platform.cluster import services as nodes
from skep_platform.cluster.api import NodeSerializer, ReasonBody, reason_of, show_one
from skep_platform.core.api import IsAdmin, parameters, validated
from skep_platform.core.paging import PAGE_PARAMETERS, numbered_page, paged
from skep_platform.core.parsers import body_text, yaml_parsers
from skep_platform.tenancy import queries as tenancy

TAGS = ["cells"]
VC_TAGS = ["virtual-clusters"]
NODE_TAGS = ["nodes"]
HIVED_FILE = {"text/yaml": OpenApiTypes.STR}
# Ten thousand nodes, each with its address, and twice that.
MAX_HIVED_BYTES = 1024 * 1024
HIVED_PARSERS = yaml_parsers("A HiveD file", MAX_HIVED_BYTES, "layout_too_large")
ASSIGN = OpenApiParameter(
    "assign", bool, description="1: also the virtual clusters of the file; missing ones are made."
)


class PhysicalQuery(serializers.Serializer[Any]):
    chain = serializers.CharField(required=False, default="")
    under = serializers.CharField(required=False, default="", help_text="Address of a cell.")
    depth = serializers.IntegerField(
        min_value=1, max_value=16, default=1, help_text="Levels: 1 is the cells alone."
    )
    limit = serializers.IntegerField(min_value=1, max_value=500, default=100)
    cursor = serializers.IntegerField(min_value=0, default=0)


class CellsView(APIView):
    @extend_schema(operation_id="get_cells", responses=CellsSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """Return all cell types, how many cells of each there are, and pinned cells."""
        return Response(queries.overview(request.user))


class PhysicalCellsView(APIView):
    @paged(
        "list_physical_cells",
        PhysicalCellSerializer,
        TAGS,
        OpenApiParameter("chain", str),
        OpenApiParameter("under", str, description="Cells in the cell with this address."),
        OpenApiParameter("depth", int, description="Levels to show: 1 (the default) to 16."),
    )
    def get(self, request: Request) -> Response:
        """The tops of all chains, or what is under a cell. If you are no admin: the cells that
        your virtual clusters have a place in."""
        query = parameters(PhysicalQuery, request)
        return Response(queries.physical_page(request, **query))


class AssignmentView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_assignment", responses=AssignmentSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """Return what every virtual cluster owns."""
        return Response(services.show())

    @extend_schema(
        operation_id="set_assignment",
        request=AssignmentSerializer,
        responses=CheckedAssignmentSerializer,
        tags=TAGS,
    )
    def put(self, request: Request) -> Response:
        """Replace all of it, or nothing. Nothing moves and nothing stops: running jobs whose
        cells are not their virtual cluster's any more go on as opportunistic ones."""
        body = validated(AssignmentSerializer, request)
        return Response(services.assign(current_user.user(request), body))


class AssignmentCheckView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="check_assignment",
        request=AssignmentSerializer,
        responses=CheckedAssignmentSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Check whether it fits, what would be left, and which jobs it would affect. Changes
        nothing."""
        return Response(services.check(validated(AssignmentSerializer, request)))


class HivedView(APIView):
    permission_classes = (IsAdmin,)
    parser_classes = HIVED_PARSERS

    @extend_schema(
        operation_id="export_hived", responses={(200, "text/yaml"): OpenApiTypes.STR}, tags=TAGS
    )
    def get(self, request: Request) -> HttpResponse:
        """Return the whole configuration as a HiveD file, whether one was imported or not."""
        text = layout.export()
        name = {"Content-Disposition": 'attachment; filename="hivedscheduler.yaml"'}
        return HttpResponse(text, content_type="text/yaml; charset=utf-8", headers=name)

    @extend_schema(
        operation_id="import_hived",
        request=HIVED_FILE,
        parameters=[ASSIGN],
        responses=CheckedAssignmentSerializer,
        tags=TAGS,
    )
    def put(self, request: Request) -> Response:
        """Lay out the nodes that the file names as it says; others stay as their agents report."""
        text, assign = body_text(request), _assign(request)
        return Response(layout.put(current_user.user(request), text, assign=assign))

    @extend_schema(operation_id="delete_hived", responses={204: None}, tags=TAGS)
    def delete(self, request: Request) -> Response:
        """Lay all nodes out as their agents report. What virtual clusters own stays, as far as it
        exists."""
        layout.delete(current_user.user(request))
        return Response(status=204)


class HivedCheckView(APIView):
    permission_classes = (IsAdmin,)
    parser_classes = HIVED_PARSERS

    @extend_schema(
        operation_id="check_hived",
        request=HIVED_FILE,
        parameters=[ASSIGN],
        responses=CheckedAssignmentSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Return all that is wrong with a file, or what importing it would do. Changes nothing."""
        return Response(layout.check(body_text(request), assign=_assign(request)))


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


class VcCellsView(APIView):
    @extend_schema(
        operation_id="get_vc_cells",
        parameters=[
            OpenApiParameter("chain", str, description="Only this chain."),
            OpenApiParameter("under", str, description="Only the cell with this address."),
            OpenApiParameter("after", str, description="Cells of the chain after this address."),
        ],
        responses=VcCellsSerializer,
        tags=VC_TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Its cells by type, and as trees over the physical cells that they are bound to."""
        vc = tenancy.find(request.user, name)
        query = parameters(TreeQuery, request)
        return Response(queries.virtual_cells(request.user, vc, **query))


class QueueView(APIView):
    @extend_schema(
        operation_id="get_vc_queue",
        parameters=PAGE_PARAMETERS,
        responses=VcQueueSerializer,
        tags=VC_TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Who runs, and who waits in which order, with the starts that the scheduler expects."""
        vc = tenancy.find(request.user, name)
        query = parameters(QueueQuery, request)
        return Response(queries.queue_page(request, vc, **query))


class HistoryView(APIView):
    @extend_schema(
        operation_id="get_vc_history",
        parameters=[
            OpenApiParameter("since", str, description="Default: a day ago."),
            OpenApiParameter("step", int, description="Seconds per point; may be made larger."),
        ],
        responses=VcHistorySerializer,
        tags=VC_TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the GPUs that it owned, used, borrowed and lent, by model."""
        vc = tenancy.find(request.user, name)
        query = parameters(HistoryQuery, request)
        since = query.get("since") or timezone.now() - timedelta(days=1)
        return Response(queries.history(vc, since, query.get("step", 0)))


class FairnessQuery(QueueQuery):
    days = serializers.IntegerField(min_value=1, max_value=fairness.MAX_DAYS, default=fairness.DAYS)


class FairnessView(APIView):
    @extend_schema(
        operation_id="get_vc_fairness",
        parameters=[FairnessQuery],
        responses=VcFairnessSerializer,
        tags=VC_TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the finish-time fairness of each user: by what factor jobs of the last days took
        longer than on an equal share of the GPUs. Others than VC admins see the own row only."""
        vc = tenancy.find(request.user, name)
        query = parameters(FairnessQuery, request)
        found = fairness.of_vc(request.user, vc, query["days"])
        users, first, limit = found.pop("users"), query["cursor"], query["limit"]
        more = first + limit < len(users)
        rows = users[first : first + limit]
        return Response(found | numbered_page(request, rows, first, limit, more=more))


class ForecastQuery(serializers.Serializer[Any]):
    action = serializers.ChoiceField(list(services.ACTIONS), default="drain")


class DrainView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="drain_node", request=ReasonBody, responses=NodeSerializer, tags=NODE_TAGS
    )
    def post(self, request: Request, name: str) -> Response:
        """Place nothing new on the node, and ask what runs there to leave: gracefully, and back
        into the queue at its old place."""
        services.drain(current_user.user(request), name, reason_of(request))
        return _one(request, name)


class UndrainView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="undrain_node", request=None, responses=NodeSerializer, tags=NODE_TAGS
    )
    def post(self, request: Request, name: str) -> Response:
        """Put the node to use again, as uncordon does. Jobs that were asked to go still go."""
        nodes.uncordon(current_user.user(request), name)
        return _one(request, name)


class ForecastView(APIView):
    @extend_schema(
        operation_id="forecast_node",
        parameters=[OpenApiParameter("action", str, enum=list(services.ACTIONS))],
        responses=NodeForecastSerializer,
        tags=NODE_TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Return which jobs and virtual clusters draining, cordoning or removing this node would
        affect. Changes nothing."""
        query = parameters(ForecastQuery, request)
        return Response(services.forecast_drain(request.user, cluster.find(name), query["action"]))


def _assign(request: Request) -> bool:
    return request.query_params.get("assign", "") in ("1", "true")


def _one(request: Request, name: str) -> Response:
    return Response(show_one(request.user, name))
