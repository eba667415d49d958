"""Periodic work of operations."""

from __future__ import annotations

from celery import shared_task

from skep_platform.cluster import faults, maintenance, services
from skep_platform.core import steps
from skep_platform.operations import archiving, backups, rules


@shared_task(name="skep.operations.evaluate_rules")
def evaluate_rules() -> None:
    """Bring the alerts of all rules up to date, every minute. May overlap with itself."""
    rules.evaluate()


@shared_task(name="skep.operations.tidy")
def tidy() -> None:
    """Forget old alerts, backups, faults and maintenance of nodes, and join tokens. It may overlap
    with itself."""
    steps.run(
        tidy.name,
        rules.delete_old,
        backups.forget_old,
        faults.delete_old,
        maintenance.delete_old,
        services.forget_join_tokens,
    )


@shared_task(name="skep.operations.archive_jobs")
def archive_jobs() -> None:
    """Move finished jobs to the archive, and delete archived ones whose time is over. Safe to run
    twice at once: one of them does nothing."""
    steps.run(archive_jobs.name, archiving.archive_old, archiving.delete_old)
