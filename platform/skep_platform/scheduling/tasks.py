"""The scheduler's Celery task."""

from __future__ import annotations

from celery import shared_task

from skep_platform.scheduling import tick as ticks

_scheduler = ticks.Scheduler()


@shared_task(name="skep.scheduling.tick")
def tick() -> None:
    """On queue "scheduler", whose worker runs one at a time; hinted, and repeated every 2 s."""
    ticks.tick(_scheduler)
