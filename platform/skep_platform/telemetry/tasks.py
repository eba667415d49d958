"""Periodic work on logs and samples."""

from __future__ import annotations

from celery import shared_task

from skep_platform.telemetry import diagnosing, job_use


@shared_task(name="skep.telemetry.count_use")
def count_use() -> None:
    """Count what finished jobs used. May overlap with itself."""
    while job_use.count_due() == job_use.BATCH:
        pass


@shared_task(name="skep.telemetry.diagnose")
def diagnose() -> None:
    """Say why jobs failed. Runs every 2 s and may overlap with itself."""
    diagnosing.diagnose_due()
