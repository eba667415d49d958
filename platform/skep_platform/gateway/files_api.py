"""REST for agents: the working files of the attempts that they run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import get_authorization_header
from rest_framework.request import Request
from rest_framework.views import APIView

from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.core.errors import NotFound, Unauthorized
from skep_platform.files import storing
from skep_platform.jobs.models import JobFiles

PIECE = 256 * 1024


class AgentFilesView(APIView):
    """By the credential of a node."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="agent_files",
        responses={(200, "application/gzip"): OpenApiTypes.BINARY},
        tags=["files"],
    )
    def get(self, request: Request, sha256: str) -> StreamingHttpResponse:
        """An archive, while an attempt on this node uses it."""
        size = _size(asking_node(request), sha256)
        try:
            archive = storing.opened(sha256)
        except FileNotFoundError:
            raise NotFound("The archive is not here any more; upload it again.") from None
        response = StreamingHttpResponse(_pieces(archive), content_type="application/gzip")
        response["Content-Length"] = str(size)
        return response


def asking_node(request: Request) -> Node:
    """Return the node whose credential the request carries. Raises Unauthorized."""
    scheme, _, credential = get_authorization_header(request).decode("latin-1").partition(" ")
    node = cluster.authenticate_node(credential.strip()) if scheme.lower() == "bearer" else None
    if node is None:
        raise Unauthorized("The credential is missing, unknown, or its node was removed.")
    return node


def _size(node: Node, sha256: str) -> int:
    used = JobFiles.objects.filter(
        archive__sha256=sha256, job__attempts__node=node, job__attempts__released_at=None
    )
    size = used.values_list("archive__size", flat=True).first()
    if size is None:
        raise NotFound("No attempt on this node uses such an archive.")
    return size


async def _pieces(archive: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while piece := await sync_to_async(archive.read)(PIECE):
            yield piece
    finally:
        await sync_to_async(archive.close)()
