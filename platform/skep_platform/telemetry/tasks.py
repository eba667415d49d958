"""Periodic work on logs and samples."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import doorbells
from skep_platform.telemetry import diagnosing, job_use, retention


@shared_task(name="skep.telemetry.count_use")
def count_use() -> None:
    """Count what finished jobs used. May overlap with itself."""
    while job_use.count_due() == job_use.BATCH:
        pass


@shared_task(name="skep.telemetry.diagnose")
def diagnose() -> None:
    """Say why jobs failed. Sent by hints, and by beat every 2 s; may overlap with itself."""
    doorbells.take_diagnosis_hint()
    diagnosing.diagnose_due()


@shared_task(name="skep.telemetry.delete_old_logs")
def delete_old_logs() -> None:
    """A bounded time at a time. May overlap with itself."""
    retention.delete_old_logs()
