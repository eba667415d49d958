"""Every writing route of the API, from the URL table itself: it leaves an entry, and no secret.

A writing route without a case in `CASES` fails: whoever adds one says here how it is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages
from django.db import connection
from django.utils import timezone
from tests.support import account_cases, mfa, webauthn
from tests.support.api_permissions import SERVICE
from tests.support.api_world import ROUTES, SSH_KEY, TEMPLATE, World, lasting_world
from tests.support.api_world import restored as world
from tests.support.archives import packed
from tests.support.jobs_world import job_file
from tests.support.platform_api import ROOT, Api, session
from tests.support.platform_factories import PASSWORD, make_node

from skep_platform.accounts import groups
from skep_platform.accounts import services as accounts
from skep_platform.accounts.models import User
from skep_platform.audit.actions import ACTION_OF_ROUTE, ACTIONS, NOT_RECORDED
from skep_platform.audit.models import AuditEntry
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.images import credentials
from skep_platform.jobs.lifecycle import stopping
from skep_platform.jobs.models import Job, JobShare, TaskAttempt
from skep_platform.notifications import preferences
from skep_platform.simulations.models import Simulation
from skep_platform.tenancy import limits, memberships
from skep_platform.tenancy.models import Quota, RoleGrant, VirtualCluster

pytestmark = pytest.mark.django_db

__all__ = ["lasting_world", "world"]  # fixtures

WRITES = [route for route in ROUTES if not route.startswith("GET")]
NEW_PASSWORD = "hunter2-a-new-password"
HIVED = """
physicalCluster:
  cellTypes:
    BOX: {childCellType: A100, childCellNumber: 1, isNodeLevel: true}
  physicalCells:
  - cellType: BOX
    cellAddress: node-a
"""
HOOK_SECRET = "hunter2-in-a-path"
HOOK = f"https://hooks.example.org/{HOOK_SECRET}"
TASK_SECRET = "hunter2-of-the-job"


@dataclass(frozen=True)
class Case:
    """How a route is called so that it changes something. `body` may be a function of the world;
    `prepare` runs before; `actions` are what it records, when that is not the route's own."""

    who: str = "admin"
    body: Any = None
    prepare: Callable[[World], Any] | None = None
    actions: tuple[str, ...] = ()
    by_session: bool = False
    own_body: Callable[[Api], Any] | None = None  # of the session that sends it
    raw: tuple[str, Any] | None = None  # content type, and the body as it is sent
    actor: str = ""  # where it is not the caller
    secrets: tuple[str, ...] = field(default=())


def team() -> VirtualCluster:
    return VirtualCluster.objects.get(name="team")


def reset_body(world: World) -> dict[str, str]:
    link = accounts.reset_link(world.callers["admin"].user, "owner")
    token = link.rpartition("token=")[2]
    return {"username": "owner", "token": token, "new": NEW_PASSWORD}


def keep_key(world: World, *, passkey: bool = False) -> webauthn.SoftKey:
    api, key = session(world.callers["owner"].user), webauthn.SoftKey()
    webauthn.confirm(api)
    assert key.enrol(api, passkey=passkey).status_code == 201
    world.ids["me"] = str(api.get("/me/mfa").json()["keys"][0]["id"])
    world.callers["owner"].user.refresh_from_db()
    return key


def passkey_body(world: World) -> dict[str, Any]:
    key, anonymous = keep_key(world, passkey=True), world.callers["anonymous"]
    anonymous.client.defaults["SERVER_NAME"] = "localhost"
    return key.sign(anonymous.post("/auth/passkey/start").json())


def join_body(world: World) -> dict[str, str]:
    token = cluster.create_join_token(None, 60)
    return {"token": token, "name": "node-new", "instance_id": "instance-new"}


def assignment_body(world: World) -> dict[str, Any]:
    known = world.callers["admin"].get("/cells/assignment").json()
    known["virtual_clusters"] = {"team": {"cells": [], "quotas": {"A100": 1}, "pins": []}}
    return {name: known[name] for name in ("revision", "virtual_clusters", "pins")}


def unsubscribe_body(world: World) -> dict[str, str]:
    owner = User.objects.get(username="owner")
    return {"token": preferences.unsubscribe_token(owner.pk, "job.failed")}


def webhook_test(world: World) -> dict[str, str]:
    return {"channel": "webhook", "webhook": world.ids["webhooks"]}


def job_body(world: World) -> dict[str, Any]:
    file = job_file("team", name="audited", priority="oppo")
    return {**file, "secrets": {"db": TASK_SECRET}}


def free_node(world: World) -> None:
    make_node("node-free", gpus=1)
    world.ids["nodes"] = "node-free"


def gone_node(world: World) -> None:
    free_node(world)
    Node.objects.filter(name="node-free").update(connected=False)


def cordoned(world: World) -> None:
    cluster.cordon(None, "node-a", "broken fan")


def waits_to_retry(world: World) -> None:
    Job.objects.update(not_before=timezone.now())


def may_run_on_idle_gpus(world: World) -> None:
    reason = {"code": "vc_busy", "message": "", "details": {"opportunistic_now": True}}
    Job.objects.update(state="WAITING", placed_at=None, wait_reason=reason)


def runs(world: World) -> None:
    attempt = Job.objects.get().attempts.get()
    Job.objects.update(state="RUNNING", placed_at=timezone.now(), attempt=attempt.index)


def may_be_saved(world: World) -> None:
    """Its task runs in a virtual cluster that allows it, and its owner may push."""
    runs(world)
    attempt = TaskAttempt.objects.get(pk=world.ids["attempts"])
    TaskAttempt.objects.filter(pk=attempt.pk).update(state="RUNNING")
    limits.set_limit(None, attempt.job.vc, "save_image_mb", 1024)
    credentials.store(attempt.job.owner, "registry.example.org", "robot", "push-password")


def submitted(world: World) -> None:
    answer = world.callers["owner"].post("/jobs", job_body(world))
    assert answer.status_code == 201, answer.content
    world.ids["jobs"] = answer.json()["id"]


def of_a_colleague(world: World) -> None:
    """The job belongs to another user, and is not shared."""
    Job.objects.update(owner=world.callers["colleague"].user)
    JobShare.objects.all().delete()


def group(world: World, *usernames: str) -> None:
    admin = world.callers["admin"].user
    if not groups.all_groups().filter(name="research").exists():
        groups.create(admin, "research")
    world.ids["groups"] = "research"
    if usernames:
        groups.add_members(admin, groups.find("research"), usernames)


def group_role(world: World) -> None:
    group(world)
    memberships.set_group(None, team(), "research", "member")


def no_group_roles(world: World) -> None:
    RoleGrant.objects.filter(vc=team()).exclude(group=None).delete()


def empty_vc(world: World) -> None:
    VirtualCluster.objects.create(name="empty")
    world.ids["virtual-clusters"] = "empty"


REGISTRY = {"username": "robot", "password": "hunter2-pull"}
MINE = "me/registry-credentials/<registry>"
OF_THE_TEAM = "virtual-clusters/<name>/registry-credentials/<registry>"
LOGIN = {"username": "owner", "password": PASSWORD}
CASES: dict[str, Case] = {
    "POST auth/login": Case(
        "anonymous", LOGIN, actions=("login.succeeded",), actor="owner", secrets=(PASSWORD,)
    ),
    "POST auth/token": Case(
        "anonymous",
        LOGIN | {"name": "laptop"},
        actions=("login.succeeded", "token.create"),
        actor="owner",
        secrets=(PASSWORD,),
    ),
    "POST auth/logout": Case("owner"),
    "POST auth/tokens": Case("owner", {"name": "ci", "scope": "read"}, by_session=True),
    "DELETE auth/tokens/<id>": Case("owner"),
    "POST auth/password-reset": Case("anonymous", reset_body, actor="", secrets=(NEW_PASSWORD,)),
    "POST me/password": Case(
        "owner", {"current": PASSWORD, "new": NEW_PASSWORD}, secrets=(PASSWORD, NEW_PASSWORD)
    ),
    "POST me/email/confirm": Case("owner", account_cases.email_body, by_session=True),
    "POST me/device": Case("owner", account_cases.device_body, by_session=True),
    "POST auth/device/token": Case(
        "anonymous",
        account_cases.device_token_body,
        actions=("login.succeeded", "token.create"),
        actor="owner",
    ),
    "DELETE me/sessions": Case("owner", by_session=True),
    "DELETE me/sessions/<id>": Case("owner", by_session=True, prepare=account_cases.other_session),
    "DELETE me/sso": Case(
        "owner", by_session=True, prepare=account_cases.link_sso, own_body=webauthn.confirm
    ),
    "POST users": Case(
        body={"username": "newcomer", "password": NEW_PASSWORD}, secrets=(NEW_PASSWORD,)
    ),
    "PATCH users/<username>": Case(
        body={"email": "o@example.org", "password": NEW_PASSWORD},
        actions=("user.update", "user.password.update"),
        secrets=(NEW_PASSWORD,),
    ),
    "DELETE users/<username>": Case(),
    "POST users/<username>/reset-link": Case(),
    "POST me/mfa/confirm": Case(
        "owner", by_session=True, own_body=lambda api: {"code": mfa.code_of(mfa.start(api))}
    ),
    "POST auth/passkey": Case(
        "anonymous", passkey_body, actions=("login.succeeded",), actor="owner"
    ),
    "POST me/mfa/keys": Case("owner", by_session=True, own_body=webauthn.new_key_body),
    "PATCH me/mfa/keys/<id>": Case("owner", {"name": "at work"}, by_session=True, prepare=keep_key),
    "DELETE me/mfa/keys/<id>": Case(
        "owner", by_session=True, prepare=keep_key, own_body=webauthn.confirm
    ),
    **dict.fromkeys(
        ("POST me/mfa/recovery-codes", "POST me/mfa/disable"),
        Case("owner", by_session=True, own_body=lambda api: {"code": mfa.enrol(api)[1][0]}),
    ),
    "DELETE users/<username>/mfa": Case(
        prepare=lambda w: mfa.enrol(session(w.callers["owner"].user))
    ),
    "POST groups": Case(body={"name": "new"}),
    "PATCH groups/<name>": Case(body={"description": "x"}, prepare=group),
    "DELETE groups/<name>": Case(prepare=group),
    "PUT groups/<name>/members/<username>": Case(prepare=group),
    "DELETE groups/<name>/members/<username>": Case(prepare=lambda w: group(w, "owner")),
    "POST virtual-clusters": Case(body={"name": "new", "description": "x"}),
    "PATCH virtual-clusters/<name>": Case(
        body={"description": "x", "policy": {"name": "fifo"}},
        actions=("vc.update", "vc.policy.update"),
    ),
    "DELETE virtual-clusters/<name>": Case(prepare=empty_vc),
    "PUT virtual-clusters/<name>/quotas": Case(body={"quotas": {"A100": 1}}),
    "PUT virtual-clusters/<name>/members/<username>": Case("vc_admin", {"role": "admin"}),
    "DELETE virtual-clusters/<name>/members/<username>": Case("vc_admin", prepare=no_group_roles),
    "PUT virtual-clusters/<name>/groups/<group>": Case(body={"role": "member"}, prepare=group),
    "DELETE virtual-clusters/<name>/groups/<group>": Case(prepare=group_role),
    "DELETE tokens/<id>": Case(),
    "POST virtual-clusters/<name>/service-accounts": Case("vc_admin", {"name": "new"}),
    f"PATCH {SERVICE}": Case("vc_admin", {"is_active": False}),
    f"DELETE {SERVICE}": Case("vc_admin"),
    f"POST {SERVICE}/tokens": Case("vc_admin", {"scope": "read"}, by_session=True),
    f"DELETE {SERVICE}/tokens/<token>": Case("vc_admin"),
    "PUT virtual-clusters/<name>/limits/<limit>": Case(body={"value": 5}),
    "DELETE virtual-clusters/<name>/limits/<limit>": Case(
        prepare=lambda w: limits.set_limit(None, team(), "gpus_per_user", 5)
    ),
    "PUT virtual-clusters/<name>/budget": Case(body={"gpu_hours": 100}),
    "DELETE virtual-clusters/<name>/budget": Case(
        prepare=lambda w: w.callers["admin"].put("/virtual-clusters/team/budget", {"gpu_hours": 9})
    ),
    "POST user-imports": Case(
        body={"csv": "username,email,groups,virtual_clusters\nnewby,,research,team:viewer\n"},
        prepare=group,
        actions=("user.import", "user.create", "group.member.add", "vc.member.set"),
    ),
    "POST me/ssh-keys": Case("owner", {"name": "desk", "public_key": SSH_KEY}),
    "DELETE me/ssh-keys/<id>": Case("owner"),
    "PUT me/registry-credentials/<registry>": Case("owner", REGISTRY, secrets=("hunter2-pull",)),
    "DELETE me/registry-credentials/<registry>": Case(
        "owner", prepare=lambda w: w.send(w.callers["owner"], f"PUT {MINE}", REGISTRY)
    ),
    "PUT virtual-clusters/<name>/registry-credentials/<registry>": Case(
        "vc_admin", REGISTRY, secrets=("hunter2-pull",)
    ),
    "DELETE virtual-clusters/<name>/registry-credentials/<registry>": Case(
        "vc_admin", prepare=lambda w: w.send(w.callers["vc_admin"], f"PUT {OF_THE_TEAM}", REGISTRY)
    ),
    "PUT virtual-clusters/<name>/image-rules": Case("vc_admin", {"patterns": ["vision/*"]}),
    "POST announcements": Case(body={"message": "Maintenance on Monday."}),
    "DELETE announcements/<id>": Case(),
    "POST backups": Case(body={"place": "/mnt/backups"}),
    "POST alert-rules": Case(body={"name": "new", "kind": "full_disk"}),
    "PATCH alert-rules/<id>": Case(body={"threshold": 80}),
    "DELETE alert-rules/<id>": Case(),
    "PATCH notifications/preferences": Case("owner", {"events": {"job.failed": {"email": False}}}),
    "POST notifications/unsubscribe": Case(who="anonymous", body=unsubscribe_body),
    "POST notifications/test": Case(who="owner", body=webhook_test),
    "POST webhooks": Case(who="owner", body={"name": "new", "url": HOOK}, secrets=(HOOK_SECRET,)),
    "PATCH webhooks/<id>": Case(who="owner", body={"url": HOOK}, secrets=(HOOK_SECRET,)),
    "POST webhooks/<id>/secret": Case(who="owner"),
    "DELETE webhooks/<id>": Case(who="owner"),
    "PATCH nodes/<name>": Case(body={"labels": {"rack": "r7"}}),
    "DELETE nodes/<name>": Case(prepare=free_node),
    "POST nodes/<name>/checks": Case(body={"rounds": 2}),
    "POST maintenance-windows": Case(
        body={
            "nodes": ["node-a"],
            "starts_at": "2100-01-01T00:00:00Z",
            "ends_at": "2100-01-01T04:00:00Z",
        }
    ),
    "DELETE maintenance-windows/<id>": Case(),
    "POST nodes/<name>/drain": Case(body={"reason": "new fan"}),
    "POST nodes/<name>/undrain": Case(prepare=cordoned),
    "POST nodes/<name>/cordon": Case(body={"reason": "new fan"}),
    "POST nodes/<name>/uncordon": Case(prepare=cordoned),
    "POST nodes/<name>/declare-lost": Case(prepare=gone_node),
    "POST nodes/join-tokens": Case(body={}),
    "DELETE nodes/join-tokens/<token_id>": Case(),
    "POST nodes/join": Case("anonymous", join_body, actor="node-new"),
    "PUT cells/assignment": Case(body=assignment_body),
    "PUT cells/hived": Case(raw=("text/yaml", HIVED)),
    "DELETE cells/hived": Case(
        prepare=lambda w: w.callers["admin"].client.generic(
            "PUT", f"{ROOT}/cells/hived", HIVED.encode(), content_type="text/yaml"
        )
    ),
    "POST images": Case(body={"name": "new", "reference": "x"}),
    "PATCH images/<name>": Case(body={"description": "x"}),
    "DELETE images/<name>": Case(),
    "POST images/<name>/inspect": Case(),
    "POST images/<name>/prefetches": Case(body={"nodes": ["node-a"]}),
    "DELETE prefetches/<id>": Case("vc_admin"),
    "POST storages": Case(body={"name": "new", "type": "host_path", "data": {"path": "/srv/new"}}),
    "PATCH storages/<name>": Case(body={"description": "x"}),
    "DELETE storages/<name>": Case(),
    "PUT storages/<name>/grants/<virtual_cluster>": Case(body={"read_only": False}),
    "DELETE storages/<name>/grants/<virtual_cluster>": Case(),
    "POST datasets": Case("owner"),
    "PATCH datasets/<id>": Case("owner", {"description": "x"}),
    "DELETE datasets/<id>": Case("owner"),
    "PUT storages/<name>/groups/<group>": Case(body={"read_only": False}),
    "DELETE storages/<name>/groups/<group>": Case(),
    "POST files": Case("owner", raw=("application/gzip", packed(("hello", b"world")))),
    "POST jobs": Case("owner", job_body, secrets=(TASK_SECRET,)),
    "POST jobs/batch": Case(
        "owner", lambda w: {"files": [json.dumps(job_body(w))]}, secrets=(TASK_SECRET,)
    ),
    "POST jobs/<id>/stop": Case("owner"),
    "POST simulations": Case("vc_admin"),
    "POST virtual-clusters/<name>/policy/forecast": Case("vc_admin"),
    "POST simulations/<id>/stop": Case(
        "vc_admin", prepare=lambda w: Simulation.objects.update(state="QUEUED")
    ),
    "POST templates": Case(
        "owner", {"name": "new", "title": "New", "text": TEMPLATE, "virtual_cluster": "team"}
    ),
    "PATCH templates/<name>": Case(body={"listed": False}),
    "DELETE templates/<name>": Case("owner"),
    "POST jobs/bulk/stop": Case("owner", lambda w: {"jobs": [w.ids["jobs"]]}),
    "POST jobs/bulk/tags": Case("owner", lambda w: {"jobs": [w.ids["jobs"]], "add": ["a"]}),
    "POST jobs/<id>/retry": Case("owner", prepare=waits_to_retry),
    "POST jobs/<id>/clone": Case("owner", prepare=submitted, secrets=(TASK_SECRET,)),
    "POST jobs/<id>/run-again": Case("owner", prepare=submitted, secrets=(TASK_SECRET,)),
    "POST jobs/<id>/end-retries": Case("owner"),
    "POST jobs/<id>/opportunistic": Case("owner", prepare=may_run_on_idle_gpus),
    "POST jobs/<id>/move": Case("owner", {"node": "node-a"}, prepare=runs),
    "POST jobs/<id>/image-saves": Case(
        "owner",
        {"reference": "registry.example.org/team/mine:1"},
        prepare=may_be_saved,
        secrets=("push-password",),
    ),
    "DELETE image-saves/<id>": Case("owner"),
    "PUT jobs/<id>/priority": Case(body={"priority": 7}),
    "PUT jobs/<id>/visibility": Case("owner", {"visibility": "everyone"}),
    "PUT jobs/<id>/shares/users/<username>": Case(prepare=of_a_colleague),
    "DELETE jobs/<id>/shares/users/<username>": Case("owner"),
    "PUT jobs/<id>/shares/groups/<group>": Case(prepare=of_a_colleague),
    "DELETE jobs/<id>/shares/groups/<group>": Case("owner"),
    "PUT jobs/<id>/idle-exemption": Case("vc_admin", {"exempt": True}),
    "PUT jobs/<id>/tags": Case("owner", {"tags": ["a"]}),
    "PATCH apps/<id>": Case("owner", {"shared": True}),
}


# Routes whose storages lie on a disk, among others; the tests of their app look at the audit log.
ELSEWHERE = {
    "PUT storages/<name>/content": "tests/integration/storage/test_files.py",
    "DELETE storages/<name>/files": "tests/integration/storage/test_files.py",
    # They need a job that runs, an image, or a browser's session.
    "POST apps": "tests/integration/interactive/test_apps.py",
    "POST jobs/<id>/apps": "tests/integration/interactive/test_apps.py",
    "POST apps/<id>/open": "tests/integration/interactive/test_apps.py",
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(storages.backends["files"]["OPTIONS"], "location", str(tmp_path))
    monkeypatch.setattr(storages, "_storages", {})


def test_every_writing_route_has_a_case_or_a_reason():
    known = CASES.keys() | NOT_RECORDED.keys() | ELSEWHERE.keys()
    assert not set(WRITES) - known, f"add these to CASES: {set(WRITES) - known}"
    assert not known - set(WRITES), f"take these out: {known - set(WRITES)}"
    assert not set(WRITES) - ACTION_OF_ROUTE.keys() - NOT_RECORDED.keys()
    assert not ACTION_OF_ROUTE.keys() - set(ROUTES), "these routes of ACTIONS are gone"
    for route, test in ELSEWHERE.items():
        assert ACTION_OF_ROUTE[route] in (Path(__file__).parents[3] / test).read_text()
    assert all(ACTIONS[action] for case in CASES.values() for action in case.actions)


@pytest.mark.parametrize("route", sorted(CASES))
def test_a_change_is_recorded_with_its_caller_and_without_secrets(world, route):
    case = CASES[route]
    if case.prepare is not None:
        case.prepare(world)
    Quota.objects.get_or_create(vc=team(), gpu_model="A100", defaults={"gpus": 0})
    answer = sent(world, case, route)
    assert answer.status_code < 300, answer.content
    entries = AuditEntry.objects.filter(request_id=answer["X-Request-Id"]).order_by("id")
    actions = [entry.action for entry in entries]
    assert actions, "nothing was recorded"
    expected = case.actions or (ACTION_OF_ROUTE[route],)
    assert set(expected) <= set(actions)
    for entry in entries:
        name = "" if case.who == "anonymous" else case.who
        assert (entry.actor_name, entry.outcome) == (case.actor or name, "done")
        assert entry.address == "127.0.0.1"
        assert bool(entry.token_id) == (case.who != "anonymous" and not case.by_session)
        if "virtual-clusters/<name>" in route or "jobs" in route:
            assert entry.vc_id is not None
    refuse_secrets([*case.secrets, *secrets_in(answer)])


def sent(world: World, case: Case, route: str) -> Any:
    api = world.callers[case.who]
    if case.by_session:
        api = session(api.user)
    if case.raw is not None:
        kind, content = case.raw
        method, path = route.split(" ")
        data = content.encode() if isinstance(content, str) else content
        return api.client.generic(method, f"{ROOT}/{path}", data, content_type=kind)
    body = case.body(world) if callable(case.body) else case.body
    if case.own_body is not None:
        body = case.own_body(api)
    return world.send(api, route, body)


def secrets_in(answer: Any) -> list[str]:
    """Return the credentials that an answer shows once."""
    try:
        shown = json.loads(answer.content or b"{}")
    except ValueError:
        return []
    names = ("token", "credential", "url", "secret")
    found = [str(shown.get(name) or "") for name in names if isinstance(shown, dict)]
    return [text.rpartition("token=")[2] for text in found]


def refuse_secrets(secrets: list[str]) -> None:
    """No row of the table has any of these, in any column."""
    with connection.cursor() as cursor:
        for secret in filter(None, secrets):
            cursor.execute(
                "SELECT count(*) FROM audit_entry e WHERE strpos(e::text, %s) > 0", [secret]
            )
            assert cursor.fetchone()[0] == 0, "a secret is in the audit log"


def test_the_system_is_recorded_where_no_one_asked(world):
    """As by the task that stops the jobs of users who were deactivated."""
    submitted(world)
    User.objects.filter(username="owner").update(is_active=False)
    assert stopping.stop_all() > 0
    entry = AuditEntry.objects.filter(action="job.stop").order_by("-id")[0]
    assert (entry.actor_kind, entry.actor_name, entry.vc_name) == ("system", "", "team")
