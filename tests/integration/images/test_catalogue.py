"""What the catalogue says of an image, who may change it, and what a registry says of it."""

from __future__ import annotations

import pytest
from tests.support.docker_registry import PASSWORD, USER
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster.models import Node
from skep_platform.images import credentials, inspection, rules
from skep_platform.images.models import Image
from skep_platform.jobs.submission import admission
from skep_platform.tenancy import limits

pytestmark = pytest.mark.django_db


@pytest.fixture
def vc_admin(vc) -> Api:
    ann = make_user("ann")
    vc.memberships.create(user=ann, role="admin")
    return Api(ann)


def test_a_vc_admin_keeps_images_for_the_own_virtual_cluster(vc_admin, vc, alice):
    body = {"name": "vision-ours", "reference": "vision/ours:1", "managed_by": "vision"}
    made = vc_admin.post("/images", body | {"framework": "PyTorch 2.9", "min_driver": "570.26"})
    assert made.status_code == 201
    assert made.json()["virtual_clusters"] == ["vision"]
    assert vc_admin.patch("/images/vision-ours", {"reference": "vision/ours:2"}).status_code == 200
    # It stays with its virtual cluster, whatever is asked for.
    make_vc("other")
    changed = vc_admin.patch("/images/vision-ours", {"virtual_clusters": []}).json()
    assert changed["virtual_clusters"] == ["vision"]
    assert Api(alice).get("/images/vision-ours").status_code == 200
    assert refusal(Api(alice).delete("/images/vision-ours")) == (403, "forbidden")
    assert vc_admin.delete("/images/vision-ours").status_code == 204


def test_19_a_name_that_is_taken_says_nothing_of_images_of_others(vc_admin, admin, vc):
    make_vc("other")
    body = {"name": "secret", "reference": "other/secret:1", "managed_by": "other"}
    assert admin.post("/images", body).status_code == 201
    for name in ("secret", "unknown"):
        answer = vc_admin.post("/images", body | {"name": name, "managed_by": "vision"})
        assert refusal(answer) == (400, "name_invalid")
    mine = body | {"name": "vision-x", "managed_by": "vision"}
    assert vc_admin.post("/images", mine).status_code == 201
    assert refusal(vc_admin.post("/images", mine)) == (409, "name_taken")
    assert refusal(vc_admin.patch("/images/vision-x", {"name": "secret"})) == (400, "name_invalid")
    # One that an admin named, or that is older, keeps its name while it changes.
    assert admin.patch("/images/vision-x", {"name": "x"}).status_code == 200
    changed = vc_admin.patch("/images/x", {"name": "x", "description": "ours"})
    assert changed.status_code == 200


def test_a_vc_admin_makes_none_for_others(vc_admin, alice):
    make_vc("other")
    body = {"name": "vision-y", "reference": "x:1"}
    assert refusal(vc_admin.post("/images", body)) == (403, "forbidden")
    assert refusal(vc_admin.post("/images", body | {"managed_by": "other"})) == (404, "not_found")
    mine = body | {"managed_by": "vision"}
    assert refusal(Api(alice).post("/images", mine)) == (403, "forbidden")
    assert refusal(vc_admin.post("/images", mine | {"min_driver": "new"})) == (
        400,
        "driver_invalid",
    )


def test_the_registry_says_digest_size_cuda_and_framework(admin, registry):
    digest = registry.put("team/known", layers=(1000, 234))
    admin_user = make_user("second", admin=True)
    credentials.store(admin_user, registry.address, USER, PASSWORD)
    body = {"name": "known", "reference": f"{registry.address}/team/known:1"}
    assert Api(admin_user).post("/images", body).json()["inspected_at"] is None
    found = admin.post("/images/known/inspect").json()
    assert (found["digest"], found["size"]) == (digest, 1234)
    assert (found["cuda_version"], found["framework"]) == ("12.8.1", "PyTorch 2.9.0")
    assert (found["problem"], found["inspected_at"] is None) == ("", False)
    # What was said of one reference is not said of another.
    admin.patch("/images/known", {"reference": f"{registry.address}/team/none:1"})
    assert admin.get("/images/known").json()["size"] is None
    assert inspection.inspect_due() == 1
    found = admin.get("/images/known").json()
    assert "is not in its registry" in found["problem"]
    assert inspection.inspect_due() == 0


def test_images_are_asked_for_no_longer_than_until_the_next_run(admin, registry, monkeypatch):
    for name in ("a", "b"):
        Image.objects.create(name=name, reference=f"{registry.address}/team/{name}:1")
    monkeypatch.setattr(inspection, "BUDGET_S", 0)
    assert [inspection.inspect_due() for _ in range(3)] == [1, 1, 0]


def test_28_the_catalogue_asks_with_no_credentials_of_others(admin, registry, vc, alice):
    registry.put("team/private")
    credentials.store(alice, registry.address, USER, PASSWORD)
    credentials.store(vc, registry.address, USER, PASSWORD)
    body = {"name": "private", "reference": f"{registry.address}/team/private:1"}
    assert admin.post("/images", body).status_code == 201
    assert "needs credentials" in admin.post("/images/private/inspect").json()["problem"]
    managed = body | {"name": "managed", "managed_by": "vision"}
    assert admin.post("/images", managed).status_code == 201
    assert admin.post("/images/managed/inspect").json()["size"] == 100


def test_an_image_that_needs_a_newer_driver_than_any_node_has_is_refused(alice, vc):
    make_node("gpu-1", gpus=8)
    make_node("gpu-2", gpus=8)
    Image.objects.create(name="torch", reference="torch:1", min_driver="570.26")
    file = job_file(vc)
    file["prerequisites"][0]["uri"] = "torch"

    def errors(*drivers: str) -> list[tuple[str, str]]:
        for name, driver in zip(("gpu-1", "gpu-2"), drivers, strict=True):
            Node.objects.filter(name=name).update(driver_version=driver)
        admission._remembered = (-1e9, None)
        answer = Api(alice).post("/jobs/check", file).json()
        return [(error["code"], error["path"]) for error in answer["errors"]]

    old = [("driver_too_old", "taskRoles.worker.dockerImage")]
    assert errors("535.216.01", "550.127.05") == old
    assert errors("535.216.01", "570.124.06") == []
    assert errors("535.216.01", "") == []  # not known is not too old
    errors("535.216.01", "550.127.05")
    refused = Api(alice).post("/jobs", file)
    assert refusal(refused) == (400, "driver_too_old")
    assert refused.json()["details"]["newest"] == "550.127.05"
    file["taskRoles"]["worker"]["resourcePerInstance"]["gpu"] = 0
    assert Api(alice).post("/jobs", file).status_code == 201


def test_an_image_can_be_tried_against_the_patterns(alice, vc):
    rules.replace(vc, ["vision/*", "other/train:*"])
    limits.set_limit(None, vc, "latest_images", 0)
    Image.objects.create(name="torch", reference="vision/torch:2")
    path = "/virtual-clusters/vision/image-rules/check?image="

    def said(image: str) -> tuple[bool, list[str]]:
        answer = Api(alice).get(path + image).json()
        assert answer["allowed"] == (answer["reason"] == "")
        return answer["allowed"], answer["patterns"]

    assert said("vision/train:1") == (True, ["vision/*"])
    assert said("torch") == (True, ["vision/*"])
    assert said("evil/miner:1") == (False, [])
    assert said("vision/train") == (False, ["vision/*"])
    assert refusal(Api(alice).get(path + "a b")) == (400, "reference_invalid")
    assert refusal(Api(make_user()).get(path + "x")) == (404, "not_found")


def test_an_image_that_no_node_has_the_driver_for_says_which_is_the_newest(admin, alice):
    body = {"name": "new", "reference": "x:1", "min_driver": "570.26"}
    assert admin.post("/images", body).json()["newest_driver"] == ""  # no node is known
    for name, driver in (("old", "535.9"), ("newer", "550.127.05")):
        make_node(name, gpus=1)
        Node.objects.filter(name=name).update(driver_version=driver)
    make_node("without-gpus", gpus=0)
    assert Api(alice).get("/images/new").json()["newest_driver"] == "550.127.05"
    Node.objects.filter(name="old").update(driver_version="570.30")
    assert Api(alice).get("/images/new").json()["newest_driver"] == ""
    Node.objects.filter(name="old").update(driver_version="")
    assert Api(alice).get("/images/new").json()["newest_driver"] == ""  # it may have it
