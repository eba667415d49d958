"""What Celery's beat sends, and how often, in seconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.schedules import schedstate, schedule

_STARTED_AT, _STARTED = datetime.now(UTC), time.monotonic()


def steady_now() -> datetime:
    """Return the time as it was when this process began, plus what has passed since."""
    return _STARTED_AT + timedelta(seconds=time.monotonic() - _STARTED)


class Every(schedule):
    """Each so many seconds, whatever is done to the clock of the machine. Celery counts by the wall
    clock: once that is set back by an hour, beat sends nothing for an hour."""

    def __init__(self, run_every: float | timedelta, *_: object, **__: object) -> None:
        super().__init__(run_every, nowfun=steady_now)

    def is_due(self, last_run_at: datetime) -> schedstate:
        """A last run in the future was stored by a process before a clock was set back: it counts
        as now, and does not hold up the next one for longer than usual."""
        return super().is_due(min(self.maybe_make_aware(last_run_at), self.now()))


# Short tasks that are sent together, see `core.rounds`, by how often.
ROUNDS: dict[float, tuple[str, ...]] = {
    2.0: (
        "skep.jobs.reconcile",
        "skep.cluster.reconcile",
        "skep.cells.drain",
        "skep.telemetry.diagnose",
        "skep.notifications.collect",
        "skep.notifications.send_webhooks",
    ),
    5.0: (
        "skep.telemetry.read_metrics",
        "skep.telemetry.count_use",
        "skep.notifications.send_mails",
        "skep.accounts.send_mails",
        "skep.simulations.run",
    ),
}


def tasks(entries: dict[str, Any]) -> set[str]:
    """Return the names of the tasks that these entries of a schedule send or run."""
    found = {entry["task"] for entry in entries.values()}
    return found.union(*(entry.get("kwargs", {}).get("tasks", ()) for entry in entries.values()))


def _round(every_s: float) -> dict[str, Any]:
    return {
        "task": "skep.core.round",
        "schedule": Every(every_s),
        "kwargs": {"tasks": list(ROUNDS[every_s]), "expires_s": 2 * every_s},
        "options": {"expires": 2 * every_s},
    }


def beat(tick_s: float) -> dict[str, Any]:
    """Return the schedule. `tick_s`: time between two ticks of the scheduler. A message expires
    before the next but one comes, so that those of a time without workers do not pile up."""
    return {
        **{f"round-of-{every_s:g}-s": _round(every_s) for every_s in ROUNDS},
        "tick": {
            "task": "skep.scheduling.tick",
            "schedule": Every(tick_s),
            "options": {"queue": "scheduler", "expires": 4},
        },
        "verify-world": {
            "task": "skep.scheduling.verify",
            "schedule": Every(300.0),
            "options": {"queue": "scheduler", "expires": 60},
        },
        "sample-use": {
            "task": "skep.scheduling.sample_use",
            "schedule": Every(60.0),
            "options": {"queue": "scheduler", "expires": 30},
        },
        "score-starts": {
            "task": "skep.scheduling.score_starts",
            "schedule": Every(60.0),
            "options": {"expires": 30},
        },
        "tidy-scheduling": {
            "task": "skep.scheduling.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "stop-jobs-of-former-members": {
            "task": "skep.jobs.stop_of_former_members",
            "schedule": Every(30.0),
            "options": {"expires": 20},
        },
        "measure-fairness": {
            "task": "skep.cells.measure_fairness",
            "schedule": Every(3600.0),
            "options": {"expires": 1800},
        },
        "count-usage": {
            "task": "skep.usage.count",
            "schedule": Every(60.0),
            "options": {"expires": 30},
        },
        "measure-usage": {
            "task": "skep.usage.measure",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "sync-directory": {
            "task": "skep.accounts.sync_directory",
            "schedule": Every(300.0),
            "options": {"expires": 150},
        },
        "remind-of-waiting-jobs": {
            "task": "skep.notifications.remind",
            "schedule": Every(300.0),
            "options": {"expires": 150},
        },
        "tidy-notifications": {
            "task": "skep.notifications.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "tidy-simulations": {
            "task": "skep.simulations.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "tidy-usage": {
            "task": "skep.usage.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "watch-idle-jobs": {
            "task": "skep.telemetry.watch_idle",
            "schedule": Every(60.0),
            "options": {"expires": 30},
        },
        "delete-old-logs": {
            "task": "skep.telemetry.delete_old_logs",
            "schedule": Every(60.0),
            "options": {"expires": 30},
        },
        "delete-old-rollups": {
            "task": "skep.telemetry.delete_old_rollups",
            "schedule": Every(600.0),
            "options": {"expires": 300},
        },
        "tidy-events": {
            "task": "skep.core.tidy_events",
            "schedule": Every(300.0),
            "options": {"expires": 150},
        },
        "tidy-audit": {
            "task": "skep.audit.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "evaluate-alert-rules": {
            "task": "skep.operations.evaluate_rules",
            "schedule": Every(60.0),
            "options": {"expires": 30},
        },
        "tidy-operations": {
            "task": "skep.operations.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "archive-jobs": {
            "task": "skep.operations.archive_jobs",
            "schedule": Every(600.0),
            "options": {"expires": 300},
        },
        "tidy-apps": {
            "task": "skep.interactive.tidy",
            "schedule": Every(600.0),
            "options": {"expires": 300},
        },
        "tidy-files": {
            "task": "skep.files.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
        "inspect-images": {
            "task": "skep.images.inspect",
            "schedule": Every(60.0),
            "options": {"expires": 50},
        },
        "tidy-images": {
            "task": "skep.images.tidy",
            "schedule": Every(300.0),
            "options": {"expires": 150},
        },
        "tidy-image-saves": {
            "task": "skep.jobs.tidy_image_saves",
            "schedule": Every(60.0),
            "options": {"expires": 50},
        },
        "forget-tokens-of-jobs": {
            "task": "skep.jobs.forget_tokens",
            "schedule": Every(60.0),
            "options": {"expires": 60},
        },
        "tidy-logins": {
            "task": "skep.accounts.tidy",
            "schedule": Every(3600.0),
            "options": {"expires": 600},
        },
    }
