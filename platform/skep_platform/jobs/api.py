"""REST: jobs, their tasks, events and attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_jobfile import schema
from skep_jobfile.addresses import without_credentials
from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core import ports
from skep_platform.core.errors import NotFound
from skep_platform.core.models import Event
from skep_platform.core.paging import page, paged
from skep_platform.core.parsers import LargeJsonRenderer, body_text, yaml_parsers
from skep_platform.core.rendering import renderer
from skep_platform.core.throttling import Searches
from skep_platform.jobs import filters, queries, services, steering, task_rows, visibility
from skep_platform.jobs.models import (
    Job,
    JobAttempt,
    TaskAttempt,
    TaskRole,
)
from skep_platform.jobs.serializers import (
    TASK_STATES,
    AttemptSerializer,
    CausesSerializer,
    CheckSerializer,
    EventSerializer,
    JobAttemptSerializer,
    JobCountSerializer,
    JobSerializer,
    JobSummarySerializer,
    TaskRoleSerializer,
    TaskSerializer,
)
from skep_platform.jobs.states import JobState
from skep_platform.jobs.submission import attachments
from skep_platform.jobs.submission.prediction import COVERAGE, shown_to

TAGS = ["jobs"]
COUNTED = 10_000  # jobs that a total counts at most
# What the list can be ordered by, and the column behind it.
ORDERINGS = {
    "submitted_at": "created_at",
    "name": "name",
    "state": "state",
    "priority": "priority",
    "gpus": "gpus",
    "tasks": "tasks_total",
}
# Of a job's detail: where it is placed, and how it is preempted.
PLACING = (
    *("lazy_preemption", "preemptible", "pinned_cell", "within"),
    *("stop_grace_s", "checkpoint_signal", "checkpoint_grace_s"),
)
# And what else of its row is shown as it is stored.
ASKED = (
    *("max_duration_s", "ends_at", "deadline_at", "network_mode", "environment", "work_dir"),
    *("begun_at", "diagnosis", "logs_deleted_at"),
)
TEXT = ("application/yaml", "text/yaml", "text/plain")
JOB_FILE = {**dict.fromkeys(TEXT, OpenApiTypes.STR), "application/json": OpenApiTypes.OBJECT}
JOB_FILE_PARSERS = yaml_parsers("A job file", settings.SKEP_MAX_SPEC_BYTES, "spec_too_large")
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A request repeated with the same key answers with the same job.",
)
LIST_PARAMETERS = [
    *filters.FILTERS,
    OpenApiParameter("ordering", str, description=f"Of {', '.join(ORDERINGS)}; '-' descends."),
]


class JobsView(APIView):
    throttle_classes = (Searches,)
    job_tokens = True
    token_scope = Scope.SUBMIT
    parser_classes = JOB_FILE_PARSERS
    renderer_classes = (LargeJsonRenderer,)

    @paged("list_jobs", JobSummarySerializer, TAGS, *LIST_PARAMETERS)
    def get(self, request: Request) -> Response:
        """List the jobs that you may see, newest first: your own, those of the virtual clusters
        that you manage, and those that were opened to you; all of them for an admin."""
        jobs = filters.filtered(request, Job.objects.select_related("owner", "vc"))
        ordering = request.query_params.get("ordering") or "-submitted_at"
        column = filters.one_of("ordering", ordering.removeprefix("-"), ORDERINGS)
        rows = jobs.defer("spec", "spec_text", "environment")
        return page(
            request,
            rows,
            lambda found: _summaries(request, found),
            ORDERINGS[column],
            "pk",
            descending=ordering.startswith("-"),
            among=(among := visibility.branches(request.user)),
            sort=column != "submitted_at" and (bool(among) or filters.selective(request)),
        )

    @extend_schema(
        operation_id="submit_job",
        request=JOB_FILE,
        parameters=[
            IDEMPOTENCY_KEY,
            OpenApiParameter(
                "ignore_storage",
                bool,
                description="Accept a job whose storages are not mounted, as "
                "extras.skep.ignoreStorages does; otherwise it is refused: storage_not_mounted.",
            ),
        ],
        responses={201: JobSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Submit a job file of OpenPAI's job protocol v2, as YAML or JSON."""
        job = services.submit(
            current_user.user(request),
            body_text(request),
            client_token=idempotency_key(request),
            ignore_storage=request.query_params.get("ignore_storage", "").lower() in filters.TRUE,
        )
        return Response(detail(request, job), status=201)


def idempotency_key(request: Request) -> str:
    """Return the key of a request that may be repeated, or an empty string."""
    key: str = request.headers.get("Idempotency-Key", "")
    return key


class CountView(APIView):
    throttle_classes = (Searches,)
    job_tokens = True

    @extend_schema(
        operation_id="count_jobs",
        parameters=filters.FILTERS,
        responses=JobCountSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Count the jobs that the same list has in all. Beyond 10,000 it stops counting."""
        jobs = filters.filtered(request, Job.objects.all())
        counted = queries.count_up_to(jobs, visibility.branches(request.user), COUNTED)
        return Response({"total": min(counted, COUNTED), "more": counted > COUNTED})


class CheckView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT
    parser_classes = JOB_FILE_PARSERS

    @extend_schema(operation_id="check_job", request=JOB_FILE, responses=CheckSerializer, tags=TAGS)
    def post(self, request: Request) -> Response:
        """Show what is wrong with a job file, and when it would start. Changes nothing."""
        found = services.check(current_user.user(request), body_text(request))
        (forecast,) = queries.reasons_for_reader(request.user, [found.forecast])
        return Response(CheckSerializer(replace(found, forecast=forecast)).data)


class SchemaView(APIView):
    job_tokens = True

    @extend_schema(operation_id="job_schema", responses=OpenApiTypes.OBJECT, tags=TAGS)
    def get(self, request: Request) -> Response:
        """Get the JSON Schema of a job file, for editors."""
        return Response(schema(), headers={"Cache-Control": "private, max-age=3600"})


class CausesView(APIView):
    job_tokens = True

    @extend_schema(operation_id="list_causes", responses=CausesSerializer, tags=TAGS)
    def get(self, request: Request) -> Response:
        """List the causes of failure that the list of jobs can be filtered by."""
        return Response(filters.causes(), headers={"Cache-Control": "private, max-age=3600"})


class JobView(APIView):
    job_tokens = True

    @extend_schema(operation_id="get_job", responses=JobSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        return Response(detail(request, queries.find(request.user, id)))


class StopView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT

    @extend_schema(operation_id="stop_job", request=None, responses={202: JobSerializer}, tags=TAGS)
    def post(self, request: Request, id: UUID) -> Response:
        """Stop a job. For its owner, VC admins and admins. May be
        repeated."""
        job = services.stop(current_user.user(request), id)
        return Response(detail(request, job), status=202)


class TasksView(APIView):
    job_tokens = True

    @paged(
        "list_tasks",
        TaskSerializer,
        TAGS,
        OpenApiParameter("role", str, description="Comma list."),
        OpenApiParameter("state", str, description="Comma list."),
    )
    def get(self, request: Request, id: UUID) -> Response:
        """List the tasks by rank, each with its newest attempt."""
        job = queries.find(request.user, id)
        roles, states = (
            filters.listed(request, "role"),
            filters.choices(request, "state", TASK_STATES),
        )
        rows = queries.tasks(job, roles=roles, states=states)
        plain = rows.values(*task_rows.COLUMNS)
        return page(request, plain, lambda tasks: task_rows.shown(job, tasks), "rank")


class EventsView(APIView):
    job_tokens = True

    @paged("list_job_events", EventSerializer, TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """List the history of the job, oldest first."""
        rows = queries.events(queries.find(request.user, id))
        return page(request, rows, lambda found: _events(request, found), "id")


_summary = renderer(JobSummarySerializer())
_role_shown = renderer(TaskRoleSerializer())


def _summaries(request: Request, jobs: list[Job]) -> list[dict[str, Any]]:
    return [_summary(job) for job in queries.jobs_for_reader(request.user, jobs)]


def detail(request: Request, job: Job) -> dict[str, Any]:
    roles = queries.roles_with_states(job)
    queries.jobs_for_reader(request.user, [job])
    may_stop = queries.may_stop(request.user, job)
    return {
        **_summary(job),
        # Jobs of before this was refused may show credentials in addresses.
        "spec_text": without_credentials(job.spec_text),
        "task_roles": [_role_shown(_role(role, states)) for role, states in roles],
        **{name: getattr(job, name) for name in (*PLACING, *ASKED)},
        **attachments.sources(job),
        "parent": _parent(request, job),
        "api_token": _token_scope(job),
        "depends_on": job.spec.get("extras", {}).get("skep", {}).get("dependsOn", []),
        "prediction": shown_to(request.user, job) if may_stop else None,
        "expected_start_interval": _start_interval(job),
        "retry_at": job.not_before,
        "diagnosing": job.diagnosing_at is not None,
        "bad_gpus": queries.bad_gpus(job),
        "may_exec": queries.may_exec(request.user, job),
        "may_stop": may_stop,
        "idle_exempt": job.idle_exempt,
        "may_exempt": queries.may_exempt(request.user, job),
        "may_prioritise": queries.may_prioritise(request.user, job)
        and (job.priority >= 0 or queries.may_regain_guarantee(job)),
        "may_share": queries.may_share(request.user, job),
        "may_clone": job.owner_id == request.user.pk,
        "retries_ended": job.retries_ended,
        "more_memory": steering.more_memory(job, [role for role, _ in roles]),
        "visibility": job.visibility or None,
        "seen_by": job.visibility or job.vc.job_visibility,
    }


def _start_interval(job: Job) -> dict[str, Any] | None:
    """Return between which moments a job starts that the scheduler has made wait; a job that was
    submitted a moment ago has none yet."""
    waits = job.state == JobState.WAITING and job.placed_at is None
    if not waits or "expected_start" not in (job.wait_reason or {}).get("details", {}):
        return None
    span = ports.start_interval.call(job)
    if span is None:
        return None
    low, high = (datetime.fromtimestamp(at, UTC).isoformat() for at in span)
    return {"low": low, "high": high, "coverage": COVERAGE}


def _parent(request: Request, job: Job) -> dict[str, Any] | None:
    """Return the job that submitted this one, where the reader may see it. No query without one."""
    parents = [job.parent_id] if job.parent_id else []
    return next(
        ({"id": pk, "name": name} for pk, name in queries.names_for(request.user, parents).items()),
        None,
    )


def _token_scope(job: Job) -> str | None:
    asked = job.spec.get("extras", {}).get("skep", {}).get("apiToken")
    if isinstance(asked, dict):
        return str(asked["scope"])
    return "submit" if asked else None


def _role(role: TaskRole, states: dict[str, int]) -> dict[str, Any]:
    return {
        "name": role.name,
        "instances": role.instances,
        "gpus": role.gpus,
        "gpu_model": role.gpu_model,
        "cell_type": role.cell_type,
        "cells": role.cells,
        "within": role.within,
        "affinity_group": role.affinity_group,
        "cpus": role.cpu_millis / 1000,
        "memory_mb": role.memory_mb,
        "image": role.image,
        "command": without_credentials(role.command),
        "ports": role.ports,
        "task_retries": role.task_retries,
        "parallelism": role.parallelism,
        "elastic": {
            "min": role.elastic_min,
            "max": role.elastic_max,
            "asked": role.asked_instances,
        }
        if role.elastic_min is not None
        else None,
        "states": states,
    }


def _events(request: Request, events: list[Event]) -> list[dict[str, Any]]:
    show = EventSerializer().to_representation
    return [show(event) for event in queries.events_for_reader(request.user, events)]


class JobAttemptsView(APIView):
    job_tokens = True

    @paged("list_job_attempts", JobAttemptSerializer, TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """List every placement of the job, newest first; the first page begins with the present
        one."""
        job = queries.find(request.user, id)
        show = JobAttemptSerializer().to_representation
        rows = JobAttempt.objects.filter(job=job)
        answer = page(
            request, rows, lambda found: _attempts(request, found), "index", descending=True
        )
        queries.jobs_for_reader(request.user, [job])
        present = queries.present_attempt(job)
        if present and "cursor" not in request.query_params:
            answer.data["results"].insert(0, show(present))
        return answer


class TaskAttemptsView(APIView):
    job_tokens = True

    @paged("list_task_attempts", AttemptSerializer, TAGS)
    def get(self, request: Request, id: UUID, rank: int) -> Response:
        """List every attempt of one task, newest first."""
        job = queries.find(request.user, id)
        task = job.tasks.filter(rank=rank).first()
        if task is None:
            raise NotFound(f"The job has no task of rank {rank}.")
        rows = TaskAttempt.objects.filter(task=task).select_related("node")
        show = AttemptSerializer().to_representation
        return page(
            request, rows, lambda found: list(map(show, found)), "index", "retry", descending=True
        )


def _attempts(request: Request, attempts: list[JobAttempt]) -> list[dict[str, Any]]:
    reasons = queries.reasons_for_reader(request.user, [one.reason for one in attempts])
    for attempt, reason in zip(attempts, reasons, strict=True):
        attempt.reason = reason
    show = JobAttemptSerializer().to_representation
    return [show(attempt) for attempt in attempts]
