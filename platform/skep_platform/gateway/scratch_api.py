"""REST for agents: of which jobs the scratch is still wanted."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.errors import SkepError
from skep_platform.gateway.files_api import asking_node
from skep_platform.jobs.models import Job

MOST = 200  # jobs of a request


class KeptScratch(serializers.Serializer):
    keep = serializers.ListField(child=serializers.UUIDField())


class AgentScratchView(APIView):
    """By the credential of a node."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="agent_scratch",
        parameters=[OpenApiParameter("job", {"type": "array", "items": {"type": "string"}})],
        responses=KeptScratch,
        tags=["files"],
    )
    def get(self, request: Request) -> Response:
        """Of these jobs, those that had a task on this node and go on or ended not long ago."""
        node = asking_node(request)
        jobs = _ids(request.query_params.getlist("job"))
        since = timezone.now() - timedelta(seconds=settings.SKEP_SCRATCH_RETENTION_S)
        wanted = Q(finished_at=None) | Q(finished_at__gt=since)
        kept = Job.objects.filter(wanted, pk__in=jobs, attempts__node=node)
        return Response({"keep": sorted(map(str, set(kept.values_list("pk", flat=True))))})


def _ids(words: list[str]) -> list[UUID]:
    if len(words) > MOST:
        raise SkepError(f"At most {MOST} jobs at a time.", code="too_many_jobs")
    try:
        return [UUID(word) for word in words]
    except ValueError:
        raise SkepError("A job is named by its id.", code="invalid_job_id") from None
