"""Periodic work on logs and samples."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import notifications, rounds, steps
from skep_platform.telemetry import (
    calibration,
    diagnosing,
    downsampling,
    idle,
    job_use,
    retention,
    user_metrics,
)


@shared_task(name="skep.telemetry.count_use")
def count_use() -> None:
    """Count what finished jobs used. May overlap with itself."""
    while job_use.count_due() == job_use.BATCH:
        pass


@shared_task(name="skep.telemetry.watch_idle")
def watch_idle() -> None:
    """Warn and stop jobs that do not use their GPUs, where their virtual cluster asks for it. May
    overlap with itself."""
    idle.watch()


@shared_task(name="skep.telemetry.read_metrics")
def read_metrics() -> None:
    """Read the logs of jobs that ask for it for metrics. May overlap with itself."""
    user_metrics.read_due()


rounds.sent_when(read_metrics.name, user_metrics.is_due)


@shared_task(name="skep.telemetry.diagnose")
def diagnose() -> None:
    """Say why jobs failed. Sent by hints, and by beat every 2 s; may overlap with itself."""
    notifications.take_diagnosis_hint()
    diagnosing.diagnose_due()


rounds.sent_when(diagnose.name, diagnosing.is_due)


@shared_task(name="skep.telemetry.delete_old_logs")
def delete_old_logs() -> None:
    """Delete for a bounded time. May overlap with itself."""
    retention.delete_old_logs()


@shared_task(name="skep.telemetry.delete_old_rollups")
def delete_old_rollups() -> None:
    """Create the partitions of the next months, make old samples coarser and delete the oldest, and
    scores of predictions after a time of their own, for a bounded time. May overlap with itself.
    Rows outside of all months go into a default partition, so a task that did not run for long
    loses none."""
    steps.run(
        delete_old_rollups.name,
        downsampling.add_months,
        calibration.delete_old,
        downsampling.drop_old_months,
        downsampling.merge_old,
        retention.delete_old_rollups,
    )
