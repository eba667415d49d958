"""Deleting the logs of jobs that ended long ago."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from skep_platform.jobs.models import Job
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.store import delete_chunks

JOBS = 100  # at a time
CHUNKS = 1000  # at a time
BUDGET_S = 30.0  # per run; the next one goes on


def delete_old_logs() -> int:
    """Delete chunks whose time is over, oldest jobs first; returns how many jobs are done. Bytes go
    before the rows that tell of them: a run that is killed leaves nothing that is not found again.
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
    end = timezone.now() - timedelta(days=settings.SKEP_LOG_RETENTION_DAYS)
    jobs = Job.objects.filter(finished_at__lte=end, logs_deleted_at=None).order_by("finished_at")
    return list(jobs.values_list("pk", flat=True)[:JOBS])


def _delete_some(jobs: list[UUID]) -> int:
    found = LogChunk.objects.filter(job__in=jobs).values_list("id", "key")[:CHUNKS]
    chunks = dict(found)
    if chunks:
        delete_chunks(list(chunks.values()))
        LogChunk.objects.filter(pk__in=list(chunks)).delete()
    return len(chunks)
