"""Which images the jobs of a virtual cluster may use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user

from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry
from skep_platform.images import rules
from skep_platform.images.models import Image
from skep_platform.tenancy import limits
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
PATH = "/virtual-clusters/vision/image-rules"


def submit(user: User, vc: VirtualCluster, uri: str) -> Any:
    file = job_file(vc)
    file["prerequisites"][0]["uri"] = uri
    return Api(user).post("/jobs", file)


def check(user: User, vc: VirtualCluster, uri: str) -> list[tuple[str, str]]:
    file = job_file(vc)
    file["prerequisites"][0]["uri"] = uri
    answer = Api(user).post("/jobs/check", file).json()
    return [(error["code"], error["path"]) for error in answer["errors"]]


@pytest.mark.parametrize(
    ("pattern", "reference", "allowed"),
    [
        ("vision/*", "vision/train:1", True),
        ("vision/*", "docker.io/vision/train:1", True),
        ("docker.io/vision/*", "vision/train", True),
        ("index.docker.io/vision/*", "vision/train", True),
        ("vision/*", "registry.example/vision/train:1", False),
        ("vision/*", "vision.example/train:1", False),
        ("python", "library/python:3", True),
        ("python", "docker.io/library/python@" + DIGEST, True),
        ("python:3.*", "python:3.12", True),
        ("python:3.*", "python", False),
        ("python:latest", "python", True),
        ("registry.example/*", "registry.example/a/b/c:1", True),
        ("registry.example/*", "Registry.Example/a:1", True),
        ("Registry.Example/*", "registry.example/a:1", True),
        ("registry.example/*", "registry.example:5000/a:1", False),
        ("registry.example/*", "registry.example.evil/a:1", False),
        ("registry.example:5000/a", "registry.example:5000/a:1", True),
        ("registry.example/x@" + DIGEST, "registry.example/x@" + DIGEST, True),
        ("registry.example/x@" + DIGEST, "registry.example/x:1@" + DIGEST, True),
        ("registry.example/x@" + DIGEST, "registry.example/x@" + OTHER, False),
        ("registry.example/x@" + DIGEST, "registry.example/x:1", False),
        # The engine ignores the tag of a reference that has a digest.
        ("registry.example/x:1", "registry.example/x:1@" + OTHER, False),
        ("*", "anything/at/all", True),
    ],
)
def test_28_what_a_pattern_allows(pattern, reference, allowed):
    assert rules.allows([pattern], reference) == allowed


@pytest.mark.parametrize(
    ("reference", "latest"),
    [
        ("python", True),
        ("python:latest", True),
        ("registry.example:5000/python", True),
        ("python:3", False),
        ("python@" + DIGEST, False),
        ("python:latest@" + DIGEST, False),
        ("registry.example:5000/python:3", False),
    ],
)
def test_what_the_tag_latest_is(reference, latest):
    assert rules.is_latest(reference) == latest


def test_a_job_with_another_image_is_refused_with_the_field_and_the_patterns(alice, vc):
    rules.replace(vc, ["vision/*", f"registry.example/x@{DIGEST}"])
    assert submit(alice, vc, "vision/train:1").status_code == 201
    assert submit(alice, vc, f"registry.example/x@{DIGEST}").status_code == 201
    refused = submit(alice, vc, "evil/miner:1")
    assert refusal(refused) == (400, "image_not_allowed")
    details = refused.json()["details"]
    assert details["image"] == "evil/miner:1"
    assert details["patterns"] == [f"registry.example/x@{DIGEST}", "vision/*"]
    assert check(alice, vc, "evil/miner:1") == [("image_not_allowed", "prerequisites[0].uri")]
    rules.replace(vc, [])
    assert submit(alice, vc, "evil/miner:1").status_code == 201


def test_28_a_clone_is_checked_too(alice, vc):
    made = submit(alice, vc, "vision/train:1").json()
    rules.replace(vc, ["other/*"])
    answer = Api(alice).post(f"/jobs/{made['id']}/clone", {"name": "again"})
    assert refusal(answer) == (400, "image_not_allowed")


def test_a_name_of_the_catalogue_is_checked_by_what_it_stands_for(alice, vc):
    Image.objects.create(name="good", reference="vision/train:1")
    Image.objects.create(name="evil", reference="evil/miner:1")
    rules.replace(vc, ["vision/*", "evil"])
    assert submit(alice, vc, "good").status_code == 201
    assert refusal(submit(alice, vc, "evil")) == (400, "image_not_allowed")


def test_the_tag_latest_is_refused_on_wish(alice, vc):
    assert submit(alice, vc, "python").status_code == 201
    limits.set_limit(None, vc, "latest_images", 0)
    assert refusal(submit(alice, vc, "python")) == (400, "image_latest_not_allowed")
    assert refusal(submit(alice, vc, "a/b:latest")) == (400, "image_latest_not_allowed")
    assert submit(alice, vc, "python:3.12").status_code == 201


def test_members_read_the_patterns_and_vc_admins_change_them(alice, vc):
    boss = make_user("boss", admin=True)
    body = {"patterns": ["b/*", "a/*", "a/*"]}
    assert Api(boss).put(PATH, body).json() == {"patterns": ["a/*", "b/*"]}
    assert Api(alice).get(PATH).json() == {"patterns": ["a/*", "b/*"]}
    assert refusal(Api(alice).put(PATH, body)) == (403, "forbidden")
    entry = AuditEntry.objects.get(action="vc.image_rules.update", outcome="done")
    assert (entry.actor_name, entry.vc_name) == ("boss", "vision")
    assert (entry.before, entry.after) == ({"patterns": []}, {"patterns": ["a/*", "b/*"]})


@pytest.mark.parametrize(
    "pattern", ["", "a b", "/a", "[a]/b", "a?b", "a\nb", "*" * 9, "a" * 513, "../x\0"]
)
def test_31_a_pattern_that_is_none_is_refused(vc, admin, pattern):
    assert admin.put(PATH, {"patterns": [pattern]}).status_code == 400
    assert rules.of(vc) == []


def test_31_the_number_of_patterns_is_bounded(vc, admin):
    answer = admin.put(PATH, {"patterns": [f"a{n}/*" for n in range(101)]})
    assert refusal(answer) == (400, "too_many_image_patterns")
