"""A locked job's row and the counts of its task attempts, from which decisions are made."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet, Window
from django.db.models.functions import RowNumber

from skep_platform.core.bulk import fetch
from skep_platform.core.models import Event
from skep_platform.core.user_events import wants
from skep_platform.jobs.lifecycle import decisions, diagnosing
from skep_platform.jobs.lifecycle.decisions import Reaction, RoleCounts, Verdict, View
from skep_platform.jobs.lifecycle.diagnosing import Failed
from skep_platform.jobs.lifecycle.facts import AttemptRow
from skep_platform.jobs.lifecycle.messages import OVER_TIME, Reason
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState


@dataclass(slots=True)
class JobRow:
    """The columns of a job that decisions read and write; see `models.Job` for what they mean."""

    id: UUID
    name: str
    state: str
    attempt: int
    tasks_total: int
    incremental: bool
    max_duration_s: int | None
    placed_at: datetime | None
    not_before: datetime | None
    begun_at: datetime | None
    ends_at: datetime | None
    avoid_nodes: dict[str, float] | None
    unplaced: int
    preempting_at: datetime | None
    downgraded: Reason | None
    preemptions: int
    retries_used: int
    free_retries: int
    failing_since: datetime | None
    failing_retries: int
    retries_ended: bool
    diagnosing_at: datetime | None
    diagnosis: dict[str, Any] | None
    started_at: datetime | None
    finished_at: datetime | None
    stop_requested_at: datetime | None
    wait_reason: Reason | None
    exit_reason: Reason | None
    verdict: str
    notified_events: int
    request_id: str
    job_retry_count: int | None  # of the job file
    owner_notified_events: int | None

    def copy(self) -> JobRow:
        """Return an equal row, in a third of the time that `dataclasses.replace` takes."""
        return JobRow(*_values(self))

    @property
    def waits_because(self) -> Reason:
        """Return the reason of a job that waits, or is preempted."""
        assert self.wait_reason is not None
        return self.wait_reason

    @property
    def ends_because(self) -> Reason:
        """Return the reason of a job attempt whose end is decided."""
        assert self.exit_reason is not None
        return self.exit_reason

    def notifies(self, kind: str) -> bool:
        """Return whether the owner is to be notified of an event of this kind."""
        return wants(self.owner_notified_events, kind, self.notified_events)

    def values(self, columns: Iterable[str]) -> dict[str, Any]:
        """Return these columns and the id, as `bulk.update_rows` takes them."""
        return {name: getattr(self, name) for name in ("id", *columns)}


# As a query names them, in the order of the fields; the last two are a key of the job file and a
# column of the owner.
_NAMES = tuple(field.name for field in fields(JobRow))
_values = attrgetter(*_NAMES)
OF_JOB = _NAMES[:-2]
COLUMNS = (*OF_JOB, "spec__jobRetryCount", "owner__notified_events")
JSON = ("avoid_nodes", "downgraded", "diagnosis", "wait_reason", "exit_reason")


@dataclass(frozen=True, slots=True)
class Failure:
    """A task attempt that failed or was lost, and what its task may still do about it."""

    job_id: UUID
    role_id: int
    task_id: int
    state: str
    retry: int  # of the task alone
    retries_used: int
    retries_allowed: int
    diagnosis: dict[str, Any] | None
    failed: Failed


@dataclass(slots=True)
class LockedJob:
    """`failures` are those that came first, of an incremental job all that were not granted a
    retry; `diagnosis` is that of the present attempt's failure, once it is known."""

    row: JobRow
    roles: dict[int, RoleCounts] = field(default_factory=dict)
    started: int = 0
    first_start: datetime | None = None
    unreleased: int = 0
    unready: int = 0
    lost: bool = False
    counted: bool = False  # what is above
    undiagnosed: int = 0  # failed tasks that may be tried again by themselves
    failures: list[Failure] = field(default_factory=list)
    diagnosis: dict[str, Any] | None = None
    # Of the batch at hand: tasks that left ASSIGNED, and events of single tasks.
    left_assigned: int = 0
    events: list[Event] = field(default_factory=list)

    @classmethod
    def from_sql(cls, values: Sequence[Any]) -> LockedJob:
        """Return the job of a row of COLUMNS that no queryset has read: jsonb is text there."""
        row = JobRow(*values)
        for name in JSON:
            text = getattr(row, name)
            setattr(row, name, json.loads(text) if text else None)
        return cls(row)

    def copy(self) -> LockedJob:
        """Return a job of which changes leave this one alone; reasons and diagnoses are replaced,
        never changed."""
        other = LockedJob(*_fields(self))  # a third of the time that `dataclasses.replace` takes
        other.row = self.row.copy()
        other.roles = {
            pk: RoleCounts(role.min_failed, role.min_succeeded, dict(role.states))
            for pk, role in self.roles.items()
        }
        other.failures, other.events = list(self.failures), list(self.events)
        return other

    def count_only(self, attempt: AttemptRow) -> bool:
        """Count the present job attempt from its only task attempt, which did not fail. Return
        False where there may be others, or what is stored is needed."""
        row = self.row
        if row.tasks_total != 1 or row.incremental or row.attempt != attempt.index:
            return False
        if attempt.state in FAILURES:
            return False
        counts = RoleCounts(attempt.min_failed, attempt.min_succeeded, {attempt.state: 1})
        self.roles = {attempt.role_id: counts}
        self.started, self.first_start = int(attempt.started_at is not None), attempt.started_at
        self.unreleased = int(attempt.released_at is None)
        preparing = attempt.state == AttemptState.PREPARING and attempt.ready_at is None
        self.unready = int(preparing or attempt.state == AttemptState.ASSIGNED)
        self.counted = True
        return True

    @property
    def id(self) -> UUID:
        return self.row.id

    @property
    def active(self) -> bool:
        return self.row.state in JOB.active

    @property
    def retries_allowed(self) -> int:
        return self.row.job_retry_count or 0

    @property
    def held(self) -> bool:
        """Whether its tasks begin together and have not begun yet."""
        row = self.row
        return row.tasks_total > 1 and not row.incremental and row.begun_at is None

    @property
    def verdict(self) -> Verdict | None:
        """How the present attempt ends, as decided earlier; None while it goes on."""
        return Verdict(self.row.verdict) if self.row.verdict else None

    @property
    def reaction(self) -> Reaction | None:
        """What the diagnosis asks for; None while it is not known why the attempt failed."""
        reason = self.row.exit_reason
        if reason is not None and reason["code"] == OVER_TIME:
            return Reaction.NEVER_RETRY
        return Reaction(self.diagnosis["reaction"]) if self.diagnosis else None

    def view(self, now: datetime | None = None) -> View:
        return View(
            state=self.row.state,
            roles=list(self.roles.values()),
            started=self.started,
            unreleased=self.unreleased,
            unplaced=self.row.unplaced + self.undiagnosed,
            held=self.held,
            unready=self.unready,
            verdict=self.verdict,
            stop_requested=self.row.stop_requested_at is not None,
            preempting=self.row.preempting_at is not None,
            diagnosis=self.reaction,
            node_to_blame=bool(self.diagnosis and self.diagnosis["blame"] == "node"),
            lost=self.lost,
            retries_allowed=self.retries_allowed,
            retries_used=self.row.retries_used,
            free_retries=self.row.free_retries,
            failing_retries=self.row.failing_retries,
            failing_s=self.failing_s(now),
            retries_ended=self.row.retries_ended,
        )

    def failing_s(self, now: datetime | None) -> float:
        """Return for how many seconds its attempts have failed and been tried again for free."""
        since = self.row.failing_since
        return (now - since).total_seconds() if since and now else 0.0


_fields = attrgetter(*(field.name for field in fields(LockedJob)))


def lock(jobs: QuerySet[Job], *, skip_locked: bool = False) -> list[LockedJob]:
    """Lock these jobs, one query. Call inside a transaction."""
    rows = jobs.select_for_update(of=("self",), no_key=True, skip_locked=skip_locked)
    return [LockedJob(JobRow(*row)) for row in rows.order_by("pk").values_list(*COLUMNS)]


WAITING = "WAITING"  # as a task's state: it is tried again as soon as it has a place
FAILURES = (AttemptState.FAILED, AttemptState.LOST)
MOST_FAILURES = 16  # read per gang: the first ones explain the failure


def count(jobs: Mapping[UUID, LockedJob]) -> None:
    """Count the present attempts of those of these jobs that are not counted yet by state, and read
    those that failed. No query where all are."""
    jobs = {pk: job for pk, job in jobs.items() if not job.counted}
    if not jobs:
        return
    for row in fetch(COUNTS, [list(jobs)]):
        job_id, role_id, min_failed, min_succeeded, state, n, *more = row
        started, first, unreleased, unready = more
        job = jobs[job_id]
        role = job.roles.setdefault(role_id, RoleCounts(min_failed, min_succeeded, {}))
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
    """Read the failures of jobs that have some; build no query for the others."""
    failing = [job for job in jobs.values() if job.view().count(decisions.FAILED_STATES)]
    alone = [job.id for job in failing if job.row.incremental]
    gangs = [job.id for job in failing if not job.row.incremental]
    if gangs:
        _take_failures(jobs, _first(gangs))
    if alone:
        _take_failures(jobs, _untried(alone))


def _take_failures(jobs: Mapping[UUID, LockedJob], failed: QuerySet[TaskAttempt]) -> None:
    for values in failed.values_list(*OF_TASK.values(), *diagnosing.COLUMNS):
        columns = dict(zip(OF_TASK, values, strict=False))
        failure = Failure(**columns, failed=Failed(*values[len(OF_TASK) :]))
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
    """Select those whose tasks were not granted another try."""
    newer = TaskAttempt.objects.filter(
        task=OuterRef("task"), index=OuterRef("index"), retry__gt=OuterRef("retry")
    )
    return _failed(jobs).filter(~Exists(newer), task__not_before=None)
