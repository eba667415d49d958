"""`skep nodes maintenance`; the server is played at the level of HTTP."""

from __future__ import annotations

import json

import pytest
from tests.unit.client.test_cli_jobs import server, skep  # noqa: F401


@pytest.mark.parametrize(
    ("start", "sent"),
    [
        ("2026-12-01T08:00", "2026-12-01T08:00:00+00:00"),
        ("2026-12-01T08:00+02:00", "2026-12-01T08:00:00+02:00"),
        ("2026-12-01T08:00Z", "2026-12-01T08:00:00+00:00"),
    ],
)
def test_times_are_in_utc_unless_they_say_otherwise(server, start, sent):  # noqa: F811
    planned = server.post("/maintenance-windows").respond(201, json=[])
    end = "2026-12-01 12:00:00"
    result = skep("nodes", "maintenance", "plan", "gpu-1", "--start", start, "--end", end)
    assert result.exit_code == 0, result.output
    asked = json.loads(planned.calls[0].request.content)
    assert asked["starts_at"] == sent
    assert asked["ends_at"] == "2026-12-01T12:00:00+00:00"
