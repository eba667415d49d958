"""What the owner of a job asks of it after the submit: to start without its guarantee, to leave a
node, to stop trying, or to be run again with more memory or elsewhere.

Each is one transaction. Rights are those of stopping a job; only its owner runs it again, because
it comes with secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from skep_jobfile import Path
from skep_jobfile.extras import OPPORTUNISTIC, PriorityClass
from skep_platform.accounts.models import User
from skep_platform.core import notifications
from skep_platform.core.bulk import database_time
from skep_platform.core.errors import Conflict, Forbidden
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.lifecycle.decisions import Verdict
from skep_platform.jobs.lifecycle.failures import avoiding
from skep_platform.jobs.lifecycle.stopping import audited, lock_found
from skep_platform.jobs.models import Job, JobAttempt, TaskAttempt, TaskRole
from skep_platform.jobs.states import JOB, JobState
from skep_platform.jobs.submission.cloning import clone_of, own, request

AVOID_S = 24 * 3600.0  # so long a job avoids the nodes that its owner sent it away from
MOST_NODES = 64  # that a job is run again without
OUT_OF_MEMORY = {"UserContainerDockerOOMKilled", "HostOutOfMemory"}  # names of failures
MIB_OF_GIB = 1024


def run_opportunistically(user: User, job_id: UUID) -> Job:
    """Let a job of the queue start at once on GPUs that no job uses, without its guarantee: it is
    preempted when the owners of these GPUs need them. Raises NotFound, Forbidden `may_not_change`,
    and Conflict `not_in_queue`, `job_opportunistic`, `opportunistic_pinned_cell` or
    `no_free_gpus`."""
    job = _changeable(user, job_id)
    with transaction.atomic():
        lock_found(user, job)
        job.refresh_from_db()
        if not queries.in_queue(job) or job.awaits_dependencies or job.stop_requested_at:
            message = f"The job is {job.state} and does not wait for GPUs."
            raise Conflict(message, code="not_in_queue", state=job.state)
        if job.priority < 0:
            raise Conflict("The job is opportunistic already.", code="job_opportunistic")
        if job.pinned_cell:
            message = f"It asks for the pinned cell {job.pinned_cell}, which is guaranteed only."
            raise Conflict(message, code="opportunistic_pinned_cell", pinned_cell=job.pinned_cell)
        if not (job.wait_reason or {}).get("details", {}).get("opportunistic_now"):
            message = (
                "No free GPUs that it could take now: the scheduler found none in its last round. "
                "It keeps its place in the queue."
            )
            raise Conflict(message, code="no_free_gpus")
        before = {"priority": job.priority, "priority_class": job.priority_class}
        after = {"priority": OPPORTUNISTIC, "priority_class": str(PriorityClass.OPPO)}
        Job.objects.filter(pk=job.pk).update(**after, updated_at=Now())
        who = user.get_username()
        message = (
            f"{who} asked to run it as opportunistic: it starts on GPUs that no job uses, and is "
            "preempted when their owners need them."
        )
        record("job", job.pk, "job.opportunistic", message, actor=who, before=job.priority)
        audited(job, "job.opportunistic", before=before, after=after)
        _notify(job.pk, scheduler=True)
    return queries.find(user, job_id)


def end_retries(user: User, job_id: UUID) -> Job:
    """Try a job no more after a failure. One that waits for its next attempt after a failure ends
    as FAILED at once; the present attempt of another one is its last, unless it is preempted.
    Raises NotFound, Forbidden `may_not_change`, and Conflict `job_ended`."""
    job = _changeable(user, job_id)
    with transaction.atomic():
        row = lock_found(user, job).row
        if row.state not in JOB.active or row.stop_requested_at:
            message = f"The job is {row.state}: it is not tried again anyway."
            raise Conflict(message, code="job_ended", state=row.state)
        who = user.get_username()
        newest = JobAttempt.objects.filter(job=job).order_by("-index").first()
        if row.state == JobState.WAITING and row.placed_at is None and _failed(newest):
            _give_up(job, newest, who, notify=row.notifies("job.failed"))
        elif not row.retries_ended:
            Job.objects.filter(pk=job.pk).update(retries_ended=True, updated_at=Now())
            message = f"{who} ended its retries: the present attempt is its last."
            record("job", job.pk, "job.retries_ended", message, actor=who)
        else:
            return queries.find(user, job_id)
        audited(job, "job.end_retries")
        _notify(job.pk)
    return queries.find(user, job_id)


def _failed(newest: JobAttempt | None) -> bool:
    return newest is not None and newest.outcome == Verdict.FAILED


def _give_up(job: Job, newest: JobAttempt | None, who: str, *, notify: bool) -> None:
    JOB.check(JobState.WAITING, JobState.FAILED, str(job.pk))
    assert newest is not None
    Job.objects.filter(pk=job.pk).update(
        state=JobState.FAILED,
        finished_at=Now(),
        exit_reason=newest.reason,
        verdict=str(Verdict.FAILED),
        wait_reason=None,
        not_before=None,
        retries_ended=True,
        updated_at=Now(),
    )
    said = newest.reason["message"] if newest.reason else ""
    message = f"Failed. {who} ended its retries. {said}".strip()
    record("job", job.pk, "job.failed", message, actor=who, notify=notify)


def move(user: User, job_id: UUID, node: str) -> Job:
    """Move a job off a node that it runs on: it saves its work, ends, and starts again from its old
    place in the queue, where it avoids that node for AVOID_S as long as others will do. Raises
    NotFound, Forbidden `may_not_change`, and Conflict `not_on_node` or `job_leaving`."""
    job = _changeable(user, job_id)
    now = database_time()
    with transaction.atomic():
        row = lock_found(user, job).row
        present = TaskAttempt.objects.filter(
            job=job, index=row.attempt, released_at=None, node__name=node
        )
        if row.state not in JOB.active or row.placed_at is None or not present.exists():
            message = f"The job has no task on a node named {node}."
            raise Conflict(message, code="not_on_node", node=node, state=row.state)
        avoid = avoiding(row.avoid_nodes, [node], now, AVOID_S)
        Job.objects.filter(pk=job.pk).update(avoid_nodes=avoid)
        if not preempting.evict([job.pk], f"{user.get_username()} moved it off {node}.", now):
            message = "The job ends or leaves its nodes already."
            raise Conflict(message, code="job_leaving")
        audited(job, "job.move", after={"node": node})
        _notify(job.pk, scheduler=True)
    return queries.find(user, job_id)


def run_again(
    user: User,
    job_id: UUID,
    *,
    name: str = "",
    memory_mb: int | None = None,
    elsewhere: bool,
    client_token: str = "",
) -> Job:
    """Submit a job of one's own again, with its secrets and working files: with this memory for
    each task of the role that ran out of it, and not on the nodes where it failed (`elsewhere`).
    A request that is repeated with the same `client_token` returns the same job. Raises NotFound,
    Forbidden `may_not_clone`, and what `submit` raises."""
    asked = request(client_token, "run-again", job_id, name, memory_mb, elsewhere)
    if known := asked.answered(user):
        return known
    source = own(user, job_id)
    changes: list[tuple[Path, int]] = []
    if memory_mb is not None:
        found = more_memory(source, list(source.roles.all()))
        names = [found["role"]] if found else [role.name for role in source.roles.all()]
        changes = [
            (("taskRoles", role, "resourcePerInstance", "memoryMB"), memory_mb) for role in names
        ]
    avoid = avoiding({}, _left(source), timezone.now(), AVOID_S) if elsewhere else {}
    return clone_of(user, source, name, asked, changes=changes, avoid_nodes=avoid)


def _left(source: Job) -> Sequence[str]:
    """Return the nodes of its newest attempt: that of the task which failed first, if that is
    known, else all of them."""
    if source.diagnosis and source.diagnosis["node"]:
        return [source.diagnosis["node"]]
    rows = TaskAttempt.objects.filter(job=source, index=source.attempt).order_by("node__name")
    return list(rows.values_list("node__name", flat=True).distinct()[:MOST_NODES])


def _changeable(user: User, job_id: UUID) -> Job:
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only the owner, a VC admin of its virtual cluster or an admin may do that."
        raise Forbidden(message, code="may_not_change")
    return job


def _notify(job_id: UUID, *, scheduler: bool = False) -> None:
    if scheduler:
        notifications.notify_scheduler()
    notifications.notify_topic("job", str(job_id))
    notifications.notify_topic("jobs")


def more_memory(job: Job, roles: Sequence[TaskRole]) -> dict[str, Any] | None:
    """Return the role whose task ran out of memory in the newest failure, its memory in MiB, and
    the next larger size: a power of two of GiB that is at least half as much again. None where
    memory was not the cause."""
    if job.diagnosis is None or job.diagnosis["name"] not in OUT_OF_MEMORY:
        return None
    name = (job.diagnosis["task"] or "").rpartition("-")[0]
    role = next((role for role in roles if role.name == name), None)
    if role is None:
        return None
    size = MIB_OF_GIB
    while size * 2 < role.memory_mb * 3:
        size *= 2
    return {"role": role.name, "memory_mb": role.memory_mb, "suggested_mb": size}
