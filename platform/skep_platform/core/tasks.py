"""Periodic work on events, and rounds of periodic work."""

from __future__ import annotations

from celery import shared_task

from skep_platform.core import events, rounds, steps

_folder = events.Folder()


@shared_task(name="skep.core.tidy_events")
def tidy_events() -> None:
    """Keep the table of events bounded, a bounded time at a time. May overlap with itself."""
    steps.run(tidy_events.name, _folder.fold, events.delete_old_events)


@shared_task(name="skep.core.round")
def run_round(tasks: list[str], expires_s: float) -> None:
    """Run several short tasks, see `core.rounds`. May overlap with itself."""
    rounds.run(tasks, expires_s)
