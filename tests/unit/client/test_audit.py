"""`skep audit`: what is asked of the server, and what is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import respx
import typer
from typer.testing import CliRunner

from skep_client.cli import app
from skep_client.cli.audit import moment

SERVER = "http://skep.test"
ENTRY: dict[str, Any] = {
    "id": "019e0000-0000-7000-8000-000000000000",
    "at": "2026-11-22T10:00:00Z",
    "action": "vc.quota.update",
    "outcome": "refused",
    "actor": {"kind": "user", "id": 1, "name": "mia"},
    "token": {"id": "019e0000-0000-7000-8000-000000000001", "name": "laptop", "scope": "admin"},
    "address": "192.0.2.1",
    "user_agent": "",
    "request_id": "",
    "target": {"type": "vc", "id": "x", "name": "vision\x1b[2J"},
    "virtual_cluster": "vision",
    "before": {"A100": 8, "H100": 1},
    "after": {"A100": 4},
    "facts": {"code": "forbidden"},
}


@pytest.fixture(autouse=True)
def _login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEP_SERVER", SERVER)
    monkeypatch.setenv("SKEP_TOKEN", "skt_x")
    monkeypatch.setenv("COLUMNS", "200")


@respx.mock
def test_filters_are_sent_and_entries_shown():
    page = {"results": [ENTRY], "next": None, "previous": None}
    route = respx.get(f"{SERVER}/api/v1/audit").mock(return_value=httpx.Response(200, json=page))
    asked = ["audit", "--actor", "mia", "--action", "vc.quota", "--vc", "vision", "-n", "7"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    sent = dict(route.calls[0].request.url.params)
    assert sent == {
        "limit": "7",
        "actor": "mia",
        "action": "vc.quota",
        "virtual_cluster": "vision",
    }
    assert "mia by laptop" in done.output
    assert "vc.quota.update (refused)" in done.output
    assert "A100: 8 → 4, H100: 1 → None, code: forbidden" in done.output
    assert "\x1b[2J" not in done.output


@respx.mock
def test_an_export_is_passed_on_as_it_comes():
    route = respx.get(f"{SERVER}/api/v1/audit/export")
    route.mock(return_value=httpx.Response(200, content=b"at,id\r\n1,2\r\n"))
    done = CliRunner().invoke(app, ["audit", "--csv", "--since", "2026-11-01T00:00:00+00:00"])
    assert done.stdout_bytes == b"at,id\r\n1,2\r\n"
    params = route.calls[0].request.url.params
    assert params["format"] == "csv"
    assert datetime.fromisoformat(params["since"]) == datetime(2026, 11, 1, tzinfo=UTC)


@respx.mock
def test_a_refused_export_is_an_error():
    body = {"code": "unknown_action", "message": "No action.", "details": {}}
    respx.get(f"{SERVER}/api/v1/audit/export").mock(return_value=httpx.Response(400, json=body))
    done = CliRunner().invoke(app, ["audit", "--jsonl", "--action", "x"])
    assert "unknown_action" in str(getattr(done.exception, "code", ""))


def test_times_are_relative_or_absolute():
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert moment("7d", now) == "2026-11-15T12:00:00+00:00"
    assert moment("90m", now) == "2026-11-22T10:30:00+00:00"
    assert moment("") == ""
    assert moment("2026-11-01").startswith("2026-11-01T00:00:00")
    with pytest.raises(typer.BadParameter):
        moment("yesterday")
