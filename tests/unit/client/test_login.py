"""`skep login` and `skep token create`: a token by password, and by a code where MFA is set up."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest
from tests.unit.client.test_cli_jobs import API, server, skep  # noqa: F401

from skep_client import config

TOKEN = {
    "id": "0190a3f0-0000-7000-8000-000000000001",
    "name": "laptop",
    "last4": "1234",
    "scope": "admin",
    "created_at": "2026-01-01T00:00:00Z",
    "last_used_at": None,
    "expires_at": None,
    "token": "skt_secret",
}
ME = {
    "id": 1,
    "username": "ann",
    "email": "",
    "is_admin": False,
    "mfa_setup_required": False,
    "virtual_clusters": [],
    "admins": [],
}
REFUSED = {"code": "mfa_required", "message": "Enter the code.", "details": {}}


@pytest.fixture
def codes(server):  # noqa: F811
    """The codes that the server was given, of which it takes 123456."""
    given: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        given.append(json.loads(request.content).get("code", ""))
        if given[-1] == "123456":
            return httpx.Response(201, json=TOKEN)
        return httpx.Response(401, json=REFUSED | ({"code": "mfa_code_wrong"} if given[-1] else {}))

    server.post("/auth/token").mock(side_effect=answer)
    server.get("/me").respond(json=ME)
    return given


def test_login_asks_for_the_code_where_the_server_does(codes):
    line = ("login", "--server", API.removesuffix("/api/v1"), "--username", "ann")
    result = skep(*line, "--password-stdin", text="secret\n123456\n")
    assert result.exit_code == 0, result.output
    assert codes == ["", "123456"]
    assert "Logged in" in result.output


LOGIN = ("login", "--server", API.removesuffix("/api/v1"))


def test_a_token_is_read_from_the_standard_input(server, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    me = server.get("/me").respond(json=ME)
    result = skep(*LOGIN, "--token-stdin", text=" skt_x\n")
    assert result.exit_code == 0, result.output
    assert me.calls[0].request.headers["Authorization"] == "Bearer skt_x"
    assert config.stored_token(LOGIN[-1]) == "skt_x"


@pytest.mark.parametrize("words", [("--token", "x"), ("--sso",), ("--password-stdin",), ()])
def test_one_way_to_log_in_and_a_token_are_needed(words, server):  # noqa: F811
    result = skep(*LOGIN, "--token-stdin", *words, text="" if not words else "skt_x")
    assert result.exit_code == 2
    assert not server.calls


def test_a_wrong_code_is_not_asked_for_again(codes):
    result = skep("token", "create", "ci", "--password-stdin", text="secret\n000000\n")
    assert result.exit_code != 0
    assert codes == ["", "000000"]


def test_a_script_gives_the_code_at_once(codes):
    result = skep("token", "create", "ci", "--password-stdin", "--code", "123456", text="secret\n")
    assert result.output.strip() == "skt_secret"
    assert codes == ["123456"]


def test_a_login_by_the_browser_outlasts_a_server_that_is_away_for_a_moment(
    server,  # noqa: F811
    monkeypatch,
):
    slept: list[float] = []
    sleep, here = time.sleep, threading.get_ident()

    def record(seconds: float) -> None:  # threads that earlier tests left behind sleep as before
        if threading.get_ident() == here:
            slept.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr("time.sleep", record)
    begun = {
        "device_code": "kept",
        "user_code": "BCDF-GHJK",
        "verification_uri": "https://skep.test/device",
        "verification_uri_complete": "https://skep.test/device?code=BCDF-GHJK",
        "expires_in": 600,
        "interval": 2,
    }
    server.post("/auth/device").respond(json=begun)
    refusals = [(400, "authorization_pending"), (503, "unavailable"), (429, "throttled")]
    answers = [
        httpx.Response(status, json={"code": code, "message": "Wait.", "details": {}})
        for status, code in refusals
    ]
    gateway = httpx.Response(502, text="<html>Bad Gateway</html>")
    route = server.post("/auth/device/token")
    route.mock(side_effect=[*answers, gateway, httpx.Response(201, json=TOKEN)])
    server.get("/me").respond(json=ME)
    line = ("login", "--server", API.removesuffix("/api/v1"), "--sso", "--no-browser")
    result = skep(*line)
    assert result.exit_code == 0, result.output
    assert slept == [2, 2, 2, 7, 7]
    denied = {"code": "access_denied", "message": "Denied.", "details": {}}
    route.mock(return_value=httpx.Response(400, json=denied))
    assert skep(*line).exit_code != 0
