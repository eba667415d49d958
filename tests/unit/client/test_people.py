"""`skep users`, `skep groups` and `skep vcs`; the server is played at the level of HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.unit.client.test_cli_jobs import NOW, server, skep  # noqa: F401

from skep_client.errors import SkepError

USER: dict[str, Any] = {
    "id": 3, "username": "mei", "email": "mei@example.org", "is_admin": False, "is_active": True,
    "created_at": NOW,
}  # fmt: skip
GROUP = {"name": "research", "description": "", "external_name": "", "created_at": NOW}
VC = {"name": "vision", "quotas": {"A100": 8}, "used": {"A100": 3}, "members": 2}
LINK = {"url": "https://skep.test/reset-password?token=x", "expires_at": NOW}


def body(route: Any) -> Any:
    return json.loads(route.calls.last.request.content)


def test_a_new_user_gets_a_link_and_a_password_that_is_not_shown(server):  # noqa: F811
    made = server.post("/users").respond(201, json=USER)
    server.post("/users/mei/reset-link").respond(201, json=LINK)
    done = skep("users", "create", "mei", "--email", "mei@example.org")
    assert (done.exit_code, LINK["url"] in done.output) == (0, True)
    sent = body(made)
    assert (sent["email"], sent["is_admin"]) == ("mei@example.org", False)
    assert len(sent["password"]) >= 24
    assert sent["password"] not in done.output
    assert json.loads(skep("users", "create", "mei", "--json").output)["reset_url"] == LINK["url"]


def test_a_password_comes_from_the_standard_input_and_needs_no_link(server):  # noqa: F811
    made = server.post("/users").respond(201, json=USER)
    link = server.post("/users/mei/reset-link")
    done = skep("users", "create", "mei", "--admin", "--password-stdin", text="many-busy-bees\n")
    assert done.exit_code == 0, done.output
    assert (body(made)["password"], body(made)["is_admin"]) == ("many-busy-bees", True)
    assert not link.called


GPUS = ("vcs", "update", "vision", "--gpus", "A100=16", "--gpus", "H100=4")


def test_a_change_of_quotas_shows_what_was_and_what_is(server):  # noqa: F811
    server.get("/virtual-clusters/vision").respond(json=VC | {"quotas": {"A100": 8, "T4": 2}})
    quotas = {"A100": 16, "H100": 4}
    server.put("/virtual-clusters/vision/quotas").respond(json=VC | {"quotas": quotas})
    done = skep(*GPUS)
    lines = ["A100: 8 -> 16", "H100: 0 -> 4", "T4: 2 -> 0", "Changed vision"]
    assert (done.exit_code, done.output.splitlines()) == (0, lines)
    assert json.loads(skep(*GPUS, "--json").output)["quotas"] == quotas


def test_quotas_that_another_admin_saved_meanwhile_are_kept(server):  # noqa: F811
    server.get("/virtual-clusters/vision").respond(json=VC)
    stale = {"code": "quotas_stale", "message": "Look again.", "details": {}}
    route = server.put("/virtual-clusters/vision/quotas").respond(409, json=stale)
    done = skep(*GPUS)
    assert isinstance(done.exception, SkepError)
    assert (done.exception.code, route.call_count) == ("quotas_stale", 1)


def test_quotas_are_changed_at_a_server_of_the_version_before(server):  # noqa: F811
    """It knows no `before`, and says so."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "before" not in json.loads(request.content):
            return httpx.Response(200, json=VC)
        fields = {"before": ["Unknown field."]}
        refused = {"code": "invalid", "message": "See details.", "details": {"fields": fields}}
        return httpx.Response(400, json=refused)

    server.get("/virtual-clusters/vision").respond(json=VC)
    route = server.put("/virtual-clusters/vision/quotas").mock(side_effect=answer)
    assert skep(*GPUS).exit_code == 0
    assert route.call_count == 2


def test_only_what_was_given_is_changed(server):  # noqa: F811
    user = server.patch("/users/mei").respond(json=USER | {"is_active": False})
    group = server.patch("/groups/research").respond(json=GROUP)
    vc = server.patch("/virtual-clusters/vision").respond(json=VC)
    quotas = server.put("/virtual-clusters/vision/quotas").respond(json=VC)
    assert "Active:     no" in skep("users", "update", "mei", "--inactive").output
    assert body(user) == {"is_active": False}
    assert skep("groups", "update", "research", "--name", "lab").exit_code == 0
    assert body(group) == {"name": "lab"}
    server.get("/virtual-clusters/vision").respond(json=VC)
    change = ("vcs", "update", "vision", "--job-visibility", "members", "--gpus", "A100=16")
    assert skep(*change).exit_code == 0
    assert body(vc) == {"job_visibility": "members"}
    assert body(quotas) == {"quotas": {"A100": 16}, "before": {"A100": 8}}
    for kind, name in (("users", "mei"), ("groups", "research"), ("vcs", "vision")):
        assert skep(kind, "update", name).exit_code == 2  # nothing to change
    assert skep("vcs", "update", "vision", "--gpus", "A100").exit_code == 2


@pytest.mark.parametrize("name", ["a/members", "..", ""])
@pytest.mark.parametrize("command", ["users delete", "groups delete", "vcs delete", "groups show"])
def test_a_name_that_is_a_path_reaches_no_other_route(server, command, name):  # noqa: F811
    route = server.route().respond(204)
    error = skep(*command.split(), name).exception
    assert isinstance(error, SkepError)
    assert (error.code, route.called) == ("not_found", False)


def test_marks_in_a_name_are_part_of_it(server):  # noqa: F811
    route = server.get(path__regex=r".*/users/.*").respond(json=USER)
    assert skep("users", "show", "mei?x#y@z").exit_code == 0
    assert route.calls.last.request.url.raw_path == b"/api/v1/users/mei%3Fx%23y@z"
