"""Stopping a job, whatever it is doing: a constant number of queries for any number of tasks.

Jobs of users who may not submit to their virtual cluster any more are stopped, too. A user who was
deactivated or is no member any more (an admin needs no membership) has no right to go on using
GPUs. Waiting jobs end at once; running ones end with their usual grace, or finish where
SKEP_FORMER_MEMBERS_JOBS says so. What a request leaves undone, a periodic task does."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster.services import bump_revision
from skep_platform.core import notifications
from skep_platform.core.bulk import database_time
from skep_platform.core.errors import Conflict, Forbidden
from skep_platform.core.events import record
from skep_platform.jobs import archive, queries
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.lifecycle.advance import advance
from skep_platform.jobs.lifecycle.decisions import Verdict
from skep_platform.jobs.lifecycle.job_state import LockedJob, lock
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB, JobState
from skep_platform.tenancy.models import Membership


def stop(user: User, job_id: UUID) -> Job:
    """Ask for the end of a job; stopping an ended one changes nothing. Raises NotFound when the
    user may not know of it, and Forbidden `may_not_stop`."""
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only the owner, a VC admin of its virtual cluster or an admin may stop a job."
        raise Forbidden(message, code="may_not_stop")
    with transaction.atomic():
        locked = lock_found(user, job)
        if locked.row.state in JOB.active and locked.row.stop_requested_at is None:
            who = user.get_username()
            stop_locked(locked, messages.stopped(who), actor=who)
            audited(job, "job.stop", owner=job.owner.get_username())
    return queries.find(user, job_id)


def retry_now(user: User, job_id: UUID) -> Job:
    """Let a job that waits for its next attempt start as soon as there is a place. Raises NotFound,
    Forbidden `may_not_retry` and Conflict `not_waiting_to_retry`."""
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only the owner, a VC admin of its virtual cluster or an admin may do that."
        raise Forbidden(message, code="may_not_retry")
    with transaction.atomic():
        row = lock_found(user, job).row
        if row.state != JobState.WAITING or row.placed_at or row.not_before is None:
            message = f"The job is {row.state} and does not wait for a retry."
            raise Conflict(message, code="not_waiting_to_retry", state=row.state)
        Job.objects.filter(pk=job_id).update(not_before=None, updated_at=Now())
        who = user.get_username()
        record("job", job_id, "job.retry_now", f"{who} asked to retry it at once.", actor=who)
        audited(job, "job.retry")
    notifications.notify_scheduler()
    notifications.notify_topic("job", job_id)
    return queries.find(user, job_id)


def lock_found(user: User, job: Job) -> LockedJob:
    """Lock a job that was found for this user a moment before. Raises NotFound where it was moved
    to the archive since. Call inside a transaction."""
    for locked in lock(Job.objects.filter(pk=job.pk)):
        return locked
    raise archive.missing(user, job.pk)


def audited(job: Job, action: str, **values: Any) -> None:
    """Write an audit entry about a job; see `audit.services.record`."""
    audit.record(action, "job", job.pk, job.name, vc=job.vc, **values)


def stop_locked(job: LockedJob, why: messages.Reason, *, actor: str) -> None:
    """End an active job for this reason, inside the caller's transaction."""
    now = database_time()
    fields = {"stop_requested_at": now, "exit_reason": why, "verdict": str(Verdict.STOPPED)}
    for name, value in fields.items():
        setattr(job.row, name, value)
    Job.objects.filter(pk=job.id).update(**fields, updated_at=Now())
    message = why["message"] if why["code"] != "stopped" else f"{actor} asked to stop it."
    record("job", job.id, "job.stop", message, actor=actor, code=why["code"])
    if job.row.placed_at is None:
        _finish_in_queue(job, actor)
    else:
        bump_revision(advance([job], now))
    notifications.notify_topic("job", job.id)
    notifications.notify_topic("jobs")


def _finish_in_queue(job: LockedJob, actor: str) -> None:
    JOB.check(job.row.state, JobState.STOPPED, str(job.id))
    Job.objects.filter(pk=job.id).update(
        state=JobState.STOPPED, finished_at=Now(), wait_reason=None
    )
    message = f"Stopped. {job.row.ends_because['message']} It was waiting in the queue."
    notify = job.row.notifies("job.stopped")
    record("job", job.id, "job.stopped", message, actor=actor, notify=notify)


AT_ONCE = 500  # jobs of one user that are stopped within the request; the task takes the rest
PER_ROUND = 200


def stop_of(user_id: int, actor: str = "") -> int:
    """Stop the jobs that a user has no right to run any more. Return how many. Runs inside the
    caller's transaction."""
    return _stop(_orphaned().filter(owner_id=user_id), AT_ONCE, actor)


def stop_all() -> int:
    """Stop such jobs of all users, a bounded number of them. Return how many."""
    with transaction.atomic():
        return _stop(_orphaned(), PER_ROUND, "")


def _orphaned() -> QuerySet[Job]:
    member = Membership.objects.filter(
        vc=OuterRef("vc"), user=OuterRef("owner"), role__in=Membership.SUBMITTERS
    )
    jobs = Job.objects.filter(
        Q(owner__is_active=False) | Q(~Exists(member), owner__is_superuser=False),
        state__in=JOB.active,
        stop_requested_at=None,
    )
    finish = settings.SKEP_FORMER_MEMBERS_JOBS == "finish"
    return jobs.filter(placed_at=None) if finish else jobs


def _stop(jobs: QuerySet[Job], most: int, actor: str) -> int:
    # By an index with the active jobs together: in the order of their ids the database would walk
    # all jobs that ever were.
    found = jobs.order_by("state", "pk").select_related("owner", "vc")
    found = found.defer("spec", "spec_text")[:most]
    who = {job.pk: job for job in found}
    stopped = 0
    for job in lock(Job.objects.filter(pk__in=who)):
        if job.row.state in JOB.active and job.row.stop_requested_at is None:
            owner, vc = who[job.id].owner, who[job.id].vc
            why = messages.former_member(owner.username, vc.name, deactivated=not owner.is_active)
            stop_locked(job, why, actor=actor)
            audited(who[job.id], "job.stop", owner=owner.username, code=why["code"])
            stopped += 1
    return stopped
