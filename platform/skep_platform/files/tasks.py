"""Periodic tidying of working files."""

from __future__ import annotations

from celery import shared_task

from skep_platform.files import services


@shared_task(name="skep.files.tidy")
def tidy() -> None:
    """Delete archives that were not used for long."""
    services.tidy()
