"""A node is used when it has passed its checks: cordoned until then, and again by itself after."""

from __future__ import annotations

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_vc, place, release

from skep_agent.protocol import CheckReport, CheckResult, NodeChecks, parse_server_message
from skep_platform.cluster import checks, services
from skep_platform.cluster.models import Node, NodeCheck

pytestmark = pytest.mark.django_db
GOOD = CheckResult(name="disk", passed=True, numbers={"write_mb_s": 900.0})
BAD = CheckResult(name="gpu GPU-1", passed=False, message="code 3: bit flip")


@pytest.fixture(autouse=True)
def _ask_each_time() -> None:
    checks.nodes_with_work.forget()


def ordered(node: Node) -> str:
    """The round that the agent of the node is asked to run."""
    checks.nodes_with_work.forget()
    message = parse_server_message(checks.frame(node.pk))
    assert isinstance(message, NodeChecks)
    return message.check_id


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
    admin.post("/nodes/gpu-1/uncordon")
    after = report(node, BAD)
    assert (after.cordoned, after.checks_needed) == (False, 0)


def test_a_new_node_is_checked_where_the_setting_says_so(settings):
    body = {"token": services.create_join_token(None, 60), "name": "new", "instance_id": "i"}
    settings.SKEP_NODE_CHECKS = 1
    assert Api().post("/nodes/join", body).status_code == 201
    node = Node.objects.get(name="new")
    assert (node.cordoned, node.checks_needed) == (True, 1)
    assert node.cordon_reason == "Waits for its checks (joined)."
    assert ordered(node) != ""


def test_the_number_of_rounds_is_bounded(admin, node):
    assert refusal(admin.post("/nodes/gpu-1/checks", {"rounds": 0}))[0] == 400
