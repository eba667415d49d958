"""Two at once: what only one may win, and what both may do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.db.models.signals import post_init, pre_save
from tests.support.at_once import at_once, codes
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.accounts.services import ensure_admin, update_user
from skep_platform.cluster import services
from skep_platform.cluster.models import JoinToken, Node
from skep_platform.core.models import Event
from skep_platform.storage.models import Storage, StorageGrant
from skep_platform.tenancy.models import Quota, VirtualCluster
from skep_platform.tenancy.services import set_quotas

pytestmark = pytest.mark.django_db(transaction=True)


def test_25_join_token_lets_one_of_two_in():
    token = services.create_join_token(None, 60)
    answers = at_once(
        *(lambda name=name: services.join_node(token, name, name) for name in ("a", "b"))
    )
    assert codes(answers) == ["join_token_invalid", "ok"]
    assert Node.objects.count() == 1


def test_one_agent_that_asks_twice_at_once_joins_once():
    _, token = services.issue_join_token(None, 60, nodes=2)
    answers = at_once(*[lambda: services.join_node(token, "alpha", "its-own")] * 2)
    assert codes(answers) == ["ok", "ok"]
    assert Node.objects.count() == 1
    assert JoinToken.objects.get().uses_left == 1


def test_25_one_name_is_for_one_of_two():
    tokens = [services.create_join_token(None, 60) for _ in range(2)]
    answers = at_once(*(lambda t=t: services.join_node(t, "alpha", t[-9:]) for t in tokens))
    assert codes(answers) in (["node_name_taken", "ok"], ["ok", "rejoin_not_allowed"])
    assert Node.objects.count() == 1


def test_two_reconciles_lose_a_node_once():
    nodes = [make_node(gpus=1) for _ in range(5)]
    Node.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    lost = at_once(*[services.expire_leases] * 3)
    ids = sorted(node_id for answer in lost for node_id in answer)
    assert ids == sorted(node.pk for node in nodes)
    assert Event.objects.filter(kind="node.lost").count() == 5


def test_heartbeat_beside_expiry_either_renews_or_is_fenced():
    node = make_node(gpus=0)
    Node.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    beat, lost = at_once(
        lambda: services.heartbeat(node.pk, node.session_epoch), services.expire_leases
    )
    node.refresh_from_db()
    if lost:
        assert node.state == "LOST"
    else:
        assert (beat, node.state) == (0, "ONLINE")


def test_revisions_bumped_in_opposite_order_do_not_deadlock():
    a, b = make_node(gpus=0), make_node(gpus=0)
    orders = [[a.pk, b.pk], [b.pk, a.pk]] * 4
    answers = at_once(*(lambda ids=ids: services.bump_revision(ids) for ids in orders))
    assert codes(answers) == ["ok"] * 8
    assert list(Node.objects.values_list("desired_revision", flat=True)) == [8, 8]


def test_two_quota_raises_see_each_other():
    make_node(gpus=8)
    admin, a, b = make_user(admin=True), make_vc(), make_vc()
    answers = at_once(*(lambda vc=vc: set_quotas(admin, vc, {"A100": 6}) for vc in (a, b)))
    assert codes(answers) == ["ok", "quota_exceeds_cluster"]
    assert Quota.objects.get().gpus == 6


def test_two_admins_cannot_demote_each_other():
    a, b = make_user("a", admin=True), make_user("b", admin=True)
    answers = at_once(
        lambda: update_user(a, "b", {"is_admin": False}),
        lambda: update_user(b, "a", {"is_admin": False}),
    )
    assert codes(answers) == ["last_admin", "ok"]


def test_servers_that_start_at_once_make_one_admin():
    passwords = at_once(*[lambda: ensure_admin("admin")] * 3)
    assert sum(password is not None for password in passwords) == 1


def test_what_refers_to_a_row_that_is_deleted_at_that_moment_is_a_conflict():
    admin = Api(make_user("root", admin=True))
    make_vc("vision")
    export = {"server": "nfs.example.org", "path": "/data"}
    admin.post("/storages", {"name": "data", "type": "nfs", "data": export})

    def delete(**_: object) -> None:
        Storage.objects.filter(name="data")._raw_delete("default")

    pre_save.connect(delete, sender=StorageGrant)
    try:
        answer = admin.put("/storages/data/grants/vision", {})
    finally:
        pre_save.disconnect(delete, sender=StorageGrant)
    assert refusal(answer) == (409, "conflict")
    assert not StorageGrant.objects.exists()


def test_a_row_that_is_deleted_after_it_was_found_is_a_conflict():
    admin = Api(make_user("root", admin=True))
    make_vc("vision")

    def delete(instance: VirtualCluster, **_: object) -> None:
        VirtualCluster.objects.filter(pk=instance.pk)._raw_delete("default")

    post_init.connect(delete, sender=VirtualCluster)
    try:
        answer = admin.put("/virtual-clusters/vision/budget", {"gpu_hours": 10})
    finally:
        post_init.disconnect(delete, sender=VirtualCluster)
    assert refusal(answer) == (409, "conflict")
