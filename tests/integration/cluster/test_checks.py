"""A node is used when it has passed its checks: cordoned until then, and again by itself after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db.models.signals import post_init
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_vc, place, release

from skep_agent.protocol import CheckReport, CheckResult, NodeChecks, parse_server_message
from skep_platform.cluster import checks, peer_checks, services
from skep_platform.cluster.models import Node, NodeCheck
from skep_platform.core.models import Event

pytestmark = pytest.mark.django_db
GOOD = CheckResult(name="disk", passed=True, numbers={"write_mb_s": 900.0})
BAD = CheckResult(name="gpu GPU-1", passed=False, message="code 3: bit flip")


@pytest.fixture(autouse=True)
def _ask_each_time() -> None:
    checks.nodes_with_work.forget()


def asked(node: Node) -> NodeChecks:
    """What the agent of the node is asked for."""
    checks.nodes_with_work.forget()
    message = parse_server_message(checks.frame(node.pk))
    assert isinstance(message, NodeChecks)
    return message


def ordered(node: Node) -> str:
    """The round that the agent of the node is asked to run."""
    return asked(node).check_id


def report(node: Node, *results: CheckResult) -> Node:
    """Report on the round that waits, once it is due."""
    NodeCheck.objects.filter(node=node, state="WAITING").update(due_at=timezone.now())
    found = CheckReport(check_id=ordered(node), results=list(results))
    checks.apply_reports(node.pk, [found])
    return Node.objects.get(pk=node.pk)


def test_a_node_that_an_admin_has_checked_is_used_after_so_many_clean_rounds(admin, node):
    assert admin.post("/nodes/gpu-1/checks", {"rounds": 2}).status_code == 201
    shown = admin.get("/nodes/gpu-1").json()
    assert (shown["cordoned"], shown["checks_needed"]) == (True, 2)
    assert shown["cordon_reason"] == "Waits for its checks (admin)."
    assert report(node, GOOD).cordoned
    assert not ordered(node)  # the next round comes later
    after = report(node, GOOD)
    assert (after.cordoned, after.checks_needed, after.cordon_reason) == (False, 0, "")
    rounds = admin.get("/nodes/gpu-1/checks").json()["results"]
    assert [(one["state"], one["cause"]) for one in rounds] == [
        ("PASSED", "repeated"),
        ("PASSED", "admin"),
    ]
    assert rounds[0]["results"][0]["numbers"] == {"write_mb_s": 900.0}


def test_a_node_that_fails_stays_cordoned_with_the_reason_and_is_tried_again(admin, node):
    admin.post("/nodes/gpu-1/checks")
    after = report(node, GOOD, BAD)
    assert (after.cordoned, after.checks_needed) == (True, 1)
    assert after.cordon_reason == "Failed its checks: gpu GPU-1: code 3: bit flip"
    assert not ordered(node)
    assert not report(node, GOOD, GOOD).cordoned


def test_a_check_waits_until_no_task_is_on_the_node(admin, alice, node):
    attempt = place(make_job(make_vc("v"), alice), list(node.devices.all())[:1])
    admin.post("/nodes/gpu-1/checks")
    assert ordered(node) == ""
    release(attempt)
    assert ordered(node) != ""


def test_a_report_that_was_not_asked_for_or_says_nothing_passes_no_one(admin, node):
    admin.post("/nodes/gpu-1/checks")
    checks.apply_reports(node.pk, [CheckReport(check_id="x", results=[GOOD])])
    assert NodeCheck.objects.get().state == "WAITING"
    assert report(node).cordoned


def test_an_admin_may_use_a_node_at_once(admin, node):
    admin.post("/nodes/gpu-1/checks", {"rounds": 3})
    assert ordered(node) != ""
    admin.post("/nodes/gpu-1/uncordon")
    assert ordered(node) == ""
    after = report(node, BAD)
    assert (after.cordoned, after.checks_needed) == (False, 0)
    assert not Event.objects.filter(kind="node.check_failed").exists()


def test_a_new_node_is_checked_where_the_setting_says_so(settings):
    body = {"token": services.create_join_token(None, 60), "name": "new", "instance_id": "i"}
    settings.SKEP_NODE_CHECKS = 1
    assert Api().post("/nodes/join", body).status_code == 201
    node = Node.objects.get(name="new")
    assert (node.cordoned, node.checks_needed) == (True, 1)
    assert node.cordon_reason == "Waits for its checks (joined)."
    assert ordered(node) != ""


@pytest.mark.parametrize("verb", ["cordon", "drain"])
@pytest.mark.parametrize("reason", ["a bad fan", ""])
def test_what_others_do_meanwhile_is_not_taken_back(admin, node, verb, reason):
    admin.post("/nodes/gpu-1/checks")
    admin.post(f"/nodes/gpu-1/{verb}", {"reason": reason})
    after = report(node, GOOD)
    assert (after.cordoned, after.draining, after.cordon_reason) == (True, verb == "drain", reason)
    assert after.checks_needed == 0


def test_a_node_that_others_cordoned_meanwhile_keeps_their_reason_when_it_fails(admin, node):
    admin.post("/nodes/gpu-1/checks")
    services.cordon(None, "gpu-1", "Rule bad GPUs: 1 GPUs of node gpu-1 are bad.")
    assert report(node, BAD).cordon_reason == "Rule bad GPUs: 1 GPUs of node gpu-1 are bad."


class TestReplaced:
    """A machine in the place of the node "gpu-1", which is lost."""

    @pytest.fixture
    def replaced(self, settings, node) -> Callable[[], Node]:
        settings.SKEP_NODE_CHECKS = 2
        services.close_session(node.pk, node.session_epoch)
        services.declare_lost(None, "gpu-1")

        def join() -> Node:
            token = services.create_join_token(None, 60, node="gpu-1")
            body = {"token": token, "name": "gpu-1", "instance_id": "another"}
            assert Api().post("/nodes/join", body).status_code == 201
            return Node.objects.get(pk=node.pk)

        return join

    def test_it_is_checked_as_a_new_node_is(self, replaced):
        found = replaced()
        assert (found.cordoned, found.checks_needed) == (True, 2)
        assert ordered(found) != ""
        assert report(found, GOOD).checks_needed == 1
        assert not report(found, GOOD).cordoned

    def test_what_others_cordoned_stays_so(self, replaced):
        services.cordon(None, "gpu-1", "Rule away: Node gpu-1 is LOST.")
        found = replaced()
        assert ordered(found) != ""
        after = report(found, GOOD)
        assert (after.cordoned, after.cordon_reason) == (True, "Rule away: Node gpu-1 is LOST.")


def test_the_number_of_rounds_is_bounded(admin, node):
    assert refusal(admin.post("/nodes/gpu-1/checks", {"rounds": 0}))[0] == 400


class TestPeers:
    """The network between the node that is checked, "gpu-1", and others."""

    @pytest.fixture
    def node(self) -> Node:
        return make_node("gpu-1", gpus=1, address="10.0.0.1")

    @pytest.fixture
    def check(self, admin, node: Node) -> None:
        assert admin.post("/nodes/gpu-1/checks").status_code == 201

    def test_both_nodes_are_given_the_same_token_until_the_round_is_over(self, check, node):
        other = make_node("gpu-2", gpus=1, address="10.0.0.2", port_range=(20000, 20999))
        third = make_node("gpu-3", gpus=1, address="10.0.0.3")
        first = asked(node)
        assert first.least_mb_s == 20.0
        assert {peer.name for peer in first.peers} == {"gpu-2", "gpu-3"}
        assert len({peer.token for peer in first.peers}) == 2
        assert asked(node) == first  # else the agent would be sent a new one all the time
        [peer] = [peer for peer in first.peers if peer.name == "gpu-2"]
        assert (peer.address, peer.port) == ("10.0.0.2", 20999)
        [listen] = asked(other).listens
        assert (listen.address, listen.port, listen.token) == ("10.0.0.1", 20999, peer.token)
        assert asked(other).check_id == ""
        assert asked(third).listens != [listen]
        assert not report(node, GOOD, reached("gpu-2"), reached("gpu-3")).cordoned
        assert asked(other).listens == []

    def test_free_nodes_in_use_with_the_same_gpus_come_first(self, check, node, alice, settings):
        settings.SKEP_NODE_CHECK_PEERS = 1
        busy = make_node("busy", gpus=1, address="10.0.0.2")
        place(make_job(make_vc("v"), alice), list(busy.devices.all()))
        make_node("cordoned", gpus=1, address="10.0.0.3")
        services.cordon(None, "cordoned", "test")
        make_node("unlike", gpus=1, model="H100", address="10.0.0.4")
        make_node("alike", gpus=1, address="10.0.0.5")
        assert [peer.name for peer in asked(node).peers] == ["alike"]

    def test_a_node_of_a_large_cluster_looks_at_some_others_only(
        self, check, node, monkeypatch, django_assert_max_num_queries
    ):
        monkeypatch.setattr(peer_checks, "CANDIDATES", 4)
        for number in range(12):
            make_node(f"gpu-{number + 2}", gpus=1, address=f"10.0.0.{number + 2}")
        looked_at = []
        rows = peer_checks._rows
        monkeypatch.setattr(peer_checks, "_rows", lambda ids: looked_at.extend(ids) or rows(ids))
        with django_assert_max_num_queries(16):
            assert len(asked(node).peers) == 2
        assert len(looked_at) <= 8

    def test_nodes_that_cannot_be_reached_by_an_address_or_are_older_are_no_peers(
        self, check, node
    ):
        make_node("gpu-2", gpus=1, address="127.0.0.1")
        make_node("gpu-3", gpus=1, address="gpu-3.example.org")
        older = make_node("gpu-4", gpus=1, address="10.0.0.4")
        Node.objects.filter(pk=older.pk).update(peer_checks=False)
        away = make_node("gpu-5", gpus=1, address="10.0.0.5")
        Node.objects.filter(pk=away.pk).update(connected=False)
        assert asked(node).peers == []
        assert not report(node, GOOD).cordoned

    def test_a_node_that_reaches_no_other_one_stays_cordoned_with_the_numbers(
        self, check, admin, node
    ):
        make_node("gpu-2", gpus=1, address="10.0.0.2")
        slow = "9.4 MB/s to or from 10.0.0.2 port 29999, less than 20 MB/s."
        numbers = {"latency_ms": 0.2, "out_mb_s": 9.4, "in_mb_s": 11.0, "all_reduce_mb_s": 8.0}
        found = CheckResult(name="peer gpu-2", passed=False, message=slow, numbers=numbers)
        after = report(node, GOOD, found)
        assert after.cordoned
        assert after.cordon_reason == f"Failed its checks: peer gpu-2: {slow}"
        shown = admin.get("/nodes/gpu-1/checks").json()["results"]
        assert shown[1]["results"][1]["numbers"] == numbers
        assert "token" not in str(shown)

    def test_a_node_that_reaches_another_one_passes_and_the_rest_is_an_event(self, check, node):
        make_node("gpu-2", gpus=1, address="10.0.0.2")
        gone = CheckResult(name="peer gpu-2", passed=False, message="TCP cannot be reached.")
        assert not report(node, GOOD, gone, reached("gpu-3")).cordoned
        event = Event.objects.get(kind="node.peer_not_reached")
        assert event.message == (
            "Node gpu-1 passed its checks, but for peer gpu-2: TCP cannot be reached."
        )

    def test_a_node_reads_its_own_rounds_and_those_it_listens_for_only(
        self, check, node, settings, django_assert_max_num_queries
    ):
        settings.SKEP_NODE_CHECK_PEERS = 0
        others = [make_node(f"gpu-{number}", gpus=1) for number in range(2, 8)]
        rounds = [checks.require(other, 1, "admin") for other in others]
        for other in others:
            assert ordered(other)
        peer = {"node": str(node.pk), "name": "gpu-1", "port": 20999, "token": "t"}
        NodeCheck.objects.filter(pk=rounds[0].pk).update(peers=[peer])
        checks.nodes_with_work.forget()
        checks.nodes_with_work()  # once for all nodes of the process
        read = set()

        def note(instance: NodeCheck, **_: object) -> None:
            read.add(instance.pk)

        post_init.connect(note, NodeCheck)
        try:
            with django_assert_max_num_queries(5):  # with the save point, and a save
                checks.frame(node.pk)
        finally:
            post_init.disconnect(note, NodeCheck)
        assert read == {rounds[0].pk, node.checks.get().pk}

    def test_a_round_that_takes_longer_than_its_peers_listen_gets_new_ones(self, check, node):
        make_node("gpu-2", gpus=1, address="10.0.0.2")
        [before] = asked(node).peers
        NodeCheck.objects.update(peers_until=timezone.now())
        [after] = asked(node).peers
        assert after.token != before.token

    def test_none_with_a_setting_of_0(self, check, node, settings):
        settings.SKEP_NODE_CHECK_PEERS = 0
        make_node("gpu-2", gpus=1, address="10.0.0.2")
        assert asked(node).peers == []


def reached(name: str) -> CheckResult:
    return CheckResult(name=f"peer {name}", passed=True, numbers={"out_mb_s": 900.0})
