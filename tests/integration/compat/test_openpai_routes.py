"""Every route of OpenPAI's API against every kind of caller and every scope of token."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from datetime import timedelta
from itertools import product
from uuid import UUID

import pytest
from django.urls import resolve
from django.utils import timezone
from tests.support.api_permissions import CALLERS, EVERYBODY
from tests.support.api_world import lasting_world as world
from tests.support.api_world import rolled_back
from tests.support.jobs_world import job_file
from tests.support.openpai_permissions import EXPECTED
from tests.support.platform_api import Api

from skep_platform.accounts.models import ApiToken, User
from skep_platform.accounts.services import create_job_token, create_token
from skep_platform.compat import urls
from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import VirtualCluster

__all__ = ["world"]  # a fixture
pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]

NEWCOMER = {"username": "newcomer", "password": "a-long-password"}
VALUE = {
    "authn/basic/login": {"username": "owner", "password": "wrong"},
    "token": {"username": "owner", "password": "wrong"},
    "users/me": {"data": {"username": "owner"}},
    "users": NEWCOMER,
    "users/<username>/group": {"groupname": "research"},
    "users/<username>/grouplist": {"grouplist": ["research"]},
    "users/<username>/extension": {"extension": {}},
    "users/<username>/virtualcluster": {"virtualCluster": ["team"]},
    "users/<username>/password": {"newPassword": "a-long-password", "oldPassword": "x"},
    "users/<username>/email": {"email": ""},
    "users/<username>/admin": {"admin": False},
    "groups": {"groupname": "fresh"},
    "groups/<name>/description": {"description": "x"},
    "groups/<name>/externalname": {"externalName": "x"},
    "groups/<name>/extension": {"extension": {}},
    "groups/<name>/extension/<keys>": {"data": ["team"]},
    "jobs/<framework>/executionType": {"value": "STOP"},
    "user/<username>/jobs/<name>/executionType": {"value": "STOP"},
    "jobs/<framework>/tag": {"value": "a"},
}
WRAPPED = {
    "PUT users": {"data": {"username": "owner", "email": ""}, "patch": True},
    "PUT groups": {"data": {"groupname": "research", "description": "x"}, "patch": True},
}
# What a token of the scope `submit` may write, as in Skep's own API.
WORK = {
    *("POST jobs", "PUT jobs/<framework>/executionType", "PUT jobs/<framework>/tag"),
    *("DELETE jobs/<framework>/tag", "POST user/<username>/jobs"),
    *("PUT user/<username>/jobs/<name>/executionType", "DELETE user/<username>/jobs/<name>"),
}


def _routes(patterns):
    for pattern in patterns:
        path = re.sub(r"<\w+:(\w+)>", r"<\1>", str(pattern.pattern))
        view = pattern.callback.view_class
        for method in ("get", "post", "put", "patch", "delete"):
            if hasattr(view, method) and not path.endswith("/"):
                yield f"{method.upper()} {path}"


# `user` and `group`, as older clients write them, lead to the same views.
OLD_WORDS = {"user": "users", "group": "groups"}
EVERY = sorted(set(_routes(urls.routes)))
V2 = [route for route in EVERY if route.split(" ")[1].split("/")[0] not in OLD_WORDS]
ROUTES = sorted({*V2, *_routes(urls.routes_v1)})


def test_every_route_says_who_may_use_it():
    assert set(ROUTES) == EXPECTED.keys()


def test_the_old_words_for_users_and_groups_lead_to_the_same_views():
    old = [route.split(" ")[1] for route in EVERY if route not in V2]
    assert {path.split("/")[0] for path in old} == OLD_WORDS.keys()
    for path in old:
        first, *others = re.sub("<[a-z]+>", "x", path).split("/")
        found = resolve(f"/rest-server/api/v2/{'/'.join([first, *others])}")
        known = resolve(f"/rest-server/api/v2/{'/'.join([OLD_WORDS[first], *others])}")
        assert found.func.view_class is known.func.view_class, path
        assert found.kwargs == known.kwargs, path


def send(world, api, route):
    method, path = route.split(" ")
    job = Job.objects.get(pk=world.ids["jobs"])
    Job.objects.filter(pk=job.pk).update(attempt=1, tags=["a"])
    kind = path.split("/")[0]
    names = {"groups": "research", "virtual-clusters": "team", "storages": "team-data"}
    names |= {"storage": "team-data", "user": job.name, "jobs": job.name}
    if "/logs/" in path:
        names["jobs"] = "user.pai.stdout"
    known = {
        "<framework>": f"owner~{job.name}",
        "<name>": names.get(kind, ""),
        "<attempt>": "0",
        "<role>": "worker",
        "<index>": "0",
        "<retry>": "0",
        "<username>": "owner",
        "<token>": world.ids["auth"],
        "<keys>": "acls/virtualClusters",
    }
    address = "/".join(known.get(part, part) for part in path.split("/"))
    version = "v2" if route in V2 else "v1"
    root = f"/rest-server/api/{version}/"
    if route in ("POST jobs", "POST user/<username>/jobs"):
        body = json.dumps(job_file("team", name="new"))
        return api.client.generic(method, root + address, body, content_type="text/yaml")
    body = WRAPPED.get(route, VALUE.get(path))
    sent = json.dumps(body) if body is not None else ""
    return api.client.generic(method, root + address, sent, content_type="application/json")


def tried(world, api, route):
    """Return the answer, and undo in the database what the request did."""
    with rolled_back():
        return send(world, api, route)


def expect(answer, expected, route):
    assert answer.status_code < 500, (route, answer.content)
    if expected == "ok":
        # No member's right, and still an answer: the stranger's job file names a foreign team.
        outside = route.rpartition(" ")[0] in ("POST jobs", "POST user/<username>/jobs")
        refusals = () if outside else (401, 403, 404)
        assert answer.status_code not in refusals, answer.content
    else:
        assert answer.status_code == expected, answer.content
        assert set(answer.json()) == {"code", "message"}


@pytest.mark.parametrize("route", ROUTES)
def test_19_a_route_refuses_whom_it_must(world, route):
    for name in CALLERS:
        expect(tried(world, world.callers[name], route), EXPECTED[route][name], f"{route} {name}")


CREDENTIAL = [route for route in ROUTES if EXPECTED.get(route) != EVERYBODY]


def with_token(secret):
    api = Api()
    api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return api


@pytest.mark.parametrize("route", CREDENTIAL)
def test_19_a_token_does_what_its_scope_says_and_nothing_more(world, route):
    user = world.callers["owner"].user
    logout = route == "DELETE authn/basic/logout"
    for scope in ("read", "submit"):
        answer = tried(world, with_token(create_token(user, "narrow", scope=scope)[1]), route)
        if route.startswith("GET") or logout or (scope == "submit" and route in WORK):
            expect(answer, EXPECTED[route]["owner"], f"{route} {scope}")
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")
            assert "scope" in answer.json()["message"]


@pytest.mark.parametrize("route", CREDENTIAL)
def test_29_the_token_of_a_job_works_with_jobs_only(world, route):
    owner, team = world.callers["owner"].user, VirtualCluster.objects.get(name="team")
    secret = create_job_token(owner, UUID(world.ids["jobs"]), team.pk, "job", "submit")
    answer = send(world, with_token(secret), route)
    of_jobs = route.split(" ")[1].startswith("jobs") or "/jobs" in route or "check" in route
    if of_jobs:
        expect(answer, EXPECTED[route]["owner"], f"{route} job")
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")


@pytest.mark.parametrize("how", ["forged", "expired", "revoked", "of a deactivated user"])
def test_20_a_token_that_is_none_any_more_is_no_one(world, how):
    """As a bearer token, and as an application token in the place of a password."""
    user = world.callers["owner"].user
    token, secret = create_token(user, "old", scope="admin")
    if how == "forged":
        secret = "skt_" + "a" * 64
    elif how == "expired":
        ApiToken.objects.filter(pk=token.pk).update(expiry=timezone.now() - timedelta(days=1))
    elif how == "revoked":
        answer = with_token(secret).client.delete(f"/rest-server/api/v2/tokens/{secret}")
        assert answer.status_code == 200
    else:
        User.objects.filter(pk=user.pk).update(is_active=False)
    basic, pair = Api(), b64encode(f"owner:{secret}".encode()).decode()
    basic.client.credentials(HTTP_AUTHORIZATION=f"Basic {pair}")
    for api, route in product((with_token(secret), basic), CREDENTIAL):
        answer = tried(world, api, route)
        assert (answer.status_code, answer.json()["code"]) == (401, "UnauthorizedUserError"), route
