"""REST: the archive of finished jobs. Tokens of jobs do not reach it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.paging import page, paged
from skep_platform.core.throttling import Searches
from skep_platform.jobs import archive, filters, visibility
from skep_platform.jobs.api import TAGS
from skep_platform.jobs.archive import ArchivedJob
from skep_platform.jobs.states import JobState

FILTERS = [one for one in filters.FILTERS if one.name in {"state", "virtual_cluster", "owner"}]
LIST_PARAMETERS = [
    *FILTERS,
    OpenApiParameter(
        "search",
        str,
        description="Part of the name, in any case; its beginning below 3 characters.",
    ),
    *(one for one in filters.FILTERS if one.name in {"name", "since", "until"}),
]
Serializer = serializers.Serializer[Any]


class ArchivedJobSummarySerializer(Serializer):
    id = serializers.UUIDField(help_text="As of the job.")
    name = serializers.CharField()
    owner = serializers.CharField(source="owner_now")
    virtual_cluster = serializers.CharField(source="vc_now")
    state = serializers.ChoiceField(JobState.choices)
    priority_class = serializers.CharField()
    gpus = serializers.IntegerField(help_text="Of the whole gang.")
    tasks = serializers.IntegerField(source="tasks_total")
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField()


class ArchivedReasonSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()


class ArchivedRoleSerializer(Serializer):
    name = serializers.CharField()
    instances = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="Per task, as all that follow.")
    gpu_model = serializers.CharField(help_text="Empty: any one model.")
    cell_type = serializers.CharField(help_text="Of whole cells that it asked for, or empty.")
    cpus = serializers.FloatField()
    memory_mb = serializers.IntegerField()
    image = serializers.CharField()
    command = serializers.CharField(help_text="Its first 2,000 characters.")


class ArchivedAttemptSerializer(Serializer):
    index = serializers.IntegerField(help_text="From 1.")
    outcome = serializers.CharField(help_text="SUCCEEDED, FAILED, STOPPED or PREEMPTED.")
    retry = serializers.CharField(
        allow_blank=True, help_text="Why another one followed; empty: none did."
    )
    placed_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField()
    nodes = serializers.ListField(
        child=serializers.CharField(), help_text="The first 100 by their names."
    )
    nodes_total = serializers.IntegerField()
    reason = ArchivedReasonSerializer(allow_null=True)
    diagnosis_code = serializers.IntegerField(allow_null=True)
    diagnosis_name = serializers.CharField(allow_blank=True)


class ArchivedEventSerializer(Serializer):
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    message = serializers.CharField()
    actor = serializers.CharField(help_text="Username, or empty for the system.")
    count = serializers.IntegerField(help_text="More than 1: it stands for so many of its kind.")


class ArchivedUseSerializer(Serializer):
    gpu_hours = serializers.FloatField(help_text="Held, whether used or not.")
    gpu_utilization = serializers.FloatField(allow_null=True, help_text="Percent, mean.")
    gpu_memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="Of one GPU.")
    cpu_percent = serializers.FloatField(allow_null=True, help_text="Of a task; 100: one core.")
    memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="Of one task.")


class ArchivedJobSerializer(ArchivedJobSummarySerializer):
    spec_text = serializers.CharField(
        source="record.spec_text", help_text="The job file, without the values of its secrets."
    )
    tags = serializers.ListField(source="record.tags", child=serializers.CharField())
    task_roles = ArchivedRoleSerializer(source="record.roles", many=True)
    attempts = ArchivedAttemptSerializer(
        source="record.attempts", many=True, help_text="Newest first."
    )
    exit_reason = ArchivedReasonSerializer(source="record.exit_reason", allow_null=True)
    events = ArchivedEventSerializer(source="record.events", many=True, help_text="Newest first.")
    use = ArchivedUseSerializer(source="record.use", allow_null=True)
    shortened = serializers.ListField(
        source="record.shortened",
        child=serializers.CharField(),
        help_text="Lists of the record that lost their oldest or last entries: attempts, events, "
        "roles.",
    )


class ArchivedJobsView(APIView):
    throttle_classes = (Searches,)

    @paged("list_archived_jobs", ArchivedJobSummarySerializer, TAGS, *LIST_PARAMETERS)
    def get(self, request: Request) -> Response:
        """List the archived jobs that you may see, those submitted last first: who sees a job sees
        it here, but for those whom its owner shared it with by name."""
        rows = archive.search(
            ArchivedJob.objects.select_related("owner", "vc"),
            states=filters.choices(request, "state", JobState.values),
            virtual_clusters=filters.listed(request, "virtual_cluster"),
            owners=filters.listed(request, "owner"),
            name=request.query_params.get("name", "")[:255],
            text=request.query_params.get("search", "")[:255],
            since=filters.time_of(request, "since"),
            until=filters.time_of(request, "until"),
        )
        return page(
            request,
            rows.defer("record"),
            _show,
            "submitted_at",
            "pk",
            descending=True,
            among=visibility.branches(request.user),
            sort=filters.selective(request),
        )


class ArchivedJobView(APIView):
    @extend_schema(operation_id="get_archived_job", responses=ArchivedJobSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """Get what is kept of an archived job."""
        return Response(ArchivedJobSerializer(archive.find(request.user, id)).data)


def _show(rows: list[ArchivedJob]) -> list[Any]:
    show = ArchivedJobSummarySerializer().to_representation
    return [show(row) for row in rows]
