"""Periodic repair of jobs."""

from __future__ import annotations

from celery import shared_task

from skep_platform.jobs import services


@shared_task(name="skep.jobs.reconcile")
def reconcile() -> None:
    """Make certain what facts make fast. Runs every 2 s and may overlap with itself."""
    services.reconcile()
