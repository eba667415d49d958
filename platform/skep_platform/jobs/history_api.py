"""REST: the attempts of jobs and of their tasks, all of which are kept."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.core.api import page
from skep_platform.core.errors import NotFound
from skep_platform.core.schema import PAGE_PARAMETERS, page_of
from skep_platform.jobs import queries, telling
from skep_platform.jobs.models import Job, JobAttempt, TaskAttempt
from skep_platform.jobs.serializers import (
    AttemptSerializer,
    DiagnosisSerializer,
    ReasonSerializer,
)

TAGS = ["jobs"]


class JobAttemptSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField(help_text="From 1.")
    outcome = serializers.CharField(
        allow_blank=True, help_text="SUCCEEDED, FAILED, STOPPED, PREEMPTED; empty: it goes on."
    )
    retry = serializers.CharField(
        allow_blank=True, help_text="Why another one follows; empty: none does."
    )
    placed_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    reason = ReasonSerializer(allow_null=True)
    diagnosis = DiagnosisSerializer(allow_null=True)


class JobAttemptsView(APIView):
    @extend_schema(
        operation_id="list_job_attempts",
        parameters=PAGE_PARAMETERS,
        responses=page_of(JobAttemptSerializer),
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Every placement of the job, newest first; the first page begins with the present one."""
        job = queries.find(request.user, id)
        show = JobAttemptSerializer().to_representation
        rows = JobAttempt.objects.filter(job=job)
        answer = page(self, request, rows, lambda found: _attempts(request, found), "-index")
        telling.jobs_for_reader(request.user, [job])
        present = _present(job)
        if present and "cursor" not in request.query_params:
            answer.data["results"].insert(0, show(present))
        return answer


class TaskAttemptsView(APIView):
    @extend_schema(
        operation_id="list_task_attempts",
        parameters=PAGE_PARAMETERS,
        responses=page_of(AttemptSerializer),
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID, rank: int) -> Response:
        """Every attempt of one task, newest first."""
        job = queries.find(request.user, id)
        task = job.tasks.filter(rank=rank).first()
        if task is None:
            raise NotFound(f"The job has no task of rank {rank}.")
        rows = TaskAttempt.objects.filter(task=task).select_related("node")
        show = AttemptSerializer().to_representation
        newest = ("-index", "-retry")
        return page(self, request, rows, lambda found: [show(one) for one in found], newest)


def _attempts(request: Request, attempts: list[JobAttempt]) -> list[dict[str, Any]]:
    reasons = telling.reasons_for_reader(request.user, [one.reason for one in attempts])
    for attempt, reason in zip(attempts, reasons, strict=True):
        attempt.reason = reason
    show = JobAttemptSerializer().to_representation
    return [show(attempt) for attempt in attempts]


def _present(job: Job) -> dict[str, Any] | None:
    """The placement that goes on, as JobAttempt tells of ended ones."""
    if job.placed_at is None or job.finished_at is not None:
        return None
    if JobAttempt.objects.filter(job=job, index=job.attempt).exists():
        return None
    return {
        "index": job.attempt,
        "outcome": "",
        "retry": "",
        "placed_at": job.placed_at,
        "started_at": job.started_at,
        "finished_at": None,
        "reason": job.exit_reason,
        "diagnosis": job.diagnosis if job.exit_reason else None,
    }
