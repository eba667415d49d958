"""Virtual clusters over REST: who sees them, what they own, what they use."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_platform.accounts.models import User
from skep_platform.cluster.services import cell_layout
from skep_platform.core.errors import NotFound
from skep_platform.core.models import Event
from skep_platform.jobs.states import JobState
from skep_platform.tenancy import queries, services
from skep_platform.tenancy.models import PinnedCell, Quota, VcCell, VirtualCluster

pytestmark = pytest.mark.django_db


def quotas(api: Api, name: str, **models: int):
    return api.put(f"/virtual-clusters/{name}/quotas", {"quotas": models})


def test_admin_creates_describes_and_deletes(admin):
    made = admin.post("/virtual-clusters", {"name": "vision", "quotas": {"A100": 4}})
    assert made.status_code == 201
    assert made.json() == {
        "name": "vision",
        "description": "",
        "default_image": "",
        "quotas": {"A100": 4},
        "cells": [],
        "pins": [],
        "used": {},
        "role": None,
        "members": 0,
        "job_visibility": "owner",
        "policy": {"name": "priority_ageing", "parameters": {}},
        "may_manage": True,
    }
    changed = admin.patch("/virtual-clusters/vision", {"name": "sight", "description": "Eyes"})
    assert (changed.json()["name"], changed.json()["description"]) == ("sight", "Eyes")
    assert admin.delete("/virtual-clusters/sight").status_code == 204
    assert refusal(admin.get("/virtual-clusters/sight")) == (404, "not_found")


def test_member_sees_its_own_only():
    ann = make_user("ann")
    make_vc("mine", members=[ann], quotas={"A100": 2})
    make_vc("other", quotas={"A100": 2})
    api = Api(ann)
    (row,) = api.get("/virtual-clusters").json()["results"]
    assert (row["name"], row["role"], row["members"]) == ("mine", "member", 1)
    assert api.get("/virtual-clusters/mine").json() == row
    assert refusal(api.get("/virtual-clusters/other")) == (404, "not_found")


def test_rights_follow_the_role():
    member, vc_admin, admin, stranger = (make_user() for _ in range(4))
    admin.is_superuser = True
    vc = make_vc(members=[member], vc_admins=[vc_admin])
    users = (stranger, member, vc_admin, admin)
    assert [queries.may_submit(u, vc) for u in users] == [False, True, True, True]
    assert [queries.manages(u, vc) for u in users] == [False, False, True, True]
    assert [vc in queries.visible_to(u) for u in users] == [False, True, True, True]


def test_used_counts_gpus_of_active_leases_by_model(admin):
    ann = make_user()
    vc, other = make_vc("a"), make_vc("b")
    a100 = list(make_node(gpus=4).devices.all())
    h100 = list(make_node(gpus=4, model="H100").devices.all())
    place(make_job(vc, ann), a100[:3])
    place(make_job(vc, ann), h100[:1])
    place(make_job(other, ann), a100[3:])
    release(place(make_job(vc, ann), h100[1:]))
    assert queries.usage([vc, other]) == {vc.pk: {"A100": 3, "H100": 1}, other.pk: {"A100": 1}}
    used = {r["name"]: r["used"] for r in admin.get("/virtual-clusters").json()["results"]}
    assert used == {"a": {"A100": 3, "H100": 1}, "b": {"A100": 1}}


def test_list_takes_the_same_queries_however_many_there_are(admin, django_assert_max_num_queries):
    node = make_node()
    for device in node.devices.all():
        place(make_job(make_vc(quotas={"A100": 0, "H100": 5}), admin.user), [device])
    with django_assert_max_num_queries(6):  # token, page, quotas, cells, pins, use
        assert len(admin.get("/virtual-clusters").json()["results"]) == 8


def test_quotas_are_replaced_as_a_whole_and_reported(admin):
    make_vc("vision", quotas={"A100": 4, "T4": 1})
    answer = quotas(admin, "vision", A100=8, H100=2, T4=0)
    assert answer.json()["quotas"] == {"A100": 8, "H100": 2}
    event = Event.objects.get(kind="quota.changed")
    assert event.actor == "root"
    assert event.data == {"before": {"A100": 4, "T4": 1}, "after": {"A100": 8, "H100": 2}}


def test_unchanged_quotas_are_no_event(admin):
    make_vc("vision", quotas={"A100": 4})
    quotas(admin, "vision", A100=4)
    assert not Event.objects.filter(kind="quota.changed").exists()


@pytest.mark.parametrize(
    "body",
    [
        {"quotas": {"A100": -1}},
        {"quotas": {"A100": 1.5}},
        {"quotas": {"A100": "many"}},
        {"quotas": {"": 1}},
        {"quotas": {"x" * 101: 1}},
        {"quotas": {"A100": 10**7}},
        {"quotas": {f"m{i}": 1 for i in range(65)}},
        {"quotas": [1]},
        {"quotas": {"a\x00b": 1}},
        {"A100": 4},
        {},
        [],
    ],
)
def test_malformed_quotas_change_nothing(admin, body):
    make_vc("vision", quotas={"A100": 4})
    assert admin.put("/virtual-clusters/vision/quotas", body).status_code == 400
    assert list(Quota.objects.values_list("gpu_model", "gpus")) == [("A100", 4)]


def test_quotas_may_not_exceed_what_the_cluster_holds(admin):
    make_node(gpus=8)
    make_vc("a", quotas={"A100": 6})
    make_vc("b", quotas={"T4": 1})
    answer = quotas(admin, "b", A100=3)
    assert refusal(answer) == (400, "quota_exceeds_cluster")
    numbers = {"gpu_model": "A100", "asked": 3, "others": 6, "cluster": 8}
    assert answer.json()["details"] == numbers
    assert Quota.objects.get(vc__name="b").gpu_model == "T4"
    assert quotas(admin, "b", A100=2).status_code == 200


def test_quotas_that_were_changed_since_they_were_read_are_not_overwritten(admin):
    make_vc("a", quotas={"A100": 4})
    stale = {"quotas": {"A100": 4, "T4": 2}, "before": {"A100": 2, "T4": 0}}
    answer = admin.put("/virtual-clusters/a/quotas", stale)
    assert refusal(answer) == (409, "quotas_stale")
    assert answer.json()["details"] == {"quotas": {"A100": 4}}
    assert Quota.objects.get(vc__name="a").gpus == 4
    fresh = {"quotas": {"A100": 4, "T4": 2}, "before": {"A100": 4, "T4": 0}}
    for _ in range(2):  # once more, as the first answer was lost
        answer = admin.put("/virtual-clusters/a/quotas", fresh)
        assert answer.json()["quotas"] == {"A100": 4, "T4": 2}


def test_model_that_no_node_has_yet_may_be_reserved(admin):
    make_vc("a")
    assert quotas(admin, "a", B300=64).status_code == 200


def test_lowering_is_always_allowed_also_below_use(admin):
    node = make_node(gpus=2)
    vc = make_vc("a", quotas={"A100": 9})
    place(make_job(vc, admin.user, state=JobState.RUNNING), list(node.devices.all()))
    assert quotas(admin, "a", A100=5).status_code == 200
    assert quotas(admin, "a", A100=1).json()["used"] == {"A100": 2}


def test_virtual_cluster_with_jobs_stays(admin):
    make_job(make_vc("a"), admin.user, state=JobState.SUCCEEDED)
    assert refusal(admin.delete("/virtual-clusters/a")) == (409, "vc_has_jobs")


def test_virtual_cluster_with_private_images_stays(admin):
    """Deleted, its images would name no virtual cluster, which means everybody."""
    for name in ("a", "b"):
        make_vc(name)
    admin.post("/images", {"name": "own", "reference": "x", "virtual_clusters": ["a"]})
    admin.post("/images", {"name": "both", "reference": "x", "virtual_clusters": ["a", "b"]})
    answer = admin.delete("/virtual-clusters/a")
    assert refusal(answer) == (409, "vc_owns_images")
    assert answer.json()["details"] == {"images": ["own"]}
    assert admin.delete("/virtual-clusters/b").status_code == 204


def test_members_come_and_go(admin):
    make_user("ann")
    make_vc("a")
    assert admin.put("/virtual-clusters/a/members/ann", {}).json()["role"] == "member"
    assert admin.put("/virtual-clusters/a/members/ann", {"role": "admin"}).status_code == 200
    rows = admin.get("/virtual-clusters/a/members").json()["results"]
    assert rows == [{"username": "ann", "role": "admin", "own_role": "admin", "groups": []}]
    assert admin.delete("/virtual-clusters/a/members/ann?confirm=1").status_code == 204
    assert refusal(admin.delete("/virtual-clusters/a/members/ann")) == (404, "not_found")
    kinds = list(Event.objects.filter(kind__startswith="member").values_list("kind", flat=True))
    assert sorted(kinds) == ["member.removed", "member.set", "member.set"]


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [("nobody", {}, 404), ("ann", {"role": "owner"}, 400), ("ann", {"vc": 1}, 400)],
)
def test_impossible_members_are_refused(admin, who, body, status):
    make_user("ann")
    make_vc("a")
    assert admin.put(f"/virtual-clusters/a/members/{who}", body).status_code == status


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 64, "é", "-a", "a\nb"])
def test_names_are_plain(admin, name):
    assert admin.post("/virtual-clusters", {"name": name}).status_code == 400
    assert not VirtualCluster.objects.exists()


def test_taken_names_are_conflicts(admin):
    make_vc("a")
    make_vc("b")
    assert refusal(admin.post("/virtual-clusters", {"name": "a"})) == (409, "name_taken")
    assert refusal(admin.patch("/virtual-clusters/b", {"name": "a"})) == (409, "name_taken")


def test_created_with_bad_quotas_is_not_created(admin):
    make_node(gpus=1)
    body = {"name": "a", "quotas": {"A100": 2}}
    assert refusal(admin.post("/virtual-clusters", body)) == (400, "quota_exceeds_cluster")
    assert not VirtualCluster.objects.exists()


def test_services_take_no_admin_for_the_first_setup():
    vc = services.create(None, "default", quotas={"A100": 1})
    assert vc.quotas.get().gpus == 1


def revision() -> int:
    return cell_layout().revision


def test_every_change_of_what_is_owned_is_counted(admin):
    counts = [revision()]
    for change in (
        lambda: admin.post("/virtual-clusters", {"name": "a", "quotas": {"B300": 4}}),
        lambda: quotas(admin, "a", B300=5),
        lambda: admin.patch("/virtual-clusters/a", {"name": "b"}),
        lambda: admin.delete("/virtual-clusters/b"),
    ):
        assert change().status_code < 300
        counts.append(revision())
    assert counts == sorted(set(counts))


def test_what_changes_nothing_is_not_counted(admin):
    make_vc("a", quotas={"A100": 4})
    before = revision()
    quotas(admin, "a", A100=4)
    admin.patch("/virtual-clusters/a", {"description": "Eyes"})
    assert refusal(quotas(admin, "a", A100=-1))[0] == 400
    assert revision() == before


def test_owned_cells_and_pins_are_shown(admin):
    vc = make_vc("a")
    VcCell.objects.create(vc=vc, chain="A100-NODE8", cell_type="A100-NODE8", number=2)
    PinnedCell.objects.create(vc=vc, name="corner", cell_type="A100-NODE8", node_name="n1")
    shown = admin.get("/virtual-clusters/a").json()
    claim = {"chain": "A100-NODE8", "cell_type": "A100-NODE8", "number": 2}
    assert (shown["cells"], shown["pins"]) == ([claim], ["corner"])


def test_a_change_that_is_refused_changes_no_policy_either(admin):
    make_vc("taken")
    make_vc("vision")
    body = {"policy": {"name": "fifo"}, "name": "taken"}
    assert refusal(admin.patch("/virtual-clusters/vision", body)) == (409, "name_taken")
    shown = admin.get("/virtual-clusters/vision").json()
    assert shown["policy"]["name"] == "priority_ageing"


def test_changes_at_the_same_time_keep_each_other(admin):
    root, vc = User.objects.get(username="root"), make_vc("vision")
    services.choose_policy(root, VirtualCluster.objects.get(pk=vc.pk), "fifo", {})
    services.update(root, vc, description="Eyes")
    assert admin.get("/virtual-clusters/vision").json()["policy"]["name"] == "fifo"


def test_what_was_deleted_meanwhile_stays_deleted(admin):
    root, vc = User.objects.get(username="root"), make_vc("vision")
    services.delete(root, VirtualCluster.objects.get(pk=vc.pk))
    for change in (
        lambda: services.update(root, vc, description="Eyes"),
        lambda: services.choose_policy(root, vc, "fifo", {}),
        lambda: services.delete(root, vc),
    ):
        with pytest.raises(NotFound):
            change()
    assert not VirtualCluster.objects.exists()
