"""REST: images by name."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.images import inspection, queries, rules, services
from skep_platform.images.models import Image
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.api import vc_admin

TAGS = ["images"]
DETAILS = (
    *("description", "framework", "cuda_version", "min_driver"),
    *("digest", "size", "problem", "inspected_at"),
)
EVERYBODY = "Names; none listed: every user may use it. You see those that you belong to."


class NamesField(serializers.ListField):
    child = serializers.CharField(max_length=63)


class ImageSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    reference = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    framework = serializers.CharField(allow_blank=True)
    cuda_version = serializers.CharField(allow_blank=True)
    min_driver = serializers.CharField(
        allow_blank=True, help_text="The least version of NVIDIA's driver that it runs with."
    )
    digest = serializers.CharField(allow_blank=True, help_text="What its registry said last.")
    size = serializers.IntegerField(
        allow_null=True, help_text="Bytes of its compressed layers; null: not known."
    )
    problem = serializers.CharField(
        allow_blank=True, help_text="Why its registry said nothing of it."
    )
    inspected_at = serializers.DateTimeField(
        allow_null=True, help_text="When its registry was asked last."
    )
    managed_by = serializers.CharField(
        allow_blank=True,
        help_text="The virtual cluster whose VC admins may change it; empty: only admins may.",
    )
    virtual_clusters = NamesField(help_text=EVERYBODY)
    nodes = serializers.IntegerField(help_text="How many nodes hold it.")
    newest_driver = serializers.CharField(
        allow_blank=True,
        help_text="The newest driver of any node, where it is older than `min_driver`.",
    )
    created_at = serializers.DateTimeField()


class ImageBody(Body):
    name = serializers.CharField(max_length=63)
    reference = serializers.CharField(max_length=512)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    framework = serializers.CharField(max_length=60, allow_blank=True, required=False)
    cuda_version = serializers.CharField(max_length=20, allow_blank=True, required=False)
    min_driver = serializers.CharField(max_length=32, allow_blank=True, required=False)
    virtual_clusters = NamesField(max_length=500, required=False, help_text=EVERYBODY)
    managed_by = serializers.CharField(
        max_length=63,
        allow_blank=True,
        required=False,
        help_text="A virtual cluster: the image is for it alone, and its VC admins may change it.",
    )


class ImageChange(Body):
    name = serializers.CharField(max_length=63, required=False)
    reference = serializers.CharField(max_length=512, required=False)
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    framework = serializers.CharField(max_length=60, allow_blank=True, required=False)
    cuda_version = serializers.CharField(max_length=20, allow_blank=True, required=False)
    min_driver = serializers.CharField(max_length=32, allow_blank=True, required=False)
    virtual_clusters = NamesField(max_length=500, required=False, help_text=EVERYBODY)


class PatternsField(serializers.ListField):
    child = serializers.CharField(max_length=512)


class ImageRulesSerializer(serializers.Serializer[Any]):
    patterns = PatternsField(help_text="None: jobs may use every image.")


class ImageRulesBody(Body):
    patterns = PatternsField(
        max_length=500,
        help_text="Such as pytorch/*, registry.example.org/vision/*:1.* or NAME@sha256:….",
    )


class ImageRulesCheckQuery(Body):
    image = serializers.CharField(max_length=512, help_text="A reference, or a catalogue name.")


class ImageRulesCheckSerializer(serializers.Serializer[Any]):
    image = serializers.CharField(help_text="The reference; that of a name of the catalogue.")
    allowed = serializers.BooleanField()
    patterns = PatternsField(help_text="Those that match.")
    reason = serializers.CharField(allow_blank=True, help_text="Why it is not allowed.")


class ImagesView(APIView):
    @paged("list_images", ImageSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the images that you may use."""
        return page(request, queries.visible_to(request.user), _show, "name")

    @extend_schema(
        operation_id="create_image",
        request=ImageBody,
        responses={201: ImageSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Add an image to the catalogue. For admins; with `managed_by` also for the VC admins of
        that virtual cluster."""
        image = services.create(current_user.user(request), **validated(ImageBody, request))
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
        image = services.update(current_user.user(request), image, **changes)
        return _one(request, image.name)

    @extend_schema(operation_id="delete_image", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Delete an image. Jobs that use its reference are not touched."""
        image = queries.find(request.user, name)
        services.delete(current_user.user(request), image)
        return Response(status=204)


class ImageInspectView(APIView):
    @extend_schema(operation_id="inspect_image", request=None, responses=ImageSerializer, tags=TAGS)
    def post(self, request: Request, name: str) -> Response:
        """Ask the registry for digest and size of an image now; takes up to 10 seconds. For those
        who may change it."""
        image = queries.find(request.user, name)
        services.check_may_change(current_user.user(request), image)
        inspection.inspect_now(image)
        return _one(request, name)


class ImageRulesCheckView(APIView):
    @extend_schema(
        operation_id="check_image_rules",
        parameters=[ImageRulesCheckQuery],
        responses=ImageRulesCheckSerializer,
        tags=["virtual-clusters"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Return whether jobs of a virtual cluster may use an image."""
        vc = tenancy.find(request.user, name)
        body = ImageRulesCheckQuery(data=request.query_params)
        body.is_valid(raise_exception=True)
        found = rules.check(vc, queries.reference_of(vc, body.validated_data["image"]))
        return Response(ImageRulesCheckSerializer(found).data)


class ImageRulesView(APIView):
    @extend_schema(
        operation_id="get_image_rules", responses=ImageRulesSerializer, tags=["virtual-clusters"]
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the patterns of images that jobs of a virtual cluster may use."""
        vc = tenancy.find(request.user, name)
        return Response(ImageRulesSerializer({"patterns": rules.of(vc)}).data)

    @extend_schema(
        operation_id="set_image_rules",
        request=ImageRulesBody,
        responses=ImageRulesSerializer,
        tags=["virtual-clusters"],
    )
    def put(self, request: Request, name: str) -> Response:
        """Replace the patterns, for jobs that are submitted from now on. For VC admins."""
        vc = tenancy.find(request.user, name)
        vc_admin(request, vc)
        patterns = rules.replace(vc, validated(ImageRulesBody, request)["patterns"])
        return Response(ImageRulesSerializer({"patterns": patterns}).data)


def _one(request: Request, name: str, status: int = 200) -> Response:
    return Response(_show([queries.find(request.user, name)])[0], status=status)


def _show(images: list[Image]) -> list[Any]:
    drivers = queries.drivers_too_old({image.min_driver for image in images})
    held = queries.nodes_holding([image.reference for image in images])
    rows = [
        {
            "name": image.name,
            "nodes": held[image.reference],
            "newest_driver": drivers.get(image.min_driver, ""),
            "reference": image.reference,
            **{name: getattr(image, name) for name in DETAILS},
            "managed_by": image.managed_by.name if image.managed_by else "",
            "virtual_clusters": [vc.name for vc in image.known_vcs],  # type: ignore[attr-defined]
            "created_at": image.created_at,
        }
        for image in images
    ]
    return list(ImageSerializer(rows, many=True).data)
