"""The next state of a job: one pure step from its row and the counts of its tasks.

`transition` neither reads nor writes the database and knows the time only as `now`; `advance` loads
what it is given, and carries out the effects that it returns.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from skep_platform.core.bulk import new
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import decisions, messages
from skep_platform.jobs.lifecycle.decisions import Decision, Retry, Verdict
from skep_platform.jobs.lifecycle.failures import Failures, avoid_blamed, pause_s
from skep_platform.jobs.lifecycle.job_state import JobRow, LockedJob
from skep_platform.jobs.lifecycle.messages import Ending, Reason
from skep_platform.jobs.models import JobAttempt
from skep_platform.jobs.states import JOB, AttemptState, JobState

ASSIGNED = (AttemptState.ASSIGNED,)


class Effects:
    """What a transition asks for besides the new row of the job. `begin`: its tasks begin together;
    `stop`: the rest of its tasks is stopped; `requeued`: it waits for a place again. `failures`
    has diagnoses to store and tasks to try again by themselves; `attempts` the job attempt that
    ended, as a row that is not stored."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.failures = Failures(now)
        self.events: list[Event] = []
        self.attempts: list[JobAttempt] = []
        self.begin = self.stop = self.requeued = False


def transition(job: LockedJob, now: datetime) -> tuple[JobRow, Effects]:
    """Return the next row of a placed job and the effects of getting there. Leaves `job` as it is;
    a second call with the same arguments returns the same. Raises IllegalTransition for a state
    that the table of states does not allow."""
    job, step = job.copy(), _Step(now)
    step.take(job)
    return job.row, step


class _Step(Effects):
    def take(self, job: LockedJob) -> None:
        before = job.row.copy()
        self.failures.retry_tasks(job)
        self._note_progress(job)
        decision = decisions.decide(job.view(self.now))
        if decision.diagnose:
            self.failures.explain(job)
            decision = decisions.decide(job.view(self.now))
        if decision.state != job.row.state:
            JOB.check(job.row.state, decision.state, str(job.id))
            job.row.state = decision.state
        self._carry_out(job, decision, before)

    def _note_progress(self, job: LockedJob) -> None:
        """End the run of failures before an attempt that ran for long."""
        row, started = job.row, job.row.started_at or job.first_start
        ran_s = (self.now - started).total_seconds() if started else 0.0
        if row.failing_since and ran_s > decisions.PROGRESS_S:
            row.failing_since, row.failing_retries = None, 0

    def _carry_out(self, job: LockedJob, decision: Decision, before: JobRow) -> None:
        if decision.begin:
            self._begin(job)
        if job.row.started_at is None and job.first_start is not None:
            job.row.started_at = job.first_start
        self._limit_time(job)
        self._record_progress(job, before)
        if decision.verdict:
            self._decided(job, decision.verdict)
        if decision.retry:
            self._requeue(job, decision)
        elif decision.finished:
            self._finish(job)
        if decision.stop_rest:
            self._stop_rest(job, decision)

    def _begin(self, job: LockedJob) -> None:
        job.row.begun_at = self.now
        self.begin = True
        message = messages.begun(job.row.tasks_total)
        self.events.append(event("job", job.id, "job.begun", message))

    def _limit_time(self, job: LockedJob) -> None:
        row, start = job.row, job.row.begun_at or job.row.started_at
        if row.ends_at is None and row.max_duration_s and start:
            row.ends_at = start + timedelta(seconds=row.max_duration_s)

    def _record_progress(self, job: LockedJob, before: JobRow) -> None:
        roles = job.roles.values()
        left = sum(sum(role.states.values()) - role.count(ASSIGNED) for role in roles)
        if job.left_assigned and job.left_assigned == left:
            message = "Pulling images and creating containers."
            self.events.append(event("job", job.id, "job.preparing", message))
        if before.started_at is None and job.row.started_at is not None:
            self.events.append(event("job", job.id, "job.started", "The first task runs."))
        self.events += job.events

    def _decided(self, job: LockedJob, verdict: Verdict) -> None:
        """Record the verdict; tasks that still wait for a place need none any more."""
        job.row.unplaced, job.row.ends_at = 0, None
        if verdict == Verdict.PREEMPTED:
            return
        job.row.verdict = str(verdict)
        if job.row.exit_reason is None:
            job.row.exit_reason = _reason(job, verdict)

    def _requeue(self, job: LockedJob, decision: Decision) -> None:
        row, retry, verdict = job.row, decision.retry, decision.verdict
        assert retry is not None
        assert verdict is not None
        self._record_diagnosis(job)
        self._keep_attempt(job, verdict, retry)
        if retry == Retry.PREEMPTED:
            self._requeue_preempted(job)
        else:
            self._requeue_failed(job, retry)
        row.placed_at = row.begun_at = row.started_at = row.exit_reason = None
        row.verdict = ""
        _end_attempt(row)
        why = row.waits_because
        self.requeued = True
        kind = "job.requeued" if retry == Retry.PREEMPTED else "job.retried"
        self.events.append(event("job", job.id, kind, why["message"], **why["details"]))

    def _requeue_preempted(self, job: LockedJob) -> None:
        """Put a preempted job back into the queue, without a pause."""
        job.row.preemptions += 1
        job.row.not_before = None
        job.row.wait_reason = messages.requeued(job.row.waits_because, job.row.preemptions)

    def _requeue_failed(self, job: LockedJob, retry: Retry) -> None:
        row = job.row
        if retry == Retry.COUNTED:
            row.retries_used += 1
        else:
            row.free_retries += 1
            row.failing_since = row.failing_since or row.placed_at
            row.failing_retries += 1
        failures = row.retries_used + row.free_retries
        seconds = pause_s(retry, job.id, row.attempt, failures)
        avoid_blamed(job, job.diagnosis, self.now)
        node = job.diagnosis["node"] if job.diagnosis else None
        row.not_before = self.now + timedelta(seconds=seconds)
        row.wait_reason = messages.retried(
            *(row.ends_because, retry, row.retries_used, job.retries_allowed, seconds),
            node=node,
            in_a_row=0 if retry == Retry.COUNTED else row.failing_retries,
        )

    def _finish(self, job: LockedJob) -> None:
        row = job.row
        self._record_diagnosis(job)
        self._keep_attempt(job, Verdict(row.state), None)
        row.finished_at, row.wait_reason = self.now, None
        _end_attempt(row)
        kind = f"job.{row.state.lower()}"
        message = f"{row.state.capitalize()}. {row.ends_because['message']}"
        if row.state == JobState.FAILED and row.failing_retries:
            since = row.failing_since or self.now
            message += " " + messages.given_up(row.failing_retries, since, self.now)
        if row.started_at:
            message += f" It ran for {messages.span(row.started_at, self.now)}."
        self.events.append(event("job", job.id, kind, message, **row.ends_because["details"]))

    def _record_diagnosis(self, job: LockedJob) -> None:
        if job.diagnosis is None:
            return
        cause = messages.diagnosed(job.diagnosis)
        if cause is not None:
            self.events.append(
                event("job", job.id, "job.diagnosed", cause["message"], **cause["details"])
            )
        job.row.exit_reason = messages.explained(job.row.ends_because, job.diagnosis)

    def _keep_attempt(self, job: LockedJob, verdict: Verdict, retry: Retry | None) -> None:
        row = job.row
        preempted = verdict == Verdict.PREEMPTED
        assert row.placed_at is not None
        asked_at = row.preempting_at if preempted else None
        self.attempts.append(
            new(
                JobAttempt,
                job_id=job.id,
                index=row.attempt,
                outcome=str(verdict),
                retry=str(retry or ""),
                placed_at=row.placed_at,
                started_at=row.started_at,
                finished_at=self.now,
                reason=row.wait_reason if preempted else row.exit_reason,
                diagnosis=job.diagnosis,
                leave_s=(self.now - asked_at).total_seconds() if asked_at else None,
            )
        )

    def _stop_rest(self, job: LockedJob, decision: Decision) -> None:
        self.stop = True
        if decision.verdict in (Verdict.STOPPED, Verdict.PREEMPTED):
            return  # cause when it was asked for
        running = job.view().count(decisions.STOPPABLE_STATES)
        message = f"{job.row.ends_because['message']} {_stopping(running, job)}"
        self.events.append(event("job", job.id, "job.ending", message, tasks=running))


def _end_attempt(row: JobRow) -> None:
    """Reset what belongs to one attempt of a job."""
    row.unplaced = 0
    row.preempting_at = row.downgraded = row.ends_at = row.diagnosing_at = None


def _reason(job: LockedJob, verdict: Verdict) -> Reason:
    view = job.view()
    if verdict == Verdict.SUCCEEDED:
        return messages.succeeded(job.row.tasks_total, view.count((AttemptState.SUCCEEDED,)))
    if verdict == Verdict.FAILED:
        first = next((Ending(f.failed, f.state) for f in job.failures), None)
        return messages.failed(first, view.count(decisions.FAILED_STATES))
    return messages.reason("stopped", "Stopped.")


def _stopping(running: int, job: LockedJob) -> str:
    if running == job.row.tasks_total:
        return "Stopping it."
    return f"Stopping the other {running} tasks." if running > 1 else "Stopping the other task."
