"""REST: images by name."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import acting
from skep_platform.core.api import AdminWrites, Body, page, validated
from skep_platform.core.schema import PAGE_PARAMETERS, page_of
from skep_platform.images import queries, services
from skep_platform.images.models import Image

TAGS = ["images"]
EVERYBODY = "Names; none listed: everybody may use it. You see those that you belong to."


class NamesField(serializers.ListField):
    child = serializers.CharField(max_length=63)


class ImageSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    reference = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    virtual_clusters = NamesField(help_text=EVERYBODY)
    created_at = serializers.DateTimeField()


class ImageBody(Body):
    name = serializers.CharField(max_length=63)
    reference = serializers.CharField(max_length=512)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    virtual_clusters = NamesField(max_length=500, required=False, help_text=EVERYBODY)


class ImageChange(Body):
    name = serializers.CharField(max_length=63, required=False)
    reference = serializers.CharField(max_length=512, required=False)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    virtual_clusters = NamesField(max_length=500, required=False, help_text=EVERYBODY)


class ImagesView(APIView):
    permission_classes = (AdminWrites,)

    @extend_schema(
        operation_id="list_images",
        parameters=PAGE_PARAMETERS,
        responses=page_of(ImageSerializer),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Those that you may use."""
        return page(self, request, queries.visible_to(request.user), _show, "name")

    @extend_schema(
        operation_id="create_image",
        request=ImageBody,
        responses={201: ImageSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        image = services.create(acting.admin(request), **validated(ImageBody, request))
        return _one(request, image.name, status=201)


class ImageView(APIView):
    @extend_schema(operation_id="get_image", responses=ImageSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        return _one(request, name)

    @extend_schema(
        operation_id="update_image", request=ImageChange, responses=ImageSerializer, tags=TAGS
    )
    def patch(self, request: Request, name: str) -> Response:
        image = queries.find(request.user, name)
        changes = validated(ImageChange, request, partial=True)
        image = services.update(acting.admin(request), image, **changes)
        return _one(request, image.name)

    @extend_schema(operation_id="delete_image", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Jobs that use its reference are not touched."""
        image = queries.find(request.user, name)
        services.delete(acting.admin(request), image)
        return Response(status=204)


def _one(request: Request, name: str, status: int = 200) -> Response:
    return Response(_show([queries.find(request.user, name)])[0], status=status)


def _show(images: list[Image]) -> list[Any]:
    rows = [
        {
            "name": image.name,
            "reference": image.reference,
            "description": image.description,
            "virtual_clusters": [vc.name for vc in image.known_vcs],  # type: ignore[attr-defined]
            "created_at": image.created_at,
        }
        for image in images
    ]
    return list(ImageSerializer(rows, many=True).data)
