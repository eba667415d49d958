"""REST: datasets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.core.throttling import Searches
from skep_platform.storage import datasets
from skep_platform.storage.models import Dataset
from skep_platform.tenancy import queries as tenancy

TAGS = ["datasets"]
PATH = "Folder of the storage, such as runs/42; where users have folders of their own, of yours."


class DatasetSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    virtual_cluster = serializers.CharField(help_text="Its jobs may mount it.")
    name = serializers.CharField()
    version = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    storage = serializers.CharField()
    path = serializers.CharField(allow_blank=True, help_text="Folder of the storage.")
    owner = serializers.CharField(allow_null=True)
    job_id = serializers.UUIDField(allow_null=True, help_text="The job whose outputs it is.")
    job_name = serializers.CharField(allow_blank=True)
    size = serializers.IntegerField(
        allow_null=True, help_text="Bytes when it was made; null: they were not counted."
    )
    files = serializers.IntegerField(allow_null=True, help_text="Files when it was made.")
    may_change = serializers.BooleanField(help_text="Whether you may describe and remove it.")
    created_at = serializers.DateTimeField()


class DatasetBody(Body):
    virtual_cluster = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=63)
    version = serializers.CharField(
        max_length=63, required=False, allow_blank=True, help_text="Without it the next number."
    )
    storage = serializers.CharField(max_length=63)
    path = serializers.CharField(max_length=1024, required=False, allow_blank=True, help_text=PATH)
    description = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    job = serializers.UUIDField(required=False, help_text="The job whose outputs it is.")


class DatasetChange(Body):
    description = serializers.CharField(max_length=2000, allow_blank=True)


class DatasetsView(APIView):
    token_scope = Scope.SUBMIT
    throttle_classes = (Searches,)

    @paged(
        "list_datasets",
        DatasetSerializer,
        TAGS,
        OpenApiParameter("virtual_cluster", str, description="Only those of this one."),
        OpenApiParameter("name", str, description="Only the versions of this one."),
        OpenApiParameter(
            "search", str, description="Words in name, description, virtual cluster or owner."
        ),
    )
    def get(self, request: Request) -> Response:
        """List the datasets of your virtual clusters, the newest first; all for an admin."""
        rows = datasets.visible_to(request.user)
        if vc := request.query_params.get("virtual_cluster", ""):
            rows = rows.filter(vc__name=vc)
        if name := request.query_params.get("name", ""):
            rows = rows.filter(name=name)
        rows = datasets.search(rows, request.query_params.get("search", "")[:255])
        return page(request, rows, lambda found: _show(request, found), "-id")

    @extend_schema(
        operation_id="create_dataset",
        request=DatasetBody,
        responses={201: DatasetSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Make a dataset of a folder of a storage that you may read."""
        made = datasets.create(current_user.user(request), **validated(DatasetBody, request))
        return Response(_show(request, [made])[0], status=201)


class DatasetView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(operation_id="get_dataset", responses=DatasetSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        return Response(_show(request, [datasets.find(request.user, id)])[0])

    @extend_schema(
        operation_id="update_dataset",
        request=DatasetChange,
        responses=DatasetSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, id: UUID) -> Response:
        """Change the description of a dataset. Everything else of a version stays."""
        dataset = datasets.find(request.user, id)
        user, body = current_user.user(request), validated(DatasetChange, request)
        return Response(_show(request, [datasets.describe(user, dataset, **body)])[0])

    @extend_schema(operation_id="delete_dataset", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Delete a dataset, and nothing of its files."""
        datasets.delete(current_user.user(request), datasets.find(request.user, id))
        return Response(status=204)


def _show(request: Request, found: list[Dataset]) -> list[Any]:
    managed = set(tenancy.managed_by(request.user))
    rows = [
        {
            "id": one.pk,
            "virtual_cluster": one.vc.name,
            "name": one.name,
            "version": one.version,
            "description": one.description,
            "storage": one.storage.name,
            "path": one.folder,
            "owner": one.owner.get_username() if one.owner else None,
            "job_id": one.job_id,
            "job_name": one.job_name,
            "size": one.size,
            "files": one.files,
            "may_change": datasets.may_change(request.user, one, managed),
            "created_at": one.created_at,
        }
        for one in found
    ]
    return list(DatasetSerializer(rows, many=True).data)
