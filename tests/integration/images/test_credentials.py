"""Credentials for registries: who may store them, which job uses which, and where they are seen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from tests.support.jobs_world import job_file, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry
from skep_platform.core.models import Event
from skep_platform.images import credentials
from skep_platform.images.models import RegistryCredential
from skep_platform.jobs import services
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db

HOST = "registry.example.org"
PASSWORD = "pl4nted-S3cret"
MINE = f"/me/registry-credentials/{HOST}"


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


def login_of(user: User, vc: VirtualCluster, node: Any, uri: str, **auth: Any) -> tuple[str, str]:
    """Return what the node is sent to pull the image of a job of this user."""
    file = job_file(vc)
    file["prerequisites"][0] |= {"uri": uri, **({"auth": auth} if auth else {})}
    job = services.submit(user, json.dumps(file))
    tick()
    spec = next(s for s in desired_attempts(node.pk) if s.job_id == str(job.pk))
    return spec.image.username, spec.image.password


def test_a_user_stores_replaces_and_removes_credentials(alice):
    api = Api(alice)
    made = api.put(MINE, {"username": "robot", "password": PASSWORD})
    assert (made.status_code, made.json()["username"]) == (200, "robot")
    assert api.put(MINE, {"username": "robot$2", "password": " with blanks "}).status_code == 200
    (row,) = api.get("/me/registry-credentials").json()["results"]
    assert row.keys() == {"registry", "username", "created_at", "updated_at"}
    assert (row["registry"], row["username"]) == (HOST, "robot$2")
    assert api.delete(MINE).status_code == 204
    assert api.delete(MINE).status_code == 204
    assert api.get("/me/registry-credentials").json()["results"] == []


def test_28_credentials_of_one_user_are_seen_and_used_by_no_other(alice, vc, node):
    bob = make_user("bob")
    make_vc("other", quotas={"A100": 4}, members=[bob])
    Api(alice).put(MINE, {"username": "alice-robot", "password": PASSWORD})
    assert Api(bob).get("/me/registry-credentials").json()["results"] == []
    Api(bob).delete(MINE)
    assert login_of(alice, vc, node, f"{HOST}/train:1") == ("alice-robot", PASSWORD)
    other = VirtualCluster.objects.get(name="other")
    assert login_of(bob, other, node, f"{HOST}/train:1") == ("", "")


def test_the_job_file_goes_before_the_user_and_the_user_before_the_virtual_cluster(alice, vc, node):
    uri = f"{HOST}/train:1"
    credentials.store(vc, HOST, "team", "of-the-team")
    assert login_of(alice, vc, node, uri) == ("team", "of-the-team")
    credentials.store(alice, HOST, "alice", "of-alice")
    assert login_of(alice, vc, node, uri) == ("alice", "of-alice")
    auth = {"username": "file", "password": "of-the-file"}
    assert login_of(alice, vc, node, uri, **auth) == ("file", "of-the-file")


@pytest.mark.parametrize(
    "uri",
    [
        "registry.example.org:5000/train:1",
        "evil.registry.example.org/train:1",
        "registry.example.org.evil.example/train:1",
        "evil.example/registry.example.org/train:1",
        "train:1",
    ],
)
def test_28_a_password_goes_to_its_own_registry_only(alice, vc, node, uri):
    credentials.store(alice, HOST, "alice", PASSWORD)
    credentials.store(vc, HOST, "team", PASSWORD)
    assert login_of(alice, vc, node, uri) == ("", "")


@pytest.mark.parametrize("name", ["docker.io", "index.docker.io", "https://index.docker.io/v1/"])
@pytest.mark.parametrize("uri", ["train:1", "team/train", "docker.io/team/train:1"])
def test_docker_hub_has_one_name(alice, vc, node, name, uri):
    credentials.store(alice, name, "alice", PASSWORD)
    assert login_of(alice, vc, node, uri) == ("alice", PASSWORD)


def test_27_the_password_is_in_no_row_no_event_and_no_answer(alice, vc, admin):
    make_vc("own", vc_admins=[alice])
    api = Api(alice)
    team = f"/virtual-clusters/own/registry-credentials/{HOST}"
    for path in (MINE, team):
        answer = api.put(path, {"username": "robot", "password": PASSWORD})
        shown = answer.content + api.get(path.rpartition("/")[0]).content
        assert PASSWORD not in shown.decode()
    for row in RegistryCredential.objects.all():
        assert PASSWORD not in f"{row!r} {row.username} {bytes(row.sealed)!r}"
    entries = AuditEntry.objects.filter(action="registry_credential.set")
    assert {entry.vc_name for entry in entries} == {"", "own"}
    assert PASSWORD not in str(list(entries.values())) + str(list(Event.objects.values()))
    assert PASSWORD not in repr(credentials.read([alice.pk], []))


def test_28_a_sealed_password_moved_to_another_registry_does_not_open(alice, vc, node):
    """Who can write the rows, but has no key, cannot have a password sent to a host of his own."""
    credentials.store(alice, HOST, "alice", PASSWORD)
    RegistryCredential.objects.update(registry="evil.example")
    assert login_of(alice, vc, node, "evil.example/train:1") == ("", "")


def test_a_password_that_no_key_opens_stops_no_job(alice, vc, node):
    credentials.store(alice, HOST, "alice", PASSWORD)
    RegistryCredential.objects.update(sealed=b"of another key")
    assert login_of(alice, vc, node, f"{HOST}/train:1") == ("", "")
    assert login_of(alice, vc, node, "train:1") == ("", "")


@pytest.mark.parametrize(
    "registry", ["plain", "a b.example", "-x.example", "x.example:", "ü.example"]
)
def test_a_name_that_no_reference_can_have_is_refused(alice, registry):
    answer = Api(alice).put(
        f"/me/registry-credentials/{registry}", {"username": "u", "password": "p"}
    )
    assert refusal(answer) == (400, "registry_invalid")


@pytest.mark.parametrize(
    "registry", ["127.0.0.1:5000", "localhost:5000", "169.254.169.254", "2130706433:80"]
)
def test_16_a_private_address_is_refused_as_for_images(alice, registry):
    answer = Api(alice).put(
        f"/me/registry-credentials/{registry}", {"username": "u", "password": "p"}
    )
    assert refusal(answer) == (400, "registry_not_allowed")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"username": "a:b", "password": "p"}, "username"),
        ({"username": "a", "password": "p\0"}, "password"),
    ],
)
def test_credentials_that_cannot_be_sent_are_refused(alice, body, field):
    answer = Api(alice).put(MINE, body)
    assert answer.status_code == 400
    assert field in json.dumps(answer.json()["details"])
    assert not RegistryCredential.objects.exists()


def test_31_a_user_stores_a_bounded_number(alice, monkeypatch):
    monkeypatch.setattr(credentials, "MAX_CREDENTIALS", 2)
    api, body = Api(alice), {"username": "u", "password": "p"}
    for name in ("a.example", "b.example", "a.example"):
        assert api.put(f"/me/registry-credentials/{name}", body).status_code == 200
    third = api.put("/me/registry-credentials/c.example", body)
    assert refusal(third) == (409, "too_many_credentials")


def test_they_go_with_their_holder(alice, vc):
    team = make_vc("own")
    credentials.store(team, HOST, "team", PASSWORD)
    team.delete()
    assert not RegistryCredential.objects.exists()


def test_a_credential_has_one_holder(alice, vc):
    for holders in ({}, {"user": alice, "vc": vc}):
        with pytest.raises(IntegrityError), transaction.atomic():
            RegistryCredential.objects.create(registry=HOST, username="u", sealed=b"", **holders)
