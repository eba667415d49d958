"""REST: the cluster in numbers. It stands here because it counts nodes and jobs, and `cluster`
may not know `jobs`."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform import __version__
from skep_platform.cluster import queries as cluster
from skep_platform.jobs.models import ACTIVE_JOB_STATES
from skep_platform.jobs.queries import visible_to


class GpuCountSerializer(serializers.Serializer[Any]):
    total = serializers.IntegerField()
    used = serializers.IntegerField()
    bad = serializers.IntegerField()


class ClusterSerializer(serializers.Serializer[Any]):
    nodes = serializers.DictField(child=serializers.IntegerField(), help_text="By state.")
    gpus = serializers.DictField(child=GpuCountSerializer(), help_text="By GPU model.")
    jobs = serializers.DictField(
        child=serializers.IntegerField(), help_text="Active ones that you may see, by state."
    )
    version = serializers.CharField()


class ClusterView(APIView):
    @extend_schema(operation_id="get_cluster", responses=ClusterSerializer, tags=["cluster"])
    def get(self, request: Request) -> Response:
        return Response(
            {
                "nodes": cluster.count_nodes(),
                "gpus": cluster.count_gpus(),
                "jobs": _active_jobs(request.user),
                "version": __version__,
            }
        )


def _active_jobs(user: Any) -> dict[str, int]:
    jobs = visible_to(user).select_related(None).filter(state__in=ACTIVE_JOB_STATES)
    return dict(jobs.values_list("state").order_by().annotate(n=Count("pk")))
