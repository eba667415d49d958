"""REST: the cluster's cells, who owns them, and the HiveD file that may say how they are laid
out."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting
from skep_platform.cells import assignment, layout, overview, physical, services
from skep_platform.cells.serializers import (
    AssignmentSerializer,
    CellsSerializer,
    CheckedAssignmentSerializer,
    PhysicalCellSerializer,
)
from skep_platform.core.api import IsAdmin, validated
from skep_platform.core.parsers import body_text, yaml_parsers
from skep_platform.core.schema import PAGE_PARAMETERS, page_of

TAGS = ["cells"]
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
        """All cell types, how many cells of each there are, and pinned cells."""
        return Response(overview.cells(request.user))


class PhysicalCellsView(APIView):
    @extend_schema(
        operation_id="list_physical_cells",
        parameters=[
            *PAGE_PARAMETERS,
            OpenApiParameter("chain", str),
            OpenApiParameter("under", str, description="Cells in the cell with this address."),
            OpenApiParameter("depth", int, description="Levels to tell: 1 (the default) to 16."),
        ],
        responses=page_of(PhysicalCellSerializer),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """The tops of all chains, or what is under a cell. If you are no admin: the cells that
        your virtual clusters have a place in."""
        query = PhysicalQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        return Response(physical.page(request, **query.validated_data))


class AssignmentView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_assignment", responses=AssignmentSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """What every virtual cluster owns."""
        return Response(assignment.show())

    @extend_schema(
        operation_id="set_assignment",
        request=AssignmentSerializer,
        responses=CheckedAssignmentSerializer,
        tags=TAGS,
    )
    def put(self, request: Request) -> Response:
        """Replaces all of it, or nothing. Nothing moves and nothing stops: running jobs whose
        cells are not their virtual cluster's any more go on as opportunistic ones."""
        body = validated(AssignmentSerializer, request)
        return Response(services.assign(acting.user(request), body))


class AssignmentCheckView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(
        operation_id="check_assignment",
        request=AssignmentSerializer,
        responses=CheckedAssignmentSerializer,
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Whether it fits, what would be left and who would notice. Changes nothing."""
        return Response(services.check(validated(AssignmentSerializer, request)))


class HivedView(APIView):
    permission_classes = (IsAdmin,)
    parser_classes = HIVED_PARSERS

    @extend_schema(
        operation_id="export_hived", responses={(200, "text/yaml"): OpenApiTypes.STR}, tags=TAGS
    )
    def get(self, request: Request) -> HttpResponse:
        """The whole configuration as a HiveD file, whether one was imported or not."""
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
        """Lays the nodes that the file names out as it says; others stay as their agents tell."""
        text, assign = body_text(request), _assign(request)
        return Response(layout.put(acting.user(request), text, assign=assign))

    @extend_schema(operation_id="delete_hived", responses={204: None}, tags=TAGS)
    def delete(self, request: Request) -> Response:
        """Back to what the agents tell. What virtual clusters own stays, as far as it exists."""
        layout.delete(acting.user(request))
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
        """All that is wrong with a file, or what importing it would do. Changes nothing."""
        return Response(layout.check(body_text(request), assign=_assign(request)))


def _assign(request: Request) -> bool:
    return request.query_params.get("assign", "") in ("1", "true")
