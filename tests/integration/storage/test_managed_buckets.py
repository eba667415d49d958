"""Buckets that VC admins add for their own virtual cluster, and what these may not do."""

from __future__ import annotations

import pytest
from tests.integration.storage.test_buckets import ACCESS, DATA, SECRET, copies_of
from tests.integration.storage.test_job_storages import file_with, submitted
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform import env_settings
from skep_platform.audit.models import AuditEntry
from skep_platform.storage import services
from skep_platform.storage.models import Storage

pytestmark = pytest.mark.django_db
BODY = {
    "name": "vision-sets",
    "type": "s3",
    "data": DATA,
    "access_key": ACCESS,
    "secret_key": SECRET,
    "managed_by": "vision",
}


@pytest.fixture(autouse=True)
def _stores(settings):
    settings.SKEP_VC_OBJECT_STORES = [DATA["endpoint"]]


@pytest.fixture
def ann(vc) -> Api:
    """A VC admin of vision."""
    user = make_user("ann")
    vc.memberships.create(user=user, role="admin")
    return Api(user)


def test_a_vc_admin_adds_changes_and_removes_a_bucket_of_the_team(ann, alice, vc, node):
    made = ann.post("/storages", BODY)
    assert made.status_code == 201, made.content
    seen = made.json()
    assert seen["grants"] == [{"virtual_cluster": "vision", "read_only": False}]
    assert (seen["managed_by"], seen["may_change"], seen["has_keys"]) == ("vision", True, True)
    assert seen["data"] == DATA
    (copy,) = copies_of(submitted(alice, file_with(vc, "vision-sets")))
    assert (copy.bucket, copy.access_key, copy.read_only) == ("sets", ACCESS, False)

    assert ann.put("/storages/vision-sets/grants/vision", {"read_only": True}).status_code == 200
    changed = ann.patch("/storages/vision-sets", {"data": DATA | {"prefix": "dogs"}})
    assert changed.json()["data"]["prefix"] == "dogs"
    # Who only runs jobs learns neither the place nor the keys, and changes nothing.
    member = Api(alice)
    (row,) = member.get("/storages").json()["results"]
    assert (row["data"], row["has_keys"], row["may_change"]) == ({}, False, False)
    assert refusal(member.delete("/storages/vision-sets")) == (403, "forbidden")
    assert refusal(member.patch("/storages/vision-sets", {})) == (403, "forbidden")
    assert ann.delete("/storages/vision-sets").status_code == 204
    entries = AuditEntry.objects.filter(target_type="storage", vc_id=vc.pk).order_by("id")
    assert list(entries.values_list("action", "actor_name")) == [
        (f"storage.{action}", "ann")
        for action in ("create", "grant.set", "grant.set", "update", "delete")
    ]


def test_02_a_vc_admin_names_no_place_that_nodes_open_with_rights_of_their_own(ann):
    for kind, data in (
        ("nfs", {"server": "nfs.example.org", "path": "/exports/other"}),
        ("host_path", {"path": "/srv/other"}),
    ):
        body = {"name": "vision-x", "type": kind, "data": data}
        managed = ann.post("/storages", body | {"managed_by": "vision"})
        assert refusal(managed) == (400, "storage_type_invalid")
        assert refusal(ann.post("/storages", body)) == (403, "forbidden")
    unsigned = BODY | {"access_key": "", "secret_key": ""}
    assert refusal(ann.post("/storages", unsigned)) == (400, "storage_keys_needed")
    assert not Storage.objects.exists()


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example.org",
        "http://s3.example.org",
        "https://s3.example.org:9000",
        "http://10.0.0.7:9000",
    ],
)
def test_16_a_vc_admin_adds_buckets_of_listed_stores_only(ann, admin, endpoint):
    elsewhere = BODY | {"data": DATA | {"endpoint": endpoint}}
    answer = ann.post("/storages", elsewhere)
    assert refusal(answer) == (400, "storage_endpoint_not_allowed")
    assert DATA["endpoint"] in answer.json()["message"]
    # Nor does a bucket move there later, and an admin is not bound by the list.
    assert ann.post("/storages", BODY).status_code == 201
    moved = {key: elsewhere[key] for key in ("data", "access_key", "secret_key")}
    answer = ann.patch("/storages/vision-sets", moved)
    assert refusal(answer) == (400, "storage_endpoint_not_allowed")
    forgotten = {"access_key": "", "secret_key": ""}
    assert refusal(ann.patch("/storages/vision-sets", forgotten)) == (400, "storage_keys_needed")
    assert Storage.objects.get().data == DATA
    assert admin.post("/storages", elsewhere | {"name": "vision-far"}).status_code == 201


def test_without_a_list_there_is_no_store_for_vc_admins(ann, settings):
    settings.SKEP_VC_OBJECT_STORES = []
    answer = ann.post("/storages", BODY)
    assert refusal(answer) == (400, "storage_endpoint_not_allowed")
    assert "none yet" in answer.json()["message"]
    listed = env_settings.object_stores("https://S3.example.org/, http://minio:9000")
    assert listed == ["https://s3.example.org", "http://minio:9000"]
    with pytest.raises(ValueError, match="'minio'"):
        env_settings.object_stores("minio")


def test_19_a_bucket_of_a_team_reaches_no_other_and_only_its_vc_admins_change_it(ann, admin, vc):
    bob, mei = make_user("bob"), make_user("mei")
    make_vc("other", members=[mei]).memberships.create(user=bob, role="admin")
    stranger = Api(bob)
    assert refusal(stranger.post("/storages", BODY)) == (404, "not_found")
    assert ann.post("/storages", BODY).status_code == 201
    assert stranger.get("/storages").json()["results"] == []
    assert refusal(stranger.delete("/storages/vision-sets")) == (404, "storage_not_found")
    # Mounted by default in jobs of others, it would bring files that ann chose.
    admin.post("/groups", {"name": "research"})
    for path in ("grants/other", "groups/research"):
        assert refusal(ann.put(f"/storages/vision-sets/{path}", {})) == (403, "forbidden")
        assert refusal(ann.delete(f"/storages/vision-sets/{path}")) == (403, "forbidden")
    # An admin may lend it, and what manages it is not said to those who are not in it.
    assert admin.put("/storages/vision-sets/grants/other", {}).status_code == 200
    (seen,) = Api(mei).get("/storages").json()["results"]
    assert (seen["managed_by"], seen["may_change"], seen["data"]) == ("", False, {})
    assert seen["grants"] == [{"virtual_cluster": "other", "read_only": False}]
    assert refusal(stranger.patch("/storages/vision-sets", {})) == (403, "forbidden")
    # Who is no VC admin any more changes nothing; the bucket stays.
    vc.memberships.filter(user__username="ann").update(role="member")
    assert refusal(ann.patch("/storages/vision-sets", {})) == (403, "forbidden")


def test_19_names_and_places_say_nothing_of_storages_of_others(ann, admin):
    private = {key: BODY[key] for key in ("type", "data", "access_key", "secret_key")}
    hidden = private | {"name": "hidden", "per_user": True}
    assert admin.post("/storages", hidden).status_code == 201
    answer = ann.post("/storages", BODY | {"name": "hidden"})
    assert refusal(answer) == (400, "name_invalid")
    assert refusal(ann.post("/storages", BODY | {"name": "unknown"})) == (400, "name_invalid")
    # The same bucket, with keys of their own: their store decides what these open.
    assert ann.post("/storages", BODY).status_code == 201
    assert refusal(ann.post("/storages", BODY)) == (409, "name_taken")
    beside = BODY | {"name": "vision-users", "per_user": True}
    assert refusal(ann.post("/storages", beside)) == (409, "storage_overlaps")


def test_31_a_virtual_cluster_manages_so_many_storages_and_they_go_with_it(ann, admin, monkeypatch):
    monkeypatch.setattr(services, "MAX_MANAGED", 1)
    assert ann.post("/storages", BODY).status_code == 201
    second = ann.post("/storages", BODY | {"name": "vision-more"})
    assert refusal(second) == (409, "too_many_storages")
    assert admin.delete("/virtual-clusters/vision").status_code == 204
    assert not Storage.objects.exists()
