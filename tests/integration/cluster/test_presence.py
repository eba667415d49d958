"""The server's own absence: no node is judged lost for it, and a planned one is waited out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_hello, make_inventory, make_node, make_user

from skep_platform.cluster import services, sessions
from skep_platform.cluster.models import ControlPlane, Node, NodeState

pytestmark = pytest.mark.django_db

LEASE = timedelta(seconds=settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S)
SECOND = timedelta(seconds=1)


def lapse(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(lease_expires_at=Now() - SECOND)


def gateway_was_up(*, since: timedelta, seen: timedelta) -> None:
    """So long ago."""
    ControlPlane.objects.update_or_create(
        pk=1, defaults={"since": Now() - since, "seen_at": Now() - seen}
    )


def state(node: Node) -> str:
    return Node.objects.get(pk=node.pk).state


def lease_left(node: Node) -> float:
    left = Node.objects.annotate(left=F("lease_expires_at") - Now()).get(pk=node.pk).left
    return left.total_seconds()


def test_finding_c3_no_one_is_lost_while_no_gateway_is_up() -> None:
    node = make_node()
    lapse(node)
    gateway_was_up(since=10 * LEASE, seen=LEASE)
    assert services.expire_leases() == []


def test_finding_c3_after_an_absence_every_node_has_a_whole_lease_to_come_back() -> None:
    node = make_node()
    gateway_was_up(since=10 * LEASE, seen=2 * LEASE)
    lapse(node)
    sessions.beat()
    assert services.expire_leases() == []
    gateway_was_up(since=LEASE - 2 * SECOND, seen=timedelta(0))
    assert services.expire_leases() == []
    gateway_was_up(since=LEASE + SECOND, seen=timedelta(0))
    assert services.expire_leases() == [node.pk], "it is truly gone"


def test_finding_c3_beats_without_a_break_keep_the_time_from_which_nodes_are_judged() -> None:
    gateway_was_up(since=LEASE, seen=sessions.gap() / 2)
    before = ControlPlane.objects.get()
    sessions.beat()
    after = ControlPlane.objects.get()
    assert after.since == before.since
    assert after.seen_at > before.seen_at


def test_finding_c8_a_planned_absence_is_waited_out_and_no_longer() -> None:
    sent, untold = make_node(), make_node()
    sessions = {sent.pk: sent.session_epoch, untold.pk: untold.session_epoch - 1}
    assert services.plan_absence(sessions, 3600) == [sent.pk], "only sessions that are still on"
    assert state(sent) == NodeState.UNREACHABLE
    assert lease_left(sent) > 3600 + settings.SKEP_LEASE_S
    Node.objects.update(lease_expires_at=F("lease_expires_at") - timedelta(seconds=3500))
    assert services.expire_leases() == [untold.pk]
    Node.objects.update(lease_expires_at=F("lease_expires_at") - timedelta(seconds=200))
    assert services.expire_leases() == [sent.pk]


def test_finding_c8_the_extension_ends_with_the_first_heartbeat_not_with_the_hello() -> None:
    """Its Welcome may be lost: the agent then keeps its extended lease, and so do we."""
    node = make_node()
    services.plan_absence({node.pk: node.session_epoch}, 3600)
    with pytest.raises(services.Conflict):
        services.heartbeat(node.pk, node.session_epoch)
    hello = make_hello(node.instance_id, make_inventory())
    node = services.open_session(node.pk, node.instance_id, hello)
    assert lease_left(node) > 3600
    services.heartbeat(node.pk, node.session_epoch)
    assert lease_left(node) <= LEASE.total_seconds()


def test_finding_c8_an_admin_may_give_up_waiting_for_a_node_that_is_not_connected() -> None:
    admin = Api(make_user(admin=True))
    node = make_node("alpha")
    assert refusal(admin.post("/nodes/alpha/declare-lost")) == (409, "node_connected")
    services.plan_absence({node.pk: node.session_epoch}, 3600)
    assert admin.post("/nodes/alpha/declare-lost").json()["state"] == "LOST"
    assert admin.post("/nodes/alpha/declare-lost").status_code == 200
    assert Api(make_user()).post("/nodes/alpha/declare-lost").status_code == 403
