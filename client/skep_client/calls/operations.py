"""Requests about the platform itself: its health, backups, and rules for alerts."""

from __future__ import annotations

from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given
from skep_client.model import Page

DOCTOR_S = 120.0  # it asks other servers


def doctor(*checks: str) -> Call[models.Doctor]:
    """Look at everything that the platform stands on, or at these checks (admin)."""
    params = given({"checks": ",".join(checks)})
    return Call("GET", "health/doctor", models.Doctor, params=params, timeout_s=DOCTOR_S)


def platform() -> Call[models.Platform]:
    """Return the state of the platform: processes, queues, database, stores, agents, backup."""
    return Call("GET", "health/platform", models.Platform)


def backups(**params: Any) -> Call[Page[models.Backup]]:
    """Iterate over the backups that were recorded, newest first."""
    return Call("GET", "backups", Page[models.Backup], params=given(params))


def record_backup(place: str, **fields: Any) -> Call[models.Backup]:
    """Record that a backup was made now, and where it lies. `fields`: bytes."""
    body = {"place": place, **fields}
    return Call("POST", "backups", models.Backup, json=body, repeatable=False)


def alerts(**params: Any) -> Call[Page[models.PlatformAlert]]:
    """Iterate over the alerts of the rules, newest first. `params`: active."""
    return Call("GET", "alerts", Page[models.PlatformAlert], params=given(params))


def alert_rules(**params: Any) -> Call[Page[models.AlertRule]]:
    """Iterate over the rules for alerts by name."""
    return Call("GET", "alert-rules", Page[models.AlertRule], params=given(params))


def create_alert_rule(name: str, kind: str, **fields: Any) -> Call[models.AlertRule]:
    """Create a rule for alerts. `fields`: threshold, for_minutes, action, enabled, recipients."""
    body = {"name": name, "kind": kind, **fields}
    return Call("POST", "alert-rules", models.AlertRule, json=body, repeatable=False)


def update_alert_rule(rule_id: str, **changes: Any) -> Call[models.AlertRule]:
    """Change a rule for alerts."""
    return Call("PATCH", f"alert-rules/{rule_id}", models.AlertRule, json=changes)


def delete_alert_rule(rule_id: str) -> Call[None]:
    """Delete a rule for alerts, with its alerts."""
    return Call("DELETE", f"alert-rules/{rule_id}", None)
