"""REST: which nodes hold which images, and images that are pulled to nodes in advance."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_agent.image_patterns import listed_name
from skep_platform.accounts import current_user
from skep_platform.cluster import queries as cluster
from skep_platform.cluster.models import NodeState
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.images import prefetching, queries
from skep_platform.images.models import NodeImage, NodePrefetch, Prefetch, PrefetchState
from skep_platform.images.prefetching import DEFAULT_HOURS, MAX_HOURS
from skep_platform.tenancy import queries as tenancy

TAGS = ["images"]


class NodeImageSerializer(serializers.Serializer[Any]):
    reference = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes on the disk of the node.")
    image = serializers.CharField(
        allow_blank=True, help_text="Its name in the catalogue; empty: it is not there."
    )


class ImageNodeSerializer(serializers.Serializer[Any]):
    node = serializers.CharField(source="node.name")
    size = serializers.IntegerField(help_text="Bytes on the disk of the node.")


class PrefetchBody(Body):
    virtual_cluster = serializers.CharField(
        max_length=63,
        required=False,
        allow_blank=True,
        help_text="To the nodes on which it has its cells; its rules for images hold.",
    )
    nodes = serializers.ListField(
        child=serializers.CharField(max_length=63),
        max_length=5000,
        required=False,
        help_text="To these alone. Without a virtual cluster for admins.",
    )
    hours = serializers.IntegerField(
        min_value=1,
        max_value=MAX_HOURS,
        default=DEFAULT_HOURS,
        help_text="What is not pulled by then is given up.",
    )


class PrefetchSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    image = serializers.CharField(help_text="Its name in the catalogue at that time.")
    reference = serializers.CharField()
    virtual_cluster = serializers.CharField(
        source="vc.name", default="", help_text="Empty: of no virtual cluster."
    )
    created_by = serializers.CharField(source="created_by.username", default="")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    waiting = serializers.IntegerField(help_text="Nodes; so are the next three.")
    pulling = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField()


class NodePrefetchSerializer(serializers.Serializer[Any]):
    node = serializers.CharField(source="node.name")
    state = serializers.ChoiceField(PrefetchState.choices)
    percent = serializers.IntegerField()
    done_bytes = serializers.IntegerField()
    total_bytes = serializers.IntegerField(allow_null=True, help_text="Null: not known yet.")
    message = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    updated_at = serializers.DateTimeField()


class NodeImagesView(APIView):
    @paged("list_node_images", NodeImageSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the images on a node, as its agent reported them: all for admins, else those of the
        catalogue that you may use."""
        node = cluster.find(name)
        names = queries.names_by_listed(request.user)
        rows = NodeImage.objects.filter(node=node.pk)
        if not tenancy.is_admin(request.user):
            rows = rows.filter(reference__in=names)

        def show(found: list[NodeImage]) -> list[Any]:
            known = [
                {"reference": o.reference, "size": o.size, "image": names.get(o.reference, "")}
                for o in found
            ]
            return list(NodeImageSerializer(known, many=True).data)

        return page(request, rows, show, "reference")


class ImageNodesView(APIView):
    @paged("list_image_nodes", ImageNodeSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the nodes that hold an image."""
        image = queries.find(request.user, name)
        rows = NodeImage.objects.filter(reference=listed_name(image.reference))
        rows = rows.exclude(node__state=NodeState.REMOVED).select_related("node")
        return page(
            request, rows, lambda found: list(ImageNodeSerializer(found, many=True).data), "id"
        )


class ImagePrefetchesView(APIView):
    @extend_schema(
        operation_id="prefetch_image",
        request=PrefetchBody,
        responses={201: PrefetchSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, name: str) -> Response:
        """Ask that an image be pulled to nodes before jobs need it. For admins; VC admins name a
        virtual cluster."""
        image = queries.find(request.user, name)
        user = current_user.user(request)
        made = prefetching.request(user, image, **validated(PrefetchBody, request))
        found = prefetching.find(request.user, made.pk)
        return Response(PrefetchSerializer(found).data, status=201)


class PrefetchesView(APIView):
    @paged("list_prefetches", PrefetchSerializer, TAGS)
    def get(self, request: Request) -> Response:
        """List the prefetches of the last days, the newest first: all for admins, else those of
        virtual clusters that you manage."""
        return page(
            request, prefetching.visible_to(request.user), _show, "created_at", "id",
            descending=True,
        )  # fmt: skip


class PrefetchView(APIView):
    @extend_schema(operation_id="cancel_prefetch", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Cancel what is not pulled yet; images that are there stay."""
        prefetch = prefetching.find(request.user, id)
        prefetching.cancel(current_user.user(request), prefetch)
        return Response(status=204)


class PrefetchNodesView(APIView):
    @paged("list_prefetch_nodes", NodePrefetchSerializer, TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """List how far a prefetch is on each node."""
        prefetch = prefetching.find(request.user, id)
        rows = NodePrefetch.objects.filter(prefetch=prefetch).select_related("node")
        return page(
            request, rows, lambda found: list(NodePrefetchSerializer(found, many=True).data), "id"
        )


def _show(found: list[Prefetch]) -> list[Any]:
    return list(PrefetchSerializer(found, many=True).data)
