"""The idle rule of a virtual cluster: jobs that hold GPUs and do not use them are warned, then
stopped.

A GPU is idle while its utilisation is below a percentage in each of the last minutes that the rule
asks for. A job is idle when all of its GPUs are, and only on positive evidence: where samples are
missing (a node without a connection) nothing happens to it. The limits of the virtual cluster give
the numbers; a VC admin may exempt a job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from skep_platform.core import notifications
from skep_platform.core.bulk import fetch
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.lifecycle.job_state import lock
from skep_platform.jobs.lifecycle.stopping import audited, stop_locked
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JobState
from skep_platform.tenancy.limits import LIMITS

RULE = ("idle_minutes", "idle_percent", "idle_stop_minutes", "idle_grace_minutes")
SEEN = 0.8  # share of the time for which samples must be there
MOST_STOPPED = 50  # jobs per round; the next one takes the rest


@dataclass(frozen=True, slots=True)
class Watched:
    """A running job whose virtual cluster has the rule. `idle`: for the whole time that the rule
    asks for; `used`: some GPU worked since the job was warned."""

    id: UUID
    warned_at: datetime | None  # of the present attempt
    minutes: int
    percent: int
    stop_minutes: int
    gpus: int
    idle: bool
    used: bool

    def stops_at(self) -> datetime | None:
        """Return when it is stopped if it stays idle; None: never, or not warned yet."""
        if self.warned_at is None or not self.stop_minutes:
            return None
        return self.warned_at + timedelta(minutes=self.stop_minutes)


def watch() -> None:
    """Warn, stop, and take warnings back. A constant number of queries for any number of jobs but
    those that are stopped. Safe to run twice at once."""
    defaults = {name: LIMITS[name].default for name in RULE}
    rows = [Watched(*row) for row in fetch(WATCHED, {**defaults, "rule": list(RULE), "seen": SEEN})]
    now = timezone.now()
    _warn([job for job in rows if job.idle and job.warned_at is None])
    _forgive([job for job in rows if job.warned_at is not None and job.used])
    due = [
        job for job in rows if job.idle and not job.used and (at := job.stops_at()) and at <= now
    ]
    _stop(due[:MOST_STOPPED])


def _warn(jobs: Sequence[Watched]) -> None:
    warnings = [event("job", job.id, "job.idle", _warning(job), notify=True) for job in jobs]
    _mark(jobs, timezone.now(), warnings)


def _forgive(jobs: Sequence[Watched]) -> None:
    message = "Its GPUs are in use again: the warning is taken back."
    _mark(jobs, None, [event("job", job.id, "job.idle_over", message) for job in jobs])


@transaction.atomic
def _mark(jobs: Sequence[Watched], warned_at: datetime | None, events: Sequence[Event]) -> None:
    if not jobs:
        return
    ids = [job.id for job in jobs]
    before = Job.objects.filter(pk__in=ids, state=JobState.RUNNING).select_for_update(no_key=True)
    known = dict(before.order_by("pk").values_list("pk", "idle_warned_at"))
    same = {job.id for job in jobs if job.id in known and _is_as_read(job, known[job.id])}
    Job.objects.filter(pk__in=same).update(idle_warned_at=warned_at)
    Event.objects.bulk_create(one for one in events if UUID(one.subject_id) in same)
    for pk in same:
        notifications.notify_topic("job", pk)


def _is_as_read(job: Watched, warned_at: datetime | None) -> bool:
    """Return whether no other run marked it meanwhile. A warning of an earlier attempt is none."""
    return job.warned_at is None or job.warned_at == warned_at


def _stop(jobs: Sequence[Watched]) -> None:
    """Stop jobs that stayed idle after they had been warned."""
    stop(
        {
            job.id: messages.idle(job.gpus, job.percent, (job.minutes + job.stop_minutes) * 60)
            for job in jobs
        }
    )


@transaction.atomic
def stop(reasons: Mapping[UUID, dict[str, Any]], **facts: str) -> set[UUID]:
    """Stop the idle jobs for these reasons, but those that ended or were exempted meanwhile; return
    which. `facts` go into the audit log."""
    if not reasons:
        return set()
    of_audit = Job.objects.select_related("vc", "owner").defer("spec", "spec_text")
    shown = {job.pk: job for job in of_audit.filter(pk__in=reasons)}
    stopped = set()
    for job in lock(Job.objects.filter(pk__in=reasons, idle_exempt=False)):
        if job.row.state == JobState.RUNNING and job.row.stop_requested_at is None:
            why = reasons[job.id]
            stop_locked(job, why, actor="")
            owner = shown[job.id].owner.get_username()
            audited(shown[job.id], "job.stop", owner=owner, code=why["code"], **facts)
            stopped.add(job.id)
    return stopped


def _warning(job: Watched) -> str:
    message = (
        f"Its {messages.gpus(job.gpus)} stayed below {job.percent} % utilisation for "
        f"{messages.duration(job.minutes * 60)}."
    )
    if job.stop_minutes:
        message += f" It is stopped in {messages.duration(job.stop_minutes * 60)} unless they work."
    return (
        f"{message} Look at its log for what it waits for, or stop it; ask a VC admin to exempt a "
        "job that must stay."
    )


WATCHED = """
WITH rule AS (
    SELECT vc_id,
           max(value) FILTER (WHERE name = 'idle_minutes') AS minutes,
           coalesce(max(value) FILTER (WHERE name = 'idle_percent'), %(idle_percent)s) AS percent,
           coalesce(max(value) FILTER (WHERE name = 'idle_stop_minutes'),
                    %(idle_stop_minutes)s) AS stop_minutes,
           coalesce(max(value) FILTER (WHERE name = 'idle_grace_minutes'),
                    %(idle_grace_minutes)s) AS grace
      FROM tenancy_vclimit WHERE name = ANY(%(rule)s)
     GROUP BY vc_id
    HAVING max(value) FILTER (WHERE name = 'idle_minutes') > 0
), watched AS (
    SELECT j.id, j.attempt, j.gpus, r.minutes, r.percent, r.stop_minutes,
           CASE WHEN j.idle_warned_at > j.placed_at THEN j.idle_warned_at END AS warned_at
      FROM jobs_job j JOIN rule r ON r.vc_id = j.vc_id
     WHERE j.state = 'RUNNING' AND j.gpus > 0 AND NOT j.idle_exempt
       AND j.stop_requested_at IS NULL AND j.preempting_at IS NULL AND j.exit_reason IS NULL
       AND coalesce(j.begun_at, j.placed_at)
           < now() - greatest(r.minutes, r.grace) * interval '1 minute'
), gpus AS (
    SELECT w.id,
           coalesce(sum(u.seconds), 0) >= %(seen)s * 60 * w.minutes
               AND bool_and(u.utilization_sum < w.percent * u.samples) AS idle,
           coalesce(bool_or(u.utilization_sum >= w.percent * u.samples AND u.at > w.warned_at),
                    false) AS used
      FROM watched w
      JOIN jobs_taskattempt a
        ON a.job_id = w.id AND a.index = w.attempt AND a.released_at IS NULL
     CROSS JOIN LATERAL jsonb_array_elements_text(a.gpu_uuids) AS gpu(uuid)
      LEFT JOIN telemetry_gpurollup u
        ON u.attempt_id = a.id AND u.device_id = gpu.uuid AND u.samples > 0
       -- With the bucket in which the time begins: the newest one may not be stored yet.
       AND u.at > now() - (w.minutes + 1) * interval '1 minute'
     GROUP BY w.id, w.minutes, w.warned_at, a.id, gpu.uuid
)
SELECT w.id, w.warned_at, w.minutes, w.percent, w.stop_minutes, w.gpus,
       bool_and(coalesce(g.idle, false)), bool_or(g.used)
  FROM watched w JOIN gpus g ON g.id = w.id
 GROUP BY w.id, w.warned_at, w.minutes, w.percent, w.stop_minutes, w.gpus
 ORDER BY w.id
"""
