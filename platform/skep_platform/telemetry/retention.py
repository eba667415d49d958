"""How much and how long logs and samples are kept.

Of one job's log as many bytes are stored as the limit `log_bytes_per_job` of its virtual cluster
says. Each process reads what a job has stored when it first stores for it, and counts on from
there. With several gateways a job may therefore exceed its limit by what the others stored
meanwhile.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.utils import timezone

from skep_platform.core.bulk import deletion_time
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Gone
from skep_platform.core.events import record
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.telemetry import downsampling
from skep_platform.telemetry.models import (
    LogChunk,
    MetricLog,
    UserMetric,
)
from skep_platform.telemetry.store import delete_chunks
from skep_platform.tenancy.limits import LIMITS

JOBS = 100  # at a time
CHUNKS = 1000  # at a time
BUDGET_S = 30.0  # per run; the next one goes on


def kept_until(job: Job) -> datetime | None:
    """Return when the logs of the job are deleted; None: never, or it has not ended."""
    days = settings.SKEP_LOG_RETENTION_DAYS
    return job.finished_at + timedelta(days=days) if job.finished_at and days > 0 else None


def check_kept(job: Job) -> None:
    """Raises Gone `logs_deleted` once the time is over: whoever reads while the chunks are being
    deleted finds no log with holes."""
    end = kept_until(job)
    over = end is not None and end <= timezone.now()
    deleted_at = job.logs_deleted_at or (end if over else None)
    if deleted_at is not None:
        raise Gone(
            f"The logs of this job were deleted on {deleted_at:%Y-%m-%d}; they are kept for a "
            "limited time after a job's end.",
            code="logs_deleted",
            deleted_at=deleted_at.isoformat(),
            finished_at=job.finished_at.isoformat() if job.finished_at else None,
        )


def delete_old_logs() -> int:
    """Delete chunks whose time is over, oldest jobs first; returns how many jobs are done. Bytes go
    before the rows that refer to them: a run that is killed leaves nothing that is not found again.
    Two runs at once do no harm."""
    if settings.SKEP_LOG_RETENTION_DAYS <= 0:
        return 0
    until, done = time.monotonic() + BUDGET_S, 0
    while time.monotonic() < until and (jobs := _over()):
        while deleted := _delete_some(jobs):
            if deleted == CHUNKS and time.monotonic() > until:
                return done
        done += Job.objects.filter(pk__in=jobs, logs_deleted_at=None).update(
            logs_deleted_at=timezone.now()
        )
    return done


def _over() -> list[UUID]:
    end = deletion_time() - timedelta(days=settings.SKEP_LOG_RETENTION_DAYS)
    jobs = Job.objects.filter(finished_at__lte=end, logs_deleted_at=None).order_by("finished_at")
    return list(jobs.values_list("pk", flat=True)[:JOBS])


def _delete_some(jobs: list[UUID]) -> int:
    found = LogChunk.objects.filter(job__in=jobs).values_list("id", "key")[:CHUNKS]
    chunks = dict(found)
    if chunks:
        delete_chunks(list(chunks.values()))
        LogChunk.objects.filter(pk__in=list(chunks)).delete()
    return len(chunks)


def delete_old_rollups() -> int:
    """Delete the oldest samples, and metrics of users older than `SKEP_METRIC_RETENTION_DAYS`;
    returns how many rows were deleted. What a job used as a whole is kept (`JobUse`). Two runs at
    once do no harm."""
    days = settings.SKEP_METRIC_RETENTION_DAYS
    if days <= 0:
        return 0
    now = deletion_time()
    before, samples = now - timedelta(days=days), now - timedelta(days=downsampling.kept_days())
    # The log of a job that goes on must not be read once more.
    over = (
        UserMetric.objects.filter(job__metrics_rank=None),
        MetricLog.objects.filter(due_at=None, job__metrics_rank=None),
    )
    return downsampling.delete_older(samples) + sum(
        delete_in_batches(rows.filter(at__lt=before).order_by("at")) for rows in over
    )


LIMIT_NAME = "log_bytes_per_job"
LIMIT_EVENT = "job.log_limit"
MOST_REMEMBERED = 20_000  # jobs
READ_STORED = """
SELECT j.id, coalesce(l.value, %s),
       coalesce((SELECT sum(c.size) FROM telemetry_logchunk c WHERE c.job_id = j.id), 0)::bigint
  FROM jobs_job j LEFT JOIN tenancy_vclimit l ON l.vc_id = j.vc_id AND l.name = %s
 WHERE j.id = ANY(%s)
"""


@dataclass(slots=True)
class _StoredOfJob:
    most: int
    stored: int
    reported: bool = False


class LogAllowance:
    """Counts for this process. Safe for the threads of the gateway: a lost update costs some
    bytes."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[UUID, _StoredOfJob] = OrderedDict()

    def spent(self, jobs: Iterable[UUID]) -> set[UUID]:
        """Return the jobs that may store nothing more; one query for those not known yet."""
        asked = set(jobs)
        missing = [job for job in asked if job not in self._jobs]
        if missing:
            with connection.cursor() as cursor:
                cursor.execute(READ_STORED, [LIMITS[LIMIT_NAME].default, LIMIT_NAME, missing])
                for job, most, stored in cursor.fetchall():
                    self._jobs[job] = _StoredOfJob(most, stored)
            while len(self._jobs) > MOST_REMEMBERED:
                self._jobs.popitem(last=False)
        known = {job: self._jobs[job] for job in asked if job in self._jobs}
        over = {job: one for job, one in known.items() if one.stored >= one.most}
        for job, one in over.items():
            if not one.reported:
                one.reported = True
                _report(job, one.most)
        return set(over)

    def add(self, stored: Mapping[UUID, int]) -> None:
        """Count bytes that were stored, by job."""
        for job, size in stored.items():
            if job in self._jobs:
                self._jobs[job].stored += size

    def forget(self) -> None:
        self._jobs.clear()


def _report(job: UUID, most: int) -> None:
    """Record an event, once for each job."""
    if Event.objects.filter(subject_type="job", subject_id=str(job), kind=LIMIT_EVENT).exists():
        return
    message = (
        f"Its log has reached {most} bytes, the limit of its virtual cluster: what it prints from "
        "now on is not stored. The job goes on."
    )
    record("job", job, LIMIT_EVENT, message, most_bytes=most)
