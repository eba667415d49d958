"""What the command line prints of answers; the server is played at the level of HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import respx
from typer.testing import CliRunner, Result

from skep_client.cli import app
from skep_client.cli.common import until

API = "https://skep.test/api/v1"
NOW = datetime.now(UTC)


@pytest.fixture
def server(monkeypatch) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("SKEP_SERVER", "https://skep.test")
    monkeypatch.setenv("SKEP_TOKEN", "secret")
    with respx.mock(base_url=API, assert_all_called=False) as router:
        yield router


def soon() -> datetime:
    """In 25 minutes, also when the machine is slow."""
    return datetime.now(UTC) + timedelta(minutes=25, seconds=45)


def skep(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=text)


def job(**fields: Any) -> dict[str, Any]:
    known = {
        "id": "0193a2b4-0000-7000-8000-000000000001",
        "name": "train",
        "owner": "alice",
        "virtual_cluster": "vision",
        "state": "WAITING",
        "priority": 10,
        "gpus": 8,
        "tasks": 4,
        "submitted_at": NOW.isoformat(),
    }
    return {**known, **fields}


def node(**fields: Any) -> dict[str, Any]:
    return {"id": "1", "name": "gpu-1", "state": "ONLINE", "cordoned": True, **fields}


CHECKED = {"revision": 4, "fits": True, "left": []}


def test_check_says_why_it_would_wait_and_when_it_would_start(server):
    forecast = {
        "code": "vc_busy",
        "message": "Needs 8 GPUs; vision owns 16, all are used.",
        "details": {"expected_start": soon().timestamp(), "opportunistic_now": True},
    }
    note = {"code": "not_used", "message": "skuNum has no effect.", "line": 3, "column": 5}
    summary = {"name": "train", "virtual_cluster": "vision", "gpus": 8, "tasks": 4}
    answer = {"valid": True, "summary": summary, "forecast": forecast, "notes": [note]}
    server.post("/jobs/check").respond(json=answer)
    lines = skep("check", "-", text="name: train").output.splitlines()
    assert lines[0] == "train is valid: 4 tasks, 8 GPUs of vision"
    assert lines[1] == "-:3:5: note: skuNum has no effect."
    assert lines[2] == "Needs 8 GPUs; vision owns 16, all are used."
    assert lines[3].startswith("Expected start: ")
    assert lines[3].endswith("(in 25 min)")
    assert lines[4] == "With jobPriorityClass oppo it would start at once."


def test_submit_reports_all_that_is_wrong_with_a_file(server):
    problem = {"code": "invalid_value", "message": "Too long.", "line": 2, "column": 7}
    errors = [{**problem, "path": "name"}, {**problem, "path": "", "line": None, "column": None}]
    body = {"code": "invalid_job", "message": "Line 2: …", "details": {"errors": errors}}
    server.post("/jobs").respond(400, json=body)
    answer = skep("submit", "-", text="name: train")
    assert answer.exit_code == 1
    assert answer.output.splitlines() == [
        "-:2:7: name: Too long. (invalid_value)",
        "-: Too long. (invalid_value)",
    ]


def test_a_port_of_a_task_that_may_not_be_reached_is_refused_at_once(server):
    server.get(f"/jobs/{job()['id']}").respond(json=job(state="RUNNING", may_exec=False))
    answer = skep("port-forward", job()["id"], "8888")
    assert answer.exception.code == "forbidden"


def show(server, **fields: Any) -> str:
    shown = job(**fields)
    server.get(f"/jobs/{shown['id']}").respond(json=shown)
    server.get(f"/jobs/{shown['id']}/tasks").respond(json={"results": []})
    return skep("show", shown["id"]).output


def test_show_says_when_a_job_is_expected_to_start(server):
    output = show(server, expected_start=soon().isoformat())
    assert "Expected:" in output
    assert "(in 25 min)" in output


def test_show_says_that_a_job_runs_as_opportunistic(server):
    why = {"code": "cells_changed", "message": "vision owns them no more.", "details": {}}
    output = show(server, state="RUNNING", downgraded=why)
    assert "Standing:  runs as opportunistic: vision owns them no more." in output


def test_show_prints_how_often_a_job_was_preempted(server):
    output = show(server, attempt=4, preemptions=2, retries_used=1)
    assert "4 (1 retry used, preempted 2 times)" in output


def test_ls_reports_tasks_that_wait_for_a_place(server):
    rows = [job(state="RUNNING", placed_at=NOW.isoformat(), incremental=True, unplaced=3)]
    server.get("/jobs").respond(json={"results": rows})
    assert "3 of 4 tasks wait for a place." in " ".join(skep("ls").output.split())


def test_queue_reports_positions_and_starts(server):
    running = {"job": job(name="now", state="RUNNING"), "opportunistic": True}
    reserved = {"start": soon().isoformat(), "nodes": ["gpu-1"]}
    waiting = [
        {"position": 1, "job": job(), "needs_words": "8 x A100", "reserved": reserved},
        {"position": 2, "job": job(name="later"), "needs_words": "1 x A100"},
    ]
    answer = {"running": [running], "waiting": waiting, "next": None}
    server.get("/virtual-clusters/vision/queue").respond(json=answer)
    output = skep("queue", "vision").output
    lines = [line.split() for line in output.splitlines() if line]
    assert lines[1][0] == "now"
    assert lines[1][-1] == "opportunistic"
    assert lines[3][:2] == ["1", "train"]
    assert lines[3][-1] == "reserved"
    assert "unknown" in lines[4]


FORECAST = {
    "jobs": [
        {
            "id": "1",
            "name": "train",
            "owner": "alice",
            "virtual_cluster": "vision",
            "gpus": 8,
            "tasks": 2,
            "what": "preempted",
        },
        {"virtual_cluster": "speech", "gpus": 1, "tasks": 1, "what": "runs on"},
    ],
    "virtual_clusters": [{"name": "vision", "loses": {"A100-NODE8": 1}}],
}


def test_a_drain_prints_which_jobs_are_affected_and_asks(server):
    server.get("/nodes/gpu-1/forecast", params={"action": "drain"}).respond(json=FORECAST)
    drained = server.post("/nodes/gpu-1/drain").respond(json=node(draining=True))
    refused = skep("nodes", "drain", "gpu-1", text="n\n")
    assert "alice/train of vision (2 tasks there, 8 GPUs in all) is preempted" in refused.output
    assert "Another job of speech (1 task there, 1 GPU in all) runs on." in refused.output
    assert "vision loses 1 x A100-NODE8 meanwhile." in refused.output
    assert refused.exit_code == 1
    assert not drained.called
    assert "gpu-1 is ONLINE, draining" in skep("nodes", "drain", "gpu-1", text="y\n").output
    assert drained.called


def test_what_is_asked_leaves_the_standard_output_to_json(server):
    server.get("/nodes/gpu-1/forecast", params={"action": "drain"}).respond(json=FORECAST)
    server.post("/nodes/gpu-1/drain").respond(json=node(draining=True))
    server.post("/nodes/gpu-1/declare-lost").respond(json=node())
    for command in ("drain", "declare-lost"):
        done = skep("nodes", command, "gpu-1", "--json", text="y\n")
        answer = " y\n"  # which the runner shows there
        assert json.loads(done.stdout.removeprefix(answer))["name"] == "gpu-1"


def test_a_drain_with_yes_asks_nothing(server):
    server.post("/nodes/gpu-1/drain").respond(json=node(draining=True))
    assert skep("nodes", "drain", "gpu-1", "--yes").exit_code == 0


@pytest.mark.parametrize("action", ["drain", "cordon"])
def test_a_forecast_changes_nothing(server, action):
    server.get("/nodes/gpu-1/forecast").respond(json=FORECAST)
    done = server.post(f"/nodes/gpu-1/{action}").respond(json=node())
    result = skep("nodes", action, "gpu-1", "--forecast", "--json")
    assert json.loads(result.output)["jobs"][0]["name"] == "train"
    assert not done.called


@pytest.mark.parametrize("command", [["nodes", "cordon"], ["cordon"]])
def test_a_cordon_has_its_old_name_too(server, command):
    server.post("/nodes/gpu-1/cordon").respond(json=node())
    assert skep(*command, "gpu-1").output == "gpu-1 is ONLINE, cordoned\n"


@pytest.mark.parametrize("action", ["drain", "cordon"])
def test_the_reason_of_an_action_is_sent_and_shown_with_the_node(server, action):
    done = server.post(f"/nodes/gpu-1/{action}").respond(json=node(cordon_reason="fan broken"))
    yes = ["--yes"] if action == "drain" else []
    output = skep("nodes", action, "gpu-1", "--reason", "fan broken", *yes).output
    assert json.loads(done.calls.last.request.content) == {"reason": "fan broken"}
    assert output == "gpu-1 is ONLINE, cordoned (fan broken)\n"


def test_nodes_are_listed(server):
    server.get("/nodes").respond(json={"results": [node(cordoned=False)]})
    assert "gpu-1" in skep("nodes").output


def test_cells_of_a_virtual_cluster_are_counted_by_type(server):
    owned = {
        "type": "A100-NODE8",
        "words": "node of 8 A100",
        "gpus": 8,
        "owned": 3,
        "used": 1,
        "free": 1,
        "borrowed_out": 1,
    }
    chain = {"chain": "A100-NODE8", "gpu_model": "A100", "types": [owned]}
    answer = {"chains": [chain], "borrowed_in": 2}
    server.get("/virtual-clusters/vision/cells").respond(json=answer)
    output = skep("cells", "show", "vision").output
    assert "node of 8 A100" in output
    assert "use 2 GPUs of others" in output


def test_cells_of_the_cluster_and_its_pins(server):
    pin = {"name": "P", "cell_type": "A100-NODE8", "node": "gpu-1", "virtual_cluster": "vision"}
    total = {"type": "A100-NODE8", "total": 4, "owned": 3, "left": 1}
    chain = {"chain": "A100-NODE8", "gpu_model": "A100", "nodes": 4, "totals": [total]}
    answer = {"revision": 1, "source": "inventory", "chains": [chain], "pins": [pin]}
    server.get("/cells").respond(json=answer)
    assert "Pinned cell P of vision: the A100-NODE8 of gpu-1" in skep("cells", "show").output


def test_a_hived_file_is_written_as_the_server_reports_it(server, tmp_path):
    route = server.get("/cells/hived").respond(text="physicalCluster: {}\n")
    assert skep("cells", "export").output == "physicalCluster: {}\n"
    file = tmp_path / "hived.yaml"
    assert skep("cells", "export", "-o", str(file)).exit_code == 0
    assert file.read_text() == "physicalCluster: {}\n"
    assert "text/yaml" in route.calls[0].request.headers["Accept"]


def test_a_hived_file_is_checked_before_it_is_imported(server):
    error = {"code": "unknown_cell_type", "message": "No such type.", "path": "virtualClusters.a"}
    bad = server.post("/cells/hived/check").respond(
        json={**CHECKED, "fits": False, "errors": [error]}
    )
    result = skep("cells", "check", "-", text="physicalCluster: {}")
    assert result.output == "virtualClusters.a: No such type. (unknown_cell_type)\n"
    assert result.exit_code == 1
    assert bad.calls[0].request.content == b"physicalCluster: {}"
    downgraded = [{"job_id": "1", "name": "train", "virtual_cluster": "vision"}]
    good = server.put("/cells/hived").respond(json={**CHECKED, "downgraded": downgraded})
    result = skep("cells", "import", "-", "--assign", text="physicalCluster: {}")
    assert "train of vision would run as opportunistic." in result.output
    assert "this is revision 4" in result.output
    assert good.calls[0].request.url.params["assign"] == "1"


def test_times_are_reported_with_what_is_left():
    now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    assert until(now - timedelta(hours=1), now) == "now"
    assert until(now + timedelta(minutes=5), now).endswith("(in 5 min)")
    assert until(now + timedelta(days=3), now).startswith("2026-11-2")


def test_a_stale_assignment_is_not_sent_twice(server):
    from skep_client.client import Skep
    from skep_client.errors import SkepError
    from skep_client.models import Assignment

    route = server.put("/cells/assignment").mock(
        return_value=httpx.Response(503, json={"code": "busy", "message": "Later."})
    )
    with Skep("https://skep.test", "secret") as client, pytest.raises(SkepError):
        client.set_assignment(Assignment(revision=3))
    assert len(route.calls) == 1
    assert json.loads(route.calls[0].request.content)["revision"] == 3


async def test_the_asynchronous_client_has_the_same_calls(server):
    from skep_client.client import AsyncSkep, Skep

    public = {name for name in vars(Skep) if not name.startswith("_")}
    assert public == {name for name in vars(AsyncSkep) if not name.startswith("_")}
    server.get("/virtual-clusters/vision/queue").respond(json={"waiting": []})
    async with AsyncSkep("https://skep.test", "secret") as client:
        assert (await client.queue("vision")).waiting == []


def test_a_list_of_jobs_reports_in_a_few_words_when_each_starts(server):
    start = soon()
    why = {"code": "vc_busy", "message": "Needs 8 GPUs; vision owns 8, 8 are used.", "details": {}}
    rows = [
        job(name="soon", wait_reason=why, expected_start=start.isoformat()),
        job(name="later", wait_reason=why),
    ]
    server.get("/jobs").respond(json={"results": rows, "next": None, "previous": None})
    shown = skep("ls").output
    at = start.astimezone()
    day = "" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%d} "
    assert f"Starts {day}{at:%H:%M} (in 25 min)" in shown
    assert "Needs 8 GPUs" in shown
    assert "vision owns 8" not in shown
