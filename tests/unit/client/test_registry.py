"""`skep registry`: what is sent, and that a password is never shown."""

from __future__ import annotations

import json

import httpx
import pytest
import respx
from typer.testing import CliRunner

from skep_client.cli import app

SERVER = "http://skep.test"
ROW = {
    "registry": "registry.example.org:5000",
    "username": "robot",
    "created_at": "2026-11-22T10:00:00Z",
    "updated_at": "2026-11-22T10:00:00Z",
}


@pytest.fixture(autouse=True)
def _login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEP_SERVER", SERVER)
    monkeypatch.setenv("SKEP_TOKEN", "skt_x")


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ([], "me/registry-credentials"),
        (["--vc", "vision"], "virtual-clusters/vision/registry-credentials"),
    ],
)
@respx.mock
def test_27_login_sends_the_password_and_shows_it_nowhere(words, path):
    address = f"{SERVER}/api/v1/{path}/registry.example.org:5000"
    route = respx.put(address).mock(return_value=httpx.Response(200, json=ROW))
    asked = ["registry", "login", "https://registry.example.org:5000/v2/", *words]
    asked += ["--username", "robot", "--password-stdin"]
    done = CliRunner().invoke(app, asked, input="s3cret with blanks \n")
    assert done.exit_code == 0, done.output
    sent = json.loads(route.calls[0].request.content)
    assert sent == {"username": "robot", "password": "s3cret with blanks "}
    assert "s3cret" not in done.output


@respx.mock
def test_list_and_logout():
    page = {"results": [ROW], "next": None, "previous": None}
    path = f"{SERVER}/api/v1/me/registry-credentials"
    respx.get(path).mock(return_value=httpx.Response(200, json=page))
    gone = respx.delete(f"{path}/registry.example.org:5000").mock(return_value=httpx.Response(204))
    done = CliRunner().invoke(app, ["registry", "list"])
    assert "robot" in done.output
    done = CliRunner().invoke(app, ["registry", "logout", "registry.example.org:5000"])
    assert (done.exit_code, gone.called) == (0, True)


@pytest.mark.parametrize(
    ("words", "patterns"),
    [(["--allow", "b/*", "--allow", "a/*"], ["b/*", "a/*"]), (["--clear"], [])],
)
@respx.mock
def test_rules_replace_the_patterns(words, patterns):
    route = respx.put(f"{SERVER}/api/v1/virtual-clusters/vision/image-rules")
    route.mock(return_value=httpx.Response(200, json={"patterns": patterns}))
    done = CliRunner().invoke(app, ["registry", "rules", "vision", *words])
    assert done.exit_code == 0, done.output
    assert json.loads(route.calls[0].request.content) == {"patterns": patterns}
    assert done.output.split("\n")[0] == (patterns or ["every image"])[0]
