"""Carrying out what `lifecycle.decide` says, for many jobs by a constant number of queries.

The rows of the jobs are locked by the caller, in the order of their ids: every writer of a job's
attempts holds that lock, so the counts read here stay true until the commit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet

from skep_platform.core import doorbells
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs import lifecycle, stories
from skep_platform.jobs.bulk import fetch, insert_rows, update_rows
from skep_platform.jobs.lifecycle import Decision, Retry, Role, Verdict, View
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState
from skep_platform.jobs.stories import Ending, Reason

COLUMNS = (
    "id",
    "name",
    "state",
    "attempt",
    "tasks_total",
    "placed_at",
    "not_before",
    "unplaced",
    "preempting_at",
    "downgraded",
    "preemptions",
    "retries_used",
    "started_at",
    "finished_at",
    "stop_requested_at",
    "wait_reason",
    "exit_reason",
    "spec__jobRetryCount",
)
CHANGED = (
    "state",
    "placed_at",
    "not_before",
    "unplaced",
    "preempting_at",
    "downgraded",
    "preemptions",
    "retries_used",
    "started_at",
    "finished_at",
    "wait_reason",
    "exit_reason",
    "updated_at",
)
REASONS = ("downgraded", "wait_reason", "exit_reason")
# What belongs to one attempt of a job ends with it.
NO_ATTEMPT = {"unplaced": 0, "preempting_at": None, "downgraded": None}


@dataclass(slots=True)
class LockedJob:
    """A job's row under lock, and what its attempts count to."""

    row: dict[str, Any]
    roles: list[Role] = field(default_factory=list)
    started: int = 0
    first_start: datetime | None = None
    unreleased: int = 0
    platform_fault: bool = False
    ending: Ending | None = None  # of the first task that failed
    # Of the batch at hand: tasks that left ASSIGNED, and the events of those that failed.
    left_assigned: int = 0
    failures: list[Event] = field(default_factory=list)

    @classmethod
    def from_sql(cls, values: Sequence[Any]) -> LockedJob:
        """From a row of COLUMNS that was not read by a queryset: jsonb is text there."""
        row = dict(zip(COLUMNS, values, strict=True))
        for name in REASONS:
            row[name] = json.loads(row[name]) if row[name] else None
        return cls(row)

    @property
    def id(self) -> UUID:
        found: UUID = self.row["id"]
        return found

    @property
    def retries_allowed(self) -> int:
        return self.row["spec__jobRetryCount"] or 0

    @property
    def verdict(self) -> Verdict | None:
        """Decided earlier: the exit reason is written with the decision."""
        told = self.row["exit_reason"]
        if told is None:
            return None
        return {"succeeded": Verdict.SUCCEEDED, "stopped": Verdict.STOPPED}.get(
            told["code"], Verdict.FAILED
        )

    def view(self) -> View:
        return View(
            state=self.row["state"],
            roles=self.roles,
            attempt=self.row["attempt"],
            started=self.started,
            unreleased=self.unreleased,
            unplaced=self.row["unplaced"],
            verdict=self.verdict,
            stop_requested=self.row["stop_requested_at"] is not None,
            preempting=self.row["preempting_at"] is not None,
            platform_fault=self.platform_fault,
            retries_allowed=self.retries_allowed,
            retries_used=self.row["retries_used"],
            preemptions=self.row["preemptions"],
        )


def lock(jobs: QuerySet[Job], *, skip_locked: bool = False) -> list[LockedJob]:
    """Lock these jobs, one query. Call inside a transaction."""
    rows = jobs.select_for_update(of=("self",), no_key=True, skip_locked=skip_locked)
    return [LockedJob(row) for row in rows.order_by("pk").values(*COLUMNS)]


def advance(jobs: Sequence[LockedJob], now: datetime) -> list[UUID]:
    """Move locked jobs on as their attempts ask; returns the nodes whose desired state changed,
    for `bump_revision` as the last step. Jobs without a placement are left alone."""
    placed = {j.id: j for j in jobs if j.row["placed_at"] is not None and _active(j)}
    if not placed:
        return []
    _count(placed)
    _find_endings(placed)
    outcome = _Outcome(now)
    for job in placed.values():
        outcome.take(job, lifecycle.decide(job.view()))
    return outcome.write()


def _active(job: LockedJob) -> bool:
    return job.row["state"] in JOB.active


def _count(jobs: Mapping[UUID, LockedJob]) -> None:
    states: dict[tuple[UUID, int], dict[str, int]] = {}
    for row in fetch(COUNTS, [list(lifecycle.PLATFORM_FAULTS), list(jobs)]):
        job_id, role_id, min_failed, min_succeeded, state, n, started, first, unreleased, fault = (
            row
        )
        job = jobs[job_id]
        counts = states.get((job_id, role_id))
        if counts is None:
            counts = states[job_id, role_id] = {}
            job.roles.append(Role(min_failed, min_succeeded, counts))
        counts[state] = n
        job.started += started
        job.unreleased += unreleased
        job.platform_fault |= fault
        starts = [moment for moment in (job.first_start, first) if moment is not None]
        job.first_start = min(starts, default=None)


COUNTS = """
SELECT a.job_id, a.role_id, r.min_failed, r.min_succeeded, a.state, count(*), count(a.started_at),
       min(a.started_at), count(*) FILTER (WHERE a.released_at IS NULL),
       bool_or(a.error_code = ANY(%s))
  FROM jobs_taskattempt a
  JOIN jobs_job j ON j.id = a.job_id AND j.attempt = a.index
  JOIN jobs_taskrole r ON r.id = a.role_id
 WHERE a.job_id = ANY(%s)
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 1, 2
"""


def _find_endings(jobs: Mapping[UUID, LockedJob]) -> None:
    """The first failure of each job that has one; no query when none has."""
    failing = [job.id for job in jobs.values() if job.view().count(lifecycle.FAILED_STATES)]
    if not failing:
        return
    failed = TaskAttempt.objects.filter(
        job__in=failing, index=F("job__attempt"), state__in=lifecycle.FAILED_STATES
    )
    rows = failed.order_by("job_id", "finished_at", "id").distinct("job_id")
    for job_id, *ending in rows.values_list("job_id", *ENDING):
        jobs[job_id].ending = Ending(*ending)


ENDING: tuple[str, ...] = (
    *("role__name", "task__index", "node__name", "state", "exit_code", "exit_signal"),
    *("oom_killed", "error_code", "error_message"),
)


class _Outcome:
    """Collects what the decisions change, then writes it."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.rows: list[dict[str, Any]] = []
        self.events: list[Event] = []
        self.stop: list[UUID] = []
        self.requeued = False

    def take(self, job: LockedJob, decision: Decision) -> None:
        before = dict(job.row)
        if decision.state != job.row["state"]:
            JOB.check(job.row["state"], decision.state, str(job.id))
            job.row["state"] = decision.state
        if decision.verdict:
            self._decided(job, decision.verdict)
        if job.row["started_at"] is None and job.first_start is not None:
            job.row["started_at"] = job.first_start
        self._tell_progress(job, before)
        if decision.retry:
            self._requeue(job, decision.retry)
            job.row |= NO_ATTEMPT
        elif decision.finished:
            self._finish(job)
        if decision.stop_rest:
            self._stop_rest(job, decision)
        if job.row != before:
            job.row["updated_at"] = self.now
            self.rows.append({name: job.row[name] for name in ("id", *CHANGED)})

    def write(self) -> list[UUID]:
        """The nodes on which attempts shall stop."""
        update_rows(Job, CHANGED, self.rows)
        insert_rows(self.events)
        nodes = stop_attempts(self.stop, self.now) if self.stop else []
        for row in self.rows:
            doorbells.ring_topic("job", row["id"])
        if self.rows:
            doorbells.ring_topic("jobs")
        if self.requeued:
            doorbells.ring_scheduler()
        return nodes

    def _tell_progress(self, job: LockedJob, before: dict[str, Any]) -> None:
        view = job.view()
        left = sum(sum(role.states.values()) for role in view.roles)
        left -= view.count((AttemptState.ASSIGNED,))
        if job.left_assigned and job.left_assigned == left:
            message = "Pulling images and creating containers."
            self.events.append(event("job", job.id, "job.preparing", message))
        if before["started_at"] is None and job.row["started_at"] is not None:
            self.events.append(event("job", job.id, "job.started", "The first task runs."))
        self.events += job.failures

    def _decided(self, job: LockedJob, verdict: Verdict) -> None:
        """Tasks that still wait for a place need none any more."""
        job.row["unplaced"] = 0
        if verdict != Verdict.PREEMPTED and job.row["exit_reason"] is None:
            job.row["exit_reason"] = _reason(job, verdict)

    def _requeue(self, job: LockedJob, retry: Retry) -> None:
        if retry == Retry.PREEMPTED:
            self._requeue_preempted(job)
        else:
            self._requeue_failed(job, counted=retry == Retry.COUNTED)
        job.row["placed_at"] = job.row["started_at"] = job.row["exit_reason"] = None
        why = job.row["wait_reason"]
        self.requeued = True
        kind = "job.requeued" if retry == Retry.PREEMPTED else "job.retried"
        self.events.append(event("job", job.id, kind, why["message"], **why["details"]))

    def _requeue_preempted(self, job: LockedJob) -> None:
        """At once: who made room waits no longer for it than for a place."""
        job.row["preemptions"] += 1
        job.row["not_before"] = None
        job.row["wait_reason"] = stories.requeued(job.row["wait_reason"], job.row["preemptions"])

    def _requeue_failed(self, job: LockedJob, *, counted: bool) -> None:
        row = job.row
        seconds = lifecycle.backoff_s(row["attempt"] - row["preemptions"])
        row["retries_used"] += counted
        cause = row["exit_reason"] or _reason(job, Verdict.FAILED)
        why = stories.retried(
            cause,
            counted=counted,
            used=row["retries_used"],
            allowed=job.retries_allowed,
            seconds=seconds,
        )
        row["not_before"] = self.now + timedelta(seconds=seconds)
        row["wait_reason"] = why

    def _finish(self, job: LockedJob) -> None:
        row = job.row
        row["finished_at"] = self.now
        row["wait_reason"] = None
        row |= NO_ATTEMPT
        kind = f"job.{row['state'].lower()}"
        message = f"{row['state'].capitalize()}. {row['exit_reason']['message']}"
        if row["started_at"]:
            message += f" It ran for {stories.span(row['started_at'], self.now)}."
        self.events.append(event("job", job.id, kind, message, **row["exit_reason"]["details"]))

    def _stop_rest(self, job: LockedJob, decision: Decision) -> None:
        self.stop.append(job.id)
        if decision.verdict in (Verdict.STOPPED, Verdict.PREEMPTED):
            return  # told when it was asked for
        running = job.view().count(lifecycle.STOPPABLE_STATES)
        message = f"{job.row['exit_reason']['message']} Stopping the other {running} tasks."
        self.events.append(event("job", job.id, "job.ending", message, tasks=running))


def stop_attempts(job_ids: Collection[UUID], now: datetime) -> list[UUID]:
    """Ask for the end of all living attempts of these jobs; returns the nodes to tell. One query
    for any number."""
    living = TaskAttempt.objects.filter(
        job__in=job_ids, state__in=lifecycle.STOPPABLE_STATES, released_at=None
    )
    nodes = list(living.order_by().values_list("node", flat=True).distinct())
    living.update(state=AttemptState.STOPPING, updated_at=now)
    return nodes


def _reason(job: LockedJob, verdict: Verdict) -> Reason:
    view = job.view()
    if verdict == Verdict.SUCCEEDED:
        return stories.succeeded(job.row["tasks_total"], view.count((AttemptState.SUCCEEDED,)))
    if verdict == Verdict.FAILED:
        return stories.failed(job.ending, view.count(lifecycle.FAILED_STATES))
    return stories.reason("stopped", "Stopped.")
