"""Periodic work on usage."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import steps
from skep_platform.usage import budgets, counting


@shared_task(name="skep.usage.count")
def count() -> None:
    """Count the time of leases and what is used of budgets, every minute. Safe to
    run twice at once: one of them does nothing."""
    steps.run(count.name, counting.count, budgets.refresh)


@shared_task(name="skep.usage.measure")
def measure() -> None:
    """Count, and read the samples of jobs that hold GPUs, every hour."""
    counting.count(measure=True)


@shared_task(name="skep.usage.tidy")
def tidy() -> None:
    """Merge and delete old rows. May overlap with itself."""
    steps.run(tidy.name, counting.merge_old_days, counting.delete_old_days)
