"""Stopping a job, whatever it is doing: a constant number of queries for any number of tasks."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.cluster.services import bump_revision
from skep_platform.core import doorbells
from skep_platform.core.errors import Conflict, Forbidden
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.life import stories
from skep_platform.jobs.life.advance import advance
from skep_platform.jobs.life.locked import LockedJob, lock
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB, JobState


def stop(user: User, job_id: UUID) -> Job:
    """Ask for the end of a job; stopping an ended one changes nothing. Raises NotFound when the
    user may not know of it, and Forbidden `may_not_stop`."""
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only the owner, a manager of its virtual cluster or an admin may stop a job."
        raise Forbidden(message, code="may_not_stop")
    with transaction.atomic():
        locked = lock(Job.objects.filter(pk=job_id))[0]
        if locked.row["state"] in JOB.active and locked.row["stop_requested_at"] is None:
            who = user.get_username()
            stop_locked(locked, stories.stopped(who), actor=who)
    return queries.find(user, job_id)


def retry_now(user: User, job_id: UUID) -> Job:
    """Let a job that waits for its next attempt start as soon as it has room. Raises NotFound,
    Forbidden `may_not_retry` and Conflict `not_waiting_to_retry`."""
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only the owner, a manager of its virtual cluster or an admin may do that."
        raise Forbidden(message, code="may_not_retry")
    with transaction.atomic():
        row = lock(Job.objects.filter(pk=job_id))[0].row
        if row["state"] != JobState.WAITING or row["placed_at"] or row["not_before"] is None:
            message = f"The job is {row['state']} and does not wait for a retry."
            raise Conflict(message, code="not_waiting_to_retry", state=row["state"])
        Job.objects.filter(pk=job_id).update(not_before=None, updated_at=Now())
        who = user.get_username()
        record("job", job_id, "job.retry_now", f"{who} asked to retry it at once.", actor=who)
    doorbells.ring_scheduler()
    doorbells.ring_topic("job", job_id)
    return queries.find(user, job_id)


def stop_locked(job: LockedJob, why: stories.Reason, *, actor: str) -> None:
    """End an active job for this reason, inside the caller's transaction."""
    now = timezone.now()
    job.row |= {"stop_requested_at": now, "exit_reason": why}
    Job.objects.filter(pk=job.id).update(stop_requested_at=now, exit_reason=why, updated_at=Now())
    message = why["message"] if why["code"] != "stopped" else f"{actor} asked to stop it."
    record("job", job.id, "job.stop", message, actor=actor, code=why["code"])
    if job.row["placed_at"] is None:
        _finish_in_queue(job)
    else:
        bump_revision(advance([job], now))
    doorbells.ring_topic("job", job.id)
    doorbells.ring_topic("jobs")


def _finish_in_queue(job: LockedJob) -> None:
    JOB.check(job.row["state"], JobState.STOPPED, str(job.id))
    Job.objects.filter(pk=job.id).update(
        state=JobState.STOPPED, finished_at=Now(), wait_reason=None
    )
    message = f"Stopped. {job.row['exit_reason']['message']} It was waiting in the queue."
    record("job", job.id, "job.stopped", message)
