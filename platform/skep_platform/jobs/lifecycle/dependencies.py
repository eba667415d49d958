"""Jobs that wait for other jobs: queued when all of their dependencies hold, failed when one of
them can never hold.

A job with dependencies is WAITING and unknown to the scheduler, so it costs no tick anything and
gets no reservation. As in Slurm, its age in the queue counts from its submission.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from math import inf
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Greatest, Now

from skep_jobfile import Issue, JobFile
from skep_platform.accounts.models import User
from skep_platform.core import notifications
from skep_platform.core.bulk import fetch
from skep_platform.core.events import record
from skep_platform.core.user_events import wants
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.lifecycle.decisions import Verdict
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.lifecycle.one_by_one import change, paused
from skep_platform.jobs.models import Job, JobDependency
from skep_platform.jobs.states import JOB, JobState

# The final states of the upstream job with which a condition can never hold, by condition.
NEVER: dict[str, frozenset[str]] = {
    "afterok": frozenset({JobState.FAILED, JobState.STOPPED}),
    "afternotok": frozenset({JobState.SUCCEEDED}),
    "afterany": frozenset(),
    "after": frozenset(),
}
BATCH = 200  # jobs per transaction
WHOLE_S = 60.0
MOST_CHANGED = 10_000  # ids of changed jobs that are looked at together
MOST_NAMED = 5
PATH = ("extras", "skep", "dependsOn")


def waits_for(dependencies: Sequence[tuple[str, str]]) -> Reason:
    """Return why a job with dependencies waits; each is the upstream job, as the job file calls it,
    and the condition."""
    named = [
        f"{job[:100]} to {messages.CONDITIONS[condition]}"
        for job, condition in dependencies[:MOST_NAMED]
    ]
    more = len(dependencies) - len(named)
    message = f"Waits for job {', '.join(named)}{f' and {more} more' if more else ''}."
    return messages.reason("dependency", message, jobs=[job for job, _ in dependencies])


def resolve(limit: int = BATCH) -> None:
    """Queue the jobs whose dependencies all hold, and fail those of which one can never hold; at
    most `limit` jobs, where no others failed a moment ago. Safe to repeat and to run several times
    at once.

    Looks at those that wait for a job which changed, and each WHOLE_S at all that wait, as the
    broker that has the ids of changed jobs may lose some."""
    global _whole_at, _were_due
    left_out = paused("dependencies")
    most = limit + len(left_out)
    changed, now = notifications.take_changed_jobs(MOST_CHANGED), time.monotonic()
    whole_at, _whole_at = _whole_at, -inf  # where this fails, the next look is at all of them
    if changed is None or len(changed) == MOST_CHANGED or now - whole_at >= WHOLE_S:
        rows, whole_at = fetch(DUE, [most]), now
    else:
        changed += _were_due
        rows = fetch(DUE_AMONG, [changed, changed, most]) if changed else []
    due = {row[0]: row[1:] for row in rows if row[0] not in left_out}
    change("dependencies", list(due), lambda some: _resolve({pk: due[pk] for pk in some}))
    _were_due = [str(row[0]) for row in rows]
    if len(rows) < most:
        _whole_at = whole_at  # else the next look finds the rest


_whole_at = -inf  # when all waiting jobs were looked at last, by the monotonic clock
# What was due at the last look: a job whose row was locked then is so still.
_were_due: list[str] = []


def _resolve(due: Mapping[UUID, tuple[UUID | None, str, str]]) -> None:
    rows = Job.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
    rows = rows.filter(
        pk__in=list(due),
        awaits_dependencies=True,
        state=JobState.WAITING,
        stop_requested_at=None,
    )
    known = ("pk", "state", "not_before", "notified_events", "owner__notified_events")
    for job in rows.select_related("owner").order_by("pk").only(*known):
        failed_by, condition, state = due[job.pk]
        if failed_by is None:
            _queue(job)
        else:
            _fail(job, failed_by, condition, state)
        notifications.notify_topic("job", job.pk)
    notifications.notify_topic("jobs")
    notifications.notify_scheduler()


# Of each due job: the upstream job whose end makes a dependency impossible, or null.
_DUE = """
SELECT j.id, failed.id, failed.condition, failed.state
  FROM jobs_job j
  LEFT JOIN LATERAL (
      SELECT u.id, d.condition, u.state
        FROM jobs_jobdependency d JOIN jobs_job u ON u.id = d.upstream_id
       WHERE d.job_id = j.id
         AND (d.condition = 'afterok' AND u.state IN ('FAILED', 'STOPPED')
              OR d.condition = 'afternotok' AND u.state = 'SUCCEEDED')
       ORDER BY u.id LIMIT 1) failed ON true
 WHERE j.awaits_dependencies AND j.state = 'WAITING' AND j.stop_requested_at IS NULL
   AND (failed.id IS NOT NULL OR NOT EXISTS (
       SELECT FROM jobs_jobdependency d JOIN jobs_job u ON u.id = d.upstream_id
        WHERE d.job_id = j.id
          AND NOT CASE d.condition
              WHEN 'afterok' THEN u.state = 'SUCCEEDED'
              WHEN 'afternotok' THEN u.state IN ('FAILED', 'STOPPED')
              WHEN 'afterany' THEN u.state IN ('SUCCEEDED', 'FAILED', 'STOPPED')
              ELSE u.started_at IS NOT NULL OR u.state IN ('SUCCEEDED', 'FAILED', 'STOPPED') END))
"""
LIMIT = " ORDER BY j.id LIMIT %s"
DUE = _DUE + LIMIT
# The ids first, so that no other job which waits is looked at.
AMONG = """
   AND j.id = ANY(ARRAY(
       SELECT d.job_id FROM jobs_jobdependency d WHERE d.upstream_id = ANY(%s::uuid[])
        UNION SELECT unnest(%s::uuid[])))
"""
DUE_AMONG = _DUE + AMONG + LIMIT


def _queue(job: Job) -> None:
    # The change of not_before is what the scheduler's change log reports.
    Job.objects.filter(pk=job.pk).update(
        awaits_dependencies=False,
        wait_reason=messages.begin_time(job.not_before),
        not_before=Greatest(F("not_before") + timedelta(microseconds=1), Now()),
        updated_at=Now(),
    )
    record(
        "job", job.pk, "job.dependencies_met", "The jobs it waited for allow it to start: queued."
    )


def _fail(job: Job, upstream: UUID, condition: str, state: str) -> None:
    JOB.check(job.state, JobState.FAILED, str(job.pk))
    why = messages.never_holds(upstream, condition, state)
    Job.objects.filter(pk=job.pk).update(
        state=JobState.FAILED,
        finished_at=Now(),
        exit_reason=why,
        verdict=str(Verdict.FAILED),
        wait_reason=None,
        updated_at=Now(),
    )
    notify = wants(job.owner.notified_events, "job.failed", job.notified_events)
    details = {"code": why["code"], **why["details"]}
    record("job", job.pk, "job.failed", why["message"], notify=notify, **details)


def wait_reason(job: JobFile) -> dict[str, Any] | None:
    """Return why a new job is not queued yet; None for a job without dependencies."""
    wanted = [(one.job, one.condition) for one in job.extras.skep.depends_on]
    return waits_for(wanted) if wanted else None


def issues(user: User, job: JobFile) -> Iterator[Issue]:
    """Yield an issue for each dependency on a job that the user may not see (the same one as
    for a job that does not exist), and for each that can never hold."""
    found = _find(user, job)
    for index, wanted in enumerate(job.extras.skep.depends_on):
        upstream, path = found.get(wanted.job), (*PATH, index, "job")
        if upstream is None:
            message = f"There is no job {wanted.job[:100]} that you may see."
            yield Issue("unknown_job", message, path, details={"job": wanted.job[:100]})
        elif upstream.state in NEVER[wanted.condition]:
            message = (
                f"Job {wanted.job[:100]} is {upstream.state}: {wanted.condition} can never hold."
            )
            details = {"job": str(upstream.pk), "state": upstream.state}
            yield Issue("dependency_never_holds", message, path, details=details)


def store(job: Job, spec: JobFile) -> None:
    """Insert the dependencies of a new job, inside the caller's transaction. One on a job that was
    archived since `issues` looked holds, as that had ended as it should: no row stands for it."""
    wanted = spec.extras.skep.depends_on
    if not wanted:
        return
    found = _find(job.owner, spec)
    rows = {(found[one.job].pk, one.condition) for one in wanted if one.job in found}
    kept = {pk for (pk,) in fetch(KEEP, [sorted({pk for pk, _ in rows})])}
    notifications.notify_topic("job", job.pk)  # it may be due at once
    JobDependency.objects.bulk_create(
        JobDependency(job=job, upstream_id=upstream, condition=condition)
        for upstream, condition in sorted(rows)
        if upstream in kept
    )


# Waits for a transaction that archives one of them, and keeps others from beginning to.
KEEP = "SELECT id FROM jobs_job WHERE id = ANY(%s::uuid[]) ORDER BY id FOR KEY SHARE"


def _find(user: User, spec: JobFile) -> dict[str, Job]:
    """Return the upstream jobs that the user may see, by how the job file calls them: one query,
    and none for a job without dependencies."""
    asked = {wanted.job: _query(user, wanted.job) for wanted in spec.extras.skep.depends_on}
    if not asked:
        return {}
    found: dict[str, Job] = {}
    # Without the columns of the job file, each of which can have hundreds of kilobytes.
    upstream = queries.visible_to(user).select_related(None).select_related("owner")
    upstream = upstream.only("name", "state", "owner__username")
    for job in upstream.filter(reduce(or_, asked.values())):
        mine = job.owner_id == user.pk
        for name in (str(job.pk), f"{job.owner.username}~{job.name}", *([job.name] * mine)):
            found[name] = job
    return {name: found[key] for name in asked if (key := _key(name)) in found}


def _key(name: str) -> str:
    pk = _uuid(name)
    return str(pk) if pk else name


def _query(user: User, name: str) -> Q:
    if pk := _uuid(name):
        return Q(pk=pk)
    owner, separator, rest = name.rpartition("~")
    return Q(owner__username=owner, name=rest) if separator else Q(owner=user, name=name)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
