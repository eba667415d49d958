"""What Celery's beat sends, and how often, in seconds."""

from __future__ import annotations

from typing import Any


def beat(tick_s: float) -> dict[str, Any]:
    """Return the schedule. `tick_s`: time between two ticks of the scheduler. A message expires
    before the next but one comes, so that those of a time without workers do not pile up."""
    return {
        "tick": {
            "task": "skep.scheduling.tick",
            "schedule": tick_s,
            "options": {"queue": "scheduler", "expires": 4},
        },
        "verify-world": {
            "task": "skep.scheduling.verify",
            "schedule": 300.0,
            "options": {"queue": "scheduler", "expires": 60},
        },
        "sample-use": {
            "task": "skep.scheduling.sample_use",
            "schedule": 60.0,
            "options": {"queue": "scheduler", "expires": 30},
        },
        "tidy-scheduling": {
            "task": "skep.scheduling.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "stop-jobs-of-former-members": {
            "task": "skep.jobs.stop_of_former_members",
            "schedule": 30.0,
            "options": {"expires": 20},
        },
        "reconcile-jobs": {
            "task": "skep.jobs.reconcile",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
        "reconcile-nodes": {
            "task": "skep.cluster.reconcile",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
        "drain-nodes": {
            "task": "skep.cells.drain",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
        "diagnose-jobs": {
            "task": "skep.telemetry.diagnose",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
        "read-metrics": {
            "task": "skep.telemetry.read_metrics",
            "schedule": 5.0,
            "options": {"expires": 10},
        },
        "count-use": {
            "task": "skep.telemetry.count_use",
            "schedule": 5.0,
            "options": {"expires": 10},
        },
        "count-usage": {
            "task": "skep.usage.count",
            "schedule": 60.0,
            "options": {"expires": 30},
        },
        "measure-usage": {
            "task": "skep.usage.measure",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "collect-notifications": {
            "task": "skep.notifications.collect",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
        "send-mails": {
            "task": "skep.notifications.send_mails",
            "schedule": 5.0,
            "options": {"expires": 10},
        },
        "sync-directory": {
            "task": "skep.accounts.sync_directory",
            "schedule": 300.0,
            "options": {"expires": 150},
        },
        "send-mails-of-accounts": {
            "task": "skep.accounts.send_mails",
            "schedule": 5.0,
            "options": {"expires": 10},
        },
        "send-webhooks": {
            "task": "skep.notifications.send_webhooks",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
        "remind-of-waiting-jobs": {
            "task": "skep.notifications.remind",
            "schedule": 300.0,
            "options": {"expires": 150},
        },
        "tidy-notifications": {
            "task": "skep.notifications.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "run-simulations": {
            "task": "skep.simulations.run",
            "schedule": 5.0,
            "options": {"expires": 10},
        },
        "tidy-simulations": {
            "task": "skep.simulations.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "tidy-usage": {
            "task": "skep.usage.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "watch-idle-jobs": {
            "task": "skep.telemetry.watch_idle",
            "schedule": 60.0,
            "options": {"expires": 30},
        },
        "delete-old-logs": {
            "task": "skep.telemetry.delete_old_logs",
            "schedule": 60.0,
            "options": {"expires": 30},
        },
        "delete-old-rollups": {
            "task": "skep.telemetry.delete_old_rollups",
            "schedule": 600.0,
            "options": {"expires": 300},
        },
        "tidy-events": {
            "task": "skep.core.tidy_events",
            "schedule": 300.0,
            "options": {"expires": 150},
        },
        "tidy-audit": {
            "task": "skep.audit.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "tidy-apps": {
            "task": "skep.interactive.tidy",
            "schedule": 600.0,
            "options": {"expires": 300},
        },
        "tidy-files": {
            "task": "skep.files.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "inspect-images": {
            "task": "skep.images.inspect",
            "schedule": 60.0,
            "options": {"expires": 50},
        },
        "tidy-images": {
            "task": "skep.images.tidy",
            "schedule": 300.0,
            "options": {"expires": 150},
        },
        "tidy-image-saves": {
            "task": "skep.jobs.tidy_image_saves",
            "schedule": 60.0,
            "options": {"expires": 50},
        },
        "forget-tokens-of-jobs": {
            "task": "skep.jobs.forget_tokens",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "tidy-logins": {
            "task": "skep.accounts.tidy",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
    }
