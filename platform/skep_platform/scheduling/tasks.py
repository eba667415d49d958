"""The scheduler's Celery tasks."""

from __future__ import annotations

import time

from celery import shared_task

from skep_platform.core import notifications, steps
from skep_platform.scheduling import expected_starts, planned, source
from skep_platform.scheduling import tick as ticks
from skep_platform.scheduling.source import verify

VERIFY_WITHIN_S = 1800.0


@shared_task(name="skep.scheduling.tick")
def tick(hinted: bool = False) -> None:
    """Plan, on queue "scheduler", whose worker runs one task at a time. Sent by hints, and by beat
    every 2 s in case a hint was lost."""
    if hinted and not notifications.tick_hinted():
        return  # an earlier round took the hint while this message lay in the queue
    if ticks.tick(ticks.SCHEDULER):
        notifications.note_tick()


@shared_task(name="skep.scheduling.verify")
def verify_world() -> None:
    """On queue "scheduler", as the world is its worker's. Left out while there is work to do, but
    not for longer than VERIFY_WITHIN_S: under constant load there always is."""
    scheduler, now = ticks.SCHEDULER, time.monotonic()
    if now - scheduler.verified_at < VERIFY_WITHIN_S and notifications.tick_hinted():
        return
    verify(scheduler.source)
    scheduler.verified_at = now


@shared_task(name="skep.scheduling.sample_use")
def sample_use() -> None:
    """Store a sample of the use of all virtual clusters, every minute on queue "scheduler"."""
    planned.sample_use(ticks.SCHEDULER.source.catch_up())


@shared_task(name="skep.scheduling.score_starts")
def score_starts() -> None:
    """Store in which intervals waiting jobs start, and score those that have started, every minute.
    Two at once do no harm."""
    steps.run(score_starts.name, expected_starts.score, expected_starts.store)


@shared_task(name="skep.scheduling.tidy")
def tidy() -> None:
    """Forget old changes and old samples."""
    steps.run(tidy.name, source.prune_changes, planned.prune_samples)
