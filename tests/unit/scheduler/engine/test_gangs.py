"""Gangs of several groups, incremental ones, and demands of topology, through the whole engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.cluster import Cluster, gang, member, node, owns

from skep_scheduler import forecast
from skep_scheduler.cells.place import place
from skep_scheduler.engine import explain, plan
from skep_scheduler.explain.sentences import sentence
from skep_scheduler.model import Claim, Code, Placement, Preemption, Reason, VirtualCluster


class Searches:
    """How often places were looked for."""

    def __init__(self) -> None:
        self.count = 0

    def taken(self) -> int:
        """Since the last question."""
        count, self.count = self.count, 0
        return count


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    seen = Searches()

    def counted(*args: Any, **more: Any) -> Any:
        seen.count += 1
        return place(*args, **more)

    monkeypatch.setattr("skep_scheduler.placement.cells_placer.place", counted)
    return seen


def test_roles_of_different_models_are_placed_together_or_not_at_all() -> None:
    vcs = (VirtualCluster("a", (Claim("", "A100", 8), Claim("", "V100", 8))),)
    cluster = Cluster([node("n0"), node("v0", model="V100")], vcs)
    both = [member(1, 8, "x", gpu_model="A100"), member(1, 8, "y", gpu_model="V100")]
    cluster.run(gang("one", members=both))
    models = {task.role: task.node for task in cluster.state.running["one"].tasks}
    assert models == {"x": "n0", "y": "v0"}
    cluster.end("one")
    cluster.run(gang("small", members=[member(1, 1, gpu_model="V100")]))
    cluster.submit(gang("two", members=both))
    assert cluster.tick().reasons["two"].code == Code.VC_BUSY
    assert not cluster.state.allocations.resources.nodes["n0"].users


def test_affinity_groups_live_in_one_chain_each() -> None:
    vcs = (VirtualCluster("a", (Claim("", "A100", 8), Claim("", "V100", 8))),)
    cluster = Cluster([node("n0"), node("v0", model="V100")], vcs)
    groups = [member(1, 6, "x", affinity_group="1"), member(1, 6, "y", affinity_group="2")]
    cluster.run(gang("job", members=groups))
    assert {task.node for task in cluster.state.running["job"].tasks} == {"n0", "v0"}


def test_an_incremental_gang_starts_as_many_tasks_as_fit_and_grows() -> None:
    cluster = Cluster([node("n0", 4), node("n1", 4)], owns(a=4))
    cluster.run(gang("elastic", tasks=6, gpus=1, incremental=True))
    allocation = cluster.state.running["elastic"]
    assert [task.index for task in allocation.tasks] == [0, 1, 2, 3]
    assert allocation.unplaced == (("worker", 4), ("worker", 5))
    assert cluster.tick().placements == ()
    cluster.state.set_inventory(replace(cluster.state.inventory, virtual_clusters=owns(a=8)))
    assert [t.index for t in cluster.tick().placements[0].tasks] == [4, 5]


def test_no_head_of_line_blocking() -> None:
    """HiveD's demo "gang"."""
    cluster = Cluster([node("n0", 4), node("n1", 4)], owns(a=4))
    cluster.submit(gang("six", tasks=6), gang("four", tasks=4, at=1.0))
    plan = cluster.tick()
    assert [p.gang for p in plan.placements] == ["four"]
    assert plan.reasons["six"].code == Code.NEVER_FITS_VC


RACKS = [node(f"n{i}", labels={"rack": f"r{i // 2}"}) for i in range(4)]
RACK = "A100-NODE8-RACK"


def test_a_gang_within_one_rack_waits_for_a_rack() -> None:
    cluster = Cluster(RACKS, (VirtualCluster("a", (Claim(RACK, RACK, 2),)),))
    cluster.run(gang("x", gpus=8), gang("y", tasks=2, gpus=8, within=RACK))
    assert len({n for n in cluster.state.allocations.nodes_of("y") if n in ("n0", "n1")}) in (0, 2)
    cluster.submit(gang("z", tasks=2, gpus=8, within=RACK))
    reason = cluster.tick().reasons["z"]
    assert reason.code == Code.VC_BUSY
    found = sentence(reason.code, reason.details, {"x": "x", "y": "y"})
    assert found.startswith(
        "Needs 2 nodes of 8 GPUs within one rack; a owns 4 nodes, 3 are used by y and x"
    )


def test_what_is_not_owned_together_is_reported_and_holds_no_one_back() -> None:
    cluster = Cluster(RACKS, (VirtualCluster("a", (Claim(RACK, "A100-NODE8", 4),)),))
    cluster.submit(gang("wide", tasks=2, gpus=8, within=RACK))
    reason = cluster.tick().reasons["wide"]
    assert "what is free is not together as asked" in reason.message
    cluster.now = 10_000.0
    cluster.submit(gang("small", at=1.0))
    plan = cluster.tick()
    assert plan.reasons["wide"].code == Code.NEVER_FITS_VC
    assert [p.gang for p in plan.placements] == ["small"]


def test_a_sentence_says_it_all() -> None:
    cluster = Cluster([node(f"n{i}") for i in range(4)], owns(vision=32))
    cluster.run(
        gang("a", "vision", tasks=2, gpus=8, duration_s=1500.0), gang("b", "vision", gpus=8)
    )
    used = {task.node for h in cluster.state.running.values() for task in h.tasks}
    (idle,) = {f"n{i}" for i in range(4)} - used
    cluster.state.set_node(node(idle, schedulable=False))
    wide = [member(2, 8, gpu_model="A100")]
    cluster.submit(gang("c", "vision", members=wide, at=1.0))
    reason = cluster.tick().reasons["c"]
    assert reason.message == (
        "Needs 2 nodes of 8 A100; vision owns 4 nodes, 3 are used by another job (16 GPUs, ends in "
        "about 25 min) and another job (8 GPUs) and 1 is offline; expected start in about 25 min."
    )
    assert sentence(reason.code, reason.details, {"a": "bert"}) == (
        "Needs 2 nodes of 8 A100; vision owns 4 nodes, 3 are used by bert (ends in about 25 min) "
        "and another job (8 GPUs) and 1 is offline; expected start in about 25 min."
    )
    assert reason.details["used_by"][0] == {
        "gang": "a",
        "gpus": 16,
        "until": 1500.0,
    }
    assert reason.details["opportunistic_now"] is False


def test_a_dry_run_says_what_a_tick_would() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    state = cluster.state
    assert isinstance(explain(state, gang("x", gpus=8), 0.0), Placement)
    cluster.run(gang("guest", gpus=8, priority=-1))
    cluster.now = 60.0
    assert isinstance(explain(state, gang("x", gpus=8), 60.0), Preemption)
    answer = explain(state, gang("x", "nobody"), 60.0)
    assert isinstance(answer, Reason)
    assert answer.code == Code.UNKNOWN_VC


def test_the_queue_of_a_vc_as_a_time_line() -> None:
    cluster = Cluster([node("n0")], owns(a=8, b=0))
    cluster.run(gang("runs", gpus=8, duration_s=100.0))
    cluster.submit(*(gang(f"g{i}", gpus=8, at=float(i), duration_s=50.0) for i in range(6)))
    line = forecast.timeline(cluster.state, "a", 0.0)
    assert [w.gang for w in line] == [f"g{i}" for i in range(6)]
    assert [w.expected_start for w in line] == [100.0, 150.0, 200.0, 250.0, 300.0, 350.0]
    assert [w.reserved_start for w in line] == [100.0, 150.0, 200.0, None, None, None]
    assert [w.nodes for w in line[:4]] == [("n0",), ("n0",), ("n0",), ()]
    assert {w.needs for w in line} == {"1 node of 8 GPUs"}


def test_who_waits_for_others_to_leave_heads_the_queue() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("guest", gpus=8, priority=-1))
    cluster.submit(gang("first", gpus=8), gang("second", gpus=8))
    cluster.now = 60.0
    cluster.tick()
    first, second = forecast.timeline(cluster.state, "a", 60.0)
    assert (first.gang, second.gang) == ("first", "second")
    assert first.expected_start == 60.0 + cluster.options.leave_s


def test_a_time_line_takes_no_more_work_when_more_gangs_wait(
    searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "MOST", 10)
    cluster = Cluster([node("n0")], owns(a=8, b=0))
    cluster.run(gang("runs", gpus=8, duration_s=100.0))
    many = [gang(f"g{i:03}", gpus=i % 8 + 1, at=float(i), duration_s=50.0) for i in range(200)]
    cluster.submit(*many[:20])
    searches.taken()
    forecast.timeline(cluster.state, "a", 0.0)
    few = searches.taken()
    cluster.submit(*many[20:], *(gang(f"o{i}", "b", gpus=i % 8 + 1) for i in range(50)))
    line = forecast.timeline(cluster.state, "a", 0.0)
    assert searches.taken() == few
    assert [w.gang for w in line] == [f"g{i:03}" for i in range(10)]


def test_a_time_line_expects_what_a_whole_plan_says() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=8, b=8))
    cluster.run(gang("runs", gpus=8, duration_s=100.0), gang("other", "b", gpus=8))
    cluster.submit(
        *(gang(f"a{i}", gpus=8, at=float(i), duration_s=20.0) for i in range(3)),
        *(gang(f"b{i}", "b", gpus=8, at=float(i)) for i in range(6)),
        gang("guest", gpus=8, priority=-1),
    )
    reasons = plan(cluster.state, 0.0).reasons
    line = forecast.timeline(cluster.state, "a", 0.0)
    assert [w.gang for w in line] == ["a0", "a1", "a2"]
    assert [w.expected_start for w in line] == [
        reasons[w.gang].details["expected_start"] for w in line
    ]


def test_incremental_gangs_that_find_nothing_are_searched_for_once(searches: Searches) -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("fills", gpus=7))
    members = [member(4, 1, "worker"), member(1, 2, "server")]
    many = [gang(f"g{i}", at=float(i), members=members, incremental=True) for i in range(40)]
    cluster.submit(many[0])
    assert [len(placement.tasks) for placement in cluster.tick().placements] == [1]
    searches.taken()
    cluster.plan()
    alone = searches.taken()
    cluster.submit(*many[1:])
    refused = cluster.plan()
    assert searches.taken() == alone
    assert {"g0", *refused.reasons} == {one.id for one in many}
    assert {reason.code for reason in refused.reasons.values()} == {Code.VC_BUSY}


def test_a_gang_with_as_many_running_tasks_as_it_may_have_stops_no_tick() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    limited = member(4, 1, parallelism=2)
    cluster.submit(gang("limited", members=[limited], incremental=True))
    (placed,) = cluster.tick().placements
    assert len(placed.tasks) == 2
    cluster.submit(gang("other"))
    plan = cluster.tick()
    assert [p.gang for p in plan.placements] == ["other"]
    assert "limited" not in plan.reasons
