"""Finish-time fairness in a virtual cluster, by user: by what factor jobs took longer than on an
equal share of what it owns (`skep_scheduler.usage.fairness`); and how equal users fare, as Jain's
index of their speeds, 1 / mean rho.

Counted are guaranteed jobs with GPUs that were submitted in the last days, and older ones that
still wait or run. A job that has not ended counts with what is left of its predicted or declared
duration.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from django.utils import timezone

from skep_platform.core.bulk import fetch
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.usage.models import FairnessMeasure
from skep_scheduler.usage.fairness import UNFAIR, Life, finish_time_fairness, jain_index

DAYS, MAX_DAYS = 7, 30
MOST_JOBS = 50_000  # the newest ones
DAY = 86_400.0
LEAST_OVERRUN = 0.05  # of what it ran, for a job that runs on after its estimate


@dataclass(frozen=True, slots=True)
class _Job:
    """A job of the window. `ended`: it runs no more."""

    id: str
    name: str
    owner: str
    ended: bool
    life: Life
    rho: float | None = None


def of_vc(user: Any, vc: VirtualCluster, days: int = DAYS) -> dict[str, Any]:
    """Return the figures of all jobs together and of each user, the worst mean first. Who does not
    manage the virtual cluster sees the own row only. Two queries."""
    owned, jobs = _jobs_of(vc, days)
    by_user = _by_user(jobs)
    seen = None if tenancy.manages(user, vc) else {user.get_username()}
    figures = {name: _figures(own) for name, own in by_user.items()}
    rows = [
        {"user": name, **figures[name], "worst_job": _worst(own)}
        for name, own in by_user.items()
        if seen is None or name in seen
    ]
    rows.sort(key=lambda row: (-(row["rho_mean"] or 0.0), row["user"]))
    return {
        "days": days,
        "gpus": owned,
        "jain_index": jain_index(_speeds(figures.values())),
        "total": _figures(jobs),
        "users": rows,
    }


def store() -> int:
    """Store the worst mean rho and Jain's index of each virtual cluster where a job has a rho, and
    forget those of others. Returns how many were stored. Two queries for each virtual cluster."""
    at = timezone.now()
    found = []
    for vc in VirtualCluster.objects.all():
        users = _by_user(_jobs_of(vc, DAYS)[1]).values()
        speeds = _speeds(map(_figures, users))
        index = jain_index(speeds)
        if index is not None:
            worst = 1 / min(speeds)
            found.append(FairnessMeasure(vc=vc, at=at, worst_rho=worst, jain_index=index))
    FairnessMeasure.objects.bulk_create(
        found,
        update_conflicts=True,
        unique_fields=["vc"],
        update_fields=["at", "worst_rho", "jain_index"],
    )
    FairnessMeasure.objects.exclude(vc__in=[each.vc for each in found]).delete()
    return len(found)


def _speeds(users: Iterable[dict[str, Any]]) -> list[float]:
    """Return the speeds of users who have a rho, relative to an equal share: 1 / mean rho."""
    means = [user["rho_mean"] for user in users]
    return [1 / mean for mean in means if mean is not None]


def _jobs_of(vc: VirtualCluster, days: int) -> tuple[int, list[_Job]]:
    """Return the GPUs that it owns, and the jobs of the last days. Two queries."""
    owned = int(fetch(OWNED, [vc.pk])[0][0] or 0)
    now = time.time()
    return owned, _with_rho(_read(vc, now - days * DAY, now), owned)


def _by_user(jobs: Sequence[_Job]) -> dict[str, list[_Job]]:
    found: dict[str, list[_Job]] = {}
    for job in jobs:
        found.setdefault(job.owner, []).append(job)
    return found


def _figures(jobs: Sequence[_Job]) -> dict[str, Any]:
    rhos = [job.rho for job in jobs if job.rho is not None]
    return {
        "jobs": len(rhos),
        "active": sum(not job.ended for job in jobs),
        "unknown": len(jobs) - len(rhos),
        "rho_mean": fsum(rhos) / len(rhos) if rhos else None,
        "rho_max": max(rhos, default=None),
        "unfair_share": sum(rho > UNFAIR for rho in rhos) / len(rhos) if rhos else None,
    }


def _worst(jobs: Sequence[_Job]) -> dict[str, str] | None:
    known = [job for job in jobs if job.rho is not None]
    worst = max(known, key=lambda job: (job.rho, job.id), default=None)
    return None if worst is None else {"id": worst.id, "name": worst.name}


def _with_rho(jobs: Sequence[_Job], gpus: int) -> list[_Job]:
    rhos = finish_time_fairness([job.life for job in jobs], gpus)
    return [
        _Job(job.id, job.name, job.owner, job.ended, job.life, rho)
        for job, rho in zip(jobs, rhos, strict=True)
    ]


def _read(vc: VirtualCluster, since: float, now: float) -> list[_Job]:
    params = {"vc": vc.pk, "since": since, "most": MOST_JOBS}
    return [_job(row, since, now) for row in fetch(JOBS, params)]


def _job(row: Sequence[Any], since: float, now: float) -> _Job:
    pk, name, owner, gpus, submitted, ended, begun, ran, expected = row
    seconds = (ran or 0.0) + (max(now - begun, 0.0) if begun and not ended else 0.0)
    duration, left = ran, 0.0
    if ended is None:
        # A job that overruns its estimate is never taken for done.
        left = max(expected - seconds, LEAST_OVERRUN * seconds) if expected is not None else 0.0
        duration = seconds + left if expected is not None else None
    until = now if ended is None else max(ended, submitted)
    life = Life(submitted, until, gpus, duration or None, left, max(submitted, since))
    return _Job(pk, name, owner, ended is not None, life)


# Use is sampled each minute.
OWNED = """
SELECT sum(owned) FROM (
  SELECT DISTINCT ON (gpu_model) owned FROM scheduling_vcuse
   WHERE vc_id = %s AND at > now() - interval '10 minutes'
   ORDER BY gpu_model, at DESC) newest
"""

JOBS = """
SELECT j.id::text, j.name, u.username, j.gpus, extract(epoch FROM j.created_at)::float8,
       extract(epoch FROM j.finished_at)::float8, extract(epoch FROM j.begun_at)::float8,
       (SELECT sum(extract(epoch FROM a.finished_at - a.started_at))::float8
          FROM jobs_jobattempt a WHERE a.job_id = j.id AND a.started_at IS NOT NULL),
       coalesce(j.predicted_s, j.duration_s)::float8
  FROM (SELECT id FROM jobs_job
         WHERE vc_id = %(vc)s AND created_at >= to_timestamp(%(since)s)
         UNION
        SELECT id FROM jobs_job
         WHERE vc_id = %(vc)s AND state IN ('WAITING', 'RUNNING', 'STOPPING')) found
  JOIN jobs_job j ON j.id = found.id
  JOIN accounts_user u ON u.id = j.owner_id
 WHERE j.priority >= 0 AND j.gpus > 0 AND NOT j.awaits_dependencies
 ORDER BY j.created_at DESC, j.id LIMIT %(most)s
"""
