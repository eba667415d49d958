"""REST: jobs, their tasks and events."""

from __future__ import annotations

from dataclasses import replace
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
from skep_platform.accounts import acting
from skep_platform.accounts.scopes import Scope
from skep_platform.core.api import page
from skep_platform.core.errors import SkepError
from skep_platform.core.keyset import keyset_page
from skep_platform.core.models import Event
from skep_platform.core.parsers import body_text, yaml_parsers
from skep_platform.core.schema import PAGE_PARAMETERS, page_of
from skep_platform.jobs import queries, services, telling
from skep_platform.jobs.intake import belongings
from skep_platform.jobs.models import Job, Task, TaskRole
from skep_platform.jobs.serializers import (
    TASK_STATES,
    AttemptSerializer,
    CheckSerializer,
    EventSerializer,
    JobSerializer,
    JobSummarySerializer,
    TaskRoleSerializer,
    TaskSerializer,
)
from skep_platform.jobs.states import JobState
from skep_platform.tenancy import visibility

TAGS = ["jobs"]
# What the list can be ordered by, and the column behind it.
ORDERINGS = {
    "submitted_at": "created_at",
    "name": "name",
    "state": "state",
    "priority": "priority",
    "gpus": "gpus",
    "tasks": "tasks_total",
}
# Of a job's detail: where it shall lie, and how it makes room.
PLACING = (
    *("lazy_preemption", "preemptible", "pinned_cell", "within"),
    *("stop_grace_s", "checkpoint_signal", "checkpoint_grace_s"),
)
# And what else of its row is told as it is.
ASKED = (
    *("max_duration_s", "ends_at", "deadline_at", "network_mode", "environment", "work_dir"),
    *("begun_at", "diagnosis", "logs_deleted_at"),
)
TEXT = ("application/yaml", "text/yaml", "text/plain")
JOB_FILE = {**dict.fromkeys(TEXT, OpenApiTypes.STR), "application/json": OpenApiTypes.OBJECT}
JOB_FILE_PARSERS = yaml_parsers("A job file", settings.SKEP_MAX_SPEC_BYTES, "spec_too_large")
LIST_PARAMETERS = [
    *PAGE_PARAMETERS,
    OpenApiParameter("state", str, description="Comma list."),
    OpenApiParameter("virtual_cluster", str, description="Comma list of names."),
    OpenApiParameter("owner", str, description="Comma list of usernames."),
    OpenApiParameter("tag", str, description="Comma list, or repeated: all of them."),
    OpenApiParameter("search", str, description="Part of the name, in any case."),
    OpenApiParameter("ordering", str, description=f"Of {', '.join(ORDERINGS)}; '-' descends."),
]


class JobsView(APIView):
    token_scope = Scope.SUBMIT
    parser_classes = JOB_FILE_PARSERS

    @extend_schema(
        operation_id="list_jobs",
        parameters=LIST_PARAMETERS,
        responses=page_of(JobSummarySerializer),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """The jobs that you may see, newest first: your own, those of the virtual clusters that
        you manage, and those that were opened to you; all of them for an admin."""
        jobs = queries.search(
            Job.objects.select_related("owner", "vc"),
            states=_choices(request, "state", JobState.values),
            virtual_clusters=_list(request, "virtual_cluster"),
            owners=_list(request, "owner"),
            tags=_list(request, "tag"),
            text=request.query_params.get("search", "")[:255],
        )
        ordering = request.query_params.get("ordering") or "-submitted_at"
        column = one_of("ordering", ordering.removeprefix("-"), ORDERINGS)
        rows = jobs.defer("spec", "spec_text", "environment")
        return keyset_page(
            request,
            rows,
            lambda found: _summaries(request, found),
            ORDERINGS[column],
            descending=ordering.startswith("-"),
            among=visibility.branches(request.user),
        )

    @extend_schema(
        operation_id="submit_job",
        request=JOB_FILE,
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                str,
                OpenApiParameter.HEADER,
                description="A submit repeated with the same key answers with the same job.",
            )
        ],
        responses={201: JobSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Submit a job file of OpenPAI's job protocol v2, as YAML or JSON."""
        token = request.headers.get("Idempotency-Key", "")
        job = services.submit(acting.user(request), body_text(request), client_token=token)
        return Response(detail(request, job), status=201)


class CheckView(APIView):
    token_scope = Scope.SUBMIT
    parser_classes = JOB_FILE_PARSERS

    @extend_schema(operation_id="check_job", request=JOB_FILE, responses=CheckSerializer, tags=TAGS)
    def post(self, request: Request) -> Response:
        """What is wrong with a job file, and when it would start. Changes nothing."""
        found = services.check(acting.user(request), body_text(request))
        (forecast,) = telling.reasons_for_reader(request.user, [found.forecast])
        return Response(CheckSerializer(replace(found, forecast=forecast)).data)


class SchemaView(APIView):
    @extend_schema(operation_id="job_schema", responses=OpenApiTypes.OBJECT, tags=TAGS)
    def get(self, request: Request) -> Response:
        """JSON Schema of a job file, for editors."""
        return Response(schema(), headers={"Cache-Control": "private, max-age=3600"})


class JobView(APIView):
    @extend_schema(operation_id="get_job", responses=JobSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        return Response(detail(request, queries.find(request.user, id)))


class StopView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(operation_id="stop_job", request=None, responses={202: JobSerializer}, tags=TAGS)
    def post(self, request: Request, id: UUID) -> Response:
        """For its owner, managers of its virtual cluster and admins. Repeating it is harmless."""
        job = services.stop(acting.user(request), id)
        return Response(detail(request, job), status=202)


class TasksView(APIView):
    @extend_schema(
        operation_id="list_tasks",
        parameters=[
            *PAGE_PARAMETERS,
            OpenApiParameter("role", str, description="Comma list."),
            OpenApiParameter("state", str, description="Comma list."),
        ],
        responses=page_of(TaskSerializer),
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """By rank, each with its newest attempt."""
        job = queries.find(request.user, id)
        roles, states = _list(request, "role"), _choices(request, "state", TASK_STATES)
        rows = queries.tasks(job, roles=roles, states=states)
        return page(self, request, rows, lambda tasks: _tasks(job, tasks), "rank")


class EventsView(APIView):
    @extend_schema(
        operation_id="list_job_events",
        parameters=PAGE_PARAMETERS,
        responses=page_of(EventSerializer),
        tags=TAGS,
    )
    def get(self, request: Request, id: UUID) -> Response:
        """The story of the job, oldest first."""
        rows = queries.events(queries.find(request.user, id))
        return page(self, request, rows, lambda found: _events(request, found), "id")


# Making a serializer takes longer than what it does.
_summary = JobSummarySerializer().to_representation
_role_shown = TaskRoleSerializer().to_representation


def _summaries(request: Request, jobs: list[Job]) -> list[dict[str, Any]]:
    return [_summary(job) for job in telling.jobs_for_reader(request.user, jobs)]


def detail(request: Request, job: Job) -> dict[str, Any]:
    roles = queries.roles_with_states(job)
    telling.jobs_for_reader(request.user, [job])
    return {
        **_summary(job),
        # Jobs of before this was refused may show credentials in addresses.
        "spec_text": without_credentials(job.spec_text),
        "task_roles": [_role_shown(_role(role, states)) for role, states in roles],
        **{name: getattr(job, name) for name in (*PLACING, *ASKED)},
        **belongings.sources(job),
        "retry_at": job.not_before,
        "diagnosing": job.diagnosing_at is not None,
        "bad_gpus": queries.bad_gpus(job),
        "may_exec": queries.may_exec(request.user, job),
        "may_stop": queries.may_stop(request.user, job),
        "may_prioritise": queries.may_prioritise(request.user, job),
        "may_share": queries.may_share(request.user, job),
        "visibility": job.visibility or None,
        "seen_by": job.visibility or job.vc.job_visibility,
    }


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
        "states": states,
    }


def _tasks(job: Job, tasks: list[Task]) -> list[dict[str, Any]]:
    attempts = queries.newest_attempts(tasks)
    show = AttemptSerializer().to_representation
    return [
        {
            "id": task.pk,
            "role": task.role.name,
            "index": task.index,
            "rank": task.rank,
            "state": queries.state_of(job, attempt),
            "attempt": None if attempt is None else show(attempt),
        }
        for task in tasks
        for attempt in [attempts.get(task.pk)]
    ]


def _events(request: Request, events: list[Event]) -> list[dict[str, Any]]:
    show = EventSerializer().to_representation
    return [show(event) for event in telling.for_reader(request.user, events)]


def _list(request: Request, name: str) -> list[str]:
    asked = ",".join(request.query_params.getlist(name))
    return [part for part in asked.split(",") if part][:100]


def _choices(request: Request, name: str, known: list[str]) -> list[str]:
    return [one_of(name, part, known) for part in _list(request, name)]


def one_of(name: str, value: str, known: Any) -> str:
    """Raises SkepError `invalid_filter`."""
    if value not in known:
        message = f"{name} is one of {', '.join(known)}."
        raise SkepError(message, code="invalid_filter", parameter=name, value=value[:100])
    return value
