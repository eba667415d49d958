"""Periodic repair of jobs."""

from __future__ import annotations

from celery import shared_task

from skep_platform.jobs import services
from skep_platform.jobs.life import former_members


@shared_task(name="skep.jobs.reconcile")
def reconcile() -> None:
    """Make certain what facts make fast. Runs every 2 s and may overlap with itself."""
    services.reconcile()


@shared_task(name="skep.jobs.stop_of_former_members")
def stop_of_former_members() -> None:
    """Stop jobs whose owners were deactivated or left, and that no request stopped."""
    former_members.stop_all()
