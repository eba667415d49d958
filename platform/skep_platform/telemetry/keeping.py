"""How long the logs of a finished job are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from skep_platform.core.errors import Gone
from skep_platform.jobs.models import Job


def kept_until(job: Job) -> datetime | None:
    """None: for ever, or the job has not ended."""
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
