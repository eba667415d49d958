"""Taking places back from running jobs, and telling them: by a job that owns the cells, by a node
that shall be empty, or only in rank.

All of it runs inside the caller's transaction, by a constant number of queries for any number of
jobs, and passes over jobs that are not running any more or are leaving already. The rows of the
jobs are locked in the order of their ids: a caller that locks other jobs, too, locks all of them
first (`advance.lock`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from uuid import UUID

from skep_platform.cluster.services import bump_revision
from skep_platform.core import doorbells
from skep_platform.core.bulk import insert_rows, update_rows
from skep_platform.core.events import event
from skep_platform.jobs.life import stories
from skep_platform.jobs.life.advance import LockedJob, advance, lock
from skep_platform.jobs.life.stories import Reason
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB


def preempt(job_ids: Collection[UUID], by: Job, now: datetime) -> list[UUID]:
    """Ask these jobs to make room for `by` (with its `vc`): they save their work, end, and wait in
    their old place in the queue. Returns those that were asked."""
    same_vc = Job.objects.filter(pk__in=job_ids, vc=by.vc_id).values_list("pk", flat=True)
    peers = set(same_vc)
    return _ask(job_ids, lambda job: stories.preempted(by, peer=job.id in peers), now)


def evict(job_ids: Collection[UUID], why: str, now: datetime) -> list[UUID]:
    """Ask these jobs to leave their nodes, as `preempt` does. `why` is a sentence for their
    owners, such as "Node n1 is being drained." Returns those that were asked."""
    return _ask(job_ids, lambda job: stories.evicted(why), now)


def downgrade(reasons: Mapping[UUID, Reason], now: datetime) -> list[UUID]:
    """These guaranteed jobs go on opportunistically from now on. Returns those that are news."""
    jobs = [job for job in _present(list(reasons)) if job.row["downgraded"] is None]
    for job in jobs:
        job.row["downgraded"] = reasons[job.id]
    told = {job.id: stories.downgraded(reasons[job.id]) for job in jobs}
    return _tell(jobs, "job.downgraded", told, now)


def restore(job_ids: Collection[UUID], now: datetime) -> list[UUID]:
    """These downgraded jobs are guaranteed again. Returns those that are news."""
    jobs = [job for job in _present(job_ids) if job.row["downgraded"] is not None]
    for job in jobs:
        job.row["downgraded"] = None
    return _tell(jobs, "job.restored", {job.id: stories.restored() for job in jobs}, now)


def _ask(
    job_ids: Collection[UUID], why: Callable[[LockedJob], Reason], now: datetime
) -> list[UUID]:
    """While it makes room, a job's `wait_reason` tells why."""
    jobs = [job for job in _present(job_ids) if not _leaves(job)]
    told = {job.id: why(job) for job in jobs}
    for job in jobs:
        job.row |= {"preempting_at": now, "wait_reason": told[job.id]}
    code = next(iter(told.values()))["code"] if told else ""
    asked = _tell(jobs, f"job.{code}", told, now)
    bump_revision(advance(jobs, now))
    return asked


def _present(job_ids: Collection[UUID]) -> list[LockedJob]:
    jobs = lock(Job.objects.filter(pk__in=job_ids)) if job_ids else []
    return [j for j in jobs if j.row["placed_at"] is not None and j.row["state"] in JOB.active]


def _leaves(job: LockedJob) -> bool:
    """It was asked already, or its end is decided: that stands."""
    row = job.row
    return any(row[name] is not None for name in ("preempting_at", "stop_requested_at")) or (
        row["exit_reason"] is not None
    )


CHANGED = ("preempting_at", "downgraded", "wait_reason", "updated_at")


def _tell(
    jobs: Collection[LockedJob], kind: str, told: Mapping[UUID, Reason], now: datetime
) -> list[UUID]:
    """Write what was changed in these jobs' rows, and their story."""
    if not jobs:
        return []
    rows = [{name: job.row.get(name) for name in ("id", *CHANGED)} for job in jobs]
    update_rows(Job, CHANGED, [{**row, "updated_at": now} for row in rows])
    insert_rows(
        [event("job", pk, kind, why["message"], **why["details"]) for pk, why in told.items()]
    )
    for job in jobs:
        doorbells.ring_topic("job", job.id)
    doorbells.ring_topic("jobs")
    doorbells.ring_topic("cluster")
    return [job.id for job in jobs]
