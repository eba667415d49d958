"""The reconciler of jobs: what a lost hint, a lost node or a killed process left undone.

Every state that is not an end has its way on here:
  attempt of a LOST node        released, LOST
  ASSIGNED for too long         it is sent again; past START_TIMEOUT_S it failed to start
  ready, and the gang begins    it is sent again
  STOPPING, ended, unreleased   it is sent again, until it confirms or its lease is over
  gang that is held             past its barrier the tasks that are not ready fail
  job over its duration         fails
  job that waits for others     is queued, or fails when it can never start
  job that is to be diagnosed   past DIAGNOSIS_TIMEOUT_S the cause counts as unknown
  job whose tasks moved on      `advance`, as after facts
PREPARING is bounded by the agent (a pull without progress fails there), RUNNING by the lease of
the node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.cluster.models import NodeState
from skep_platform.cluster.services import bump_revision
from skep_platform.core.bulk import database_time, fetch, insert_rows, update_rows
from skep_platform.core.compiled import Compiled
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import dependencies, messages
from skep_platform.jobs.lifecycle.advance import advance
from skep_platform.jobs.lifecycle.decisions import Verdict
from skep_platform.jobs.lifecycle.failures import avoiding
from skep_platform.jobs.lifecycle.job_state import lock
from skep_platform.jobs.lifecycle.messages import Late
from skep_platform.jobs.lifecycle.one_by_one import change, change_due
from skep_platform.jobs.lifecycle.reporting import fail_to_start, lose, miss_barrier
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import ATTEMPT, JOB, AttemptState

log = structlog.get_logger(__name__)

BATCH = 200  # jobs per transaction
SEND_AGAIN_S = 30.0
REPORTS = 0x5CF1  # of PostgreSQL's advisory locks: one worker records what is recorded once
START_TIMEOUT_S = 300.0


def reconcile() -> None:
    """Repair jobs whose facts or hints were lost. Short, and safe at any moment and in any number:
    rows that another run holds are skipped. A job that cannot be repaired is logged, left as it is
    and tried again after a pause; a step that fails as a whole keeps none of the others from
    running."""
    failed: Exception | None = None
    for step in STEPS:
        try:
            step()
        except Exception as error:
            if not connection.in_atomic_block and not connection.is_usable():
                raise
            log.warning("repair_step_failed", step=step.__name__, error=str(error)[:300])
            failed = failed or error
    if failed is not None:
        raise failed


def _release_lost_nodes() -> None:
    if not HELD_ON_LOST.finds():
        return
    held = TaskAttempt.objects.filter(released_at=None, node__state__in=GONE)
    last: UUID | None = None  # those that cannot be released are not looked at again
    while jobs := _jobs_of(held.filter(job__gt=last) if last else held):
        change("lose", jobs, lambda some: lose(held.filter(job__in=some), len(some)))
        last = jobs[-1]


def _jobs_of(attempts: QuerySet[TaskAttempt], limit: int = BATCH) -> list[UUID]:
    found = attempts.order_by("job_id").values_list("job_id", flat=True).distinct()
    return list(found[:limit])


GONE = [NodeState.LOST, NodeState.REMOVED]
HELD_ON_LOST = Compiled(lambda: TaskAttempt.objects.filter(released_at=None, node__state__in=GONE))


def _fail_late_starts() -> None:
    if LATE_STARTS.finds():
        change_due(
            "start_timeout", lambda most: _jobs_of(_late_starts(), most), BATCH, _fail_to_start
        )


def _fail_to_start(jobs: Sequence[UUID]) -> None:
    fail_to_start(_late_starts().filter(job__in=jobs), len(jobs))


def _late_starts() -> QuerySet[TaskAttempt]:
    begin = Now() - timedelta(seconds=START_TIMEOUT_S)
    return _living().filter(state=AttemptState.ASSIGNED, created_at__lt=begin)


LATE_STARTS = Compiled(_late_starts)


def _send_again() -> None:
    """Agents forget nothing, but the message may be lost, and the row may be of an older server."""
    found = [pk for (pk,) in UNCONFIRMED.rows()]
    if not found:
        return
    with transaction.atomic():
        # Locked in the order of all writers: jobs, their attempts, nodes. What another one holds
        # is being written, and looked at again in 2 s.
        due = fetch(STILL_UNCONFIRMED, [found, SEND_AGAIN_S])
        TaskAttempt.objects.filter(pk__in=[pk for pk, _ in due]).update(updated_at=Now())
        bump_revision({node for _, node in due})


STILL_UNCONFIRMED = """
SELECT a.id, a.node_id
  FROM jobs_taskattempt a JOIN jobs_job j ON j.id = a.job_id
 WHERE a.id = ANY(%s::uuid[]) AND a.released_at IS NULL
   AND a.updated_at < statement_timestamp() - make_interval(secs => %s)
 ORDER BY j.id, a.id
   FOR NO KEY UPDATE OF j, a SKIP LOCKED
"""


def _unconfirmed() -> QuerySet[TaskAttempt]:
    waiting = Q(state=AttemptState.ASSIGNED) | Q(state=AttemptState.STOPPING)
    waiting |= Q(state__in=ATTEMPT.terminal)
    waiting |= Q(state=AttemptState.PREPARING, ready_at__isnull=False, job__begun_at__isnull=False)
    # Said first and simply, so that what runs is not looked up with its job.
    late = _living().exclude(state=AttemptState.RUNNING)
    late = late.filter(waiting, updated_at__lt=Now() - timedelta(seconds=SEND_AGAIN_S))
    return late[: BATCH * 10]


UNCONFIRMED = Compiled(_unconfirmed, "pk")


def _advance_due() -> None:
    change_due("advance", lambda most: [pk for (pk,) in fetch(DUE, [most])], BATCH, _advance)


def _advance(jobs: Sequence[UUID]) -> None:
    locked = lock(Job.objects.filter(pk__in=jobs), skip_locked=True)
    bump_revision(advance(locked, database_time()))


# Placed jobs on which something may have to be done: a superset, found without a lock. By a task
# that ended, began, is ready, or is left of a job that was asked to end. The OFFSET keeps the
# database from walking all jobs that ever were, in the order of their ids.
DUE = """
SELECT id
  FROM (SELECT j.id
          FROM jobs_job j,
               LATERAL (SELECT
                          FROM jobs_taskattempt a
                         WHERE a.job_id = j.id AND a.index = j.attempt
                           AND (a.state IN ('SUCCEEDED', 'FAILED', 'STOPPED', 'LOST')
                             OR a.state = 'RUNNING' AND j.state = 'WAITING'
                             OR (a.state = 'RUNNING' OR a.ready_at IS NOT NULL)
                                AND j.begun_at IS NULL AND j.tasks_total > 1 AND NOT j.incremental
                             OR a.state IN ('ASSIGNED', 'PREPARING', 'RUNNING')
                                AND (j.stop_requested_at IS NOT NULL OR j.exit_reason IS NOT NULL
                                     OR j.preempting_at IS NOT NULL))
                         LIMIT 1) present
         WHERE j.state IN ('WAITING', 'RUNNING', 'STOPPING') AND j.placed_at IS NOT NULL
        OFFSET 0) due
 ORDER BY id
 LIMIT %s
"""


def _living() -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.filter(released_at=None, node__state=NodeState.ONLINE)


SLOW_S = 900.0  # a node on which a gang's task did not get ready is avoided by it so long
KIND = "job.barrier"
UNREADY = Q(state=AttemptState.ASSIGNED) | Q(state=AttemptState.PREPARING, ready_at=None)


def end_barriers(limit: int = BATCH) -> None:
    """End the wait of gangs that are held for longer than their barrier allows: the tasks that are
    not ready fail, and the job is tried again on other nodes. At most `limit` jobs."""
    change_due("barrier", lambda most: _held(1.0, LIMIT, most), limit, _end_barriers)


def _held(part: float, query: str, limit: int) -> list[UUID]:
    """Return jobs whose gangs are held for longer than this part of their barrier."""
    return [row[0] for row in fetch(HELD + query, [part, limit])]


def _end_barriers(jobs: Sequence[UUID]) -> None:
    lock(Job.objects.filter(pk__in=jobs))
    # One that got another attempt before it was locked has only begun to wait.
    late = [row[0] for row in fetch(HELD + AMONG + LIMIT, [1.0, list(jobs), len(jobs)])]
    _avoid_slow_nodes(late, timezone.now())
    miss_barrier(_unready(late), len(jobs))


def report_barriers(limit: int = BATCH) -> None:
    """Record once per attempt what a gang waits for that is held for half of that time."""
    change_due("report_barrier", lambda most: _held(0.5, UNREPORTED, most), limit, _report_barriers)


def _report_barriers(jobs: Sequence[UUID]) -> None:
    _one_worker()
    found = fetch(HELD + AMONG + UNREPORTED, [0.5, list(jobs), len(jobs)])
    insert_rows(list(_waiting_for({pk: (attempt, tasks) for pk, attempt, tasks in found})))


def report_ends(limit: int = BATCH) -> None:
    """Record once per attempt that a job has nearly run for as long as it may: when a tenth of the
    time is left, and at most 10 minutes."""
    if fetch(ENDING + LIMIT, [ENDING_KIND, limit]):
        with transaction.atomic():
            _one_worker()
            insert_rows(
                [
                    event("job", pk, ENDING_KIND, messages.ending_soon(seconds), attempt=attempt)
                    for pk, attempt, seconds in fetch(ENDING + LIMIT, [ENDING_KIND, limit])
                ]
            )


def _one_worker() -> None:
    """Let one worker at a time record what is recorded once: the next one then finds it."""
    fetch("SELECT pg_advisory_xact_lock(%s)", [REPORTS])


ENDING_KIND = "job.ending_soon"
ENDING = """
SELECT j.id, j.attempt, j.max_duration_s
  FROM jobs_job j
 WHERE j.ends_at BETWEEN now() AND now() + interval '10 minutes'
   AND j.ends_at < now() + j.max_duration_s * interval '0.1 second'
   AND j.state = 'RUNNING' AND j.stop_requested_at IS NULL AND j.exit_reason IS NULL
   AND NOT EXISTS (
       SELECT FROM core_event e
        WHERE e.subject_type = 'job' AND e.subject_id = j.id::text AND e.kind = %s
          AND (e.data->>'attempt')::int = j.attempt)
"""


def end_overtime(limit: int = BATCH) -> None:
    """Fail jobs that have run for as long as they may; they are not tried again."""
    if not OVERTIME.finds():
        return
    due = _overtime().order_by("pk").values_list("pk", flat=True)
    change_due("overtime", lambda most: list(due[:most]), limit, _end_overtime)


def _end_overtime(due: Sequence[UUID]) -> None:
    jobs = lock(_overtime().filter(pk__in=due))
    for job in jobs:
        job.row.exit_reason = messages.over_time(job.row.max_duration_s or 0)
        job.row.verdict = str(Verdict.FAILED)
    decided = ("exit_reason", "verdict")
    update_rows(Job, decided, [job.row.values(decided) for job in jobs])
    bump_revision(advance(jobs, database_time()))


def _overtime() -> QuerySet[Job]:
    return Job.objects.filter(
        ends_at__lt=Now(),
        state__in=JOB.active,
        exit_reason__isnull=True,
        preempting_at=None,
        stop_requested_at=None,
    )


OVERTIME = Compiled(_overtime)

# From the tasks that have not begun, and not from the jobs: the queue may be long.
HELD = """
WITH preparing AS MATERIALIZED (
  SELECT DISTINCT job_id FROM jobs_taskattempt
   WHERE released_at IS NULL AND state IN ('ASSIGNED', 'PREPARING'))
SELECT j.id, j.attempt, j.tasks_total
  FROM preparing JOIN jobs_job j ON j.id = preparing.job_id
 WHERE j.state IN ('WAITING', 'RUNNING') AND j.placed_at IS NOT NULL AND j.begun_at IS NULL
   AND j.tasks_total > 1 AND NOT j.incremental
   AND j.stop_requested_at IS NULL AND j.preempting_at IS NULL AND j.exit_reason IS NULL
   AND j.placed_at + j.barrier_s * interval '1 second' * %s < now()
"""
LIMIT = " ORDER BY j.id LIMIT %s"
AMONG = " AND j.id = ANY(%s::uuid[])"
UNREPORTED = (
    f"""
   AND NOT EXISTS (
       SELECT FROM core_event e
        WHERE e.subject_type = 'job' AND e.subject_id = j.id::text AND e.kind = '{KIND}'
          AND (e.data->>'attempt')::int = j.attempt)
"""
    + LIMIT
)


def _avoid_slow_nodes(jobs: Collection[UUID], now: datetime) -> None:
    """Make the jobs avoid the nodes where tasks were not ready; unless none was ready anywhere:
    then it is no fault of the nodes."""
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
    """Yield the events of jobs that wait for tasks. `jobs` has the attempt and the number of tasks
    by job."""
    late: dict[UUID, list[Late]] = defaultdict(list)
    rows = _unready(jobs).order_by("job_id", "task__rank")
    for job, *columns in rows.values_list("job_id", *LATE):
        late[job].append(Late(*columns))
    for job, some in late.items():
        attempt, tasks = jobs[job]
        message = messages.waiting_for(some, tasks)
        yield event("job", job, KIND, message, attempt=attempt, late=len(some), tasks=tasks)


LATE = ("role__name", "task__index", "node__name", "phase", "pull_percent")


def _unready(jobs: Iterable[UUID]) -> QuerySet[TaskAttempt]:
    return _present(jobs).filter(UNREADY)


def _present(jobs: Iterable[UUID]) -> QuerySet[TaskAttempt]:
    found = TaskAttempt.objects.filter(job__in=list(jobs), index=F("job__attempt"))
    return found.order_by()


STEPS: tuple[Callable[[], None], ...] = (
    *(_release_lost_nodes, _fail_late_starts, _send_again, _advance_due),
    *(end_barriers, report_barriers, report_ends, end_overtime, dependencies.resolve),
)
