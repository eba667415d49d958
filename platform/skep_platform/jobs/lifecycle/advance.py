"""Move jobs on: load their counts, take the transition, carry out its effects. A constant number of
queries for any number of jobs.

The rows of the jobs are locked by the caller, in the order of their ids: every writer of a job's
attempts holds that lock, so the counts read here stay true until the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from skep_platform.cluster.services import bump_revision
from skep_platform.core import notifications
from skep_platform.core.bulk import Writes, database_time
from skep_platform.jobs.lifecycle import decisions
from skep_platform.jobs.lifecycle.diagnosing import Diagnosis
from skep_platform.jobs.lifecycle.failures import store_diagnoses, write_failures
from skep_platform.jobs.lifecycle.job_state import JobRow, LockedJob, count, lock
from skep_platform.jobs.lifecycle.transition import Effects, transition
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState

CHANGED = (
    *("state", "placed_at", "not_before", "begun_at", "ends_at", "avoid_nodes", "unplaced"),
    *("preempting_at", "downgraded", "preemptions", "retries_used", "free_retries"),
    *("failing_since", "failing_retries"),
    *("diagnosing_at", "diagnosis", "started_at", "finished_at", "wait_reason", "exit_reason"),
    "verdict",
)


def advance(jobs: Sequence[LockedJob], now: datetime, writes: Writes | None = None) -> list[UUID]:
    """Move locked jobs on as their attempts ask. Return the nodes whose desired state changed,
    for `bump_revision` as the last step. Jobs without a placement are left alone. With `writes`
    the caller runs what is left in these, and may have added changes of the attempts of jobs that
    are counted already."""
    placed = {j.id: j for j in jobs if j.row.placed_at is not None and j.active}
    if not placed:
        return []
    count(placed)
    moved = {pk: transition(job, now) for pk, job in placed.items()}
    changed = [row for pk, (row, _) in moved.items() if row != placed[pk].row]
    for pk, (row, effects) in moved.items():
        placed[pk].row = row
        for made in effects.events:
            made.notify = row.notifies(made.kind)
    asked = {pk: effects for pk, (_, effects) in moved.items()}
    if writes is not None:
        return _write(changed, asked, now, writes)
    writes = Writes()
    nodes = _write(changed, asked, now, writes)
    writes.run()
    return nodes


def _write(
    rows: Sequence[JobRow], effects: Mapping[UUID, Effects], now: datetime, writes: Writes
) -> list[UUID]:
    """Store the rows and carry out the effects. Return the nodes whose tasks begin or stop."""
    all_effects = list(effects.values())
    writes.update_rows(
        Job, (*CHANGED, "updated_at"), [row.values(CHANGED) | {"updated_at": now} for row in rows]
    )
    writes.insert_rows([attempt for one in all_effects for attempt in one.attempts])
    writes.insert_rows([made for one in all_effects for made in one.events])
    begin = [pk for pk, one in effects.items() if one.begin]
    stop = [pk for pk, one in effects.items() if one.stop]
    failures = [f for one in all_effects if (f := one.failures).found or f.tasks]
    if begin or stop or failures:
        writes.run()  # what follows reads and changes attempts
    write_failures(failures, now)
    nodes = [
        *(living_on(begin) if begin else ()),
        *(stop_attempts(stop, now) if stop else ()),
    ]
    for row in rows:
        notifications.notify_topic("job", row.id)
    if rows:
        notifications.notify_topic("jobs")
    if any(one.requeued for one in all_effects):
        notifications.notify_scheduler()
    if any(row.diagnosing_at for row in rows):
        notifications.notify_diagnosis()
    return nodes


def stop_attempts(job_ids: Collection[UUID], now: datetime) -> list[UUID]:
    """Ask for the end of all living attempts of these jobs. Return the nodes to notify. One query
    for any number."""
    nodes = living_on(job_ids)
    _living(job_ids).update(state=AttemptState.STOPPING, updated_at=now)
    return nodes


def living_on(job_ids: Collection[UUID]) -> list[UUID]:
    """Return the nodes that run or prepare tasks of these jobs."""
    return list(_living(job_ids).order_by().values_list("node", flat=True).distinct())


def _living(job_ids: Collection[UUID]) -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.filter(
        job__in=job_ids, state__in=decisions.STOPPABLE_STATES, released_at=None
    )


@transaction.atomic
def record_diagnosis(job_id: UUID, attempt: int, diagnosis: Diagnosis) -> bool:
    """Store why this attempt of the job failed and let the job go on. Return False when the job
    does not wait for a diagnosis any more: it has one, was stopped, or is at another attempt."""
    waiting = Job.objects.filter(pk=job_id, attempt=attempt, diagnosing_at__isnull=False)
    if not waiting.select_for_update(no_key=True).exists():
        return False
    now = database_time()
    known = {"diagnosis": diagnosis.as_dict(), "diagnosing_at": None, "updated_at": now}
    waiting.update(**known, diagnosis_claimed_until=None)
    store_diagnoses([diagnosis], now)
    bump_revision(advance(lock(Job.objects.filter(pk=job_id)), now))
    return True
