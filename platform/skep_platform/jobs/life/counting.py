"""What the attempts of locked jobs come to: a constant number of queries for any number of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet, Window
from django.db.models.functions import RowNumber

from skep_platform.core.bulk import fetch
from skep_platform.jobs.life import diagnosing, lifecycle
from skep_platform.jobs.life.diagnosing import Failed
from skep_platform.jobs.life.lifecycle import Role
from skep_platform.jobs.life.locked import Failure, LockedJob
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import AttemptState

WAITING = "WAITING"  # as a task's state: it is tried again as soon as it has a place
FAILURES = (AttemptState.FAILED, AttemptState.LOST)
MOST_FAILURES = 16  # read per gang: those that came first tell why


def count(jobs: Mapping[UUID, LockedJob]) -> None:
    """The present attempts of these jobs by state, and those that failed."""
    for row in fetch(COUNTS, [list(jobs)]):
        job_id, role_id, min_failed, min_succeeded, state, n, *more = row
        started, first, unreleased, unready = more
        job = jobs[job_id]
        role = job.roles.setdefault(role_id, Role(min_failed, min_succeeded, {}))
        role.states[state] = n
        job.started += started
        job.unreleased += unreleased
        job.unready += unready
        job.lost |= state == AttemptState.LOST
        starts = [moment for moment in (job.first_start, first) if moment is not None]
        job.first_start = min(starts, default=None)
    _read_failures(jobs)


# Of a task that was tried again by itself only the newest attempt counts.
COUNTS = f"""
SELECT a.job_id, a.role_id, r.min_failed, r.min_succeeded,
       CASE WHEN t.not_before IS NOT NULL AND a.state IN ('FAILED', 'LOST')
            THEN '{WAITING}' ELSE a.state END,
       count(*), count(a.started_at), min(a.started_at),
       count(*) FILTER (WHERE a.released_at IS NULL),
       count(*) FILTER (WHERE a.state = 'ASSIGNED' OR a.state = 'PREPARING' AND a.ready_at IS NULL)
  FROM jobs_taskattempt a
  JOIN jobs_job j ON j.id = a.job_id AND j.attempt = a.index
  JOIN jobs_taskrole r ON r.id = a.role_id
  LEFT JOIN jobs_task t ON j.incremental AND t.id = a.task_id
 WHERE a.job_id = ANY(%s)
   AND NOT (j.incremental AND EXISTS (
       SELECT FROM jobs_taskattempt b
        WHERE b.task_id = a.task_id AND b.index = a.index AND b.retry > a.retry))
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 1, 2
"""  # noqa: S608 nothing but a name of ours


def _read_failures(jobs: Mapping[UUID, LockedJob]) -> None:
    """No query for jobs without failures, nor the making of one."""
    failing = [job for job in jobs.values() if job.view().count(lifecycle.FAILED_STATES)]
    alone = [job.id for job in failing if job.row["incremental"]]
    gangs = [job.id for job in failing if not job.row["incremental"]]
    if gangs:
        _take_failures(jobs, _first(gangs))
    if alone:
        _take_failures(jobs, _untried(alone))


def _take_failures(jobs: Mapping[UUID, LockedJob], failed: QuerySet[TaskAttempt]) -> None:
    for values in failed.values_list(*OF_TASK.values(), *diagnosing.COLUMNS):
        told = dict(zip(OF_TASK, values, strict=False))
        failure = Failure(**told, failed=Failed(*values[len(OF_TASK) :]))
        jobs[failure.job_id].failures.append(failure)


OF_TASK = {
    "job_id": "job_id",
    "role_id": "role_id",
    "task_id": "task_id",
    "state": "state",
    "retry": "retry",
    "retries_used": "task__retries_used",
    "retries_allowed": "role__task_retries",
    "diagnosis": "diagnosis",
}  # fields of Failure, from columns of TaskAttempt


def _failed(jobs: Collection[UUID]) -> QuerySet[TaskAttempt]:
    failed = TaskAttempt.objects.filter(job__in=jobs, index=F("job__attempt"), state__in=FAILURES)
    return failed.order_by("finished_at", "id")


def _first(jobs: Collection[UUID]) -> QuerySet[TaskAttempt]:
    number = Window(RowNumber(), partition_by="job_id", order_by=["finished_at", "id"])
    return _failed(jobs).annotate(number=number).filter(number__lte=MOST_FAILURES)


def _untried(jobs: Collection[UUID]) -> QuerySet[TaskAttempt]:
    """Those whose tasks were not granted another try."""
    newer = TaskAttempt.objects.filter(
        task=OuterRef("task"), index=OuterRef("index"), retry__gt=OuterRef("retry")
    )
    return _failed(jobs).filter(~Exists(newer), task__not_before=None)
