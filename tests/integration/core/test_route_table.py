"""Every route of the API against every kind of caller, from the URL table itself.

A route that has no row in `EXPECTED` fails: whoever adds one says here who may use it. "ok" means
that the caller got past every check of who it is; a number is the refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.accounts import groups
from skep_platform.accounts.models import ApiToken, User
from skep_platform.accounts.services import create_job_token, create_token
from skep_platform.cluster import announcements
from skep_platform.cluster.services import create_join_token, issue_join_token
from skep_platform.files.models import Archive
from skep_platform.images.models import Prefetch
from skep_platform.images.services import create as create_image
from skep_platform.interactive.models import App
from skep_platform.jobs import saved_views
from skep_platform.jobs.models import JobShare
from skep_platform.notifications import webhooks
from skep_platform.notifications.models import Delivery, Notification
from skep_platform.storage import datasets
from skep_platform.storage import services as storage
from skep_platform.telemetry.models import JobUse
from skep_platform.templates import services as templates
from skep_platform.tenancy import memberships, service_accounts
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db

# The columns. The owner's job and the private image are in the virtual cluster "team".
CALLERS = ["anonymous", "stranger", "colleague", "owner", "vc_admin", "admin", "viewer"]


def row(*expected: object, viewer: object = None) -> dict[str, object]:
    """What each caller gets. A viewer gets what a colleague gets, a member with no part in the job,
    where no other answer is given."""
    return dict(zip(CALLERS, (*expected, viewer or expected[2]), strict=True))


EVERYBODY = row("ok", "ok", "ok", "ok", "ok", "ok")
LOGGED_IN = row(401, "ok", "ok", "ok", "ok", "ok")
ADMIN = row(401, 403, 403, 403, 403, "ok")
OF_THE_TEAM = row(401, 404, "ok", "ok", "ok", "ok")
# Files of a storage are read and written by those whose jobs may mount it.
SUBMITTERS = row(401, 404, "ok", "ok", "ok", "ok", viewer=403)
ADMIN_OF_THE_TEAMS = row(401, 404, 403, 403, 403, "ok")
VC_ADMINS = row(401, 404, 403, 403, "ok", "ok")
# A job is its owner's, its VC admins' and the admins': for a colleague it does not exist.
MAY_SEE = row(401, 404, 404, "ok", "ok", "ok")
# The callers have tokens, and a token makes no tokens and changes no second factor.
BY_SESSION = row(401, 403, 403, 403, 403, 403)
OWN_ONLY = row(401, 404, 404, "ok", 404, 404)

SERVICE = "virtual-clusters/<name>/service-accounts/<account>"

EXPECTED = {
    "GET info": EVERYBODY,
    "GET openapi": EVERYBODY,
    "GET docs": EVERYBODY,
    "GET auth/csrf": EVERYBODY,
    "GET auth/sso/start": EVERYBODY,
    "GET auth/sso/callback": EVERYBODY,
    "POST auth/login": EVERYBODY,
    "POST auth/token": EVERYBODY,
    "POST auth/passkey": EVERYBODY,
    "POST auth/passkey/start": EVERYBODY,
    "POST auth/logout": LOGGED_IN,
    "GET auth/tokens": LOGGED_IN,
    "POST auth/tokens": BY_SESSION,
    "POST auth/password-reset": EVERYBODY,
    "POST auth/recovery": EVERYBODY,
    "POST auth/device": EVERYBODY,
    "POST auth/device/token": EVERYBODY,
    "DELETE auth/tokens/<id>": OWN_ONLY,
    # Whose entries each caller reads: tests/integration/audit.
    "GET audit": LOGGED_IN,
    "GET audit/actions": LOGGED_IN,
    "GET audit/export": LOGGED_IN,
    "GET me": LOGGED_IN,
    "POST me/password": LOGGED_IN,
    "POST me/email": BY_SESSION,
    "POST me/email/confirm": BY_SESSION,
    "GET me/sessions": LOGGED_IN,
    "DELETE me/sessions": BY_SESSION,
    "DELETE me/sessions/<id>": BY_SESSION,
    "GET me/device": BY_SESSION,
    "POST me/device": BY_SESSION,
    "GET me/sso": LOGGED_IN,
    "POST me/sso": BY_SESSION,
    "DELETE me/sso": BY_SESSION,
    "GET me/mfa": LOGGED_IN,
    "POST me/mfa/start": BY_SESSION,
    "POST me/mfa/confirm": BY_SESSION,
    "POST me/mfa/recovery-codes": BY_SESSION,
    "POST me/mfa/disable": BY_SESSION,
    "POST me/confirm": BY_SESSION,
    "POST me/mfa/keys": BY_SESSION,
    "POST me/mfa/keys/start": BY_SESSION,
    "PATCH me/mfa/keys/<id>": BY_SESSION,
    "DELETE me/mfa/keys/<id>": BY_SESSION,
    "DELETE users/<username>/mfa": ADMIN,
    "GET users": ADMIN,
    "POST users": ADMIN,
    "GET users/<username>": ADMIN,
    "PATCH users/<username>": ADMIN,
    "DELETE users/<username>": ADMIN,
    "POST users/<username>/reset-link": ADMIN,
    "POST user-imports": ADMIN,
    "GET groups": ADMIN,
    "POST groups": ADMIN,
    "GET groups/<name>": ADMIN,
    "PATCH groups/<name>": ADMIN,
    "DELETE groups/<name>": ADMIN,
    "GET groups/<name>/members": ADMIN,
    "PUT groups/<name>/members/<username>": ADMIN,
    "DELETE groups/<name>/members/<username>": ADMIN,
    "GET policies": LOGGED_IN,
    "GET virtual-clusters": LOGGED_IN,
    "POST virtual-clusters": ADMIN,
    "GET virtual-clusters/<name>": OF_THE_TEAM,
    "PATCH virtual-clusters/<name>": VC_ADMINS,
    "DELETE virtual-clusters/<name>": ADMIN_OF_THE_TEAMS,
    "PUT virtual-clusters/<name>/quotas": ADMIN_OF_THE_TEAMS,
    "GET virtual-clusters/<name>/cells": OF_THE_TEAM,
    "GET virtual-clusters/<name>/queue": OF_THE_TEAM,
    "GET virtual-clusters/<name>/history": OF_THE_TEAM,
    "GET virtual-clusters/<name>/members": OF_THE_TEAM,
    "PUT virtual-clusters/<name>/members/<username>": VC_ADMINS,
    "DELETE virtual-clusters/<name>/members/<username>": VC_ADMINS,
    "GET virtual-clusters/<name>/groups": OF_THE_TEAM,
    "PUT virtual-clusters/<name>/groups/<group>": VC_ADMINS,
    "DELETE virtual-clusters/<name>/groups/<group>": VC_ADMINS,
    "GET tokens": ADMIN,
    "DELETE tokens/<id>": ADMIN,
    "GET virtual-clusters/<name>/service-accounts": VC_ADMINS,
    "POST virtual-clusters/<name>/service-accounts": VC_ADMINS,
    f"GET {SERVICE}": VC_ADMINS,
    f"PATCH {SERVICE}": VC_ADMINS,
    f"DELETE {SERVICE}": VC_ADMINS,
    f"GET {SERVICE}/tokens": VC_ADMINS,
    f"POST {SERVICE}/tokens": row(401, 404, 403, 403, 403, 403),  # see BY_SESSION
    f"DELETE {SERVICE}/tokens/<token>": VC_ADMINS,
    "GET virtual-clusters/<name>/limits": VC_ADMINS,
    "PUT virtual-clusters/<name>/limits/<limit>": VC_ADMINS,
    "DELETE virtual-clusters/<name>/limits/<limit>": VC_ADMINS,
    "GET announcements": LOGGED_IN,
    "POST announcements": ADMIN,
    "DELETE announcements/<id>": ADMIN,
    "PUT announcements/<id>/dismissal": LOGGED_IN,
    "GET notifications": LOGGED_IN,
    "GET notifications/unread": LOGGED_IN,
    "POST notifications/read": LOGGED_IN,
    "PATCH notifications/<id>": LOGGED_IN,  # those of others are passed over
    "DELETE notifications/<id>": OWN_ONLY,
    "GET notifications/preferences": LOGGED_IN,
    "PATCH notifications/preferences": LOGGED_IN,
    "POST notifications/test": row(401, 409, 409, 409, 409, 409),  # no mail server is set
    "GET notifications/deliveries": LOGGED_IN,
    "GET notifications/deliveries/<id>": OWN_ONLY,
    "POST notifications/unsubscribe": EVERYBODY,
    "GET webhooks": LOGGED_IN,
    "POST webhooks": LOGGED_IN,
    "GET webhooks/<id>": OWN_ONLY,
    "PATCH webhooks/<id>": OWN_ONLY,
    "DELETE webhooks/<id>": OWN_ONLY,
    "POST webhooks/<id>/secret": OWN_ONLY,
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
    "POST images/<name>/inspect": ADMIN_OF_THE_TEAMS,
    "GET images/<name>/nodes": OF_THE_TEAM,
    "POST images/<name>/prefetches": row(401, 404, 403, 403, "ok", "ok"),
    "GET nodes/<name>/images": LOGGED_IN,
    "GET prefetches": LOGGED_IN,
    "GET prefetches/<id>/nodes": row(401, 404, 404, 404, "ok", "ok"),
    "DELETE prefetches/<id>": row(401, 404, 404, 404, "ok", "ok"),
    "GET virtual-clusters/<name>/image-rules/check": OF_THE_TEAM,
    "PATCH images/<name>": ADMIN_OF_THE_TEAMS,
    "DELETE images/<name>": ADMIN_OF_THE_TEAMS,
    "GET virtual-clusters/<name>/image-rules": OF_THE_TEAM,
    "PUT virtual-clusters/<name>/image-rules": VC_ADMINS,
    "GET me/registry-credentials": LOGGED_IN,
    "PUT me/registry-credentials/<registry>": LOGGED_IN,
    "DELETE me/registry-credentials/<registry>": LOGGED_IN,
    "GET virtual-clusters/<name>/registry-credentials": VC_ADMINS,
    "PUT virtual-clusters/<name>/registry-credentials/<registry>": VC_ADMINS,
    "DELETE virtual-clusters/<name>/registry-credentials/<registry>": VC_ADMINS,
    "GET storages": LOGGED_IN,
    "POST storages": ADMIN,
    "GET storages/<name>": OF_THE_TEAM,
    "PATCH storages/<name>": ADMIN_OF_THE_TEAMS,
    "DELETE storages/<name>": ADMIN_OF_THE_TEAMS,
    "PUT storages/<name>/grants/<virtual_cluster>": ADMIN_OF_THE_TEAMS,
    "DELETE storages/<name>/grants/<virtual_cluster>": ADMIN_OF_THE_TEAMS,
    "PUT storages/<name>/groups/<group>": ADMIN_OF_THE_TEAMS,
    "DELETE storages/<name>/groups/<group>": ADMIN_OF_THE_TEAMS,
    "GET datasets": LOGGED_IN,
    "POST datasets": SUBMITTERS,
    "GET datasets/<id>": OF_THE_TEAM,
    "PATCH datasets/<id>": row(401, 404, 403, "ok", "ok", "ok"),
    "DELETE datasets/<id>": row(401, 404, 403, "ok", "ok", "ok"),
    "GET storages/<name>/files": SUBMITTERS,
    "DELETE storages/<name>/files": SUBMITTERS,
    "GET storages/<name>/content": SUBMITTERS,
    "PUT storages/<name>/content": SUBMITTERS,
    "GET storages/<name>/upload": SUBMITTERS,
    "GET storages/<name>/usage": SUBMITTERS,
    "POST files": LOGGED_IN,
    "GET files/<sha256>": OWN_ONLY,
    "GET agent/files/<sha256>": row(401, 401, 401, 401, 401, 401),
    "GET agent/scratch": row(401, 401, 401, 401, 401, 401),
    "GET home": LOGGED_IN,
    "GET cluster/grid": LOGGED_IN,
    "GET cluster/use": LOGGED_IN,
    "GET cluster": LOGGED_IN,
    "GET jobs": LOGGED_IN,
    "GET jobs/count": LOGGED_IN,
    "POST jobs": LOGGED_IN,
    "POST jobs/bulk/stop": LOGGED_IN,  # those of others are refused one by one
    "POST jobs/bulk/tags": LOGGED_IN,
    "GET templates": LOGGED_IN,
    "POST templates": LOGGED_IN,
    "GET templates/<name>": OF_THE_TEAM,
    "PATCH templates/<name>": row(401, 404, 403, "ok", 403, "ok"),
    "DELETE templates/<name>": row(401, 404, 403, "ok", 403, "ok"),
    "PUT templates/<name>/star": OF_THE_TEAM,
    "DELETE templates/<name>/star": OF_THE_TEAM,
    "GET me/job-views": LOGGED_IN,
    "POST me/job-views": LOGGED_IN,
    "DELETE me/job-views/<id>": OWN_ONLY,
    "GET jobs/causes": LOGGED_IN,
    "POST jobs/check": LOGGED_IN,
    "POST jobs/convert": LOGGED_IN,
    "GET jobs/schema": LOGGED_IN,
    "GET jobs/<id>": MAY_SEE,
    "POST jobs/<id>/stop": MAY_SEE,
    "POST jobs/<id>/retry": row(401, 404, 404, 409, 409, 409),
    "POST jobs/<id>/clone": row(401, 404, 404, "ok", 403, 403),
    "POST jobs/<id>/run-again": row(401, 404, 404, "ok", 403, 403),
    "POST jobs/<id>/end-retries": MAY_SEE,
    "POST jobs/<id>/opportunistic": row(401, 404, 404, 409, 409, 409),
    "POST jobs/<id>/move": row(401, 404, 404, 409, 409, 409),
    "PUT jobs/<id>/priority": row(401, 404, 404, "ok", "ok", "ok"),
    "PUT jobs/<id>/visibility": row(401, 404, 404, "ok", 403, "ok"),
    "PUT jobs/<id>/idle-exemption": row(401, 404, 404, 403, "ok", "ok"),
    "GET jobs/<id>/shares": row(401, 404, 404, "ok", 403, "ok"),
    "PUT jobs/<id>/shares/users/<username>": row(401, 404, 404, "ok", 403, "ok"),
    "DELETE jobs/<id>/shares/users/<username>": row(401, 404, 404, "ok", 403, "ok"),
    "PUT jobs/<id>/shares/groups/<group>": row(401, 404, 404, "ok", 403, "ok"),
    "DELETE jobs/<id>/shares/groups/<group>": row(401, 404, 404, "ok", 403, "ok"),
    "PUT jobs/<id>/tags": MAY_SEE,
    "GET jobs/<id>/tasks": MAY_SEE,
    "GET jobs/<id>/tasks/<rank>/attempts": MAY_SEE,
    "GET jobs/<id>/attempts": MAY_SEE,
    "GET jobs/<id>/events": MAY_SEE,
    "GET jobs/<id>/logs": MAY_SEE,
    "GET jobs/<id>/metrics": MAY_SEE,
    "GET jobs/<id>/ranks": MAY_SEE,
    "GET jobs/<id>/log-tails": MAY_SEE,
    "GET jobs/<id>/attempts/<index>": MAY_SEE,
    "GET jobs/<id>/logs/search": MAY_SEE,
    "GET jobs/<id>/logs/download": MAY_SEE,
    "GET jobs/<id>/use": MAY_SEE,
    "GET jobs/<id>/apps": MAY_SEE,
    "POST jobs/<id>/apps": row(401, 404, 404, "ok", 403, "ok"),
    "GET apps": LOGGED_IN,
    "POST apps": LOGGED_IN,
    # An app acts with the rights of its job: its owner and admins open it, or all whom it is for.
    "GET apps/<id>": row(401, 404, 404, "ok", 404, "ok"),
    "PATCH apps/<id>": row(401, 404, 404, "ok", 404, "ok"),
    "POST apps/<id>/open": row(401, 404, 404, 403, 404, 403),  # by a session alone
    "GET attempts/<id>/logs/<stream>": MAY_SEE,
    "GET usage": LOGGED_IN,
    "GET virtual-clusters/<name>/report": VC_ADMINS,
    "GET virtual-clusters/<name>/report/export": VC_ADMINS,
    "GET virtual-clusters/<name>/budget": OF_THE_TEAM,
    "PUT virtual-clusters/<name>/budget": ADMIN_OF_THE_TEAMS,
    "DELETE virtual-clusters/<name>/budget": ADMIN_OF_THE_TEAMS,
    "GET usage/export": LOGGED_IN,
}

SHA256 = "0" * 64
TEMPLATE = json.dumps(job_file("team", name="from-a-template"))
NO_JOB = "00000000-0000-7000-8000-000000000000"
USER = {"username": "newcomer", "password": "a-long-password"}
LOGIN = {"username": "robot", "password": "s3cret"}
BODIES: dict[str, Any] = {
    "POST me/password": {"current": "wrong", "new": "wrong"},
    "POST auth/recovery": {"user": "owner"},
    "POST auth/device": {"name": "skep on a laptop"},
    "POST auth/device/token": {"device_code": "forged"},
    "POST users": USER,
    "PATCH users/<username>": {"email": ""},
    "POST virtual-clusters": {"name": "new"},
    "PATCH virtual-clusters/<name>": {"description": "x"},
    "PUT virtual-clusters/<name>/quotas": {"quotas": {}},
    "PUT virtual-clusters/<name>/members/<username>": {"role": "member"},
    "PUT virtual-clusters/<name>/limits/<limit>": {"value": 5},
    "PUT virtual-clusters/<name>/budget": {"gpu_hours": 100},
    "POST virtual-clusters/<name>/service-accounts": {"name": "new"},
    f"PATCH {SERVICE}": {"description": "x"},
    "POST announcements": {"message": "Maintenance on Monday."},
    "POST notifications/read": {"ids": []},
    "PATCH notifications/<id>": {"read": True},
    "PATCH notifications/preferences": {"events": {"job.failed": {"email": False}}},
    "POST notifications/test": {"channel": "email"},
    "POST notifications/unsubscribe": {"token": "forged"},
    "POST webhooks": {"name": "new", "url": "https://hooks.example.org/x"},
    "PATCH webhooks/<id>": {"enabled": True},
    "PATCH nodes/<name>": {"labels": {}},
    "PUT cells/assignment": {"revision": 0, "virtual_clusters": {}, "pins": []},
    "POST cells/assignment/check": {"revision": 0, "virtual_clusters": {}, "pins": []},
    "POST images": {"name": "new", "reference": "x"},
    "PATCH images/<name>": {"description": "x"},
    "POST images/<name>/prefetches": {"virtual_cluster": "team"},
    "PUT virtual-clusters/<name>/image-rules": {"patterns": ["vision/*"]},
    "PUT me/registry-credentials/<registry>": LOGIN,
    "PUT virtual-clusters/<name>/registry-credentials/<registry>": LOGIN,
    "POST storages": {"name": "new", "type": "host_path", "data": {"path": "/srv/new"}},
    "PATCH storages/<name>": {"description": "x"},
    "POST datasets": {"virtual_cluster": "team", "name": "new", "storage": "team-data"},
    "PATCH datasets/<id>": {"description": "x"},
    "PUT storages/<name>/grants/<virtual_cluster>": {"read_only": True},
    "POST jobs/bulk/stop": {"jobs": [NO_JOB]},
    "POST jobs/bulk/tags": {"jobs": [NO_JOB], "add": ["a"]},
    "POST templates": {"name": "new", "title": "New", "text": TEMPLATE},
    "PATCH templates/<name>": {"title": "Other"},
    "POST me/job-views": {"name": "mine", "filters": {"state": "FAILED"}},
    "PUT storages/<name>/groups/<group>": {"read_only": True},
    "POST jobs/<id>/clone": {"name": "again"},
    "POST jobs/<id>/run-again": {"name": "again"},
    "POST jobs/<id>/move": {"node": "node-b"},
    "PUT jobs/<id>/tags": {"tags": ["a"]},
    "PUT jobs/<id>/visibility": {"visibility": "owner"},
    "PUT jobs/<id>/priority": {"priority": 1},
    "POST jobs/<id>/apps": {"log_dir": "/runs"},
    "PATCH apps/<id>": {"shared": True},
    "PUT jobs/<id>/idle-exemption": {"exempt": True},
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
        own = self.ids.get("/".join([kind, *rest[:1]]), self.ids.get(kind, ""))
        known = {
            "<id>": own,
            "<name>": own,
            "<username>": "owner",
            "<stream>": "stdout",
            "<sha256>": SHA256,
        }
        known |= {"<rank>": "0", "<index>": "1", "<limit>": "gpus_per_user", "<group>": "research"}
        known["<virtual_cluster>"] = "team"
        known["<registry>"] = "registry.example.org"
        known |= {"<account>": "ci", "<token>": self.ids.get("tokens", "")}
        known["<token_id>"] = self.ids.get("join-tokens", "")
        return "/" + "/".join([kind, *(known.get(part, part) for part in rest)])


@pytest.fixture
def world() -> World:
    users = {name: make_user(name, admin=name == "admin") for name in CALLERS[1:]}
    members = [users["colleague"], users["owner"]]
    team = make_vc(
        "team", members=members, vc_admins=[users["vc_admin"]], viewers=[users["viewer"]]
    )
    make_vc("elsewhere", vc_admins=[users["stranger"]])
    create_image(users["admin"], "private", "x", virtual_clusters=["team"])
    prefetch = Prefetch.objects.create(
        image="private", reference="x", vc=team, expires_at=timezone.now() + timedelta(hours=1)
    )
    made = storage.create(users["admin"], "team-data", "host_path", {"path": "/srv/team"})
    storage.grant(users["admin"], made, "team")
    dataset = datasets.create(users["owner"], "team", "set", "team-data")
    template = templates.create(
        users["owner"], name="ours", title="Ours", text=TEMPLATE, virtual_cluster="team"
    )
    node = make_node("node-a", gpus=1)
    job = make_job(team, users["owner"])
    attempt = place(job, list(node.devices.all()))
    JobUse.objects.create(job=job, gpu_hours=1.0)
    JobShare.objects.create(job=job, user=users["owner"])
    Archive.objects.create(owner=users["owner"], sha256=SHA256, size=1, unpacked_size=1, files=1)
    account = service_accounts.create(users["vc_admin"], team, "ci")
    of_account = create_token(account.user, "nightly", scope="submit")[0]
    callers = {"anonymous": Api()} | {name: Api(user) for name, user in users.items()}
    app = App.objects.create(job=job, name="lab", type="jupyterlab", role="worker", port=8888)
    token = ApiToken.objects.get(user=users["owner"])
    announcement = announcements.create(users["admin"], "Maintenance on Monday.")
    group = groups.create(users["admin"], "research")
    groups.add_members(None, group, ["owner"])
    storage.grant_group(users["admin"], made, "research")
    memberships.set_group(None, team, "research", "viewer")
    JobShare.objects.create(job=job, group=group)
    hook, _ = webhooks.create(users["owner"], "own", "https://hooks.example.org/x")
    shown, sent = notifications_of(users["owner"])
    ids = {
        "webhooks": str(hook.pk),
        "notifications": str(shown.pk),
        "notifications/deliveries": str(sent.pk),
        "virtual-clusters": "team",
        "groups": "research",
        "announcements": str(announcement.pk),
        "nodes": "node-a",
        "join-tokens": str(issue_join_token(None, 60)[0].pk),
        "images": "private",
        "prefetches": str(prefetch.pk),
        "templates": template.name,
        "storages": "team-data",
        "datasets": str(dataset.pk),
        "jobs": str(job.pk),
        "me/job-views": str(saved_views.save(users["owner"], "mine", {"state": "FAILED"}).pk),
        "apps": str(app.pk),
        "attempts": str(attempt.pk),
        "auth": str(token.public_id),
        "me": "1",
        "me/sessions": "0190a3f0-0000-7000-8000-000000000001",
        "tokens": str(of_account.public_id),
    }
    return World(callers, ids)


def notifications_of(user: User) -> tuple[Notification, Delivery]:
    """A notification in the page, and an e-mail."""
    now, fields = timezone.now(), {"user": user, "event": "job.failed", "items": []}
    shown = Notification.objects.create(**fields, open_until=now)
    return shown, Delivery.objects.create(**fields, channel="email", due_at=now)


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


CREDENTIAL = [r for r in ROUTES if EXPECTED.get(r) != EVERYBODY and "agent/" not in r]

# Writes to jobs that their tokens may not do: they work with jobs and files, and no more.
NOT_FOR_JOBS = {
    *("PUT jobs/<id>/visibility", "PUT jobs/<id>/priority", "POST jobs/<id>/run-again"),
    *("POST jobs/<id>/end-retries", "POST jobs/<id>/opportunistic", "POST jobs/<id>/move"),
}


def for_jobs(route: str) -> bool:
    """Whether the token of a job may be used there."""
    method, path = route.split(" ")
    if not path.startswith(("jobs", "files", "attempts")) or "/shares" in path or "/apps" in path:
        return False
    return method == "GET" or (route in WORK and route not in NOT_FOR_JOBS)


def with_token(secret: str) -> Api:
    api = Api()
    api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return api


@pytest.mark.parametrize("route", CREDENTIAL)
def test_19_programs_are_members_of_one_virtual_cluster_and_no_more(world, route):
    """A service account, with a token of the widest scope, which none is given: as a colleague in
    its own virtual cluster, and as a stranger, who even is a VC admin elsewhere, in another one.
    The token of the owner's job: as the owner, with jobs and files only."""
    for name, like in (("team", "colleague"), ("elsewhere", "stranger")):
        vc = VirtualCluster.objects.get(name=name)
        account = service_accounts.create(world.callers["admin"].user, vc, "robot")
        expect(world.send(Api(account.user), route), EXPECTED[route][like])
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
    *("POST jobs/bulk/stop", "POST jobs/bulk/tags"),
    *("PUT storages/<name>/content", "DELETE storages/<name>/files"),
    *("POST datasets", "PATCH datasets/<id>", "DELETE datasets/<id>"),
}


@pytest.mark.parametrize("scope", ["read", "submit"])
@pytest.mark.parametrize("route", CREDENTIAL)
def test_finding_s17_a_token_does_what_its_scope_says_and_nothing_more(world, route, scope):
    """For the owner and for an admin, of whom a token could do everything until now."""
    for name in ("owner", "admin"):
        user = world.callers[name].user
        api = with_token(create_token(user, "narrow", scope=scope)[1])
        answer = world.send(api, route)
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
