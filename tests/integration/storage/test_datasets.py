"""Datasets: who makes, sees and mounts which, and what a node is asked to mount."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.storage.test_job_storages import (
    grant_to_group,
    mounts_of,
    refused,
    storage,
    submitted,
)
from tests.support.jobs_world import attempts_of, job_file
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    make_gpus,
    make_hello,
    make_inventory,
    make_job,
    make_user,
    make_vc,
)

from skep_agent.protocol import INNER_MOUNTS
from skep_platform.accounts import services as accounts
from skep_platform.cluster import services as cluster
from skep_platform.jobs.containers import desired
from skep_platform.storage import datasets, services
from skep_platform.storage.models import Dataset, Storage
from skep_platform.tenancy.models import Membership, Role

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


@pytest.fixture
def root():
    return make_user("root", admin=True)


def member(vc: Any, name: str, role: str = Role.MEMBER) -> Any:
    user = make_user(name)
    Membership.objects.create(vc=vc, user=user, role=role)
    return user


def made(user: Any, vc: Any, name: str = "cats", **fields: Any) -> Any:
    body = {"virtual_cluster": vc.name, "name": name, "storage": "data", "path": "sets/cats"}
    return Api(user).post("/datasets", body | fields)


def file_with(vc: Any, *sets: Any) -> dict[str, Any]:
    file = job_file(vc)
    file["extras"]["skep"] = {"datasets": list(sets)}
    return file


def test_versions_are_numbered_listed_described_and_removed(root, alice, vc):
    storage(root, "data", vc)
    one, two = made(alice, vc), made(alice, vc, path="/sets//cats-2/", description="More")
    named = made(alice, vc, version="2026.11")
    assert [answer.json()["version"] for answer in (one, two, named)] == ["1", "2", "2026.11"]
    assert (two.json()["path"], two.json()["owner"]) == ("sets/cats-2", "alice")
    api = Api(alice)
    rows = api.get("/datasets", name="cats", virtual_cluster=vc.name).json()["results"]
    assert [row["version"] for row in rows] == ["2026.11", "2", "1"]
    at = f"/datasets/{two.json()['id']}"
    assert api.patch(at, {"description": "All"}).json()["description"] == "All"
    for field in ("version", "path", "storage", "name"):
        assert refusal(api.patch(at, {"description": "", field: "x"})) == (400, "invalid")
    assert refusal(made(alice, vc, version="2")) == (409, "dataset_version_taken")
    assert api.delete(at).status_code == 204
    assert refusal(api.get(at)) == (404, "dataset_not_found")
    assert made(alice, vc).json()["version"] == "2"


@pytest.mark.parametrize(
    ("search", "found"),
    [("CAT", ["cats", "dogs"]), ("dogs ALICE", ["dogs"]), ("no cats", []), ("2026", ["cats"])],
)
def test_datasets_are_searched_by_words_of_what_their_list_shows(root, alice, vc, search, found):
    storage(root, "data", vc)
    made(alice, vc, "cats", version="2026.11")
    made(alice, vc, "dogs", description="Without a cat")
    rows = Api(alice).get("/datasets", search=search).json()["results"]
    assert sorted(row["name"] for row in rows) == found


def test_19_dataset_is_known_to_its_virtual_cluster_alone(root, alice, vc):
    other = make_vc("other", quotas={"A100": 8})
    bob, eve, boss = member(vc, "bob"), member(other, "eve"), member(vc, "boss", Role.ADMIN)
    storage(root, "data", vc, other)
    at = f"/datasets/{made(alice, vc).json()['id']}"
    assert Api(bob).get(at).json()["may_change"] is False
    assert refusal(Api(bob).patch(at, {"description": "x"})) == (403, "may_not_change_dataset")
    assert refusal(Api(bob).delete(at)) == (403, "may_not_change_dataset")
    assert refusal(Api(eve).get(at)) == (404, "dataset_not_found")
    assert Api(eve).get("/datasets").json()["results"] == []
    assert refusal(Api(eve).post("/jobs", file_with(other, "cats"))) == (404, "dataset_not_found")
    assert refusal(made(eve, vc)) == (404, "not_found")
    assert Api(boss).delete(at).status_code == 204


def test_dataset_is_made_of_what_its_maker_may_read(root, alice, vc):
    storage(root, "data", vc)
    storage(root, "secret", make_vc("other"))
    viewer = member(vc, "viewer", Role.VIEWER)
    assert refusal(made(viewer, vc)) == (403, "may_not_submit")
    assert refusal(made(alice, vc, storage="secret")) == (404, "storage_not_found")
    for path in ("..", "a/../b", "a b", "a,b"):
        assert refusal(made(alice, vc, path=path)) == (400, "storage_path_invalid")
    assert refusal(made(alice, vc, name="a/b")) == (400, "name_invalid")
    assert refusal(made(alice, vc, version="a@b")) == (400, "version_invalid")
    assert not Dataset.objects.exists()


def test_dataset_lies_in_a_storage_that_its_virtual_cluster_or_a_group_may_mount(root, alice, vc):
    other = make_vc("other", members=[alice])
    place = storage(root, "data", vc)
    assert refusal(made(alice, other)) == (403, "storage_forbidden")
    assert refusal(made(root, other)) == (403, "storage_forbidden")
    grant_to_group(root, place, alice, read_only=True)
    assert made(alice, other).status_code == 201


def test_files_are_counted_and_a_folder_that_is_not_there_is_refused(
    root, alice, vc, settings, tmp_path: Path
):
    settings.SKEP_STORAGE_FILES = str(tmp_path)
    (tmp_path / "data" / "sets" / "cats").mkdir(parents=True)
    (tmp_path / "data" / "sets" / "cats" / "one").write_text("1234")
    storage(root, "data", vc)
    assert {k: made(alice, vc).json()[k] for k in ("size", "files")} == {"size": 4, "files": 1}
    assert refusal(made(alice, vc, path="nowhere")) == (404, "file_not_found")
    assert refusal(made(alice, vc, path="sets/cats/one")) == (400, "not_a_folder")


def test_outputs_of_a_job_become_a_dataset(root, alice, vc):
    bob = member(vc, "bob")
    storage(root, "data", vc)
    job = make_job(vc, alice, name="train")
    found = made(alice, vc, path="runs/1", job=str(job.pk)).json()
    assert (found["job_id"], found["job_name"]) == (str(job.pk), "train")
    assert refusal(made(bob, vc, job=str(job.pk))) == (404, "not_found")


def test_job_finds_its_datasets_to_read(root, alice, vc, node):
    storage(root, "data", vc)
    for path in ("sets/1", "sets/2"):
        made(alice, vc, path=path)
    made(alice, vc, "all", path="")
    job = submitted(alice, file_with(
        vc, "cats", {"name": "cats@1", "mountPath": "/old//cats/"}, "all@1"))  # fmt: skip
    assert [(m.path, m.inner, m.target, m.read_only) for m in mounts_of(job)] == [
        ("/srv/data/sets/2", 2, "/datasets/cats", True),
        ("/srv/data/sets/1", 2, "/old/cats", True),
        ("/srv/data", 0, "/datasets/all", True),
    ]
    assert [row.name for row in job.storages.order_by("pk")] == ["cats@2", "cats@1", "all@1"]


def test_own_folder_of_a_user_is_shared_as_a_dataset(root, alice, vc, node):
    """Bob's job reads that one folder of Alice's, and nothing else of hers."""
    bob = member(vc, "bob")
    storage(root, "data", vc, per_user=True)
    assert made(alice, vc).json()["path"] == "alice/sets/cats"
    (mount,) = mounts_of(submitted(bob, file_with(vc, "cats")))
    assert (mount.path, mount.inner, mount.user_folder, mount.read_only) == (
        *("/srv/data/alice/sets/cats", 3, "", True),
    )


def test_02_folders_of_users_are_never_set_up_below_a_dataset_of_the_whole(root, alice, vc):
    storage(root, "data", vc)
    found = made(alice, vc).json()
    admin = Api(root)
    answer = admin.patch("/storages/data", {"per_user": True})
    assert refusal(answer) == (409, "storage_has_datasets")
    assert admin.patch("/storages/data", {"description": "Ours"}).status_code == 200
    assert Api(alice).delete(f"/datasets/{found['id']}").status_code == 204
    assert admin.patch("/storages/data", {"per_user": True}).status_code == 200
    assert made(alice, vc).json()["path"] == "alice/sets/cats"
    assert admin.patch("/storages/data", {"per_user": True}).status_code == 200


def test_02_dataset_from_before_its_storage_had_folders_of_users_is_refused(root, alice, vc, node):
    place = storage(root, "data", vc)
    made(alice, vc, path="")
    job = submitted(alice, file_with(vc, "cats"))
    Storage.objects.filter(pk=place.pk).update(per_user=True)  # by an older server
    answer = Api(alice).post("/jobs", file_with(vc, "cats") | {"name": "again"})
    assert refusal(answer) == (403, "storage_forbidden")
    assert refused(job, node) == "storage_forbidden"


def test_02_folder_of_a_user_who_was_deleted_is_shared_no_longer(root, alice, vc, node):
    """Nor is that of a later user of the same name."""
    bob = member(vc, "bob")
    storage(root, "data", vc, per_user=True)
    made(bob, vc)
    job = submitted(alice, file_with(vc, "cats"))
    accounts.delete_user(root, "bob")
    member(vc, "bob")
    answer = Api(alice).post("/jobs", file_with(vc, "cats") | {"name": "again"})
    assert refusal(answer) == (404, "dataset_not_found")
    assert refused(job, node) == "dataset_not_found"


def test_owner_who_left_the_virtual_cluster_may_still_withdraw_a_dataset(root, alice, vc):
    bob, carol = member(vc, "bob"), member(vc, "carol")
    storage(root, "data", vc, per_user=True)
    at = f"/datasets/{made(bob, vc).json()['id']}"
    vc.memberships.filter(user__in=[bob, carol]).delete()
    assert refusal(Api(carol).get(at)) == (404, "dataset_not_found")
    assert len(Api(bob).get("/datasets").json()["results"]) == 1
    assert refusal(made(bob, vc, version="2")) == (404, "not_found")
    assert Api(bob).delete(at).status_code == 204
    assert refusal(Api(alice).get(at)) == (404, "dataset_not_found")


def test_02_agent_that_would_follow_links_within_an_export_is_sent_no_folder_of_it(
    root, alice, vc, node
):
    data = {"server": "nfs.example.org", "path": "/export"}
    services.grant(root, services.create(root, "data", "nfs", data), vc.name)
    made(alice, vc)
    made(alice, vc, "all", path="")
    hello = make_hello(node.instance_id, make_inventory(make_gpus(node.name, 8)), features=[])
    older = cluster.open_session(node.pk, node.instance_id, hello)
    job = submitted(alice, file_with(vc, "cats"))
    assert refused(job, older) == "storage_unavailable"
    assert "update the agent" in attempts_of(job)[0].error_message
    (mount,) = mounts_of(submitted(alice, file_with(vc, "all") | {"name": "whole"}))
    assert mount.path == "/export"
    hello = hello.model_copy(update={"features": [INNER_MOUNTS]})
    cluster.open_session(node.pk, node.instance_id, hello)
    (mount,) = mounts_of(submitted(alice, file_with(vc, "cats") | {"name": "later"}))
    assert (mount.path, mount.inner) == ("/export/sets/cats", 2)


@pytest.mark.parametrize("name", ["dogs", "cats@2", "cats@", "@1", "cats@1@2", "../x"])
def test_dataset_that_is_not_there_is_refused_at_its_place(root, alice, vc, name):
    storage(root, "data", vc)
    made(alice, vc)
    answer = Api(alice).post("/jobs/check", file_with(vc, "cats@1", name)).json()
    paths = {one["path"] for one in answer["errors"]}
    assert paths
    assert all(path.startswith("extras.skep.datasets[1]") for path in paths)


def test_dataset_in_a_storage_that_was_withdrawn_is_forbidden(root, alice, vc, node):
    place = storage(root, "data", vc)
    made(alice, vc)
    job = submitted(alice, file_with(vc, "cats"))
    services.revoke(root, place, vc.name)
    answer = Api(alice).post("/jobs", file_with(vc, "cats") | {"name": "again"})
    assert refusal(answer) == (403, "storage_forbidden")
    assert refused(job, node) == "storage_forbidden"


def test_job_whose_dataset_was_deleted_does_not_start(root, alice, vc, node):
    storage(root, "data", vc)
    made(alice, vc)
    job = submitted(alice, file_with(vc, "cats"))
    datasets.delete(alice, Dataset.objects.get())
    assert refused(job, node) == "dataset_not_found"


def test_datasets_and_storages_do_not_overlap_and_are_counted_together(root, alice, vc):
    storage(root, "data", vc)
    made(alice, vc)
    file = file_with(vc, {"name": "cats", "mountPath": "/mnt/data/cats"})
    file["extras"]["storages"] = [{"name": "data"}]
    assert refusal(Api(alice).post("/jobs", file)) == (400, "storage_path_invalid")
    many = [{"name": "cats", "mountPath": f"/m{number}"} for number in range(16)]
    file = file_with(vc, *many)
    file["extras"]["storages"] = [{"name": "data"}]
    assert refusal(Api(alice).post("/jobs", file)) == (400, "too_many_storages")


def test_submit_asks_once_for_all_datasets(root, alice, vc, django_assert_max_num_queries):
    storage(root, "data", vc)
    for number in range(6):
        made(alice, vc, f"set{number}")
    names = [f"set{number}" for number in range(6)]
    with django_assert_max_num_queries(1):
        assert len(datasets.named(alice, vc, names)) == 6
    assert json.dumps(file_with(vc, *names))


def test_list_makes_a_constant_number_of_queries(root, alice, vc, django_assert_max_num_queries):
    storage(root, "data", vc)
    for number in range(12):
        made(alice, vc, f"set{number}")
    api = Api(alice)
    with django_assert_max_num_queries(5):
        assert len(api.get("/datasets").json()["results"]) == 12
