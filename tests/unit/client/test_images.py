"""`skep images`: what is sent, and what is shown."""

from __future__ import annotations

import json
from types import SimpleNamespace

import httpx
import pytest
import respx
from typer.testing import CliRunner

from skep_client.cli import app, images

SERVER = "http://skep.test"
ROW = {
    "name": "torch",
    "reference": "pytorch/pytorch:2.9",
    "framework": "PyTorch 2.9",
    "cuda_version": "12.8",
    "min_driver": "570.26",
    "size": 3_400_000_000,
    "virtual_clusters": [],
    "created_at": "2026-11-22T10:00:00Z",
}


@pytest.fixture(autouse=True)
def _login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEP_SERVER", SERVER)
    monkeypatch.setenv("SKEP_TOKEN", "skt_x")


@respx.mock
def test_the_list_shows_what_is_in_an_image_and_its_size():
    page = {"results": [ROW], "next": None, "previous": None}
    respx.get(f"{SERVER}/api/v1/images").mock(return_value=httpx.Response(200, json=page))
    done = CliRunner().invoke(app, ["images"])
    for word in ("torch", "PyTorch 2.9", "12.8", "570.26 or newer", "3.4 GB", "everyone"):
        assert word in done.output


@respx.mock
def test_add_sends_only_what_was_given():
    route = respx.post(f"{SERVER}/api/v1/images").mock(return_value=httpx.Response(201, json=ROW))
    asked = ["images", "add", "torch", "pytorch/pytorch:2.9", "--driver", "570.26"]
    done = CliRunner().invoke(app, [*asked, "--managed-by", "vision"])
    assert done.exit_code == 0, done.output
    assert json.loads(route.calls[0].request.content) == {
        "name": "torch",
        "reference": "pytorch/pytorch:2.9",
        "min_driver": "570.26",
        "managed_by": "vision",
    }


@respx.mock
def test_an_image_is_tried_against_the_patterns():
    path = f"{SERVER}/api/v1/virtual-clusters/vision/image-rules/check"
    said = {"image": "x:1", "allowed": False, "patterns": [], "reason": "No pattern matches."}
    respx.get(path, params={"image": "x:1"}).mock(return_value=httpx.Response(200, json=said))
    done = CliRunner().invoke(app, ["registry", "rules", "vision", "--test", "x:1"])
    assert done.output == "Not allowed. No pattern matches.\n"


PREFETCH = {
    "id": "p1",
    "image": "torch",
    "reference": "pytorch/pytorch:2.9",
    "waiting": 3,
    "created_at": "2026-11-22T10:00:00Z",
    "expires_at": "2026-11-23T10:00:00Z",
}


@respx.mock
def test_a_prefetch_is_asked_for_and_watched():
    path = f"{SERVER}/api/v1/images/torch/prefetches"
    route = respx.post(path).mock(return_value=httpx.Response(201, json=PREFETCH))
    done = CliRunner().invoke(app, ["images", "prefetch", "torch", "--vc", "vision"])
    assert done.output == "3 nodes pull pytorch/pytorch:2.9: skep images prefetches p1\n"
    assert json.loads(route.calls[0].request.content) == {"virtual_cluster": "vision", "hours": 24}
    row = {"node": "gpu-1", "state": "PULLING", "percent": 43}
    page = {"results": [row], "next": None, "previous": None}
    nodes = f"{SERVER}/api/v1/prefetches/p1/nodes"
    respx.get(nodes).mock(return_value=httpx.Response(200, json=page))
    done = CliRunner().invoke(app, ["images", "prefetches", "p1"])
    for word in ("gpu-1", "PULLING", "43"):
        assert word in done.output
    done = CliRunner().invoke(app, ["images", "prefetch", "torch"])
    assert (done.exit_code, "Give --vc or --node" in done.output) == (2, True)


SAVE = {
    "id": "s1",
    "task": "worker-1",
    "reference": "registry.example.org/mine:1",
    "virtual_cluster": "vision",
    "created_by": "ann",
    "code": "",
    "created_at": "2026-11-22T10:00:00Z",
}


@respx.mock
def test_a_container_is_saved_and_its_end_awaited(monkeypatch):
    monkeypatch.setattr(images, "LOOK_S", 0.0)
    task = SimpleNamespace(rank=1)
    monkeypatch.setattr(images, "find_job", lambda _, name: SimpleNamespace(id="j1", name=name))
    monkeypatch.setattr(images, "find_attempt", lambda *_: (task, None))
    path = f"{SERVER}/api/v1/jobs/j1/image-saves"
    waiting = SAVE | {"state": "WAITING"}
    route = respx.post(path).mock(return_value=httpx.Response(201, json=waiting))
    command = ["images", "save", "train", "registry.example.org/mine:1", "--task", "worker-1"]
    done = CliRunner().invoke(app, command)
    assert "worker-1 is being saved as registry.example.org/mine:1" in done.output
    asked = {"reference": "registry.example.org/mine:1", "rank": 1}
    assert json.loads(route.calls[0].request.content) == asked

    failed = SAVE | {"state": "FAILED", "code": "push_denied", "message": "It refuses."}
    pages = [
        httpx.Response(200, json={"results": [one], "next": None, "previous": None})
        for one in (SAVE | {"state": "PUSHING", "percent": 40}, failed)
    ]
    respx.get(path).mock(side_effect=pages)
    done = CliRunner().invoke(app, [*command, "--wait"])
    assert (done.exit_code, "It refuses. (push_denied)" in done.output) == (1, True)


@respx.mock
def test_the_saves_of_a_job_that_are_under_way_are_cancelled(monkeypatch):
    monkeypatch.setattr(images, "find_job", lambda _, name: SimpleNamespace(id="j1", name=name))
    rows = [SAVE | {"id": f"s{n}", "state": state} for n, state in enumerate(STATES)]
    page = {"results": rows, "next": None, "previous": None}
    path = f"{SERVER}/api/v1/jobs/j1/image-saves"
    respx.get(path).mock(return_value=httpx.Response(200, json=page))
    respx.delete(f"{SERVER}/api/v1/image-saves/s0").mock(return_value=httpx.Response(204))
    ended = {"code": "save_ended", "message": "It has ended.", "details": {}}
    respx.delete(f"{SERVER}/api/v1/image-saves/s1").mock(
        return_value=httpx.Response(409, json=ended)
    )
    done = CliRunner().invoke(app, ["images", "saved", "train", "--cancel"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == ["Cancelled worker-1 as registry.example.org/mine:1."]
    assert CliRunner().invoke(app, ["images", "saved", "--cancel"]).exit_code == 2


STATES = ("WAITING", "PUSHING", "DONE", "FAILED")
