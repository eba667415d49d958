"""REST of what jobs measure themselves: by attempt, and several jobs side by side."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.api import parameters
from skep_platform.core.throttling import PerMinute
from skep_platform.jobs import queries as jobs
from skep_platform.telemetry import runs
from skep_platform.telemetry.metric_lines import MAX_POINTS

Serializer = serializers.Serializer[Any]
LONGEST_LIST = 4000  # characters


class UserMetricsQuerySerializer(Serializer):
    points = serializers.IntegerField(
        min_value=2, max_value=MAX_POINTS, default=400, help_text="of each metric at most"
    )


class CompareQuerySerializer(UserMetricsQuerySerializer):
    jobs = serializers.CharField(
        default="",
        max_length=LONGEST_LIST,
        help_text=f"comma list of ids, {runs.MOST_RUNS} at most",
    )
    tag = serializers.CharField(
        default="",
        max_length=LONGEST_LIST,
        help_text="comma list: instead, the newest jobs that have all of these tags and metrics",
    )

    def validate_jobs(self, text: str) -> list[UUID]:
        try:
            return [UUID(part) for part in text.split(",") if part]
        except ValueError:
            raise serializers.ValidationError("A comma list of ids of jobs.") from None

    def validate_tag(self, text: str) -> list[str]:
        return [part for part in text.split(",") if part][:20]


class MetricPointsField(serializers.ListField):
    child = serializers.ListField(child=serializers.FloatField(), min_length=3, max_length=3)


class UserMetricSerializer(Serializer):
    name = serializers.CharField()
    count = serializers.IntegerField(help_text="points that were written")
    kept_each = serializers.IntegerField(help_text="every so many of them one is kept")
    last = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    not_finite = serializers.IntegerField(help_text="NaN and infinity, which are no points")
    not_finite_step = serializers.FloatField(allow_null=True, help_text="of the first of these")
    points = MetricPointsField(help_text="[step, seconds since the epoch, value]")


class DroppedSerializer(Serializer):
    reason = serializers.CharField()
    count = serializers.IntegerField()
    message = serializers.CharField()


class AttemptMetricsSerializer(Serializer):
    attempt = serializers.IntegerField(help_text="number of the job attempt")
    started_at = serializers.DateTimeField(allow_null=True)
    reading = serializers.BooleanField(help_text="more may follow")
    dropped = DroppedSerializer(many=True)
    metrics = UserMetricSerializer(many=True)


class UserMetricsSerializer(Serializer):
    asked = serializers.BooleanField(help_text="the job file has `extras.skep.metrics`")
    attempts = AttemptMetricsSerializer(many=True, help_text="the newest, in their order")


class RunSerializer(Serializer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    virtual_cluster = serializers.CharField()
    state = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    submitted_at = serializers.DateTimeField()
    parameters = serializers.DictField(
        child=serializers.CharField(), help_text="those that are not the same in all of the jobs"
    )
    metrics = UserMetricSerializer(many=True, help_text="of all attempts, as one series")


class CompareSerializer(Serializer):
    runs = RunSerializer(many=True)
    more = serializers.BooleanField(help_text="more jobs have the tag")


class Comparisons(PerMinute):
    """Answers of many series: of one job, and of several ones."""

    name = "compare"
    most = 120


class UserMetricsView(APIView):
    job_tokens = True
    throttle_classes = (Comparisons,)

    @extend_schema(
        operation_id="user_metrics",
        parameters=[UserMetricsQuerySerializer],
        responses=UserMetricsSerializer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Return what a job measured itself, by attempt: the numbers in its log that its job file
        asks for."""
        query = parameters(UserMetricsQuerySerializer, request)
        job = jobs.find(request.user, id)
        found = {"asked": runs.asked(job), "attempts": runs.by_attempt(job, query["points"])}
        return Response(UserMetricsSerializer(found).data)


class CompareView(APIView):
    job_tokens = True
    throttle_classes = (Comparisons,)

    @extend_schema(
        operation_id="compare_jobs",
        parameters=[CompareQuerySerializer],
        responses=CompareSerializer,
    )
    def get(self, request: Request) -> Response:
        """Compare what several jobs measured, of those that you may see."""
        query = parameters(CompareQuerySerializer, request)
        found, more = runs.compare(request.user, query["jobs"], query["tag"], query["points"])
        shown = [
            {
                "id": run.job.pk,
                "name": run.job.name,
                "owner": run.job.owner.get_username(),
                "virtual_cluster": run.job.vc.name,
                "state": run.job.state,
                "tags": run.job.tags,
                "submitted_at": run.job.created_at,
                "parameters": run.parameters,
                "metrics": run.metrics,
            }
            for run in found
        ]
        return Response(CompareSerializer({"runs": shown, "more": more}).data)
