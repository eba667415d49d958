"""The API token of a job (`extras.skep.apiToken`), and the jobs that are submitted with it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone
from tests.support.jobs_world import attempts_of, job_file, report, state_of, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_agent.protocol import AttemptSpec
from skep_platform.accounts.models import ApiToken
from skep_platform.audit.models import AuditEntry
from skep_platform.gateway.callers import Credential
from skep_platform.jobs import services
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.models import Job, JobApiToken
from skep_platform.jobs.submission.followers import forget_tokens
from skep_platform.tenancy import limits
from skep_platform.tenancy.models import Visibility

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


def started(owner: Any, vc: Any, node: Any, asked: Any = True, **fields: Any) -> AttemptSpec:
    """What the node is sent of a job that asks for a token."""
    job = services.submit(owner, json.dumps(job_file(vc, skep={"apiToken": asked}, **fields)))
    assert str(job.pk) in tick()
    return next(spec for spec in desired_attempts(node.pk) if spec.job_id == str(job.pk))


def inside(spec: AttemptSpec) -> Api:
    """A program in the container."""
    program = Api()
    token = spec.secret_env["SKEP_TOKEN"]
    program.client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return program


def evicted(spec: AttemptSpec) -> None:
    """It leaves its node and is placed again."""
    job = Job.objects.get(pk=spec.job_id)
    report(attempts_of(job), "running")
    with transaction.atomic():
        preempting.evict([job.pk], "Node gpu-1 is being drained.", timezone.now())
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    assert str(job.pk) in tick()


def ended(spec: AttemptSpec) -> None:
    job = Job.objects.get(pk=spec.job_id)
    report(attempts_of(job), "running", "exited", "released")
    assert state_of(job) == "SUCCEEDED"


def test_a_job_submits_its_follower(alice, vc, node):
    spec = started(alice, vc, node)
    answer = inside(spec).post("/jobs", job_file(vc, name="next", skep={"apiToken": True}))
    assert answer.status_code == 201, answer.content
    follower = answer.json()
    assert follower["owner"] == "alice"
    assert follower["parent"] == {"id": spec.job_id, "name": spec.job_name}
    assert (follower["api_token"], follower["virtual_cluster"]) == ("submit", "vision")
    row = Job.objects.get(pk=follower["id"])
    assert (row.depth, str(row.root_id)) == (1, spec.job_id)
    entry = AuditEntry.objects.get(action="job.submit", target_id=follower["id"])
    assert (entry.actor_name, entry.token_name) == ("alice", f"job {spec.job_name}")
    assert (entry.token_scope, entry.facts["parent"]) == ("submit", spec.job_id)


def test_a_follower_that_names_no_virtual_cluster_is_in_that_of_the_job(alice, vc, node):
    make_vc("other", members=[alice])
    file = job_file(vc, name="next")
    del file["defaults"]
    answer = inside(started(alice, vc, node)).post("/jobs", file)
    assert answer.json()["virtual_cluster"] == "vision"


@pytest.mark.parametrize("asked", [False, None])
def test_a_job_that_does_not_ask_has_no_token(alice, vc, node, asked):
    skep = {} if asked is None else {"apiToken": asked}
    services.submit(alice, json.dumps(job_file(vc, skep=skep)))
    tick()
    (spec,) = desired_attempts(node.pk)
    assert "SKEP_TOKEN" not in spec.secret_env
    assert "SKEP_URL" not in spec.env
    assert not ApiToken.objects.exists()


def test_27_the_token_is_a_secret_of_the_container_and_in_no_row(alice, vc, node, settings):
    settings.SKEP_PUBLIC_URL = "https://skep.example.org/"
    spec = started(alice, vc, node)
    token = spec.secret_env["SKEP_TOKEN"]
    assert spec.env["SKEP_URL"] == "https://skep.example.org"
    assert token in spec.masks
    assert token not in json.dumps(spec.env) + spec.command + repr(spec)
    assert token not in str(Api(alice).get(f"/jobs/{spec.job_id}").json())
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            if table.startswith(("jobs_", "accounts_", "audit_", "core_")):
                cursor.execute(
                    f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s', [f"%{token[8:]}%"]
                )
                assert cursor.fetchone() == (0,), table


def test_29_the_token_ends_with_its_job_and_not_before(alice, vc, node):
    spec = started(alice, vc, node)
    program = inside(spec)
    assert program.get("/jobs").status_code == 200
    evicted(spec)
    (again,) = desired_attempts(node.pk)
    assert again.attempt_id != spec.attempt_id
    assert again.secret_env["SKEP_TOKEN"] == spec.secret_env["SKEP_TOKEN"]
    assert program.get("/jobs").status_code == 200
    assert forget_tokens() == 0
    ended(spec)
    assert refusal(program.get("/jobs")) == (401, "authentication_failed")
    assert refusal(program.post("/jobs", job_file(vc))) == (401, "authentication_failed")
    assert forget_tokens() == 1
    assert not JobApiToken.objects.exists()


@pytest.mark.parametrize("what", ["deactivated", "revoked"])
def test_the_token_ends_when_its_owner_is_deactivated_or_an_admin_revokes_it(alice, vc, node, what):
    program = inside(started(alice, vc, node))
    admin = Api(make_user("root", admin=True))
    if what == "deactivated":
        assert admin.patch("/users/alice", {"is_active": False}).status_code == 200
    else:
        (row,) = admin.get("/tokens", user="alice").json()["results"]
        assert (row["kind"], row["expires_at"]) == ("job", None)
        assert admin.delete(f"/tokens/{row['id']}").status_code == 204
    assert program.get("/jobs").status_code == 401


def test_a_read_token_reads_and_submits_nothing(alice, vc, node):
    program = inside(started(alice, vc, node, {"scope": "read"}))
    assert program.get("/jobs").status_code == 200
    assert refusal(program.post("/jobs", job_file(vc))) == (403, "scope_too_small")


@pytest.mark.parametrize("rank", ["member", "VC admin", "admin"])
def test_whoever_owns_the_job_its_token_is_that_of_a_member_of_its_vc(node, rank):
    """It sees and submits in the virtual cluster of the job only, with the priorities of a
    member."""
    owner = make_user("owner", admin=rank == "admin")
    people = {"member": {"members": [owner]}, "VC admin": {"vc_admins": [owner]}}.get(rank, {})
    vc = make_vc("vision", quotas={"A100": 8}, **people)
    other = make_vc("other", vc_admins=[owner])
    spec = started(owner, vc, node)
    program, mate = inside(spec), make_user("mate")
    seen = {
        "elsewhere": make_job(other, owner),
        "hidden": make_job(vc, mate),
        "shared": make_job(vc, mate, visibility=Visibility.MEMBERS),
        "open elsewhere": make_job(other, mate, visibility=Visibility.EVERYONE),
    }
    listed = {row["id"] for row in program.get("/jobs").json()["results"]}
    shared = {str(seen["shared"].pk)} if rank != "admin" else set()  # no member of it
    assert listed == {spec.job_id} | shared
    assert program.get("/jobs/count").json()["total"] == len(listed)
    for name, job in seen.items():
        found = program.get(f"/jobs/{job.pk}").status_code
        assert found == (200 if str(job.pk) in listed else 404), name
    elsewhere = program.post("/jobs", job_file(other))
    assert refusal(elsewhere) == (404, "unknown_virtual_cluster")
    urgent = program.post("/jobs", job_file(vc, skep={"priority": 500}))
    assert refusal(urgent) == (400, "priority_too_high")
    assert program.post("/jobs", job_file(vc)).status_code == 201
    assert refusal(program.post(f"/jobs/{seen['shared'].pk}/stop"))[0] in (403, 404)


def test_the_token_opens_no_socket(alice, vc, node):
    token = started(alice, vc, node).secret_env["SKEP_TOKEN"]
    assert Credential(token, "").user() is None


def test_a_clone_gets_a_token_of_its_own(alice, vc, node):
    spec = started(alice, vc, node)
    clone = Api(alice).post(f"/jobs/{spec.job_id}/clone").json()
    assert clone["parent"] is None
    tick()
    tokens = {each.job_id: each.secret_env["SKEP_TOKEN"] for each in desired_attempts(node.pk)}
    assert len(tokens) == len(set(tokens.values())) == 2
    by_itself = inside(spec).post(f"/jobs/{spec.job_id}/clone").json()
    assert by_itself["parent"]["id"] == spec.job_id


def test_followers_are_bounded_in_depth_and_number(alice, vc, node):
    limits.set_limit(None, vc, "follower_depth", 1)
    limits.set_limit(None, vc, "followers", 2)
    first = started(alice, vc, node)
    second = inside(first).post("/jobs", job_file(vc, skep={"apiToken": True})).json()
    tick()
    spec = next(s for s in desired_attempts(node.pk) if s.job_id == second["id"])
    third = inside(spec).post("/jobs", job_file(vc))
    assert refusal(third) == (409, "followers_too_deep")
    details = {"limit": "follower_depth", "now": 1, "most": 1, "virtual_cluster": "vision"}
    assert third.json()["details"] == details
    assert inside(first).post("/jobs", job_file(vc)).status_code == 201
    fourth = inside(first).post("/jobs", job_file(vc))
    assert refusal(fourth) == (409, "too_many_followers")
    assert fourth.json()["details"]["now"] == fourth.json()["details"]["most"] == 2
    assert Api(alice).post("/jobs", job_file(vc)).status_code == 201


def test_a_job_whose_first_one_is_in_the_archive_still_has_followers(alice, vc, node):
    limits.set_limit(None, vc, "follower_depth", 10)
    limits.set_limit(None, vc, "followers", 2)
    second = started(alice, vc, node)
    Job.objects.filter(pk=second.job_id).update(root_id=uuid4(), depth=1)  # years later
    third = inside(second).post("/jobs", job_file(vc))
    assert third.status_code == 201, third.content
    made = Job.objects.get(pk=third.json()["id"])
    assert (str(made.parent_id), made.depth) == (second.job_id, 2)
    fourth = inside(second).post("/jobs", job_file(vc))
    assert refusal(fourth) == (409, "too_many_followers")
