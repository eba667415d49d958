"""The list of differences from OpenPAI's swagger: each of them is still there."""

from __future__ import annotations

import json

import pytest
from tests.support.jobs_world import job_file, placed
from tests.support.openpai_api import ROOT, Pai, differences, known_differences
from tests.support.platform_factories import PASSWORD, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]
TASK = "/jobs/alice~ran/attempts/0/taskRoles/worker/taskIndex/0/attempts"
NOWHERE = {"username": "carol", "password": PASSWORD, "virtualCluster": ["nowhere"]}
WRONG = {"data": {"username": "alice", "oldPassword": "wrong", "newPassword": "a-long-password"}}
ADMINS = {"groupname": "lab", "extension": {"acls": {"admin": True}}}

# (operation, what differs) of the list: who asks for what, and with which body.
PROVOKED = {
    ("GET /jobs", "status 400"): ("alice", "GET", "/jobs?limit=50001", None),
    ("POST /jobs", "status 404"): ("alice", "POST", "/jobs", job_file("nowhere")),
    ("PUT /jobs/{user}~{job}/executionType", "status 403"): (
        *("alice", "PUT", "/jobs/alice~ended/executionType"),
        {"value": "START"},
    ),
    (
        "GET /jobs/{user}~{job}/attempts/{jobAttemptId}/taskRoles/{taskRoleName}/taskIndex/"
        "{taskIndex}/attempts",
        "attempts.*.hived.lazyPreempted: type",
    ): ("alice", "GET", TASK, None),
    ("POST /users", "status 404"): ("root", "POST", "/users", NOWHERE),
    ("PUT /users/me", "status 400"): ("alice", "PUT", "/users/me", WRONG),
    ("POST /groups", "status 409"): ("root", "POST", "/groups", {"groupname": "known"}),
    ("POST /tokens/application", "status 403"): (
        *("application", "POST", "/tokens/application"),
        {},
    ),
    ("POST /groups", "status 400"): ("root", "POST", "/groups", ADMINS),
}


def test_every_difference_of_the_list_is_provoked():
    listed = [(one["operation"], one["what"]) for one in known_differences()]
    assert len(listed) == len(set(listed))
    assert set(listed) == PROVOKED.keys()


@pytest.mark.parametrize("difference", PROVOKED, ids=lambda one: ", ".join(one)[-60:])
def test_a_difference_that_is_gone_leaves_the_list(difference, alice, vc, node):
    who, method, path, body = PROVOKED[difference]
    placed(alice, vc, name="ran")
    callers = {
        "alice": Pai(alice),
        "application": Pai(alice, scope="submit"),
        "root": Pai(make_user("root", admin=True)),
    }
    callers["root"].post("/groups", {"groupname": "known"})
    file = json.dumps(job_file(vc, name="ended"))
    assert callers["alice"].post("/jobs", file, "yaml").status_code == 202
    callers["alice"].put("/jobs/alice~ended/executionType", {"value": "STOP"})
    kind = "text/yaml" if path == "/jobs" else "application/json"
    sent = json.dumps(body) if body is not None else ""
    answer = callers[who].client.generic(method, ROOT + path, sent, content_type=kind)
    route = path.partition("?")[0]
    found = differences(method, route, answer.status_code, answer.json())
    assert difference in found, answer.content
