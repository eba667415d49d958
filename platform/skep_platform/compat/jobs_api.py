"""OpenPAI's routes of jobs."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import F, OrderBy, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_jobfile.addresses import without_credentials
from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope, User
from skep_platform.compat import job_shapes, job_v1
from skep_platform.compat.base import CompatView, Fields
from skep_platform.core.api import validated
from skep_platform.core.database.plans import fetch_planned
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.parsers import body_text
from skep_platform.core.throttling import Scans
from skep_platform.jobs import bulk, queries, services, visibility
from skep_platform.jobs.api import JOB_FILE_PARSERS
from skep_platform.jobs.models import RETRIES, Job, JobAttempt, Task, TaskAttempt, TaskRole
from skep_platform.jobs.states import JOB
from skep_platform.telemetry import queries as logs
from skep_platform.telemetry.retention import check_kept
from skep_platform.tenancy.models import VirtualCluster

MOST, USUAL = 50_000, 5_000  # jobs of one answer
PLANNED = 500  # jobs of a page that is planned for its filters
# Jobs that `totalCount` counts at most; and where no index alone answers which they are.
COUNTED, COUNTED_ONE_BY_ONE = 100_000, 10_000
ONE_BY_ONE = ("keyword", "tagsContain", "tagsNotContain")
SELECTIVE = ("username", "vc", "keyword", "tagsContain")  # filters that leave few of all jobs
FURTHEST = 100_000  # offset: each row before it is read
TAIL_BYTES = 16 * 1024
ORDERS: dict[str, Any] = {
    "jobName": F("name"),
    "submissionTime": F("created_at"),
    "username": F("owner__username"),
    "vc": F("vc__name"),
    "retries": RETRIES,
    "totalTaskNumber": F("tasks_total"),
    "totalGpuNumber": F("gpus"),
    "state": F("state"),
    "completionTime": F("finished_at"),
    "jobPriority": F("priority"),
}


class Lists(Scans):
    """Lists of jobs: in any order, many at a time. Submits have limits of their own."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        return request.method == "POST" or super().allow_request(request, view)


class ValueFields(Fields):
    value = serializers.CharField(max_length=1000, trim_whitespace=False)


class PaiJobsView(CompatView):
    throttle_classes = (Lists,)
    job_tokens = True
    token_scope = Scope.SUBMIT
    parser_classes = JOB_FILE_PARSERS
    missing = "NoVirtualClusterError"
    taken = "ConflictJobError"

    def get(self, request: Request) -> Response:
        """List the jobs that the caller may see, newest first."""
        asked = request.query_params
        limit = _number(request, "limit", USUAL, MOST)
        offset = _number(request, "offset", 0, FURTHEST)
        jobs = _filtered(request)
        among = visibility.branches(request.user)
        rows = _page(jobs, among, _order(request, few=bool(among)), offset, limit)
        data = job_shapes.summaries(rows)
        if asked.get("withTotalCount") == "true":
            most = COUNTED_ONE_BY_ONE if any(map(asked.get, ONE_BY_ONE)) else COUNTED
            total = min(queries.count_up_to(jobs, among, most), most)
            return Response({"totalCount": total, "data": data})
        return Response(data)

    def job_file(self, request: Request) -> str:
        return body_text(request)

    def post(self, request: Request) -> Response:
        """Submit a job file."""
        job = services.submit(current_user.user(request), self.job_file(request))
        name = request.user.get_username()
        return _accepted(f"update job {job.name} for user {name} successfully.")


def _number(request: Request, name: str, usual: int, most: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return usual
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        message = f"{name} is a number up to {most}."
        raise SkepError(message, code="invalid_filter", parameter=name)
    return int(text)


def _order(request: Request, *, few: bool) -> list[OrderBy]:
    """Return an order of jobs, as "field,ASC"; the newest first where it is not one. `few`: of a
    small part of all jobs, which is sorted: on its way in the order of an index, the database would
    pass all jobs of others."""
    field, _, direction = request.query_params.get("order", "").partition(",")
    if field not in ORDERS or direction not in ("ASC", "DESC"):
        field, direction = "submissionTime", "DESC"
    by, pk, down = ORDERS[field], F("pk"), direction == "DESC"
    if field == "submissionTime":  # as its index has it, which the other direction reads backwards
        return [OrderBy(by, descending=down), OrderBy(pk, descending=not down)]
    if few or any(map(request.query_params.get, SELECTIVE)):
        by = Coalesce(by, by)  # the same values, in a form that no index has
    # PostgreSQL has nulls last in ascending order, and first in the other, as OpenPAI has them.
    return [OrderBy(by, descending=down), OrderBy(pk, descending=down)]


def _filtered(request: Request) -> QuerySet[Job]:
    def asked(name: str) -> list[str]:
        return [part for part in request.query_params.get(name, "").split(",") if part][:100]

    jobs = queries.search(
        Job.objects.all(),
        states=[state.upper() for state in asked("state")],
        virtual_clusters=asked("vc"),
        owners=asked("username"),
    )
    if tags := asked("tagsContain"):
        jobs = jobs.filter(queries.few_first(Q(tags__overlap=tags)))
    if tags := asked("tagsNotContain"):
        jobs = jobs.exclude(tags__overlap=tags)
    if classes := asked("jobPriority"):
        names = sorted({_class(name) for name in classes})
        jobs = jobs.filter(queries.few_first(Q(priority_class__in=names)))
    if keyword := request.query_params.get("keyword", "")[:255]:
        jobs = jobs.filter(queries.few_first(_keyword(keyword)))
    return jobs


def _class(name: str) -> str:
    """Return a class of priority; `default`, a job that names none, is `test`."""
    return "test" if name == "default" else name


def _keyword(text: str) -> Q:
    """Match jobs with this text in their name or in that of their user or virtual cluster. These
    are looked up first: an index answers what is about one table alone."""
    owners = User.objects.filter(username__icontains=text).values_list("pk", flat=True)
    vcs = VirtualCluster.objects.filter(name__icontains=text).values_list("pk", flat=True)
    return queries.named(text) | Q(owner__in=list(owners)) | Q(vc__in=list(vcs))


def _page(
    jobs: QuerySet[Job], among: Any, order: list[OrderBy], offset: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return rows of jobs to which one of the alternatives applies (none: of all). Each is asked
    for its own first rows, so that an index answers it; only the rows of the page are joined. The
    rows of a short page are looked up for these filters alone: for a tag that many jobs have, the
    plan of an average tag takes a second."""
    end = offset + limit
    if among:
        parts = [jobs.filter(q).order_by(*order).values("pk")[:end] for q in among]
        first, *others = parts
        jobs = Job.objects.filter(pk__in=first.union(*others))
    ids: Any = jobs.order_by(*order).values_list("pk")[offset:end]
    if limit <= PLANNED:
        ids = [pk for (pk,) in fetch_planned(ids)]
    rows = Job.objects.filter(pk__in=ids).order_by(*order)
    return list(rows.values_list(*job_shapes.COLUMNS))


def find(request: Request, framework: str) -> Job:
    """Return the job of `user~job`. Raises NotFound, also when the caller may not see it."""
    owner, _, name = framework.partition("~")
    job = queries.visible_to(request.user).filter(owner__username=owner, name=name).first()
    if job is None:
        raise NotFound(f"Job {framework[:300]} is not found.")
    return job


def _accepted(message: str) -> Response:
    return Response({"status": 202, "message": message}, status=202)


class JobBase(CompatView):
    job_tokens = True
    missing = "NoJobError"
    taken = "ConflictJobError"


class PaiJobView(JobBase):
    def get(self, request: Request, framework: str) -> Response:
        """Get a job with its tasks, as of its present attempt."""
        job = find(request, framework)
        queries.jobs_for_reader(request.user, [job])
        return Response(_detail(job, None))


class PaiJobAtAttemptView(JobBase):
    def get(self, request: Request, framework: str, attempt: int) -> Response:
        """Get a job with its tasks, as of one attempt, counted from 0."""
        job = find(request, framework)
        queries.jobs_for_reader(request.user, [job])
        if attempt == job_shapes.attempt_id(job):
            return Response(_detail(job, None))
        return Response(_detail(job, _attempt(request, job, attempt)))


def _detail(job: Job, attempt: dict[str, Any] | None) -> dict[str, Any]:
    roles = list(TaskRole.objects.filter(job=job).order_by("position"))
    present = Task.objects.filter(job=job, index__lt=F("role__instances"))
    tasks = list(present.order_by("rank"))
    if attempt is None:
        found = queries.newest_attempts(tasks)
    else:
        found = _attempts_of(job, attempt["index"])
    return job_shapes.detail(job, roles, tasks, found, attempt)


def _attempts_of(job: Job, index: int) -> dict[int, TaskAttempt]:
    rows = TaskAttempt.objects.filter(job=job, index=index).select_related("node", "task")
    return {one.task_id: one for one in rows.order_by("task", "-retry").distinct("task")}


def _attempt(request: Request, job: Job, number: int) -> dict[str, Any]:
    found = queries.job_attempt(request.user, job, number + 1)
    if found is None:
        raise NotFound(f"Attempt {number} of job {job.name} is not found.")
    return found


class PaiConfigView(JobBase):
    def get(self, request: Request, framework: str) -> HttpResponseBase:
        """Get the job file as it was submitted, without the values of its secrets."""
        text = without_credentials(find(request, framework).spec_text)
        return HttpResponse(text, content_type="text/yaml; charset=utf-8")


class PaiExecutionTypeView(JobBase):
    token_scope = Scope.SUBMIT

    def put(self, request: Request, framework: str) -> Response:
        """Stop a job. START changes nothing: a job that was stopped is submitted again."""
        asked = validated(ValueFields, request)["value"]
        job = find(request, framework)
        if asked == "START" and not queries.may_stop(request.user, job):
            raise Forbidden("Only the owner of a job and admins change it.")
        if asked == "STOP":
            services.stop(current_user.user(request), job.pk)
        elif asked != "START":
            raise SkepError("value is START or STOP.", code="invalid")
        elif job.state not in JOB.active:
            message = f"Job {framework} has ended; submit it again."
            raise Conflict(message, code="job_ended")
        return _accepted(f"execute job {framework} successfully.")


class PaiTagView(JobBase):
    token_scope = Scope.SUBMIT

    def put(self, request: Request, framework: str) -> Response:
        tag, job = validated(ValueFields, request)["value"], find(request, framework)
        bulk.change_job_tags(current_user.user(request), job.pk, [tag], [])
        return Response({"status": 200, "message": f"Add tag {tag} for job {framework}."})

    def delete(self, request: Request, framework: str) -> Response:
        tag, job = validated(ValueFields, request)["value"], find(request, framework)
        if tag not in job.tags:
            raise NotFound(f"Tag {tag} is not found for job {framework}.", code="no_tag")
        bulk.change_job_tags(current_user.user(request), job.pk, [], [tag])
        return Response({"status": 200, "message": f"Delete tag {tag} from job {framework}."})


class PaiEventsView(JobBase):
    MOST = 1000

    def get(self, request: Request, framework: str) -> Response:
        """List the history of a job, oldest first."""
        job = find(request, framework)
        rows = list(queries.events(job).order_by("-id")[: self.MOST])[::-1]
        shown = [
            job_shapes.event(framework, one)
            for one in queries.events_for_reader(request.user, rows)
        ]
        kind = request.query_params.get("type", "")
        shown = [one for one in shown if kind in ("", one["type"])]
        return Response({"totalCount": len(shown), "data": shown})


class PaiSshView(JobBase):
    def get(self, request: Request, framework: str) -> Response:
        """Refuse: no key of a job is given out. People use `skep ssh` and `skep exec`."""
        find(request, framework)
        message = f"SSH info of job {framework} is not found: use skep exec, or its port ssh."
        raise NotFound(message, code="no_ssh")


class PaiHistoryHealthView(JobBase):
    def get(self, request: Request, framework: str) -> Response:
        """Say that attempts are kept."""
        find(request, framework)
        return Response({"status": 200, "message": "The history of jobs is kept."})


class PaiJobAttemptsView(JobBase):
    MOST = 1000

    def get(self, request: Request, framework: str) -> Response:
        """List the attempts of a job, newest first."""
        job = find(request, framework)
        queries.jobs_for_reader(request.user, [job])
        fields = ("index", "outcome", "retry", "placed_at", "started_at", "finished_at")
        rows = JobAttempt.objects.filter(job=job).order_by("-index")
        ended = list(rows.values(*fields, "reason", "diagnosis")[: self.MOST])
        reasons = queries.reasons_for_reader(request.user, [row["reason"] for row in ended])
        for row, reason in zip(ended, reasons, strict=True):
            row["reason"] = reason
        present = queries.present_attempt(job)
        attempts = [*([present] if present else []), *ended]
        if not attempts or (job.state in JOB.active and not present):
            attempts.insert(0, None)
        roles = TaskRole.objects.filter(job=job).count()
        return Response([job_shapes.attempt(job, one, roles) for one in attempts])


class PaiJobAttemptView(JobBase):
    def get(self, request: Request, framework: str, attempt: int) -> Response:
        """Get one attempt of a job with its tasks."""
        job = find(request, framework)
        queries.jobs_for_reader(request.user, [job])
        if not job.attempt and not attempt:
            shown, detail = None, _detail(job, None)
        else:
            shown = _attempt(request, job, attempt)
            detail = _detail(job, shown)
        roles = detail["taskRoles"]
        return Response({**job_shapes.attempt(job, shown, len(roles)), "taskRoles": roles})


class TaskBase(JobBase):
    missing = "NoTaskError"


def _task(request: Request, framework: str, role: str, index: int) -> Task:
    try:
        job = find(request, framework)
    except NotFound as error:
        raise NotFound(error.message, code="no_job") from None
    task = job.tasks.filter(role__name=role, index=index).select_related("role").first()
    if task is None:
        raise NotFound(f"Task {role}-{index} is not found.", code="no_task")
    task.job = job
    return task


class PaiTaskAttemptsView(TaskBase):
    def get(
        self, request: Request, framework: str, attempt: int, role: str, index: int
    ) -> Response:
        """Get a task with its attempts within one attempt of the job."""
        task = _task(request, framework, role, index)
        rows = TaskAttempt.objects.filter(task=task, index=attempt + 1).select_related("node")
        return Response(job_shapes.task_attempts(task, attempt, list(rows.order_by("-retry"))))


class PaiLogsView(TaskBase):
    missing = "NoTaskLogError"

    def get(
        self, request: Request, framework: str, attempt: int, role: str, index: int, retry: int
    ) -> Response:
        """List where the logs of a task are read: addresses of Skep's own API, which want the same
        token."""
        task, found = self._found(request, framework, attempt, role, index, retry)
        asked = request.query_params
        tail = "true" in (asked.get("tail-mode"), asked.get("tailMode"))
        shown = []
        for stream in logs.STREAMS:
            size = logs.stream_size(found, stream) if tail else 0
            offset = max(size - TAIL_BYTES, 0)
            query = f"?raw=true&offset={offset}" if offset else "?raw=true"
            address = f"/api/v1/attempts/{found.pk}/logs/{stream}{query}"
            shown.append({"name": f"user.pai.{stream}", "uri": _absolute(request, address)})
        merged = f"/api/v1/jobs/{found.job_id}/logs/download?rank={task.rank}&attempt={found.index}"
        shown.append({"name": "user.pai.all", "uri": _absolute(request, merged)})
        return Response({"locations": shown})

    def _found(
        self, request: Request, framework: str, attempt: int, role: str, index: int, retry: int
    ) -> tuple[Task, TaskAttempt]:
        task = _task(request, framework, role, index)
        check_kept(task.job)
        rows = TaskAttempt.objects.filter(task=task, index=attempt + 1, retry=retry)
        found = rows.select_related("job").first()
        if found is None:
            raise NotFound("Log of task is not found.")
        return task, found


class PaiLogView(PaiLogsView):
    def get(  # type: ignore[override]
        self,
        request: Request,
        framework: str,
        attempt: int,
        role: str,
        index: int,
        retry: int,
        name: str,
    ) -> HttpResponseBase:
        """Redirect to one log of a task."""
        listed = super().get(request, framework, attempt, role, index, retry).data["locations"]
        uri = next((one["uri"] for one in listed if one["name"] == name), None)
        if uri is None:
            raise NotFound(f"There is no log named {name[:100]}.")
        return HttpResponse(status=302, headers={"Location": uri})


def _absolute(request: Request, address: str) -> str:
    return str(request.build_absolute_uri(address))


class PaiOldJobsView(PaiJobsView):
    """Version 1: also takes jobs as that version describes them."""

    parser_classes = (*JOB_FILE_PARSERS, job_v1.JobFormParser)

    def job_file(self, request: Request) -> str:
        return job_v1.job_file(request)


class PaiUserJobsView(PaiOldJobsView):
    """Version 1: the jobs of one user."""

    def get(self, request: Request, username: str) -> Response:  # type: ignore[override]
        query = request._request.GET.copy()
        query["username"] = username
        request._request.GET = query  # type: ignore[assignment]
        return super().get(request)

    def post(self, request: Request, username: str) -> Response:  # type: ignore[override]
        _check_self(request, username)
        return super().post(request)


def _check_self(request: Request, username: str) -> None:
    if username != request.user.get_username():
        raise Forbidden("Jobs are submitted under your own name.")


class PaiUserJobView(PaiJobView):
    token_scope = Scope.SUBMIT

    def get(self, request: Request, username: str, name: str) -> Response:  # type: ignore[override]
        return super().get(request, f"{username}~{name}")

    def delete(self, request: Request, username: str, name: str) -> Response:
        """Refuse: jobs are stopped, and stay in the list."""
        find(request, f"{username}~{name}")
        raise SkepError("Jobs are not deleted: stop it.", code="not_implemented")


class PaiUserJobConfigView(PaiConfigView):
    def get(  # type: ignore[override]
        self, request: Request, username: str, name: str
    ) -> HttpResponseBase:
        """Get the job file as JSON: clients of version 1 read no YAML."""
        job = find(request, f"{username}~{name}")
        return Response(_without_credentials(job.spec))


def _without_credentials(value: Any) -> Any:
    """Mask the credentials in all texts of a job file that was read."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {key: _without_credentials(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_credentials(one) for one in value]
    return value


class PaiUserJobExecutionView(PaiExecutionTypeView):
    def put(self, request: Request, username: str, name: str) -> Response:  # type: ignore[override]
        return super().put(request, f"{username}~{name}")


class PaiUserJobSshView(PaiSshView):
    def get(self, request: Request, username: str, name: str) -> Response:  # type: ignore[override]
        return super().get(request, f"{username}~{name}")
