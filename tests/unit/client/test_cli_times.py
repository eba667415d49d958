"""Every command prints times in the zone of the user, and with its name."""

from __future__ import annotations

import time

import pytest
from tests.unit.client.test_audit import ENTRY
from tests.unit.client.test_cli_archive import JOB as ARCHIVED
from tests.unit.client.test_cli_jobs import ID, JOB, server, skep  # noqa: F401

AT = "2026-11-21T22:00:00Z"
ATTEMPT = {"index": 1, "placed_at": AT, "outcome": "FAILED"}
PROCESS = {"kind": "web", "host": "a", "pid": 1, "version": "1", "started_at": AT, "seen_at": AT}
ALERT = {"id": ID, "rule": "r", "since": AT, "message": "m"}
BACKUP = {"id": ID, "at": AT, "place": "s3"}
TOKEN = {"id": ID, "created_by": "a", "created_at": AT, "expires_at": AT, "uses_left": 1}
NOTICE = {"id": ID, "updated_at": AT, "created_at": AT, "title": "t", "items": [], "count": 1}
ANNOUNCEMENT = {"id": ID, "message": "m", "severity": "info", "created_at": AT, "expires_at": AT}


def page(*rows: object) -> dict[str, object]:
    return {"results": list(rows), "next": None}


ANSWERS = {
    "events train": ("jobs/train/events", page({"id": 1, "at": AT, "kind": "k", "message": "m"})),
    "show train": ("jobs/train/attempts", page(ATTEMPT)),
    "audit": ("audit", page(ENTRY | {"at": AT})),
    "archive show " + ID: (f"archived-jobs/{ID}", ARCHIVED | {"archived_at": AT}),
    "fs ls team:a": (
        "storages/team/files",
        page({"name": "x", "type": "file", "size": 1, "modified_at": AT}),
    ),
    "admin platform": ("health/platform", {"processes": [PROCESS], "last_backup": BACKUP}),
    "admin alerts": ("alerts", page(ALERT)),
    "announcements": ("announcements", page(ANNOUNCEMENT)),
    "notifications": ("notifications", page(NOTICE)),
}


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "EAST-05:30")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("command", ANSWERS)
def test_times_are_local_and_have_a_zone(command, server, east):  # noqa: F811
    path, answer = ANSWERS[command]
    server.get("/jobs").respond(json=page(JOB))
    server.get(f"/jobs/{ID}").respond(json=JOB)
    for empty in ("tasks", "attempts", "advice", "use", "apps"):
        server.get(f"/jobs/{ID}/{empty}").respond(json=page())
    server.get(f"/{path.replace('train', ID)}").respond(json=answer)
    done = skep(*command.split())
    assert done.exit_code == 0, done.output + repr(done.exception)
    lines = [line for line in done.output.splitlines() if "2026-11-22 03:30" in line]
    assert lines
    assert all(" EAST" in line for line in lines)
