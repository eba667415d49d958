"""Every route of the API against every kind of caller, from the URL table itself.

A route that has no row in `EXPECTED` fails: whoever adds one says here who may use it. "ok" means
that the caller got past every check of who it is; a number is the refusal.
"""

from __future__ import annotations

from itertools import product
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.api_permissions import CALLERS, EVERYBODY, EXPECTED, OWN_ONLY
from tests.support.api_world import BODIES, ROUTES, World
from tests.support.api_world import lasting_world as world
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user

from skep_platform.accounts.services import create_job_token, create_token
from skep_platform.cluster.services import create_join_token
from skep_platform.tenancy import service_accounts
from skep_platform.tenancy.models import VirtualCluster

__all__ = ["world"]  # a fixture
pytestmark = pytest.mark.django_db

# Routes that answer a login or a join: a refused secret is their work, not a missing right.
SECRET_IN_BODY = {"POST auth/login", "POST auth/token", "POST nodes/join"}


def test_19_every_route_says_who_may_use_it():
    missing = [route for route in ROUTES if route not in EXPECTED]
    assert not missing, f"add these to EXPECTED: {missing}"
    gone = EXPECTED.keys() - set(ROUTES)
    assert not gone, f"take these out of EXPECTED: {gone}"


@pytest.mark.parametrize("route", ROUTES)
def test_19_route_refuses_whom_it_must(world, route):
    found = {name: refused(world.tried(world.callers[name], route), route) for name in CALLERS}
    assert found == EXPECTED[route]


def refused(answer: Any, route: str) -> object:
    """Return the status of a typed refusal; "ok" where the caller got past the checks."""
    assert answer.status_code < 500, answer.content
    refusals = () if route in SECRET_IN_BODY else (401, 403, 404)
    if answer.status_code not in (*refusals, 409):
        return "ok"
    assert set(answer.json()) == {"code", "message", "details"}
    conflict = answer.status_code == 409 and 409 not in EXPECTED[route].values()
    return "ok" if conflict else answer.status_code


CREDENTIAL = [r for r in ROUTES if EXPECTED.get(r) != EVERYBODY and "agent/" not in r]

# Writes to jobs that their tokens may not do: they work with jobs and files, and no more.
NOT_FOR_JOBS = {
    *("PUT jobs/<id>/visibility", "PUT jobs/<id>/priority", "POST jobs/<id>/run-again"),
    *("POST jobs/<id>/end-retries", "POST jobs/<id>/opportunistic", "POST jobs/<id>/move"),
}


def for_jobs(route: str) -> bool:
    """Whether the token of a job may be used there."""
    method, path = route.split(" ")
    kept = ("/shares", "/apps", "/image-saves")
    if not path.startswith(("jobs", "files", "attempts")) or any(one in path for one in kept):
        return False
    return method == "GET" or (route in WORK and route not in NOT_FOR_JOBS)


def with_token(secret: str) -> Api:
    api = Api()
    api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return api


@pytest.mark.parametrize("route", CREDENTIAL)
def test_19_programs_are_members_of_one_virtual_cluster_and_no_more(world, route):
    """A service account, with a token of the widest scope, which none is given: as a colleague in
    its own virtual cluster, and as a member of another one.
    The token of the owner's job: as the owner, with jobs and files only."""
    for name, like in (("team", "colleague"), ("elsewhere", "outsider")):
        vc = VirtualCluster.objects.get(name=name)
        account = service_accounts.create(world.callers["admin"].user, vc, "robot")
        expect(world.tried(Api(account.user), route), EXPECTED[route][like])
    owner, team = world.callers["owner"].user, VirtualCluster.objects.get(name="team")
    job = UUID(world.ids["jobs"])
    answer = world.send(with_token(create_job_token(owner, job, team.pk, "job", "submit")), route)
    if for_jobs(route):
        expect(answer, EXPECTED[route]["owner"])
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "job_token_not_allowed")


def expect(answer: Any, expected: object) -> None:
    if expected == "ok":
        assert answer.status_code < 500
        assert answer.status_code not in (401, 403, 404), answer.content
    else:
        assert answer.status_code == expected, answer.content


# What a token of the scope `submit` may write.
WORK = {
    *("POST jobs", "POST jobs/check", "POST jobs/convert", "POST jobs/<id>/stop"),
    *("POST jobs/<id>/clone", "PUT jobs/<id>/tags", "PUT jobs/<id>/visibility"),
    "PUT jobs/<id>/idle-exemption",
    *(
        f"{method} jobs/<id>/shares/{whom}"
        for method in ("PUT", "DELETE")
        for whom in ("users/<username>", "groups/<group>")
    ),
    *("PUT jobs/<id>/priority", "POST files", "POST jobs/<id>/run-again"),
    *("POST jobs/<id>/end-retries", "POST jobs/<id>/opportunistic", "POST jobs/<id>/move"),
    *("PUT jobs/<id>/priority", "POST files", "POST jobs/<id>/apps", "POST apps"),
    "PATCH apps/<id>",
    *("POST jobs/<id>/image-saves", "DELETE image-saves/<id>"),
    *("POST jobs/bulk/stop", "POST jobs/bulk/tags", "POST jobs/batch"),
    *("PUT storages/<name>/content", "DELETE storages/<name>/files"),
    *("POST datasets", "PATCH datasets/<id>", "DELETE datasets/<id>"),
}


@pytest.mark.parametrize("route", CREDENTIAL)
def test_19_finding_s17_a_token_does_what_its_scope_says_and_nothing_more(world, route):
    """For the owner and for an admin, of whom a token could do everything until now."""
    for name, scope in product(("owner", "admin"), ("read", "submit")):
        user = world.callers[name].user
        api = with_token(create_token(user, "narrow", scope=scope)[1])
        answer = world.tried(api, route)
        allowed = route.startswith("GET") or route == "POST auth/logout"
        if allowed or (scope == "submit" and route in WORK):
            expected = EXPECTED[route][name]
            assert answer.status_code == expected if expected != "ok" else answer.status_code < 500
            assert b"scope_too_small" not in getattr(answer, "content", b"")
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "scope_too_small")


@pytest.mark.parametrize("route", [r for r in ROUTES if EXPECTED.get(r) != EVERYBODY])
def test_19_forged_and_deactivated_credentials_are_no_one(world, route):
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
    caller = world.callers["owner" if EXPECTED[route] is OWN_ONLY else "admin"]
    answer = world.send(caller, route, {**BODIES[route], field: 1})
    assert answer.status_code == 400, answer.content
    assert list(answer.json()["details"]["fields"]) == [field]


HIDDEN = 404
NOWHERE = "0190a3f0-0000-7000-8000-00000000dead"
NAMED = ("virtual-clusters", "storages", "templates")
KINDS = ("jobs", "attempts", "apps", "datasets", *NAMED)
NOT_FOR_STRANGERS = [
    route
    for route in ROUTES
    if route.startswith(tuple(f"GET {kind}/" for kind in KINDS))
    and EXPECTED[route]["stranger"] == HIDDEN
]


def test_19_what_a_stranger_may_not_see_is_answered_like_what_does_not_exist(world):
    """Also by as many statements, so that the time of an answer says nothing either."""
    ids = dict.fromkeys(KINDS, NOWHERE) | dict.fromkeys(NAMED, "no-such")
    absent = World(world.callers, world.ids | ids)
    different = []
    for route in NOT_FOR_STRANGERS:
        # Twice: the first time fills caches.
        *_, hidden, missing = [answered(one, route) for one in (world, absent, world, absent)]
        if hidden != missing:
            different.append(f"{route}: {hidden} {missing}")
    assert len(NOT_FOR_STRANGERS) > 30
    assert not different, "\n".join(different)


def answered(world: World, route: str) -> tuple[str, int]:
    """Return the answer to a stranger without the names in it, and how many statements it took."""
    with CaptureQueriesContext(connection) as captured:
        answer = world.send(world.callers["stranger"], route)
    assert answer.status_code == HIDDEN, answer.content
    text = answer.content.decode()
    for name in sorted((world.ids[kind] for kind in KINDS), key=len, reverse=True):
        text = text.replace(name, "…")
    return text, len(captured)
