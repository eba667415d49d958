"""Periodic repair of what admins asked of nodes."""

from __future__ import annotations

from celery import shared_task

from skep_platform.cells import services


@shared_task(name="skep.cells.drain")
def drain() -> None:
    """Ask whom a draining node got after it was drained. May overlap with itself."""
    services.evict_all()
