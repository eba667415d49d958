"""The scheduler's Celery tasks."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import doorbells
from skep_platform.scheduling import changes, uses
from skep_platform.scheduling import tick as ticks
from skep_platform.scheduling.verify import verify

_scheduler = ticks.Scheduler()


@shared_task(name="skep.scheduling.tick")
def tick(hinted: bool = False) -> None:
    """On queue "scheduler", whose worker runs one at a time. Sent by hints, and by beat every 2 s,
    which makes certain what hints make fast."""
    if hinted and not doorbells.tick_hinted():
        return  # an earlier round took the hint while this message lay in the queue
    ticks.tick(_scheduler)


@shared_task(name="skep.scheduling.verify")
def verify_world() -> None:
    """On queue "scheduler", as the world is its worker's. Left out while there is work to do."""
    if not doorbells.tick_hinted():
        verify(_scheduler.source)


@shared_task(name="skep.scheduling.sample_use")
def sample_use() -> None:
    """On queue "scheduler", every minute."""
    uses.sample(_scheduler.source.catch_up())


@shared_task(name="skep.scheduling.tidy")
def tidy() -> None:
    """Forget old changes and old samples."""
    changes.prune()
    uses.prune()
