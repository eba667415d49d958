"""Periodic work of operations."""

from __future__ import annotations

from celery import shared_task

from skep_platform.cluster import faults, services
from skep_platform.operations import backups, rules


@shared_task(name="skep.operations.evaluate_rules")
def evaluate_rules() -> None:
    """Bring the alerts of all rules up to date, every minute. May overlap with itself."""
    rules.evaluate()


@shared_task(name="skep.operations.tidy")
def tidy() -> None:
    """Forget old alerts, backups, faults of nodes and join tokens. May overlap with itself."""
    rules.delete_old()
    backups.forget_old()
    faults.delete_old()
    services.forget_join_tokens()
