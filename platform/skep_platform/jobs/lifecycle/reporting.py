"""Apply the facts that nodes report, in batches: a constant number of queries per batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from skep_agent.protocol import AttemptFact
from skep_platform.cluster.services import bump_revision
from skep_platform.core import notifications, one_by_one
from skep_platform.core.bulk import Writes, database_time, fetch, insert_rows
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import diagnosing, facts, messages, preempting
from skep_platform.jobs.lifecycle.advance import advance
from skep_platform.jobs.lifecycle.diagnosing import Failed
from skep_platform.jobs.lifecycle.facts import AttemptRow
from skep_platform.jobs.lifecycle.job_state import COLUMNS, OF_JOB, LockedJob, lock
from skep_platform.jobs.lifecycle.messages import Ending
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState

log = structlog.get_logger(__name__)

MAX_FAILURE_EVENTS = 20  # failed tasks with an event of their own, per job and batch
ROW = (
    "id",
    "job_id",
    "epoch",
    "created_at",
    *("index", "role_id", "role__min_failed", "role__min_succeeded", "network"),
    *facts.CHANGED,
)
WRITTEN = (*facts.CHANGED, "updated_at")
Change = tuple[AttemptRow, AttemptRow]  # before, after


Reported = Mapping[tuple[UUID, UUID], list[AttemptFact]]  # by node and attempt


def apply_facts(node_id: UUID, batch: Sequence[AttemptFact]) -> None:
    """Store the facts of one node; see `apply_facts_of_nodes`."""
    apply_facts_of_nodes({node_id: batch})


def apply_facts_of_nodes(batches: Mapping[UUID, Sequence[AttemptFact]]) -> None:
    """Store the facts of these nodes in one transaction. To store them again changes nothing. Facts
    about attempts that are not on the node that reports them, or of another epoch, are logged and
    ignored; so are those that cannot be stored, which the agent would repeat for ever and with them
    all later ones of its node."""
    reported = {
        (node_id, attempt_id): found
        for node_id, batch in batches.items()
        for attempt_id, found in _sort(batch).items()
    }
    one_by_one.change(
        list(reported),
        lambda some: _apply({key: reported[key] for key in some}),
        lambda key: _leave_out(key, reported[key]),
    )


def _leave_out(key: tuple[UUID, UUID], found: Sequence[AttemptFact]) -> None:
    node_id, attempt_id = key
    ids = {"node_id": str(node_id), "attempt_id": str(attempt_id)}
    log.exception("facts_not_stored", **ids, phases=[fact.phase for fact in found])


@transaction.atomic
def lose(attempts: QuerySet[TaskAttempt], limit: int) -> int:
    """Record that these attempts are lost, whose nodes are gone: they hold nothing any more. For at
    most `limit` jobs. Return the number of attempts."""
    # A node may come back meanwhile, and be sent what is recorded as lost a moment later.
    nodes = list(attempts.order_by().values_list("node", flat=True).distinct())
    return _change(attempts, limit, _lost, forgetful=nodes)


def lose_forgotten_of_nodes(reported: Mapping[UUID, tuple[int, Collection[str], bool]]) -> int:
    """Record as lost what nodes were sent and have forgotten: (epoch, held, remembers) of each.

    `epoch` is that of the session which the Hello opened: once a newer one is open, the node may
    run what this one knows nothing of, and nothing is lost.
    `held` is what its agent reports at Hello that it holds, or knows to be over: what is missing
    was forgotten with its state. It may have been started, and is never started a second time. Its
    GPUs stay leased until the node has looked at them. `remembers`: the agent's journal is the one
    that it had before, so that what it was sent and does not hold has not begun. Return the number
    of attempts; one query when there are none."""
    may_begin = TaskAttempt.objects.filter(released_at=None, state__in=_MAY_BEGIN)
    known = {node_id: {name.lower() for name in held} for node_id, (_, held, _) in reported.items()}
    missing: dict[UUID, list[UUID]] = {}
    rows = may_begin.filter(node__in=list(reported)).order_by()
    for node_id, pk, started, sent in rows.values_list(
        "node_id", "pk", "started_at", "sent_run_at"
    ):
        _, _, remembers = reported[node_id]
        if str(pk) not in known[node_id] and (started or (sent and not remembers)):
            missing.setdefault(node_id, []).append(pk)
    lost = 0
    for node_id, attempts in sorted(missing.items()):
        log.warning("attempts_forgotten", node_id=str(node_id), attempts=len(attempts))
        with transaction.atomic():
            epoch, *_ = reported[node_id]
            of_session = may_begin.filter(node=node_id, node__session_epoch=epoch)
            forgotten = of_session.filter(pk__in=attempts)
            lost += _give_up(forgotten, len(attempts), _forgotten)
    return lost


def refuse(attempts: Mapping[UUID, tuple[str, str]]) -> int:
    """End attempts that were never sent to their node, by code and message: they fail, or are
    stopped where that was asked. They are released without the node's confirmation, because it
    never received them. Return the number of attempts."""

    def refused(attempt: AttemptRow, now: datetime) -> AttemptRow:
        after = replace(attempt, released_at=now)
        stopping = attempt.state == AttemptState.STOPPING
        if after.move_to(AttemptState.STOPPED if stopping else AttemptState.FAILED):
            after.finished_at = now
            after.error_code, after.error_message = attempts[attempt.id]
        return after

    unsent = TaskAttempt.objects.filter(pk__in=attempts, released_at=None, sent_run_at=None)
    with transaction.atomic():
        return _change(unsent, len(attempts), refused)


_MAY_BEGIN = (AttemptState.ASSIGNED, AttemptState.PREPARING, AttemptState.RUNNING)


@transaction.atomic
def fail_to_start(attempts: QuerySet[TaskAttempt], limit: int) -> int:
    """Give up on attempts that their nodes do not begin. Their GPUs stay leased until the node
    has confirmed, or is lost. For at most `limit` jobs. Return the number of attempts."""
    return _give_up(attempts, limit, _not_started)


@transaction.atomic
def miss_barrier(attempts: QuerySet[TaskAttempt], limit: int) -> int:
    """Give up on attempts that are not ready while the rest of their gang waits for them; as
    `fail_to_start`."""
    return _give_up(attempts, limit, _not_ready)


def _give_up(
    attempts: QuerySet[TaskAttempt],
    limit: int,
    change: Callable[[AttemptRow, datetime], AttemptRow],
) -> int:
    nodes = list(attempts.order_by().values_list("node", flat=True).distinct())
    changed = _change(attempts, limit, change)
    bump_revision(nodes)
    return changed


def _sort(batch: Sequence[AttemptFact]) -> dict[UUID, list[AttemptFact]]:
    by_attempt: dict[UUID, list[AttemptFact]] = defaultdict(list)
    for fact in sorted(batch, key=lambda fact: fact.seq):
        try:
            by_attempt[UUID(fact.attempt_id)].append(fact)
        except ValueError:
            log.warning("fact_ignored", why="not an attempt id", attempt_id=fact.attempt_id[:80])
    return by_attempt


def _apply(reported: Reported) -> None:
    jobs, found, now = _locked(reported)
    _log_foreign_facts(reported, found)
    changes = [(a, _folded(a, reported[key], now)) for key, a in found.items()]
    forgetful = {
        node_id
        for (node_id, _), (before, after) in zip(found, changes, strict=True)
        if after.released_at and not before.released_at
    }
    _write(jobs, [c for c in changes if c[0] != c[1]], now, forgetful)


def _locked(
    reported: Reported,
) -> tuple[list[LockedJob], dict[tuple[UUID, UUID], AttemptRow], datetime]:
    """Return the jobs of these attempts, as far as the attempts are on the nodes that report them,
    locked in the order of the jobs; these attempts; and the time of the database."""
    jobs: dict[UUID, LockedJob] = {}
    found: dict[tuple[UUID, UUID], AttemptRow] = {}
    nodes, attempts = zip(*reported, strict=True)
    rows = fetch(LOCK, [list(attempts), list(nodes)])
    for row in rows:
        job_row, attempt = row[: len(COLUMNS)], AttemptRow(*row[len(COLUMNS) : -2])
        if job_row[0] not in jobs:
            jobs[job_row[0]] = LockedJob.from_sql(job_row)
        found[row[-2], attempt.id] = attempt
    return list(jobs.values()), found, rows[0][-1] if rows else timezone.now()


# The attempts are locked too: a row that was waited for is then read anew as a whole.
LOCK = """
SELECT {job}, (j.spec->>'jobRetryCount')::int, o.notified_events, {attempt}, a.node_id,
       statement_timestamp()
  FROM unnest(%s::uuid[], %s::uuid[]) AS reported (id, node_id)
  JOIN jobs_taskattempt a ON a.id = reported.id AND a.node_id = reported.node_id
  JOIN jobs_job j ON j.id = a.job_id
  JOIN jobs_taskrole r ON r.id = a.role_id
  JOIN accounts_user o ON o.id = j.owner_id
 ORDER BY j.id, a.id
   FOR NO KEY UPDATE OF j, a
""".format(
    job=", ".join(f"j.{column}" for column in OF_JOB),
    attempt=", ".join(
        f"r.{column.removeprefix('role__')}" if column.startswith("role__") else f"a.{column}"
        for column in ROW
    ),
)


def _change(
    attempts: QuerySet[TaskAttempt],
    limit: int,
    change: Callable[[AttemptRow, datetime], AttemptRow],
    forgetful: Collection[UUID] = (),
) -> int:
    found = attempts.order_by("job_id").values_list("job_id", flat=True).distinct()[:limit]
    jobs = lock(Job.objects.filter(pk__in=list(found)))
    rows = attempts.filter(job__in=[job.id for job in jobs]).order_by("pk")
    now = database_time()
    changes = [(a, change(a, now)) for a in (AttemptRow(*row) for row in rows.values_list(*ROW))]
    _write(jobs, changes, now, forgetful)
    return len(changes)


def _folded(attempt: AttemptRow, reported: Iterable[AttemptFact], now: datetime) -> AttemptRow:
    after = attempt.copy()
    for fact in reported:
        if fact.epoch == attempt.epoch:
            facts.fold(after, fact, now)
        else:
            log.warning("fact_ignored", why="another epoch", attempt_id=fact.attempt_id)
    return after


def _lost(attempt: AttemptRow, now: datetime) -> AttemptRow:
    after = replace(attempt, released_at=now)
    if after.move_to(AttemptState.LOST):
        after.finished_at = now
        after.error_code = "node_lost"
        after.error_message = "Its node was lost."
    return after


def _forgotten(attempt: AttemptRow, now: datetime) -> AttemptRow:
    after = replace(attempt, finished_at=now, error_code="attempt_forgotten")
    after.move_to(AttemptState.LOST)
    after.error_message = "Its node came back without its state, and no longer has the task."
    return after


def _not_started(attempt: AttemptRow, now: datetime) -> AttemptRow:
    after = replace(attempt, finished_at=now, error_code="start_timeout")
    after.move_to(AttemptState.FAILED)
    after.error_message = "Its node did not begin with it in time."
    return after


def _not_ready(attempt: AttemptRow, now: datetime) -> AttemptRow:
    after = replace(attempt, finished_at=now, error_code="barrier_timeout")
    after.move_to(AttemptState.FAILED)
    after.error_message = "It was not ready in time to begin with the rest of its gang."
    return after


def _log_foreign_facts(reported: Reported, found: Container[tuple[UUID, UUID]]) -> None:
    for node_id, attempt_id in reported:
        if (node_id, attempt_id) not in found:
            ids = {"attempt_id": attempt_id, "node_id": node_id}
            log.warning("fact_ignored", why="not on this node", **ids)


def _write(
    jobs: Sequence[LockedJob],
    changes: Sequence[Change],
    now: datetime,
    forgetful: Collection[UUID] = (),
) -> None:
    """Store the changes and move their jobs on. `forgetful` are nodes that may forget what was
    released."""
    if not changes:
        return
    writes, moved = Writes(), _moved(jobs, changes)
    writes.update_rows(TaskAttempt, WRITTEN, [_row(after, now) for _, after in changes])
    released = [a for before, a in changes if a.released_at and not before.released_at]
    if released:
        _release(released, now, writes)
    preempted = any(job.row.preempting_at for job in jobs)
    if preempted or not _counted(moved, changes):
        writes.run()  # what follows reads the attempts as they are stored
    _record_failures(moved, changes)
    nodes = advance(list(moved.values()), now, writes)
    if preempted:
        writes.run()  # events are stored in the order in which things happened
    nodes += preempting.stop_unsaved({job.id: job for job in jobs}, changes)
    _record_pulls(changes, writes)
    requests = {job.id: job.row.request_id for job in jobs}
    transaction.on_commit(partial(_log_states, changes, requests))
    # Without a notification when a heartbeat is early enough.
    changed = [*nodes, *(forgetful if released else ())]
    bump_revision(changed, ring=bool(nodes), writes=writes)
    writes.run()
    for job_id in {after.job_id for _, after in changes}:
        notifications.notify_topic("job", job_id)


def _counted(moved: Mapping[UUID, LockedJob], changes: Sequence[Change]) -> bool:
    """Count jobs of one task, which needs no query. Return whether these are all."""
    return all(
        moved[after.job_id].count_only(after) for _, after in changes if after.job_id in moved
    )


def _log_states(changes: Iterable[Change], requests: Mapping[UUID, str]) -> None:
    """Log each new state of a task: with the lines of its agent, all steps of a job. `requests` are
    the requests that submitted the jobs."""
    for before, after in changes:
        if before.state != after.state:
            log.info(
                "attempt_state",
                job_id=str(after.job_id),
                attempt_id=str(after.id),
                request_id=requests[after.job_id],
                state=str(after.state),
                code=after.error_code,
            )


def _row(attempt: AttemptRow, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(attempt, name) for name in facts.CHANGED}
    return row | {"id": attempt.id, "updated_at": now}


def _release(attempts: Sequence[AttemptRow], now: datetime, writes: Writes) -> None:
    ids = [attempt.id for attempt in attempts]
    writes.add(RELEASE_DEVICES, now, ids)
    if any(attempt.network == "host" for attempt in attempts):
        writes.add(RELEASE_PORTS, now, ids)
    if any(attempt.network == "gang" for attempt in attempts):
        writes.run()
        writes.add(RELEASE_NETWORKS, ids)
    notifications.notify_scheduler()
    notifications.notify_topic("cluster")


RELEASE_DEVICES = """
UPDATE jobs_lease SET released_at = %s
 WHERE attempt_id = ANY(%s) AND released_at IS NULL
"""
RELEASE_PORTS = """
UPDATE jobs_portlease SET released_at = %s
 WHERE attempt_id = ANY(%s) AND released_at IS NULL
"""


# With the last task of the gang: until then a node may still have its bridge.
RELEASE_NETWORKS = """
DELETE FROM jobs_gangnetwork g USING jobs_taskattempt a
 WHERE a.id = ANY(%s) AND a.network = 'gang'
   AND g.job_id = a.job_id AND g.index = a.index
   AND NOT EXISTS (SELECT 1 FROM jobs_taskattempt other
                    WHERE other.job_id = g.job_id AND other.index = g.index
                      AND other.released_at IS NULL)
"""


def _moved(jobs: Sequence[LockedJob], changes: Sequence[Change]) -> dict[UUID, LockedJob]:
    """Return the jobs to which the changes matter: not those of which only a pull went on."""
    known = {job.id: job for job in jobs}
    moved: dict[UUID, LockedJob] = {}
    for before, after in changes:
        if all(getattr(before, name) == getattr(after, name) for name in MOVES):
            continue
        job = moved.setdefault(after.job_id, known[after.job_id])
        job.left_assigned += before.state == AttemptState.ASSIGNED != after.state
    return moved


MOVES = ("state", "ready_at", "released_at")


def _record_failures(jobs: Mapping[UUID, LockedJob], changes: Sequence[Change]) -> None:
    """Add an event for each task that failed just now; no query when none did."""
    failures = (AttemptState.FAILED, AttemptState.LOST)
    failed = [a.id for before, a in changes if a.state in failures and before.state != a.state]
    if not failed:
        return
    rows = TaskAttempt.objects.filter(pk__in=failed).order_by("task__rank")
    for job_id, state, *columns in rows.values_list("job_id", "state", *diagnosing.COLUMNS):
        ending, events = Ending(Failed(*columns), state), jobs[job_id].events
        if len(events) < MAX_FAILURE_EVENTS:
            events.append(event("job", job_id, "task.failed", ending.sentence, **ending.details))


MARKS = (25, 50, 75)  # percent
PULLING = "job.pulling"


def _record_pulls(changes: Iterable[tuple[AttemptRow, AttemptRow]], writes: Writes) -> None:
    """Record each mark once per job, by the task that passes it first; none after a higher one. No
    query where none is passed."""
    passed: dict[UUID, tuple[int, UUID]] = {}
    for before, after in changes:
        mark = _mark(before, after)
        if mark and mark > passed.get(after.job_id, (0, after.id))[0]:
            passed[after.job_id] = mark, after.id
    if passed:
        writes.run()  # a job prepares before it pulls
        _record_marks(passed)


def _mark(before: AttemptRow, after: AttemptRow) -> int:
    """Return the highest mark that was passed just now; 0: none."""
    if after.phase != "pulling":
        return 0
    old, new = before.pull_percent or 0, after.pull_percent or 0
    return max((mark for mark in MARKS if old < mark <= new), default=0)


def _record_marks(passed: dict[UUID, tuple[int, UUID]]) -> None:
    recorded = _recorded_marks(passed)
    new = {job: found for job, found in passed.items() if found[0] > recorded.get(str(job), 0)}
    if not new:
        return
    attempts = TaskAttempt.objects.filter(pk__in=[attempt for _, attempt in new.values()])
    nodes = dict(attempts.values_list("pk", "node__name"))
    insert_rows(
        [
            event("job", job, PULLING, messages.pulling(mark, nodes[attempt]), percent=mark)
            for job, (mark, attempt) in new.items()
        ]
    )


def _recorded_marks(jobs: Iterable[UUID]) -> dict[str, int]:
    """Return the highest mark among the events of each job."""
    rows = Event.objects.filter(
        subject_type=Event.Subject.JOB, subject_id__in=[str(job) for job in jobs], kind=PULLING
    )
    return dict(rows.order_by("id").values_list("subject_id", "data__percent"))
