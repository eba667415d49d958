"""Work on simulations."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import rounds
from skep_platform.simulations import running, services


@shared_task(name="skep.simulations.run", acks_late=False)
def run() -> None:
    """Run the oldest simulation that is queued, unless one runs. Sent when one was asked for, and
    every few seconds, which also ends those whose worker is gone."""
    running.run_next()


rounds.sent_when(run.name, services.is_due)


@shared_task(name="skep.simulations.tidy")
def tidy() -> None:
    """Delete old simulations. May overlap with itself."""
    services.tidy()
