"""The deadlines of jobs: a gang that does not get ready together, and the maximum duration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.cluster.services import bump_revision
from skep_platform.core.bulk import fetch, insert_rows, update_rows
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.life import stories
from skep_platform.jobs.life.advance import advance
from skep_platform.jobs.life.locked import lock
from skep_platform.jobs.life.reporting import miss_barrier
from skep_platform.jobs.life.retrying import avoiding
from skep_platform.jobs.life.stories import Late
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState

SLOW_S = 900.0  # a node on which a gang's task did not get ready is avoided by it so long
KIND = "job.barrier"
UNREADY = Q(state=AttemptState.ASSIGNED) | Q(state=AttemptState.PREPARING, ready_at=None)


def end_barriers(limit: int) -> None:
    """Gangs that are held for longer than their barrier allows: the tasks that are not ready fail,
    and the job is tried again on other nodes. At most `limit` jobs."""
    late = [row[0] for row in fetch(HELD + LIMIT, [1.0, limit])]
    if not late:
        return
    with transaction.atomic():
        jobs = lock(Job.objects.filter(pk__in=late))
        _avoid_slow_nodes([job.id for job in jobs], timezone.now())
        miss_barrier(_unready(late), limit)


def tell_barriers(limit: int) -> None:
    """Gangs that are held for half of that time: once per attempt it is told what they wait for."""
    found = fetch(HELD + UNTOLD, [0.5, limit])
    if found:
        insert_rows(list(_waiting_for({pk: (attempt, tasks) for pk, attempt, tasks in found})))


def end_overtime(limit: int) -> None:
    """Jobs that have run for as long as they may: they fail, and are not tried again."""
    over = Job.objects.filter(
        ends_at__lt=Now(),
        state__in=JOB.active,
        exit_reason__isnull=True,
        preempting_at=None,
        stop_requested_at=None,
    )
    if not over.exists():
        return
    with transaction.atomic():
        jobs = lock(over.filter(pk__in=list(over.values_list("pk", flat=True)[:limit])))
        for job in jobs:
            job.row["exit_reason"] = stories.over_time(job.row["max_duration_s"])
        rows = [{"id": job.id, "exit_reason": job.row["exit_reason"]} for job in jobs]
        update_rows(Job, ("exit_reason",), rows)
        bump_revision(advance(jobs, timezone.now()))


HELD = """
SELECT j.id, j.attempt, j.tasks_total
  FROM jobs_job j
 WHERE j.state IN ('WAITING', 'RUNNING') AND j.placed_at IS NOT NULL AND j.begun_at IS NULL
   AND j.tasks_total > 1 AND NOT j.incremental
   AND j.stop_requested_at IS NULL AND j.preempting_at IS NULL AND j.exit_reason IS NULL
   AND j.placed_at + j.barrier_s * interval '1 second' * %s < now()
"""
LIMIT = " ORDER BY j.id LIMIT %s"
UNTOLD = (
    f"""
   AND NOT EXISTS (
       SELECT FROM core_event e
        WHERE e.subject_type = 'job' AND e.subject_id = j.id::text AND e.kind = '{KIND}'
          AND (e.data->>'attempt')::int = j.attempt)
"""
    + LIMIT
)


def _avoid_slow_nodes(jobs: Collection[UUID], now: datetime) -> None:
    """Where tasks were not ready; unless none was anywhere: then it is no fault of the nodes."""
    slow: dict[UUID, set[str]] = defaultdict(set)
    for job, node in _unready(jobs).values_list("job_id", "node__name").distinct():
        slow[job].add(node)
    ready = _present(jobs).exclude(UNREADY).values_list("job_id", flat=True).distinct()
    known = Job.objects.filter(pk__in=[pk for pk in ready if pk in slow])
    update_rows(
        Job,
        ("avoid_nodes",),
        [
            {"id": pk, "avoid_nodes": avoiding(avoided, slow[pk], now, SLOW_S)}
            for pk, avoided in known.values_list("pk", "avoid_nodes")
        ],
    )


def _waiting_for(jobs: Mapping[UUID, tuple[int, int]]) -> Iterator[Event]:
    """`jobs`: attempt and number of tasks by job."""
    late: dict[UUID, list[Late]] = defaultdict(list)
    rows = _unready(jobs).order_by("job_id", "task__rank")
    for job, *columns in rows.values_list("job_id", *LATE):
        late[job].append(Late(*columns))
    for job, some in late.items():
        attempt, tasks = jobs[job]
        message = stories.waiting_for(some, tasks)
        yield event("job", job, KIND, message, attempt=attempt, late=len(some), tasks=tasks)


LATE = ("role__name", "task__index", "node__name", "phase", "pull_percent")


def _unready(jobs: Iterable[UUID]) -> QuerySet[TaskAttempt]:
    return _present(jobs).filter(UNREADY)


def _present(jobs: Iterable[UUID]) -> QuerySet[TaskAttempt]:
    found = TaskAttempt.objects.filter(job__in=list(jobs), index=F("job__attempt"))
    return found.order_by()
