"""Periodic work on the audit log."""

from __future__ import annotations

from celery import shared_task

from skep_platform.audit import services
from skep_platform.core import steps


@shared_task(name="skep.audit.tidy")
def tidy() -> None:
    """Create the partitions of the next months and drop those that are older than the retention.
    May overlap with itself. Entries outside of all months go into a default partition, so a task
    that did not run for long loses none."""
    steps.run(tidy.name, services.add_months, services.drop_old_months)
