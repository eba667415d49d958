"""Take places back from running jobs, and record why: for a job that owns the cells, for a node
that is drained, or in rank only (a downgrade).

All of it runs inside the caller's transaction, by a constant number of queries for any number of
jobs, and passes over jobs that are not running any more or are leaving already. The rows of the
jobs are locked in the order of their ids: a caller that locks other jobs, too, locks all of them
first (`job_state.lock`).

A job whose tasks save nothing does not use up its grace. An agent reports each task that has no
process with a handler for the checkpoint signal. Such a task goes on while another one of its gang
saves, which may need it (a checkpoint of sharded weights is gathered from all ranks). When no task
that saves is left, all of them are stopped at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from skep_platform.cluster.services import bump_revision
from skep_platform.core import notifications
from skep_platform.core.bulk import insert_rows, update_rows
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.lifecycle.advance import advance
from skep_platform.jobs.lifecycle.facts import UNHANDLED, UNSAVED, AttemptRow
from skep_platform.jobs.lifecycle.job_state import LockedJob, lock
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.models import Job, RankChange
from skep_platform.jobs.states import JOB, AttemptState

NO_STANDINGS: Mapping[UUID, Mapping[str, Any]] = {}


def preempt(
    job_ids: Collection[UUID],
    by: Job,
    now: datetime,
    standings: Mapping[UUID, Mapping[str, Any]] = NO_STANDINGS,
) -> list[UUID]:
    """Preempt these jobs for `by` (with its `vc`): they save their work, end, and wait in their old
    place in the queue. Return those that were asked. `standings`: where those stand under their
    policy that leave for one of the same priority, by their ids."""
    same_vc = Job.objects.filter(pk__in=job_ids, vc=by.vc_id).values_list("pk", flat=True)
    peers = set(same_vc)

    def why(job: LockedJob) -> Reason:
        standing = standings.get(job.id)
        return messages.preempted(by, now, peer=job.id in peers, standing=standing)

    return _ask(job_ids, why, now)


def evict(job_ids: Collection[UUID], why: str, now: datetime) -> list[UUID]:
    """Ask these jobs to leave their nodes, as `preempt` does. `why` is a sentence for their
    owners, such as "Node n1 is being drained." Return those that were asked."""
    return _ask(job_ids, lambda job: messages.evicted(why), now)


def ask(reasons: Mapping[UUID, Reason], now: datetime) -> list[UUID]:
    """Ask these jobs to leave their nodes, as `preempt` does, each for its own reason; all reasons
    have one code. Return those that were asked."""
    return _ask(list(reasons), lambda job: reasons[job.id], now)


def downgrade(reasons: Mapping[UUID, Reason], now: datetime) -> list[UUID]:
    """Run these guaranteed jobs opportunistically from now on. Return those that were changed."""
    jobs = [job for job in _present(list(reasons)) if job.row.downgraded is None]
    for job in jobs:
        job.row.downgraded = reasons[job.id]
    _record_ranks(jobs, now, guaranteed=False)
    reasons_by_job = {job.id: messages.downgraded(reasons[job.id]) for job in jobs}
    return _write(jobs, "job.downgraded", reasons_by_job, now)


def restore(job_ids: Collection[UUID], now: datetime) -> list[UUID]:
    """Restore the guarantee of these downgraded jobs. Return those that were changed."""
    jobs = [job for job in _present(job_ids) if job.row.downgraded is not None]
    for job in jobs:
        job.row.downgraded = None
    _record_ranks(jobs, now, guaranteed=True)
    return _write(jobs, "job.restored", {job.id: messages.restored() for job in jobs}, now)


def _record_ranks(jobs: Sequence[LockedJob], now: datetime, *, guaranteed: bool) -> None:
    insert_rows(
        [RankChange(job_id=j.id, index=j.row.attempt, at=now, guaranteed=guaranteed) for j in jobs]
    )


def _ask(
    job_ids: Collection[UUID], why: Callable[[LockedJob], Reason], now: datetime
) -> list[UUID]:
    """Ask these jobs to leave their nodes; until they have, `wait_reason` says why."""
    jobs = [job for job in _present(job_ids) if not _leaves(job)]
    reasons_by_job = {job.id: why(job) for job in jobs}
    for job in jobs:
        job.row.preempting_at, job.row.wait_reason = now, reasons_by_job[job.id]
    code = next(iter(reasons_by_job.values()))["code"] if reasons_by_job else ""
    asked = _write(jobs, f"job.{code}", reasons_by_job, now)
    bump_revision(advance(jobs, now))
    return asked


def _present(job_ids: Collection[UUID]) -> list[LockedJob]:
    jobs = lock(Job.objects.filter(pk__in=job_ids)) if job_ids else []
    return [j for j in jobs if j.row.placed_at is not None and j.row.state in JOB.active]


def _leaves(job: LockedJob) -> bool:
    """Return whether it was asked already, or its end is decided: that stands."""
    row = job.row
    decided = row.verdict or row.exit_reason is not None
    return bool(row.preempting_at or row.stop_requested_at or decided)


CHANGED = ("preempting_at", "downgraded", "wait_reason")


def _write(
    jobs: Collection[LockedJob], kind: str, reasons_by_job: Mapping[UUID, Reason], now: datetime
) -> list[UUID]:
    """Store what was changed in the rows of these jobs, and an event for each."""
    if not jobs:
        return []
    rows = [job.row.values(CHANGED) | {"updated_at": now} for job in jobs]
    update_rows(Job, (*CHANGED, "updated_at"), rows)
    insert_rows(
        [
            event(
                *("job", job.id, kind, reasons_by_job[job.id]["message"]),
                notify=job.row.notifies(kind),
                **reasons_by_job[job.id]["details"],
            )
            for job in jobs
        ]
    )
    for job in jobs:
        notifications.notify_topic("job", job.id)
    notifications.notify_topic("jobs")
    notifications.notify_topic("cluster")
    return [job.id for job in jobs]


def stop_unsaved(
    jobs: Mapping[UUID, LockedJob], changes: Sequence[tuple[AttemptRow, AttemptRow]]
) -> list[UUID]:
    """Mark the tasks that need not be waited for, of locked jobs with these changes (before,
    after). Return the nodes to notify. No query unless one of the jobs is preempted."""
    asked = {
        after.job_id
        for before, after in changes
        if jobs[after.job_id].row.preempting_at is not None
        and (after.phase == UNHANDLED != before.phase or (after.ended and not before.ended))
    }
    if not asked:
        return []
    with connection.cursor() as cursor:
        values = {
            "unhandled": UNHANDLED,
            "unsaved": UNSAVED,
            "stopping": str(AttemptState.STOPPING),
        }
        cursor.execute(MARK, {**values, "jobs": sorted(asked)})
        marked = cursor.fetchall()
    tasks = Counter(job_id for job_id, _, _ in marked)
    signals = {job_id: signal for job_id, _, signal in marked}
    insert_rows([_event(job_id, count, signals[job_id]) for job_id, count in tasks.items()])
    return sorted({node_id for _, node_id, _ in marked})


MARK = """
UPDATE jobs_taskattempt a SET phase = %(unsaved)s
  FROM jobs_job j
 WHERE j.id = a.job_id AND a.job_id = ANY(%(jobs)s)
   AND a.state = %(stopping)s AND a.phase = %(unhandled)s
   AND NOT EXISTS (
     SELECT 1 FROM jobs_taskattempt o
      WHERE o.job_id = a.job_id AND o.state = %(stopping)s
        AND o.phase NOT IN (%(unhandled)s, %(unsaved)s))
RETURNING a.job_id, a.node_id, j.checkpoint_signal
"""


def _event(job_id: UUID, tasks: int, signal: str) -> Event:
    which = "its task" if tasks == 1 else f"{tasks} of its tasks"
    message = f"No process of {which} handles {signal}: stopped without saving."
    return event("job", job_id, "job.not_saved", message, tasks=tasks, signal=signal)
