"""Jobs, tasks and attempts in the shapes that OpenPAI's clients read.

Times are milliseconds since the epoch. Attempts count from 0 there and from 1 here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import BigIntegerField, Func
from django.utils import timezone

from skep_diagnosis.table import table
from skep_platform.core.bulk import fetch
from skep_platform.core.models import Event
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job, Task, TaskAttempt, TaskRole
from skep_platform.jobs.states import ATTEMPT, AttemptState, JobState

STOPPED = -210  # OpenPAI's exit code of a job that its user stopped
UNEXPLAINED = 255
# The states of jobs and tasks, as OpenPAI's controller calls them.
SUB_STATES = {
    "WAITING": "AttemptCreationPending",
    "RUNNING": "AttemptRunning",
    "STOPPING": "AttemptDeletionRequested",
    "SUCCEEDED": "Completed",
    "FAILED": "Completed",
    "STOPPED": "Completed",
}
PREPARING = "AttemptPreparing"
TASK_STATES = {
    AttemptState.ASSIGNED.value: "WAITING",
    AttemptState.PREPARING.value: "WAITING",
    AttemptState.LOST.value: "FAILED",
}
# Words in the kind of an event that make it a warning.
WARNINGS = ("fail", "lost", "preempt", "evict", "downgrade", "refus", "kill", "error", "idle")


class Milliseconds(Func):
    """A time as milliseconds since the epoch: thousands of datetimes would take longer to make than
    all else of a list."""

    template = "floor(extract(epoch FROM %(expressions)s) * 1000)::bigint"
    output_field = BigIntegerField()


class ListedJob(NamedTuple):
    """What the list reads of a job. Times are milliseconds since the epoch, but for `not_before`,
    which is compared."""

    pk: UUID
    name: str
    owner: str
    state: str
    placed_at: int | None
    stop_requested_at: int | None
    retries_used: int
    free_retries: int
    preemptions: int
    not_before: datetime | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    vc: str
    gpus: int
    tasks_total: int
    priority_class: str
    tags: list[str]
    code: int | None


COLUMNS = (
    *("pk", "name", "owner__username", "state"),
    *(Milliseconds("placed_at"), Milliseconds("stop_requested_at")),
    *("retries_used", "free_retries", "preemptions", "not_before"),
    *(Milliseconds("created_at"), Milliseconds("started_at"), Milliseconds("finished_at")),
    *("vc__name", "gpus", "tasks_total", "priority_class", "tags", "diagnosis__code"),
)


def ms(at: datetime | None) -> int | None:
    """Return a time as milliseconds since the epoch."""
    return None if at is None else int(at.timestamp() * 1000)


def debug_id(owner: str, name: str) -> str:
    """Return what OpenPAI calls the object of a job in Kubernetes."""
    digest = hashlib.md5(f"{owner}~{name}".encode(), usedforsecurity=False)
    return digest.hexdigest()


ROLES_OF_JOBS = "SELECT job_id, count(*) FROM jobs_taskrole WHERE job_id = ANY(%s) GROUP BY job_id"


def summaries(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return rows with COLUMNS as OpenPAI lists jobs. One query."""
    jobs = list(map(ListedJob._make, rows))
    roles = dict(fetch(ROLES_OF_JOBS, [[job.pk for job in jobs]]))
    return [_summary(job, roles.get(job.pk, 0)) for job in jobs]


def _summary(job: ListedJob, roles: int) -> dict[str, Any]:
    return {
        "debugId": debug_id(job.owner, job.name),
        "name": job.name,
        "username": job.owner,
        **_progress(job),
        "tags": job.tags,
        "submissionTime": job.created_at,
        "createdTime": job.created_at,
        "launchedTime": job.started_at,
        "completedTime": job.finished_at,
        "appExitCode": exit_code(job.state, job.code),
        "virtualCluster": job.vc,
        "totalGpuNumber": job.gpus,
        "totalTaskNumber": job.tasks_total,
        "totalTaskRoleNumber": roles,
        "jobPriority": job.priority_class,
    }


def _progress(job: ListedJob | Job) -> dict[str, Any]:
    """Return the state of a job and its retries, which lists and details have in common."""
    waits = (job.not_before - timezone.now()).total_seconds() if job.not_before else 0
    return {
        "state": job.state,
        "subState": sub_state(job),
        "executionType": "STOP" if job.stop_requested_at else "START",
        "retries": job.retries_used + job.free_retries + job.preemptions,
        "retryDetails": {
            "user": job.retries_used,
            "platform": job.free_retries,
            "resource": job.preemptions,
        },
        "retryDelayTime": int(waits) if waits > 0 else None,
    }


def sub_state(job: ListedJob | Job) -> str:
    if job.state == JobState.WAITING and job.placed_at is not None:
        return PREPARING
    return SUB_STATES[job.state]


def exit_code(state: str, code: int | None) -> int | None:
    """Return the exit code of a job, of the same table of failures as OpenPAI's; None while it goes
    on."""
    if state == "SUCCEEDED":
        return 0
    if state == "STOPPED":
        return STOPPED
    if state != "FAILED":
        return None
    return UNEXPLAINED if code is None else code


def exit_spec(code: int | None) -> dict[str, Any] | None:
    """Return the row of OpenPAI's exit specification for a code."""
    if code is None or code not in table().codes:
        return None
    known = table().code(code)
    return {
        "code": code,
        "phrase": known.name,
        "issuer": "SKEP",
        "causer": known.blame.upper(),
        "type": known.type,
        "stage": "RUNNING",
        "behavior": known.retry.upper(),
        "reaction": known.reaction,
        "reason": known.heading,
        "repro": [],
        "solution": [known.remedy] if known.remedy else [],
    }


def attempt_id(job: Job) -> int:
    """Return the number of the present attempt of a job, from 0."""
    return max(job.attempt - 1, 0)


# Of an attempt: how it ended, as a state of a job.
OUTCOMES = {"": "RUNNING", "PREEMPTED": "STOPPED"}


def detail(
    job: Job,
    roles: Sequence[TaskRole],
    tasks: Sequence[Task],
    attempts: Mapping[int, TaskAttempt],
    ended: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return a job with its tasks. `attempts`: of the tasks, by their ids; `ended`: an attempt of
    the job, in the place of the present one."""
    owner = job.owner.get_username()
    now = _present(job) if ended is None else _ended(job, ended)
    code, diagnosis = exit_code(now["state"], _code(now["diagnosis"])), now["diagnosis"] or {}
    role_of, _, index_of = (diagnosis.get("task") or "").rpartition("-")
    reason = (now["reason"] or {}).get("message")
    status = {
        "username": owner,
        **_progress(job),
        "state": now["state"],
        "subState": now["subState"],
        "submissionTime": ms(job.created_at),
        "createdTime": ms(job.created_at),
        "launchedTime": ms(job.started_at),
        "completedTime": ms(job.finished_at),
        "attemptId": now["id"],
        "attemptState": now["subState"],
        "appId": str(job.pk),
        "appProgress": 1 if code is not None else 0,
        "appTrackingUrl": page_of(job),
        "appCreatedTime": ms(now["placed_at"]),
        "appLaunchedTime": ms(now["started_at"]),
        "appCompletedTime": ms(now["finished_at"]),
        "appExitCode": code,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": _evidence(diagnosis) or reason,
        "appExitMessages": {"container": None, "runtime": None, "launcher": reason},
        "appExitTriggerMessage": reason,
        "appExitTriggerTaskRoleName": role_of or None,
        "appExitTriggerTaskIndex": int(index_of) if index_of.isdigit() else None,
        "appExitType": diagnosis.get("type") or ("Succeeded" if code == 0 else None),
        "virtualCluster": job.vc.name,
    }
    return {
        "debugId": debug_id(owner, job.name),
        "name": job.name,
        "tags": job.tags,
        "jobPriority": job.priority_class,
        "jobStatus": status,
        "taskRoles": task_roles(job, roles, tasks, attempts, ended=ended is not None),
    }


def _present(job: Job) -> dict[str, Any]:
    return {
        "id": attempt_id(job),
        "state": job.state,
        "subState": sub_state(job),
        "placed_at": job.placed_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "reason": job.exit_reason,
        "diagnosis": job.diagnosis if job.exit_reason else None,
    }


def _ended(job: Job, attempt: Mapping[str, Any]) -> dict[str, Any]:
    outcome = attempt["outcome"]
    state = OUTCOMES.get(outcome, outcome)
    return {**attempt, "id": attempt["index"] - 1, "state": state, "subState": SUB_STATES[state]}


def _code(diagnosis: Mapping[str, Any] | None) -> int | None:
    return diagnosis["code"] if diagnosis else None


def _evidence(diagnosis: Mapping[str, Any]) -> str | None:
    return (diagnosis.get("evidence") or {}).get("text") or None


def page_of(job: Job) -> str:
    return f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/jobs/{job.pk}"


def task_roles(
    job: Job,
    roles: Sequence[TaskRole],
    tasks: Sequence[Task],
    attempts: Mapping[int, TaskAttempt],
    *,
    ended: bool = False,
) -> dict[str, Any]:
    """Return the tasks by role."""
    shown: dict[int, list[dict[str, Any]]] = {role.pk: [] for role in roles}
    groups = {role.pk: role.affinity_group for role in roles}
    for task in tasks:
        one = attempts.get(task.pk)
        state = one.state if ended and one else queries.state_of(job, one)
        if one is not None and one.index != job.attempt and not ended:
            one = None
        shown[task.role_id].append(_task(job, task, one, state, groups[task.role_id]))
    return {
        role.name: {"taskRoleStatus": {"name": role.name}, "taskStatuses": shown[role.pk]}
        for role in roles
    }


def _task(
    job: Job, task: Task, attempt: TaskAttempt | None, state: str, group: str
) -> dict[str, Any]:
    return {
        "taskIndex": task.index,
        "taskUid": str(attempt.pk) if attempt else str(task.pk),
        "taskState": TASK_STATES.get(state, state),
        "retries": attempt.retry if attempt else 0,
        "accountableRetries": task.retries_used,
        "createdTime": ms(attempt.created_at if attempt else job.created_at),
        "launchedTime": ms(attempt.started_at) if attempt else None,
        "completedTime": ms(attempt.finished_at) if attempt else None,
        **_container(job, attempt, state, group),
    }


def _container(job: Job, attempt: TaskAttempt | None, state: str, group: str) -> dict[str, Any]:
    """Return one attempt of a task."""
    code = _exit_of(attempt)
    diagnosis = (attempt.diagnosis if attempt else None) or {}
    return {
        "attemptId": attempt.retry if attempt else 0,
        "attemptState": _attempt_state(state),
        "currentAttemptCreatedTime": ms(attempt.created_at) if attempt else None,
        "currentAttemptLaunchedTime": ms(attempt.started_at) if attempt else None,
        "currentAttemptCompletedTime": ms(attempt.finished_at) if attempt else None,
        "containerId": str(attempt.pk) if attempt else None,
        "containerIp": (attempt.node.address or None) if attempt else None,
        "containerNodeName": attempt.node.name if attempt else None,
        "containerPorts": _ports(attempt.ports) if attempt else {},
        "containerGpus": None,
        "containerLog": page_of(job),
        "containerExitCode": code,
        "containerExitSpec": exit_spec(_code(diagnosis)),
        "containerExitDiagnostics": _evidence(diagnosis)
        or (attempt.error_message if attempt else None)
        or None,
        "hived": {
            "affinityGroupName": group or f"{job.owner.get_username()}~{job.name}/default",
            "lazyPreempted": job.downgraded is not None,
            "lazyPreemptionStatus": None,
        },
    }


def _exit_of(attempt: TaskAttempt | None) -> int | None:
    if attempt is None or attempt.state not in ATTEMPT.terminal:
        return None
    if attempt.exit_code is None and attempt.exit_signal:
        return 128 + attempt.exit_signal
    return attempt.exit_code


def _attempt_state(state: str) -> str:
    if state in (AttemptState.ASSIGNED, AttemptState.PREPARING):
        return PREPARING
    return SUB_STATES[TASK_STATES.get(state, state)]


def _ports(ports: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return ports by label: a number, or several as text."""
    return {
        label: numbers[0] if len(numbers) == 1 else ",".join(map(str, numbers))
        for label, numbers in ports.items()
        if numbers
    }


def attempt(job: Job, one: Mapping[str, Any] | None, roles: int) -> dict[str, Any]:
    """Return an attempt of a job; None: the one that waits for its first place, or its next."""
    owner = job.owner.get_username()
    now = _present(job) if one is None else _ended(job, one)
    if one is None and job.attempt:
        now["id"] = job.attempt
    latest = one is None or one["index"] == job.attempt
    if latest:
        now["state"], now["subState"] = job.state, sub_state(job)
    diagnosis = now["diagnosis"] or {}
    code = exit_code(now["state"], _code(diagnosis))
    role_of, _, index_of = (diagnosis.get("task") or "").rpartition("-")
    reason = (now["reason"] or {}).get("message")
    return {
        "jobName": job.name,
        "frameworkName": f"{owner}~{job.name}",
        "uid": str(job.pk),
        "userName": owner,
        "state": now["state"],
        "originState": now["subState"],
        "attemptIndex": now["id"],
        "jobStartedTime": ms(job.created_at),
        "attemptStartedTime": ms(now["started_at"] or now["placed_at"]),
        "attemptCompletedTime": ms(now["finished_at"]),
        "exitCode": code,
        "exitPhrase": diagnosis.get("name"),
        "exitType": diagnosis.get("type"),
        "exitDiagnostics": None if code is None else {"diagnosticsSummary": reason or ""},
        "appExitTriggerMessage": reason,
        "appExitTriggerTaskRoleName": role_of or None,
        "appExitTriggerTaskIndex": int(index_of) if index_of.isdigit() else None,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": _evidence(diagnosis) or reason,
        "appExitMessages": {"container": None, "runtime": None, "launcher": reason},
        "totalGpuNumber": job.gpus,
        "totalTaskNumber": job.tasks_total,
        "totalTaskRoleNumber": roles,
        "taskRoles": {},
        "isLatest": latest,
    }


def task_attempts(task: Task, number: int, attempts: Sequence[TaskAttempt]) -> dict[str, Any]:
    """Return a task with its attempts (newest first) within one attempt of the job."""
    job, role = task.job, task.role
    newest = attempts[0] if attempts else None
    present = number == attempt_id(job)
    state = queries.state_of(job, newest) if present and newest is None else None
    state = state or (newest.state if newest else JobState.WAITING.value)
    shown = _task(job, task, newest, state, role.affinity_group)
    shown["retries"] = newest.retry if newest else 0
    return {
        **{name: value for name, value in shown.items() if name in TASK_FIELDS},
        "username": job.owner.get_username(),
        "jobName": job.name,
        "jobAttemptId": number,
        "taskRoleName": role.name,
        "attempts": [_container(job, one, one.state, role.affinity_group) for one in attempts],
    }


TASK_FIELDS = frozenset(
    {
        *("taskIndex", "taskUid", "taskState", "retries", "accountableRetries"),
        *("createdTime", "launchedTime", "completedTime"),
    }
)


def event(framework: str, one: Event) -> dict[str, Any]:
    """Return an event of a job. It has no task: events here are those of the job as a whole."""
    warning = any(word in one.kind for word in WARNINGS)
    return {
        "uid": str(one.pk),
        "frameworkName": framework,
        "podUid": "",
        "taskroleName": "",
        "taskName": "",
        "taskIndex": 0,
        "type": "Warning" if warning else "Normal",
        "reason": one.kind,
        "message": one.message,
        "firstTimestamp": (one.first_at or one.at).isoformat(),
        "lastTimestamp": one.at.isoformat(),
        "count": one.count,
        "sourceComponent": "skep",
        "sourceHost": None,
    }
