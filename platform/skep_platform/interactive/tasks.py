"""Periodic work on apps."""

from __future__ import annotations

from celery import shared_task

from skep_platform.interactive import services


@shared_task(name="skep.interactive.tidy")
def tidy() -> None:
    """Delete logins at apps that ended. May overlap with itself."""
    services.tidy()
