"""Every operation of OpenPAI's swagger with every status that it describes.

A status is either in `REQUESTS`, with a request that gets it, or in the list of differences
(`tests/data/openpai_differences.json`), with a request that gets something else.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from tests.support.api_world import rolled_back
from tests.support.jobs_world import attempts_of, job_file, placed, report
from tests.support.openpai_api import DIFFERENCES, ROOT, Pai, refused, swagger
from tests.support.platform_factories import PASSWORD, make_user, make_vc

from skep_platform.accounts.services import create_job_token
from skep_platform.compat.base import CompatView
from skep_platform.jobs.models import Job
from skep_platform.storage import services as storage

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]

Request = tuple[str, str, Any]  # who asks, the path, and the body
NEW = {"username": "dave", "password": PASSWORD}
LOGIN = {"username": "alice", "password": PASSWORD}
ALICE = {"data": {"username": "alice", "email": "a@example.org"}, "patch": True}
NO_ONE = {"data": {"username": "no-one", "email": ""}, "patch": True}
GROUP = {"data": {"groupname": "lab", "description": "x"}, "patch": True}
NO_GROUP = {"data": {"groupname": "none", "description": "x"}, "patch": True}
OWN = {"oldPassword": PASSWORD, "newPassword": "another-long-password"}
ME = {"data": {"username": "alice", **OWN}, "patch": True}
NOT_ME = {"data": {"username": "no-one", **OWN}, "patch": True}
LAB, VALUE, STOP = {"groupname": "lab"}, {"value": "new"}, {"value": "STOP"}
JOB, TASK = "/jobs/alice~ran", "/attempts/0/taskRoles/worker/taskIndex/0/attempts"
NONE = "/jobs/alice~none"

REQUESTS: dict[str, dict[int, Request]] = {
    "GET /info": {200: ("anonymous", "/info", None)},
    "GET /tokens": {200: ("alice", "/tokens", None), 401: ("anonymous", "/tokens", None)},
    "DELETE /tokens/{token}": {
        200: ("alice", "/tokens/<alice>", None),
        401: ("anonymous", "/tokens/<alice>", None),
        403: ("alice", "/tokens/<bob>", None),
    },
    "POST /tokens/application": {
        200: ("alice", "/tokens/application", {}),
        401: ("anonymous", "/tokens/application", {}),
    },
    "GET /authn/oidc/login": {302: ("anonymous", "/authn/oidc/login", None)},
    "GET /authn/oidc/logout": {302: ("anonymous", "/authn/oidc/logout", None)},
    "POST /authn/basic/login": {
        200: ("anonymous", "/authn/basic/login", LOGIN),
        400: ("anonymous", "/authn/basic/login", {**LOGIN, "password": "wrong"}),
    },
    "DELETE /authn/basic/logout": {
        200: ("alice", "/authn/basic/logout", None),
        401: ("anonymous", "/authn/basic/logout", None),
        403: ("a job", "/authn/basic/logout", None),
    },
    "POST /users": {
        201: ("root", "/users", NEW),
        401: ("anonymous", "/users", NEW),
        403: ("alice", "/users", NEW),
        409: ("root", "/users", {**NEW, "username": "bob"}),
    },
    "GET /users": {200: ("alice", "/users", None)},
    "PUT /users": {
        201: ("root", "/users", ALICE),
        401: ("anonymous", "/users", ALICE),
        403: ("alice", "/users", ALICE),
        404: ("root", "/users", NO_ONE),
    },
    "PUT /users/me": {
        201: ("alice", "/users/me", ME),
        401: ("anonymous", "/users/me", ME),
        403: ("a reader", "/users/me", ME),
    },
    "GET /users/{user}": {
        200: ("alice", "/users/alice", None),
        401: ("anonymous", "/users/alice", None),
        404: ("alice", "/users/no-one", None),
    },
    "DELETE /users/{user}": {
        200: ("root", "/users/bob", None),
        401: ("anonymous", "/users/bob", None),
        403: ("alice", "/users/bob", None),
        404: ("root", "/users/no-one", None),
    },
    "PUT /users/{user}/group/": {
        201: ("root", "/users/alice/group/", LAB),
        401: ("anonymous", "/users/alice/group/", LAB),
        403: ("alice", "/users/alice/group/", LAB),
        404: ("root", "/users/no-one/group/", LAB),
    },
    "DELETE /users/{user}/group/": {
        201: ("root", "/users/bob/group/", LAB),
        401: ("anonymous", "/users/bob/group/", LAB),
        403: ("alice", "/users/bob/group/", LAB),
        404: ("root", "/users/no-one/group/", LAB),
    },
    "PUT /users/{user}/grouplist/": {
        201: ("root", "/users/alice/grouplist/", {"grouplist": ["lab"]}),
        401: ("anonymous", "/users/alice/grouplist/", {"grouplist": ["lab"]}),
        403: ("alice", "/users/alice/grouplist/", {"grouplist": ["lab"]}),
        404: ("root", "/users/no-one/grouplist/", {"grouplist": ["lab"]}),
    },
    "GET /groups": {200: ("bob", "/groups", None), 401: ("anonymous", "/groups", None)},
    "POST /groups": {
        201: ("root", "/groups", {"groupname": "fresh"}),
        401: ("anonymous", "/groups", {"groupname": "fresh"}),
        403: ("alice", "/groups", {"groupname": "fresh"}),
    },
    "PUT /groups": {
        201: ("root", "/groups", GROUP),
        401: ("anonymous", "/groups", GROUP),
        403: ("alice", "/groups", GROUP),
        404: ("root", "/groups", NO_GROUP),
    },
    "GET /groups/{group}": {
        200: ("bob", "/groups/lab", None),
        401: ("anonymous", "/groups/lab", None),
        404: ("alice", "/groups/lab", None),
    },
    "DELETE /groups/{group}": {
        201: ("root", "/groups/lab", None),
        401: ("anonymous", "/groups/lab", None),
        403: ("alice", "/groups/lab", None),
    },
    "GET /groups/{group}/userlist": {
        200: ("root", "/groups/lab/userlist", None),
        401: ("anonymous", "/groups/lab/userlist", None),
        403: ("alice", "/groups/lab/userlist", None),
    },
    "GET /virtual-clusters": {200: ("alice", "/virtual-clusters", None)},
    "GET /virtual-clusters/{vc}": {
        200: ("alice", "/virtual-clusters/vision", None),
        404: ("bob", "/virtual-clusters/vision", None),
    },
    "GET /storages": {200: ("alice", "/storages", None)},
    "GET /storages/{storage}": {
        200: ("alice", "/storages/data", None),
        404: ("alice", "/storages/none", None),
    },
    "POST /jobs": {
        202: ("alice", "/jobs", job_file("vision", name="new")),
        400: ("alice", "/jobs", {**job_file("vision"), "name": "a b"}),
        403: ("a reader", "/jobs", job_file("vision", name="new")),
        409: ("alice", "/jobs", job_file("vision", name="ran")),
    },
    "GET /jobs": {200: ("alice", "/jobs?withTotalCount=true", None)},
    "GET /jobs/{user}~{job}": {200: ("alice", JOB, None), 404: ("bob", JOB, None)},
    "GET /jobs/{user}~{job}/attempts/{jobAttemptId}": {
        200: ("alice", f"{JOB}/attempts/0", None),
        404: ("alice", f"{JOB}/attempts/7", None),
    },
    "GET /jobs/{user}~{job}/config": {
        200: ("alice", f"{JOB}/config", None),
        404: ("bob", f"{JOB}/config", None),
    },
    "PUT /jobs/{user}~{job}/executionType": {
        202: ("alice", f"{JOB}/executionType", STOP),
        400: ("alice", f"{JOB}/executionType", {"value": "PAUSE"}),
        404: ("bob", f"{JOB}/executionType", STOP),
    },
    "PUT /jobs/{user}~{job}/tag": {
        200: ("alice", f"{JOB}/tag", VALUE),
        400: ("alice", f"{JOB}/tag", {}),
        404: ("alice", f"{NONE}/tag", VALUE),
    },
    "DELETE /jobs/{user}~{job}/tag": {
        200: ("alice", f"{JOB}/tag", {"value": "old"}),
        400: ("alice", f"{JOB}/tag", {}),
        404: ("alice", f"{JOB}/tag", VALUE),
    },
    "GET /jobs/{user}~{job}/events": {
        200: ("alice", f"{JOB}/events", None),
        404: ("alice", f"{NONE}/events", None),
    },
    "GET /jobs/{user}~{job}/job-attempts/healthz": {
        200: ("alice", f"{JOB}/job-attempts/healthz", None),
    },
    "GET /jobs/{user}~{job}/job-attempts": {
        200: ("alice", f"{JOB}/job-attempts", None),
        404: ("alice", f"{NONE}/job-attempts", None),
    },
    "GET /jobs/{user}~{job}/job-attempts/{attemptIndex}": {
        200: ("alice", f"{JOB}/job-attempts/0", None),
        404: ("alice", f"{JOB}/job-attempts/7", None),
    },
    "GET /jobs/{user}~{job}/attempts/{jobAttemptId}/taskRoles/{taskRoleName}/taskIndex/"
    "{taskIndex}/attempts": {
        200: ("alice", f"{JOB}{TASK}", None),
        404: ("alice", f"{JOB}{TASK.replace('worker', 'ps')}", None),
    },
    "GET /jobs/{user}~{job}/attempts/{jobAttemptId}/taskRoles/{taskRoleName}/taskIndex/"
    "{taskIndex}/attempts/{taskAttemptId}/logs": {
        200: ("alice", f"{JOB}{TASK}/0/logs", None),
        404: ("alice", f"{JOB}{TASK}/7/logs", None),
    },
    **{
        f"GET /kubernetes/{kind}": {
            200: ("root", f"/kubernetes/{kind}", None),
            401: ("anonymous", f"/kubernetes/{kind}", None),
            403: ("alice", f"/kubernetes/{kind}", None),
        }
        for kind in ("nodes", "pods")
    },
    "GET /alerts": {200: ("alice", "/alerts", None), 401: ("anonymous", "/alerts", None)},
}
# What gets another answer than the swagger has, as the list of differences says.
INSTEAD: dict[tuple[str, int], Request] = {
    ("POST /authn/basic/login", 404): (
        *("anonymous", "/authn/basic/login"),
        {"username": "no-one", "password": PASSWORD},
    ),
    ("PUT /users/me", 404): ("alice", "/users/me", NOT_ME),
    ("GET /storages/{storage}", 403): ("bob", "/storages/data", None),
    **{
        (operation, 501): REQUESTS[operation][200]
        for operation in REQUESTS
        if "/job-attempts" in operation
    },
}
METHODS = {"get", "post", "put", "delete"}
LISTED = json.loads(DIFFERENCES.read_text())


def described() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (operation, status, response) of all that the swagger describes."""
    for path, operations in swagger()["paths"].items():
        for method in sorted(METHODS & operations.keys()):
            operation = operations[method]
            for status, response in operation["responses"].items():
                yield f"{method.upper()} {path.removeprefix('/api/v2')}", int(status), response


def test_every_status_of_every_operation_is_asked_for_or_listed():
    known = {(operation, status) for operation, status, _ in described()}
    asked = {(operation, status) for operation, found in REQUESTS.items() for status in found}
    not_given = {(one["operation"], one["status"]) for one in LISTED["not_given"]}
    assert not asked & not_given
    assert known == asked | not_given | {(o, s) for o, s in known if s == 500}
    assert INSTEAD.keys() == not_given
    assert all(one["why"] for kind in ("differences", "codes", "not_given") for one in LISTED[kind])


@dataclass
class World:
    callers: dict[str, Pai]

    def ask(self, method: str, request: Request) -> Any:
        who, path, body = request
        path = re.sub("<(.+)>", lambda match: self.callers[match[1]].token, path)
        with rolled_back():
            if method == "GET":
                return self.callers[who].get(path)
            if path == "/jobs":
                return self.callers[who].post(path, json.dumps(body), "yaml")
            return getattr(self.callers[who], method.lower())(path, body)


@pytest.fixture
def world(alice, vc, node) -> World:
    root, bob = make_user("root", admin=True), make_user("bob")
    make_vc("other")
    callers = {"anonymous": Pai(), "alice": Pai(alice), "bob": Pai(bob), "root": Pai(root)}
    callers["a reader"] = Pai(alice, scope="read")
    made = storage.create(root, "data", "host_path", {"path": "/srv/data"})
    storage.grant(root, made, "vision")
    assert callers["root"].post("/groups", LAB).status_code == 201
    assert callers["root"].put("/users/bob/group", LAB).status_code == 201
    job = placed(alice, vc, name="ran")
    Job.objects.filter(pk=job.pk).update(tags=["old"])
    report(attempts_of(job), "ready", "running")
    callers["a job"] = of_job = Pai()
    secret = create_job_token(alice, UUID(str(job.pk)), vc.pk, "job", "submit")
    of_job.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return World(callers)


def test_every_status_is_given_with_its_code_and_shape(world):
    """`Pai` holds each answer against the swagger."""
    codes = {(one["operation"], one["status"]): one["code"] for one in LISTED["codes"]}
    wrong = []
    for operation, status, response in described():
        request = REQUESTS[operation].get(status)
        if request is None:
            continue
        answer = world.ask(operation.split(" ")[0], request)
        if answer.status_code != status:
            wrong.append(f"{operation} {status}: {answer.status_code} {answer.content[:300]!r}")
        elif "$ref" in response:
            code = codes.get((operation, status)) or response["$ref"].rpartition("/")[2]
            if answer.json()["code"] != code:
                wrong.append(f"{operation} {status}: {answer.json()['code']}, not {code}")
    assert not wrong, "\n".join(wrong)


def test_what_is_not_given_is_answered_as_the_list_says(world):
    for one in LISTED["not_given"]:
        operation = one["operation"]
        answer = world.ask(operation.split(" ")[0], INSTEAD[operation, one["status"]])
        assert answer.status_code == one["answer"], (operation, answer.content)


def test_a_failure_of_the_server_is_an_unknown_error_and_says_no_more(world, monkeypatch):
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(CompatView, "initial", broken)
    for operation, status, _ in described():
        if status == 500:
            method = operation.split(" ")[0]
            path = re.sub(r"\{\w+\}", "0", operation.split(" ")[1])
            answer = world.callers["alice"].client.generic(method, ROOT + path)
            assert refused(answer) == (500, "UnknownError"), operation
            assert b"hunter2" not in answer.content


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic"])
def test_scopes_hold_however_the_token_is_sent(alice, scheme):
    """OpenPAI's clients send application tokens as `Basic` with the user's name."""
    reader = Pai(alice, scope="read")
    sent = reader.token
    if scheme == "Basic":
        sent = b64encode(f"alice:{reader.token}".encode()).decode()
    reader.client.credentials(HTTP_AUTHORIZATION=f"{scheme} {sent}")
    assert reader.get("/jobs").status_code == 200
    answer = reader.post("/jobs", json.dumps(job_file("vision")), "yaml")
    assert refused(answer) == (403, "ForbiddenUserError")
    assert refused(reader.post("/tokens/application", {})) == (403, "ForbiddenUserError")
