"""Periodic repair of what admins asked of nodes, and the fairness of virtual clusters."""

from __future__ import annotations

from celery import shared_task

from skep_platform.cells import fairness, services


@shared_task(name="skep.cells.drain")
def drain() -> None:
    """Ask whom a draining node got after it was drained. May overlap with itself."""
    services.evict_all()


@shared_task(name="skep.cells.measure_fairness")
def measure_fairness() -> None:
    """Store how equally users of each virtual cluster fare, once an hour. Two at once do no
    harm."""
    fairness.store()
