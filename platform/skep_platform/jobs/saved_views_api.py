"""REST: the saved views of the caller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.jobs import filters, saved_views
from skep_platform.jobs.api import ORDERINGS, TAGS
from skep_platform.jobs.saved_views import SavedView


def _text(help_text: str = "") -> serializers.CharField:
    return serializers.CharField(required=False, max_length=500, help_text=help_text)


class JobFiltersSerializer(Body):
    state = _text("This and all that follow: as parameters of `GET /jobs`.")
    virtual_cluster = _text()
    owner = _text()
    tag = _text()
    search = _text()
    shared = serializers.BooleanField(required=False)
    cause = _text()
    since = _text()
    until = _text()
    ordering = _text()


class SavedViewBodySerializer(Body):
    name = serializers.CharField(max_length=SavedView.MAX_NAME)
    filters = JobFiltersSerializer()


class SavedViewSerializer(serializers.Serializer[SavedView]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    filters = JobFiltersSerializer()
    updated_at = serializers.DateTimeField()


class SavedViewsSerializer(serializers.Serializer[Any]):
    views = SavedViewSerializer(many=True)


class SavedViewsView(APIView):
    @extend_schema(operation_id="list_saved_views", responses=SavedViewsSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """List your saved views of the list of jobs by name, at most 50."""
        found = saved_views.of_user(current_user.user(request))
        return Response(SavedViewsSerializer({"views": found}).data)

    @extend_schema(
        operation_id="save_view",
        request=SavedViewBodySerializer,
        responses={201: SavedViewSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Keep filters of the list of jobs under a name; what you have under it is replaced."""
        asked = validated(SavedViewBodySerializer, request)
        filters.check(asked["filters"])
        if ordering := asked["filters"].get("ordering"):
            filters.one_of("ordering", ordering.removeprefix("-"), ORDERINGS)
        found = saved_views.save(current_user.user(request), **asked)
        return Response(SavedViewSerializer(found).data, status=201)


class SavedViewView(APIView):
    @extend_schema(operation_id="delete_saved_view", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Delete one of your saved views."""
        saved_views.delete(current_user.user(request), id)
        return Response(status=204)
