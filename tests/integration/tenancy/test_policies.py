"""The policy of a virtual cluster: chosen over REST, used by the next tick."""

from __future__ import annotations

import pytest
from tests.support.jobs_world import attempts_of, report, submit, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_vc

from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.scheduling.tick import Scheduler, run_once
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db


def test_an_admin_chooses_among_the_policies_that_are_listed(admin, alice):
    make_vc("vision", members=[alice])
    listed = {known["name"]: known for known in admin.get("/policies").json()["policies"]}
    assert listed["priority_ageing"]["is_default"]
    (backfill,) = listed["fifo"]["parameters"]
    assert (backfill["default"], backfill["choices"]) == ("block", ["skip", "block", "reserve"])
    path = "/virtual-clusters/vision"
    assert admin.get(path).json()["policy"] == {"name": "priority_ageing", "parameters": {}}
    wanted = {"name": "fifo", "parameters": {"backfill": "skip"}}
    assert admin.patch(path, {"policy": wanted}).json()["policy"] == wanted
    assert Api(alice).get(path).json()["policy"] == wanted
    assert Event.objects.get(kind="policy.changed").data["after"] == wanted


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"name": "lifo"}, "unknown_policy"),
        ({"name": "fifo", "parameters": {"depth": 1}}, "bad_policy_parameter"),
        ({"name": "fifo", "parameters": {"backfill": {"a": 1}}}, "bad_policy_parameter"),
        ({"name": "priority_ageing", "parameters": {"ageing_s": "x"}}, "bad_policy_parameter"),
    ],
)
def test_a_policy_that_is_not_to_be_had_is_refused_with_those_that_are(admin, alice, policy, code):
    make_vc("vision", members=[alice])
    answer = admin.patch("/virtual-clusters/vision", {"policy": policy})
    assert refusal(answer) == (400, code)
    if code == "unknown_policy":
        assert "priority_ageing, fifo" in answer.json()["message"]
        assert answer.json()["details"]["known"][:2] == ["priority_ageing", "fifo"]


def test_a_vc_admin_may_not_choose_the_policy(alice):
    make_vc("vision", members=[alice])
    Membership.objects.update(role="admin")
    answer = Api(alice).patch("/virtual-clusters/vision", {"policy": {"name": "fifo"}})
    assert refusal(answer) == (403, "forbidden")


def test_two_virtual_clusters_order_their_queues_by_their_own_policies(admin, alice):
    """Under the default a small job backfills, under fifo it waits behind the wide one."""
    make_node("gpu-1", gpus=8)
    vcs = [make_vc(name, quotas={"A100": 4}, members=[alice]) for name in ("free", "strict")]
    for vc in vcs:
        submit(alice, vc, gpus=3)
    scheduler = Scheduler()
    assert len(run_once(scheduler)) == 2
    admin.patch("/virtual-clusters/strict", {"policy": {"name": "fifo"}})
    wide = [submit(alice, vc, gpus=4) for vc in vcs]
    small = [submit(alice, vc, gpus=1) for vc in vcs]
    assert run_once(scheduler) == {str(small[0].pk)}
    reason = Job.objects.get(pk=small[1].pk).wait_reason
    assert reason["code"] == "held_back"
    assert reason["details"]["by"] == str(wide[1].pk)
    assert "first in, first out" in reason["message"]


def test_a_change_of_the_policy_holds_from_the_next_tick_on(admin, alice):
    make_node("gpu-1", gpus=4)
    vc = make_vc("vision", quotas={"A100": 4}, members=[alice])
    admin.patch("/virtual-clusters/vision", {"policy": {"name": "fifo"}})
    runs = submit(alice, vc, gpus=3)
    tick()
    submit(alice, vc, gpus=4)
    small, scheduler = submit(alice, vc, gpus=1), Scheduler()
    assert run_once(scheduler) == set()
    admin.patch("/virtual-clusters/vision", {"policy": {"name": "priority_ageing"}})
    assert run_once(scheduler) == {str(small.pk)}
    report(attempts_of(runs), "running", "exited", "released")
