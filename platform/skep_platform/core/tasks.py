"""Periodic work on events."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import events

_folder = events.Folder()


@shared_task(name="skep.core.tidy_events")
def tidy_events() -> None:
    """Keep the table of events bounded, a bounded time at a time. May overlap with itself."""
    _folder.fold()
    events.delete_old_events()
