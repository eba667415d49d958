"""The scheduler's Celery task."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import doorbells
from skep_platform.scheduling import tick as ticks

_scheduler = ticks.Scheduler()


@shared_task(name="skep.scheduling.tick")
def tick(hinted: bool = False) -> None:
    """On queue "scheduler", whose worker runs one at a time. Sent by hints, and by beat every 2 s,
    which makes certain what hints make fast."""
    if hinted and not doorbells.tick_hinted():
        return  # an earlier round took the hint while this message lay in the queue
    ticks.tick(_scheduler)
