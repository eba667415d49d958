"""Periodic repair of jobs."""

from __future__ import annotations

from celery import shared_task

from skep_platform.jobs import image_saves, services
from skep_platform.jobs.lifecycle import stopping
from skep_platform.jobs.submission import followers


@shared_task(name="skep.jobs.reconcile")
def reconcile() -> None:
    """Repair jobs whose facts or hints were lost. Runs every 2 s and may overlap with itself."""
    services.reconcile()


@shared_task(name="skep.jobs.stop_of_former_members")
def stop_of_former_members() -> None:
    """Stop jobs whose owners were deactivated or left, and that no request stopped."""
    stopping.stop_all()


@shared_task(name="skep.jobs.forget_tokens")
def forget_tokens() -> None:
    """Delete the API tokens of jobs that have ended; they are refused already."""
    followers.forget_tokens()


@shared_task(name="skep.jobs.tidy_image_saves")
def tidy_image_saves() -> None:
    """End saves of containers whose time is over, and delete old ones."""
    image_saves.tidy()
