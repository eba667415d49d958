"""One virtual cluster with everything in it, a caller of each kind, and a valid request of each
route of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from tests.support.api_permissions import CALLERS, SERVICE
from tests.support.finished_jobs import archived_like
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.accounts import groups, ssh_keys
from skep_platform.accounts.models import ApiToken, User
from skep_platform.accounts.services import create_token
from skep_platform.cluster import announcements
from skep_platform.cluster.models import MaintenanceWindow, Node
from skep_platform.cluster.services import issue_join_token
from skep_platform.files.models import Archive
from skep_platform.images.models import Prefetch
from skep_platform.images.services import create as create_image
from skep_platform.interactive.models import App
from skep_platform.jobs import saved_views
from skep_platform.jobs.image_saves import ImageSave
from skep_platform.jobs.models import JobShare, TaskAttempt
from skep_platform.notifications import webhooks
from skep_platform.notifications.models import Delivery, Notification
from skep_platform.operations import rules
from skep_platform.simulations.models import Simulation
from skep_platform.storage import datasets
from skep_platform.storage import services as storage
from skep_platform.telemetry.models import JobUse
from skep_platform.templates import services as templates
from skep_platform.tenancy import memberships, service_accounts
from skep_platform.tenancy.models import VirtualCluster

SHA256 = "0" * 64
TEMPLATE = json.dumps(job_file("team", name="from-a-template"))
NO_JOB = "00000000-0000-7000-8000-000000000000"
USER = {"username": "newcomer", "password": "a-long-password"}
LOGIN = {"username": "robot", "password": "s3cret"}
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
OTHER_SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU"
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
    "POST simulations": {"virtual_cluster": "team", "policies": ["fifo"]},
    "POST virtual-clusters/<name>/policy/check": {"name": "fifo"},
    "POST virtual-clusters/<name>/policy/forecast": {"name": "fifo"},
    "POST notifications/read": {"ids": []},
    "PATCH notifications/<id>": {"read": True},
    "PATCH notifications/preferences": {"events": {"job.failed": {"email": False}}},
    "POST notifications/test": {"channel": "email"},
    "POST notifications/unsubscribe": {"token": "forged"},
    "POST webhooks": {"name": "new", "url": "https://hooks.example.org/x"},
    "PATCH webhooks/<id>": {"enabled": True},
    "POST backups": {"place": "/mnt/backups"},
    "POST alert-rules": {"name": "new", "kind": "full_disk"},
    "PATCH alert-rules/<id>": {"threshold": 80},
    "PATCH nodes/<name>": {"labels": {}},
    "PUT cells/assignment": {"revision": 0, "virtual_clusters": {}, "pins": []},
    "POST cells/assignment/check": {"revision": 0, "virtual_clusters": {}, "pins": []},
    "POST images": {"name": "new", "reference": "x"},
    "PATCH images/<name>": {"description": "x"},
    "POST images/<name>/prefetches": {"virtual_cluster": "team"},
    "PUT virtual-clusters/<name>/image-rules": {"patterns": ["vision/*"]},
    "POST me/ssh-keys": {"name": "desk", "public_key": SSH_KEY},
    "PUT me/registry-credentials/<registry>": LOGIN,
    "PUT virtual-clusters/<name>/registry-credentials/<registry>": LOGIN,
    "POST storages": {"name": "new", "type": "host_path", "data": {"path": "/srv/new"}},
    "PATCH storages/<name>": {"description": "x"},
    "POST datasets": {"virtual_cluster": "team", "name": "new", "storage": "team-data"},
    "PATCH datasets/<id>": {"description": "x"},
    "PUT storages/<name>/grants/<virtual_cluster>": {"read_only": True},
    "POST jobs/batch": {"files": ["type: job"]},
    "POST jobs/bulk/stop": {"jobs": [NO_JOB]},
    "POST jobs/bulk/tags": {"jobs": [NO_JOB], "add": ["a"]},
    "POST templates": {"name": "new", "title": "New", "text": TEMPLATE},
    "PATCH templates/<name>": {"title": "Other"},
    "POST me/job-views": {"name": "mine", "filters": {"state": "FAILED"}},
    "PUT storages/<name>/groups/<group>": {"read_only": True},
    "POST jobs/<id>/clone": {"name": "again"},
    "POST jobs/<id>/run-again": {"name": "again"},
    "POST jobs/<id>/move": {"node": "node-b"},
    "POST jobs/<id>/image-saves": {"reference": "registry.example.org/team/x:1"},
    "PUT jobs/<id>/tags": {"tags": ["a"]},
    "PUT jobs/<id>/visibility": {"visibility": "owner"},
    "PUT jobs/<id>/priority": {"priority": 1},
    "POST jobs/<id>/apps": {"log_dir": "/runs"},
    "PATCH apps/<id>": {"shared": True},
    "PUT jobs/<id>/idle-exemption": {"exempt": True},
}
QUERIES = {"GET jobs/<id>/logs/search": "?q=x", "GET jobs/compare": "?tag=x"}


@contextmanager
def rolled_back() -> Iterator[None]:
    """Undo in the database what is done inside."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@dataclass
class World:
    """One virtual cluster with everything in it, and one caller of each kind."""

    callers: dict[str, Api]
    ids: dict[str, str] = field(default_factory=dict)

    def send(self, caller: Api, route: str, body: Any = None) -> Any:
        method, path = route.split(" ")
        address = self._address(path) + QUERIES.get(route, "")
        return caller.send(method, address, body or BODIES.get(route))

    def tried(self, caller: Api, route: str) -> Any:
        """Return the answer, and undo in the database what the request did, so that the next
        caller finds the same."""
        with rolled_back():
            return self.send(caller, route)

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
    return make_world()


@pytest.fixture(scope="module")
def lasting_world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """One for all tests of a module, each of which leaves it as it was: a test's transaction lies
    within that of the world, and the world's own objects are not changed."""
    with django_db_blocker.unblock(), rolled_back():
        yield make_world()


@pytest.fixture
def restored(db: None, lasting_world: World) -> World:
    """The lasting world for a test that changes it: what the one before changed is undone in the
    database, and here in its objects."""
    for caller in lasting_world.callers.values():
        if caller.user is not None:
            caller.user.refresh_from_db()
    return World(lasting_world.callers, dict(lasting_world.ids))


def make_world() -> World:
    users = {name: make_user(name, admin=name == "admin") for name in CALLERS[1:]}
    members = [users["colleague"], users["owner"]]
    team = make_vc(
        "team", members=members, vc_admins=[users["vc_admin"]], viewers=[users["viewer"]]
    )
    make_vc("elsewhere", members=[users["outsider"]], vc_admins=[users["stranger"]])
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
    simulation = simulate(users["vc_admin"], team)
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
        "alert-rules": str(rules.create(name="disks", kind="full_disk").pk),
        "simulations": str(simulation.pk),
        "nodes": "node-a",
        "maintenance-windows": str(window_of(node).pk),
        "join-tokens": str(issue_join_token(None, 60)[0].pk),
        "images": "private",
        "prefetches": str(prefetch.pk),
        "templates": template.address,
        "storages": "team-data",
        "datasets": str(dataset.pk),
        "jobs": str(job.pk),
        "archived-jobs": str(archived_like(job).pk),
        "me/ssh-keys": str(ssh_keys.add(users["owner"], "laptop", OTHER_SSH_KEY).pk),
        "me/job-views": str(saved_views.save(users["owner"], "mine", {"state": "FAILED"}).pk),
        "apps": str(app.pk),
        "attempts": str(attempt.pk),
        "image-saves": str(image_save_of(attempt).pk),
        "auth": str(token.public_id),
        "me": "1",
        "me/sessions": "0190a3f0-0000-7000-8000-000000000001",
        "tokens": str(of_account.public_id),
    }
    return World(callers, ids)


def window_of(node: Node) -> MaintenanceWindow:
    """One that begins tomorrow."""
    starts = timezone.now() + timedelta(days=1)
    return MaintenanceWindow.objects.create(
        node=node, starts_at=starts, ends_at=starts + timedelta(hours=1)
    )


def image_save_of(attempt: TaskAttempt) -> ImageSave:
    """One that waits for its node; the attempt can be saved once more."""
    return ImageSave.objects.create(
        job=attempt.job,
        epoch=1,
        task="worker-0",
        node=attempt.node,
        vc=attempt.job.vc,
        created_by=attempt.job.owner,
        reference="registry.example.org/team/x:1",
        expires_at=timezone.now() + timedelta(hours=1),
    )


def simulate(user: User, vc: VirtualCluster) -> Simulation:
    """One that is over."""
    request = {
        "source": "made_up",
        "since": "",
        "until": "",
        "jobs": 1,
        "load": 0.9,
        "seed": 0,
        "policies": ["fifo"],
        "placement": "nodes",
        "changes": [],
        "restart_s": 0.0,
    }
    return Simulation.objects.create(owner=user, vc=vc, state="STOPPED", request=request)


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
