"""REST for agents, by the credential of their node: working files, and which scratch to keep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import IO
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.models import Q
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.authentication import get_authorization_header
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.core.errors import NotFound, SkepError, Unauthorized
from skep_platform.files import queries
from skep_platform.jobs.models import Job, JobFiles

PIECE = 256 * 1024
MAX_SCRATCH_JOBS = 200  # of a request


class AgentFilesView(APIView):
    """Serves archives of working files, by the credential of a node."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="agent_files",
        responses={(200, "application/gzip"): OpenApiTypes.BINARY},
        tags=["files"],
    )
    def get(self, request: Request, sha256: str) -> StreamingHttpResponse:
        """Return an archive while an attempt on this node uses it."""
        size = _size(asking_node(request), sha256)
        try:
            archive = queries.open_stored(sha256)
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


class KeptScratch(serializers.Serializer):
    keep = serializers.ListField(child=serializers.UUIDField())


class AgentScratchView(APIView):
    """Answers which scratch volumes a node keeps, by its credential."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="agent_scratch",
        parameters=[OpenApiParameter("job", {"type": "array", "items": {"type": "string"}})],
        responses=KeptScratch,
        tags=["files"],
    )
    def get(self, request: Request) -> Response:
        """Return those of the jobs with a task on this node that go on or ended not long ago."""
        node = asking_node(request)
        jobs = _ids(request.query_params.getlist("job"))
        since = timezone.now() - timedelta(seconds=settings.SKEP_SCRATCH_RETENTION_S)
        wanted = Q(finished_at=None) | Q(finished_at__gt=since)
        kept = Job.objects.filter(wanted, pk__in=jobs, attempts__node=node)
        return Response({"keep": sorted(map(str, set(kept.values_list("pk", flat=True))))})


def _ids(words: list[str]) -> list[UUID]:
    if len(words) > MAX_SCRATCH_JOBS:
        raise SkepError(f"At most {MAX_SCRATCH_JOBS} jobs at a time.", code="too_many_jobs")
    try:
        return [UUID(word) for word in words]
    except ValueError:
        raise SkepError("A job is named by its id.", code="invalid_job_id") from None
