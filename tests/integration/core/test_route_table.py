"""Every route of the API against every kind of caller, from the URL table itself.

A route that has no row in `EXPECTED` fails: whoever adds one says here who may use it. "ok" means
that the caller got past every check of who it is; a number is the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.accounts.models import ApiToken
from skep_platform.accounts.services import create_token
from skep_platform.cluster.services import create_join_token, issue_join_token
from skep_platform.files.models import Archive
from skep_platform.images.services import create as create_image
from skep_platform.telemetry.models import JobUse

pytestmark = pytest.mark.django_db

# The columns. The owner's job and the private image are in the virtual cluster "team".
CALLERS = ["anonymous", "stranger", "colleague", "owner", "manager", "admin"]


def row(*expected: object) -> dict[str, object]:
    return dict(zip(CALLERS, expected, strict=True))


EVERYBODY = row("ok", "ok", "ok", "ok", "ok", "ok")
LOGGED_IN = row(401, "ok", "ok", "ok", "ok", "ok")
ADMIN = row(401, 403, 403, 403, 403, "ok")
OF_THE_TEAM = row(401, 404, "ok", "ok", "ok", "ok")
ADMIN_OF_THE_TEAMS = row(401, 404, 403, 403, 403, "ok")
MANAGERS = row(401, 404, 403, 403, "ok", "ok")
# A job is its owner's, its managers' and the admins': for a colleague it does not exist.
MAY_SEE = row(401, 404, 404, "ok", "ok", "ok")
OWN_ONLY = row(401, 404, 404, "ok", 404, 404)

EXPECTED = {
    "GET info": EVERYBODY,
    "GET openapi": EVERYBODY,
    "GET docs": EVERYBODY,
    "GET auth/csrf": EVERYBODY,
    "POST auth/login": EVERYBODY,
    "POST auth/token": EVERYBODY,
    "POST auth/logout": LOGGED_IN,
    "GET auth/tokens": LOGGED_IN,
    # The callers have tokens, and a token makes no tokens.
    "POST auth/tokens": row(401, 403, 403, 403, 403, 403),
    "POST auth/password-reset": EVERYBODY,
    "DELETE auth/tokens/<id>": OWN_ONLY,
    "GET me": LOGGED_IN,
    "POST me/password": LOGGED_IN,
    "GET users": ADMIN,
    "POST users": ADMIN,
    "GET users/<username>": ADMIN,
    "PATCH users/<username>": ADMIN,
    "DELETE users/<username>": ADMIN,
    "POST users/<username>/reset-link": ADMIN,
    "GET virtual-clusters": LOGGED_IN,
    "POST virtual-clusters": ADMIN,
    "GET virtual-clusters/<name>": OF_THE_TEAM,
    "PATCH virtual-clusters/<name>": MANAGERS,
    "DELETE virtual-clusters/<name>": ADMIN_OF_THE_TEAMS,
    "PUT virtual-clusters/<name>/quotas": ADMIN_OF_THE_TEAMS,
    "GET virtual-clusters/<name>/cells": OF_THE_TEAM,
    "GET virtual-clusters/<name>/queue": OF_THE_TEAM,
    "GET virtual-clusters/<name>/history": OF_THE_TEAM,
    "GET virtual-clusters/<name>/members": OF_THE_TEAM,
    "PUT virtual-clusters/<name>/members/<username>": MANAGERS,
    "DELETE virtual-clusters/<name>/members/<username>": MANAGERS,
    "GET virtual-clusters/<name>/limits": MANAGERS,
    "PUT virtual-clusters/<name>/limits/<limit>": ADMIN_OF_THE_TEAMS,
    "DELETE virtual-clusters/<name>/limits/<limit>": ADMIN_OF_THE_TEAMS,
    "GET nodes": LOGGED_IN,
    "GET nodes/<name>": LOGGED_IN,
    "PATCH nodes/<name>": ADMIN,
    "DELETE nodes/<name>": ADMIN,
    "GET nodes/<name>/forecast": LOGGED_IN,
    "GET nodes/<name>/faults": LOGGED_IN,
    "POST nodes/<name>/drain": ADMIN,
    "POST nodes/<name>/undrain": ADMIN,
    "POST nodes/<name>/cordon": ADMIN,
    "POST nodes/<name>/uncordon": ADMIN,
    "POST nodes/<name>/declare-lost": ADMIN,
    "GET nodes/join-tokens": ADMIN,
    "POST nodes/join-tokens": ADMIN,
    "DELETE nodes/join-tokens/<token_id>": ADMIN,
    "POST nodes/join": EVERYBODY,
    "GET health": ADMIN,
    "GET cells": LOGGED_IN,
    "GET cells/physical": LOGGED_IN,
    "GET cells/assignment": ADMIN,
    "PUT cells/assignment": ADMIN,
    "POST cells/assignment/check": ADMIN,
    "GET cells/hived": ADMIN,
    "PUT cells/hived": ADMIN,
    "DELETE cells/hived": ADMIN,
    "POST cells/hived/check": ADMIN,
    "GET images": LOGGED_IN,
    "POST images": ADMIN,
    "GET images/<name>": OF_THE_TEAM,
    "PATCH images/<name>": ADMIN_OF_THE_TEAMS,
    "DELETE images/<name>": ADMIN_OF_THE_TEAMS,
    "POST files": LOGGED_IN,
    "GET files/<sha256>": OWN_ONLY,
    "GET agent/files/<sha256>": row(401, 401, 401, 401, 401, 401),
    "GET agent/scratch": row(401, 401, 401, 401, 401, 401),
    "GET cluster": LOGGED_IN,
    "GET jobs": LOGGED_IN,
    "POST jobs": LOGGED_IN,
    "POST jobs/check": LOGGED_IN,
    "POST jobs/convert": LOGGED_IN,
    "GET jobs/schema": LOGGED_IN,
    "GET jobs/<id>": MAY_SEE,
    "POST jobs/<id>/stop": MAY_SEE,
    "POST jobs/<id>/retry": row(401, 404, 404, 409, 409, 409),
    "POST jobs/<id>/clone": row(401, 404, 404, "ok", 403, 403),
    "PUT jobs/<id>/priority": row(401, 404, 404, 403, "ok", "ok"),
    "PUT jobs/<id>/visibility": row(401, 404, 404, "ok", 403, "ok"),
    "PUT jobs/<id>/tags": MAY_SEE,
    "GET jobs/<id>/tasks": MAY_SEE,
    "GET jobs/<id>/tasks/<rank>/attempts": MAY_SEE,
    "GET jobs/<id>/attempts": MAY_SEE,
    "GET jobs/<id>/events": MAY_SEE,
    "GET jobs/<id>/logs": MAY_SEE,
    "GET jobs/<id>/metrics": MAY_SEE,
    "GET jobs/<id>/logs/search": MAY_SEE,
    "GET jobs/<id>/logs/download": MAY_SEE,
    "GET jobs/<id>/use": MAY_SEE,
    "GET attempts/<id>/logs/<stream>": MAY_SEE,
}

SHA256 = "0" * 64
USER = {"username": "newcomer", "password": "a-long-password"}
BODIES: dict[str, Any] = {
    "POST me/password": {"current": "wrong", "new": "wrong"},
    "POST users": USER,
    "PATCH users/<username>": {"email": ""},
    "POST virtual-clusters": {"name": "new"},
    "PATCH virtual-clusters/<name>": {"description": "x"},
    "PUT virtual-clusters/<name>/quotas": {"quotas": {}},
    "PUT virtual-clusters/<name>/members/<username>": {"role": "member"},
    "PUT virtual-clusters/<name>/limits/<limit>": {"value": 5},
    "PATCH nodes/<name>": {"labels": {}},
    "PUT cells/assignment": {"revision": 0, "virtual_clusters": {}, "pins": []},
    "POST cells/assignment/check": {"revision": 0, "virtual_clusters": {}, "pins": []},
    "POST images": {"name": "new", "reference": "x"},
    "PATCH images/<name>": {"description": "x"},
    "POST jobs/<id>/clone": {"name": "again"},
    "PUT jobs/<id>/tags": {"tags": ["a"]},
    "PUT jobs/<id>/visibility": {"visibility": "owner"},
    "PUT jobs/<id>/priority": {"priority": 1},
}
QUERIES = {"GET jobs/<id>/logs/search": "?q=x"}
# Routes that answer a login or a join: a refused secret is their work, not a missing right.
SECRET_IN_BODY = {"POST auth/login", "POST auth/token", "POST nodes/join"}


@dataclass
class World:
    """One virtual cluster with everything in it, and one caller of each kind."""

    callers: dict[str, Api]
    ids: dict[str, str] = field(default_factory=dict)

    def send(self, caller: Api, route: str, body: Any = None) -> Any:
        method, path = route.split(" ")
        address = self._address(path) + QUERIES.get(route, "")
        return caller.send(method, address, body or BODIES.get(route))

    def _address(self, path: str) -> str:
        kind, *rest = path.split("/")
        own = self.ids.get(kind, "")
        known = {
            "<id>": own,
            "<name>": own,
            "<username>": "owner",
            "<stream>": "stdout",
            "<sha256>": SHA256,
        }
        known |= {"<rank>": "0", "<limit>": "active_jobs"}
        known["<token_id>"] = self.ids.get("join-tokens", "")
        return "/" + "/".join([kind, *(known.get(part, part) for part in rest)])


@pytest.fixture
def world() -> World:
    users = {name: make_user(name, admin=name == "admin") for name in CALLERS[1:]}
    members = [users["colleague"], users["owner"]]
    team = make_vc("team", members=members, managers=[users["manager"]])
    make_vc("elsewhere", managers=[users["stranger"]])
    create_image(users["admin"], "private", "x", virtual_clusters=["team"])
    node = make_node("node-a", gpus=1)
    job = make_job(team, users["owner"])
    attempt = place(job, list(node.devices.all()))
    JobUse.objects.create(job=job, gpu_hours=1.0)
    Archive.objects.create(owner=users["owner"], sha256=SHA256, size=1, unpacked_size=1, files=1)
    callers = {"anonymous": Api()} | {name: Api(user) for name, user in users.items()}
    token = ApiToken.objects.get(user=users["owner"])
    ids = {
        "virtual-clusters": "team",
        "nodes": "node-a",
        "join-tokens": str(issue_join_token(None, 60)[0].pk),
        "images": "private",
        "jobs": str(job.pk),
        "attempts": str(attempt.pk),
        "auth": str(token.public_id),
    }
    return World(callers, ids)


def routes() -> Iterator[str]:
    """ "METHOD path" of every API route, as the URL resolver has it."""
    for pattern, callback in _patterns(get_resolver().url_patterns):
        view = getattr(callback, "view_class", None) or getattr(callback, "cls", None)
        if pattern.startswith("api/v1/") and view is not None:
            path = _plain(pattern.removeprefix("api/v1/"))
            for method in view.http_method_names:
                if method not in ("options", "head") and hasattr(view, method):
                    yield f"{method.upper()} {path}"


def _patterns(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _patterns(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield prefix + str(pattern.pattern), pattern.callback


def _plain(path: str) -> str:
    """Without the converters: "jobs/<uuid:job_id>" is "jobs/<id>"."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", path)


ROUTES = sorted(set(routes()))


def test_19_every_route_says_who_may_use_it():
    missing = [route for route in ROUTES if route not in EXPECTED]
    assert not missing, f"add these to EXPECTED: {missing}"
    gone = EXPECTED.keys() - set(ROUTES)
    assert not gone, f"take these out of EXPECTED: {gone}"


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES)
def test_19_route_refuses_whom_it_must(world, route, caller):
    answer = world.send(world.callers[caller], route)
    expected = EXPECTED[route][caller]
    if expected == "ok":
        refusals = () if route in SECRET_IN_BODY else (401, 403, 404)
        assert answer.status_code < 500
        assert answer.status_code not in refusals, answer.content
    else:
        assert answer.status_code == expected, answer.content
        assert set(answer.json()) == {"code", "message", "details"}


# What a token of the scope `submit` may write.
WORK = {
    *("POST jobs", "POST jobs/check", "POST jobs/convert", "POST jobs/<id>/stop"),
    *("POST jobs/<id>/clone", "PUT jobs/<id>/tags", "PUT jobs/<id>/visibility"),
    *("PUT jobs/<id>/priority", "POST files"),
}
CREDENTIAL = [r for r in ROUTES if EXPECTED.get(r) != EVERYBODY and "agent/" not in r]


@pytest.mark.parametrize("scope", ["read", "submit"])
@pytest.mark.parametrize("route", CREDENTIAL)
def test_finding_s17_a_token_does_what_its_scope_says_and_nothing_more(world, route, scope):
    """For the owner and for an admin, of whom a token could do everything until now."""
    for name in ("owner", "admin"):
        user = world.callers[name].user
        api = Api()
        secret = create_token(user, "narrow", scope=scope)[1]
        api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        answer = world.send(api, route)
        allowed = route.startswith("GET") or route == "POST auth/logout"
        if allowed or (scope == "submit" and route in WORK):
            expected = EXPECTED[route][name]
            assert answer.status_code == expected if expected != "ok" else answer.status_code < 500
            assert b"scope_too_small" not in getattr(answer, "content", b"")
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "scope_too_small")


@pytest.mark.parametrize("route", [r for r in ROUTES if EXPECTED.get(r) != EVERYBODY])
def test_19_forged_and_deactivated_credentials_are_nobody(world, route):
    forged = Api()
    forged.client.credentials(HTTP_AUTHORIZATION="Bearer skt_" + "a" * 64)
    gone = Api(make_user("gone", admin=True, is_active=False))
    for api in (forged, gone):
        assert world.send(api, route).status_code == 401


def test_25_join_token_is_no_api_token_and_no_node_credential(world):
    secret = create_join_token(None, 60)
    api = Api()
    api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert api.get("/nodes").status_code == 401


@pytest.mark.parametrize("field", ["id", "owner", "is_superuser", "state", "priority", "vc_id"])
@pytest.mark.parametrize("route", sorted(BODIES))
def test_22_no_write_takes_a_field_that_it_does_not_list(world, route, field):
    if field in BODIES[route]:
        pytest.skip("It lists this one.")
    admin = world.callers["admin"]
    answer = world.send(admin, route, {**BODIES[route], field: 1})
    assert answer.status_code == 400, answer.content
    assert list(answer.json()["details"]["fields"]) == [field]
