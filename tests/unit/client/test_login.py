"""`skep login` and `skep token create`: a token by password, and by a code where MFA is set up."""

from __future__ import annotations

import json

import httpx
import pytest
from tests.unit.client.test_cli_jobs import API, server, skep  # noqa: F401

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


def test_a_wrong_code_is_not_asked_for_again(codes):
    result = skep("token", "create", "ci", "--password-stdin", text="secret\n000000\n")
    assert result.exit_code != 0
    assert codes == ["", "000000"]


def test_a_script_gives_the_code_at_once(codes):
    result = skep("token", "create", "ci", "--password-stdin", "--code", "123456", text="secret\n")
    assert result.output.strip() == "skt_secret"
    assert codes == ["123456"]
