"""`skep archive`: what it asks of the server, and what it prints of jobs that finished long ago."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import respx
from typer.testing import CliRunner, Result

from skep_client.cli import app

API = "https://skep.test/api/v1"
ID = "0193a2b4-0000-7000-8000-000000000001"
NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC).isoformat()
SUMMARY: dict[str, Any] = {
    "id": ID,
    "name": "train",
    "owner": "alice",
    "virtual_cluster": "vision",
    "state": "FAILED",
    "gpus": 8,
    "tasks": 2,
    "submitted_at": NOW,
    "finished_at": NOW,
    "archived_at": NOW,
}
ATTEMPT = {
    "index": 1,
    "outcome": "FAILED",
    "placed_at": NOW,
    "started_at": NOW,
    "finished_at": NOW,
    "nodes": ["node-a", "node-b"],
    "nodes_total": 2,
    "reason": {"code": "task_failed", "message": "Task worker-0 failed."},
    "diagnosis_code": 137,
    "diagnosis_name": "HostOutOfMemory",
}
JOB = {
    **SUMMARY,
    "spec_text": "name: train",
    "attempts": [ATTEMPT],
    "exit_reason": {"code": "task_failed", "message": "Task worker-0 failed."},
    "events": [
        {"at": NOW, "kind": "job.finished", "message": "It \x1b[2Jended.", "actor": "", "count": 1}
    ],
    "use": {"gpu_hours": 12.25},
    "shortened": ["events"],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("SKEP_SERVER", "https://skep.test")
    monkeypatch.setenv("SKEP_TOKEN", "secret")
    with respx.mock(base_url=API, assert_all_called=False) as router:
        yield router


def skep(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["archive", *arguments])


def test_the_list_sends_the_filters_and_says_when_there_is_more(server):
    rows = [{**SUMMARY, "id": f"{ID[:-1]}{number}"} for number in range(3)]
    route = server.get("/archived-jobs").respond(json={"results": rows, "next": None})
    found = skep("list", "--state", "failed", "--vc", "vision", "--since", "400d", "-n", "2")
    assert found.exit_code == 0, found.output
    sent = dict(route.calls[0].request.url.params)
    assert (sent["state"], sent["virtual_cluster"], sent["since"]) == ("FAILED", "vision", "400d")
    assert found.output.count("train") == 2
    assert "--limit 4" in found.output


def test_a_job_is_shown_by_its_id(server):
    server.get(f"/archived-jobs/{ID}").respond(json=JOB)
    found = skep("show", ID)
    assert found.exit_code == 0, found.output
    for text in ("12.2 GPU-hours", "node-a, node-b", "HostOutOfMemory", "name: train", "events"):
        assert text in found.output
    assert "\x1b[2J" not in found.output
    assert json.loads(skep("show", ID, "--json").output)["use"]["gpu_hours"] == 12.25


def test_a_name_is_that_of_the_newest_job_and_only_a_whole_one(server):
    rows = [{**SUMMARY, "id": ID[:-1] + "9", "name": "train-2"}, SUMMARY]
    route = server.get("/archived-jobs").respond(json={"results": rows, "next": None})
    server.get(f"/archived-jobs/{ID}").respond(json=JOB)
    assert ID in skep("show", "train").output
    sent = dict(route.calls[0].request.url.params)
    assert (sent["name"], sent["search"]) == ("train", "train")  # `search` for an older server
    missing = skep("show", "rain")
    assert missing.exit_code != 0
    assert "no job named rain" in missing.output + str(missing.exception)
