"""Carrying out what `lifecycle.decide` says, for many jobs by a constant number of queries.

The rows of the jobs are locked by the caller, in the order of their ids: every writer of a job's
attempts holds that lock, so the counts read here stay true until the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from skep_platform.core import doorbells
from skep_platform.core.bulk import insert_rows, update_rows
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.life import lifecycle, stories
from skep_platform.jobs.life.counting import count
from skep_platform.jobs.life.lifecycle import Decision, Retry, Verdict
from skep_platform.jobs.life.locked import LockedJob, lock
from skep_platform.jobs.life.retrying import Failures, avoid_blamed, pause_s
from skep_platform.jobs.life.stories import Ending, Reason
from skep_platform.jobs.models import Job, JobAttempt, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState, JobState

__all__ = ["LockedJob", "advance", "lock", "stop_attempts"]

CHANGED = (
    *("state", "placed_at", "not_before", "begun_at", "ends_at", "avoid_nodes", "unplaced"),
    *("preempting_at", "downgraded", "preemptions", "retries_used", "free_retries"),
    *("failing_since", "failing_retries"),
    *("diagnosing_at", "diagnosis", "started_at", "finished_at", "wait_reason", "exit_reason"),
    "updated_at",
)
# What belongs to one attempt of a job ends with it.
NO_ATTEMPT = {
    "unplaced": 0,
    "preempting_at": None,
    "downgraded": None,
    "ends_at": None,
    "diagnosing_at": None,
}


def advance(jobs: Sequence[LockedJob], now: datetime) -> list[UUID]:
    """Move locked jobs on as their attempts ask; returns the nodes whose desired state changed,
    for `bump_revision` as the last step. Jobs without a placement are left alone."""
    placed = {j.id: j for j in jobs if j.row["placed_at"] is not None and j.active}
    if not placed:
        return []
    count(placed)
    outcome = _Outcome(now)
    for job in placed.values():
        outcome.take(job)
    return outcome.write()


class _Outcome:
    """Collects what the decisions change, then writes it."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.failures = Failures(now)
        self.rows: list[dict[str, Any]] = []
        self.events: list[Event] = []
        self.attempts: list[JobAttempt] = []
        self.stop: list[UUID] = []
        self.begin: list[UUID] = []
        self.requeued = False

    def take(self, job: LockedJob) -> None:
        before = dict(job.row)
        self.failures.retry_tasks(job)
        self._note_progress(job)
        decision = lifecycle.decide(job.view(self.now))
        if decision.diagnose:
            self.failures.explain(job)
            decision = lifecycle.decide(job.view(self.now))
        if decision.state != job.row["state"]:
            JOB.check(job.row["state"], decision.state, str(job.id))
            job.row["state"] = decision.state
        self._carry_out(job, decision, before)
        if job.row != before:
            job.row["updated_at"] = self.now
            self.rows.append({name: job.row[name] for name in ("id", *CHANGED)})

    def _note_progress(self, job: LockedJob) -> None:
        """An attempt that ran for long ends the run of failures before it."""
        row, started = job.row, job.row["started_at"] or job.first_start
        ran_s = (self.now - started).total_seconds() if started else 0.0
        if row["failing_since"] and ran_s > lifecycle.PROGRESS_S:
            row |= {"failing_since": None, "failing_retries": 0}

    def write(self) -> list[UUID]:
        """The nodes whose attempts shall begin or stop."""
        update_rows(Job, CHANGED, self.rows)
        self.failures.write()
        insert_rows(self.attempts)
        insert_rows(self.events)
        nodes = [
            *(living_on(self.begin) if self.begin else ()),
            *(stop_attempts(self.stop, self.now) if self.stop else ()),
        ]
        for row in self.rows:
            doorbells.ring_topic("job", row["id"])
        if self.rows:
            doorbells.ring_topic("jobs")
        if self.requeued:
            doorbells.ring_scheduler()
        if any(row["diagnosing_at"] for row in self.rows):
            doorbells.ring_diagnosis()
        return nodes

    def _carry_out(self, job: LockedJob, decision: Decision, before: dict[str, Any]) -> None:
        if decision.begin:
            self._begin(job)
        if job.row["started_at"] is None and job.first_start is not None:
            job.row["started_at"] = job.first_start
        self._limit_time(job)
        self._tell_progress(job, before)
        if decision.verdict:
            self._decided(job, decision.verdict)
        if decision.retry:
            self._requeue(job, decision)
        elif decision.finished:
            self._finish(job)
        if decision.stop_rest:
            self._stop_rest(job, decision)

    def _begin(self, job: LockedJob) -> None:
        job.row["begun_at"] = self.now
        self.begin.append(job.id)
        message = stories.begun(job.row["tasks_total"])
        self.events.append(event("job", job.id, "job.begun", message))

    def _limit_time(self, job: LockedJob) -> None:
        row, start = job.row, job.row["begun_at"] or job.row["started_at"]
        if row["ends_at"] is None and row["max_duration_s"] and start:
            row["ends_at"] = start + timedelta(seconds=row["max_duration_s"])

    def _tell_progress(self, job: LockedJob, before: dict[str, Any]) -> None:
        view = job.view()
        left = sum(sum(role.states.values()) for role in view.roles)
        left -= view.count((AttemptState.ASSIGNED,))
        if job.left_assigned and job.left_assigned == left:
            message = "Pulling images and creating containers."
            self.events.append(event("job", job.id, "job.preparing", message))
        if before["started_at"] is None and job.row["started_at"] is not None:
            self.events.append(event("job", job.id, "job.started", "The first task runs."))
        self.events += job.events

    def _decided(self, job: LockedJob, verdict: Verdict) -> None:
        """Tasks that still wait for a place need none any more."""
        job.row |= {"unplaced": 0, "ends_at": None}
        if verdict != Verdict.PREEMPTED and job.row["exit_reason"] is None:
            job.row["exit_reason"] = _reason(job, verdict)

    def _requeue(self, job: LockedJob, decision: Decision) -> None:
        row, retry, verdict = job.row, decision.retry, decision.verdict
        assert retry is not None
        assert verdict is not None
        self._tell_diagnosis(job)
        self._keep_attempt(job, verdict, retry)
        if retry == Retry.PREEMPTED:
            self._requeue_preempted(job)
        else:
            self._requeue_failed(job, retry)
        row |= {"placed_at": None, "begun_at": None, "started_at": None, "exit_reason": None}
        row |= NO_ATTEMPT
        why = row["wait_reason"]
        self.requeued = True
        kind = "job.requeued" if retry == Retry.PREEMPTED else "job.retried"
        self.events.append(event("job", job.id, kind, why["message"], **why["details"]))

    def _requeue_preempted(self, job: LockedJob) -> None:
        """At once: who made room waits no longer for it than for a place."""
        job.row["preemptions"] += 1
        job.row["not_before"] = None
        job.row["wait_reason"] = stories.requeued(job.row["wait_reason"], job.row["preemptions"])

    def _requeue_failed(self, job: LockedJob, retry: Retry) -> None:
        row = job.row
        row["retries_used" if retry == Retry.COUNTED else "free_retries"] += 1
        if retry != Retry.COUNTED:
            row["failing_since"] = row["failing_since"] or row["placed_at"]
            row["failing_retries"] += 1
        failures = row["retries_used"] + row["free_retries"]
        seconds = pause_s(retry, job.id, row["attempt"], failures)
        avoid_blamed(job, job.diagnosis, self.now)
        node = job.diagnosis["node"] if job.diagnosis else None
        row["not_before"] = self.now + timedelta(seconds=seconds)
        row["wait_reason"] = stories.retried(
            *(row["exit_reason"], retry, row["retries_used"], job.retries_allowed, seconds),
            node=node,
            in_a_row=0 if retry == Retry.COUNTED else row["failing_retries"],
        )

    def _finish(self, job: LockedJob) -> None:
        row = job.row
        self._tell_diagnosis(job)
        self._keep_attempt(job, Verdict(row["state"]), None)
        row |= {"finished_at": self.now, "wait_reason": None, **NO_ATTEMPT}
        kind = f"job.{row['state'].lower()}"
        message = f"{row['state'].capitalize()}. {row['exit_reason']['message']}"
        if row["state"] == JobState.FAILED and row["failing_retries"]:
            since = row["failing_since"] or self.now
            message += " " + stories.given_up(row["failing_retries"], since, self.now)
        if row["started_at"]:
            message += f" It ran for {stories.span(row['started_at'], self.now)}."
        self.events.append(event("job", job.id, kind, message, **row["exit_reason"]["details"]))

    def _tell_diagnosis(self, job: LockedJob) -> None:
        if job.diagnosis is None:
            return
        told = stories.diagnosed(job.diagnosis)
        if told is not None:
            self.events.append(
                event("job", job.id, "job.diagnosed", told["message"], **told["details"])
            )
        job.row["exit_reason"] = stories.explained(job.row["exit_reason"], job.diagnosis)

    def _keep_attempt(self, job: LockedJob, verdict: Verdict, retry: Retry | None) -> None:
        row = job.row
        preempted = verdict == Verdict.PREEMPTED
        self.attempts.append(
            JobAttempt(
                job_id=job.id,
                index=row["attempt"],
                outcome=str(verdict),
                retry=str(retry or ""),
                placed_at=row["placed_at"],
                started_at=row["started_at"],
                finished_at=self.now,
                reason=row["wait_reason"] if preempted else row["exit_reason"],
                diagnosis=job.diagnosis,
            )
        )

    def _stop_rest(self, job: LockedJob, decision: Decision) -> None:
        self.stop.append(job.id)
        if decision.verdict in (Verdict.STOPPED, Verdict.PREEMPTED):
            return  # told when it was asked for
        running = job.view().count(lifecycle.STOPPABLE_STATES)
        message = f"{job.row['exit_reason']['message']} {_stopping(running, job)}"
        self.events.append(event("job", job.id, "job.ending", message, tasks=running))


def stop_attempts(job_ids: Collection[UUID], now: datetime) -> list[UUID]:
    """Ask for the end of all living attempts of these jobs; returns the nodes to tell. One query
    for any number."""
    nodes = living_on(job_ids)
    _living(job_ids).update(state=AttemptState.STOPPING, updated_at=now)
    return nodes


def living_on(job_ids: Collection[UUID]) -> list[UUID]:
    """The nodes that run or prepare tasks of these jobs."""
    return list(_living(job_ids).order_by().values_list("node", flat=True).distinct())


def _living(job_ids: Collection[UUID]) -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.filter(
        job__in=job_ids, state__in=lifecycle.STOPPABLE_STATES, released_at=None
    )


def _reason(job: LockedJob, verdict: Verdict) -> Reason:
    view = job.view()
    if verdict == Verdict.SUCCEEDED:
        return stories.succeeded(job.row["tasks_total"], view.count((AttemptState.SUCCEEDED,)))
    if verdict == Verdict.FAILED:
        first = next((Ending(f.failed, f.state) for f in job.failures), None)
        return stories.failed(first, view.count(lifecycle.FAILED_STATES))
    return stories.reason("stopped", "Stopped.")


def _stopping(running: int, job: LockedJob) -> str:
    if running == job.row["tasks_total"]:
        return "Stopping it."
    return f"Stopping the other {running} tasks." if running > 1 else "Stopping the other task."
