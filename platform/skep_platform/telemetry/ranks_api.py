"""REST: the tasks of a job attempt side by side, and one job attempt with what it used."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import parameters
from skep_platform.core.errors import NotFound
from skep_platform.core.throttling import Scans
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.serializers import JobAttemptSerializer
from skep_platform.jobs.states import AttemptState
from skep_platform.telemetry import queries, ranks

Serializer = serializers.Serializer[Any]
TAGS = ["jobs"]
MAX_RANK = 2**31 - 1


class RanksQuerySerializer(Serializer):
    first = serializers.IntegerField(
        min_value=0, max_value=MAX_RANK, default=0, help_text="Rank to begin with."
    )
    attempt = serializers.IntegerField(
        min_value=1, max_value=MAX_RANK, required=False, help_text="Default: the newest."
    )


class LogTailsQuerySerializer(RanksQuerySerializer):
    lines = serializers.IntegerField(
        min_value=1, max_value=20, default=8, help_text="Of each task, at most."
    )


class RankSerializer(Serializer):
    rank = serializers.IntegerField()
    role = serializers.CharField()
    index = serializers.IntegerField(help_text="Within the role.")
    attempt_id = serializers.UUIDField()
    node = serializers.CharField()
    state = serializers.ChoiceField(AttemptState.choices)


class RankUseSerializer(RankSerializer):
    gpus = serializers.IntegerField()
    gpu_utilization = serializers.FloatField(
        allow_null=True, help_text="Percent, mean over its GPUs; null: not measured, as the others."
    )
    gpu_utilization_recent = serializers.FloatField(
        allow_null=True, help_text="Of the last ten minutes."
    )
    gpu_memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="Of one GPU.")
    cpu_percent = serializers.FloatField(allow_null=True, help_text="Mean; 100: one core.")
    memory_peak_mb = serializers.IntegerField(allow_null=True)


class RankUsesSerializer(Serializer):
    attempt = serializers.IntegerField(help_text="Number of the job attempt.")
    total = serializers.IntegerField(help_text="Tasks of the job.")
    ranks = RankUseSerializer(many=True)


class RankLogSerializer(RankSerializer):
    lines = serializers.ListField(child=serializers.CharField(), help_text="Oldest first.")


class RankLogsSerializer(Serializer):
    attempt = serializers.IntegerField(help_text="Number of the job attempt.")
    total = serializers.IntegerField(help_text="Tasks of the job.")
    ranks = RankLogSerializer(many=True)


class AttemptNodeSerializer(Serializer):
    name = serializers.CharField()
    tasks = serializers.IntegerField()


class AttemptEndSerializer(Serializer):
    state = serializers.ChoiceField(AttemptState.choices)
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    oom_killed = serializers.BooleanField()
    tasks = serializers.IntegerField(help_text="Number of task attempts that are so.")


class JobAttemptDetailSerializer(JobAttemptSerializer):
    nodes = AttemptNodeSerializer(many=True, help_text="Where most tasks were first; at most 64.")
    nodes_total = serializers.IntegerField()
    ends = AttemptEndSerializer(many=True)
    gpu_hours = serializers.FloatField(help_text="Held so far, whether used or not.")
    gpu_utilization = serializers.FloatField(
        allow_null=True, help_text="Percent, mean over all GPUs; null: not measured, as the others."
    )
    gpu_memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="Of one GPU.")
    cpu_percent = serializers.FloatField(allow_null=True, help_text="Mean of a task; 100: a core.")
    memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="Of one task.")


class RanksView(APIView):
    job_tokens = True
    throttle_classes = (Scans,)

    @extend_schema(
        operation_id="job_ranks",
        parameters=[RanksQuerySerializer],
        responses=RankUsesSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Show what each task of a job attempt used, 256 tasks by rank."""
        asked = parameters(RanksQuerySerializer, request)
        job = jobs.find(current_user.user(request), id)
        index, found = _attempts(job, asked, ranks.MOST_RANKS)
        uses = ranks.use_by_attempt(job, index, asked["first"], found)
        rows = [_place(one) | {"gpus": len(one.gpu_uuids)} | asdict(uses[one.pk]) for one in found]
        return _answer(RankUsesSerializer, job, index, rows)


class RankLogsView(APIView):
    job_tokens = True
    throttle_classes = (Scans,)

    @extend_schema(
        operation_id="job_log_tails",
        parameters=[LogTailsQuerySerializer],
        responses=RankLogsSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Show the last lines of each task of a job attempt, 16 tasks by rank."""
        asked = parameters(LogTailsQuerySerializer, request)
        job = queries.find_log(current_user.user(request), id)
        index, found = _attempts(job, asked, ranks.MOST_LOGS)
        lines = ranks.last_lines([attempt.pk for attempt in found], asked["lines"])
        return _answer(
            RankLogsSerializer,
            job,
            index,
            [_place(one) | {"lines": lines[one.pk]} for one in found],
        )


class JobAttemptView(APIView):
    job_tokens = True
    throttle_classes = (Scans,)

    @extend_schema(operation_id="get_job_attempt", responses=JobAttemptDetailSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID, index: int) -> Response:
        """Show one placement of a job with its nodes, its ends and what it used."""
        user = current_user.user(request)
        job = jobs.find(user, id)
        attempt = jobs.job_attempt(user, job, index)
        if attempt is None:
            raise NotFound(f"The job has no attempt {index}.")
        return Response(JobAttemptDetailSerializer(attempt | ranks.use_of_attempt(job, index)).data)


def _attempts(job: Job, asked: dict[str, Any], most: int) -> tuple[int, list[TaskAttempt]]:
    index = asked.get("attempt") or job.attempt
    return index, ranks.attempts_of(job, index, asked["first"], most)


def _place(attempt: TaskAttempt) -> dict[str, Any]:
    return {
        "rank": attempt.task.rank,
        "role": attempt.role.name,
        "index": attempt.task.index,
        "attempt_id": attempt.pk,
        "node": attempt.node.name,
        "state": attempt.state,
    }


def _answer(kind: type[Serializer], job: Job, index: int, rows: list[dict[str, Any]]) -> Response:
    return Response(kind({"attempt": index, "total": job.tasks_total, "ranks": rows}).data)
