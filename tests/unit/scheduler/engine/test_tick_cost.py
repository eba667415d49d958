"""What a tick costs in function calls, which are the same on a busy machine and on a quiet one."""

from __future__ import annotations

import sys
from types import FrameType

from tests.support.cluster import gang, node, owns

from skep_scheduler import engine
from skep_scheduler.memory import Memory
from skep_scheduler.model import DEFAULTS, Code, Inventory, Plan
from skep_scheduler.simulator.commit import commit
from skep_scheduler.state import ClusterState
from skep_scheduler.state.allocations import Allocations

VCS = "abcdefgh"
SIZES = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 2)]  # tasks, GPUs per task
NOW = 5_000.0


def test_a_tick_after_one_end_costs_no_more_behind_a_longer_queue() -> None:
    short, long = calls_after_one_end(nodes=4, gangs=100), calls_after_one_end(nodes=4, gangs=300)
    assert long < short * 1.05


def test_a_tick_after_one_end_costs_what_can_have_changed() -> None:
    """The bounds are a little above what it takes today (20,400 and 45,900), and below what it took
    when each tick counted what runs in all virtual clusters (28,200 and 61,300). The second cluster
    is four times as large."""
    assert calls_after_one_end(nodes=4, gangs=100) < 23_000
    assert calls_after_one_end(nodes=16, gangs=100) < 51_000


def calls_after_one_end(nodes: int, gangs: int) -> int:
    """Return the function calls of a tick, in a cluster with so many nodes and waiting gangs per
    virtual cluster, in which one gang has ended since the last tick."""
    state, memory = filled(nodes, gangs), Memory(DEFAULTS)
    engine.plan(state, NOW, memory=memory)
    engine.plan(state, NOW, memory=memory)
    state.forget(min(g for g in state.running_of["c"] if state.is_guaranteed(g)))
    calls, plan = calls_of_plan(state, memory)
    assert plan.placements
    return calls


def calls_of_plan(state: ClusterState, memory: Memory) -> tuple[int, Plan]:
    """Return the function calls of a plan, and the plan."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        plan = engine.plan(state, NOW, memory=memory)
    finally:
        sys.setprofile(None)
    return calls, plan


def filled(nodes: int, gangs: int) -> ClusterState:
    """Return a cluster in which nothing more can start."""
    state = ClusterState()
    machines = tuple(node(f"n{i:03}") for i in range(nodes * len(VCS)))
    state.set_inventory(Inventory(machines, owns(**dict.fromkeys(VCS, nodes * 8))))
    for n, vc in enumerate(VCS):
        for i in range(gangs + nodes * 2):
            tasks, gpus = SIZES[(i + n) % len(SIZES)]
            duration_s, priority = (None, 600.0, 3_600.0)[i % 3], (0, 10, 10, -1)[i % 4]
            name = f"{vc}{i:04}"
            state.set_waiting(
                gang(name, vc, tasks, gpus, priority, at=float(i), duration_s=duration_s)
            )
    while (plan := engine.plan(state, NOW)).placements or plan.preemptions:
        for gang_id in commit(state, plan, NOW):
            state.forget(gang_id)
    return state


def test_whether_a_gang_could_ever_start_is_asked_without_releasing_all_that_runs() -> None:
    """A starving gang closes the line only if its virtual cluster could hold it. One gang that is
    released shows that here, of however many."""
    assert releases_for_a_starving_gang(nodes=4) == releases_for_a_starving_gang(nodes=16) == 1


def releases_for_a_starving_gang(nodes: int) -> int:
    """Return how many gangs a plan releases in trials, where some run on each node."""
    state = ClusterState()
    machines = tuple(node(f"n{i:02}") for i in range(nodes))
    state.set_inventory(Inventory(machines, owns(a=8 * nodes)))
    for i in range(nodes):
        state.set_waiting(gang(f"large{i:02}", gpus=6))
        state.set_waiting(gang(f"small{i:02}", gpus=2))
    commit(state, engine.plan(state, 0.0), 0.0)
    assert len(state.running) == 2 * nodes
    state.set_waiting(gang("starves", gpus=4))
    releases = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal releases
        releases += event == "call" and frame.f_code is Allocations.release.__code__

    sys.setprofile(count)
    try:
        plan = engine.plan(state, DEFAULTS.starvation_s)
    finally:
        sys.setprofile(None)
    assert plan.reasons["starves"].code == Code.VC_BUSY
    return releases


def test_the_reason_of_one_gang_is_the_one_that_all_have_in_the_order_of_the_queue() -> None:
    """A few reasons are found by a search in the lanes, many by sorting the whole queue."""
    state = filled(nodes=4, gangs=100)
    sorted_ones = engine.plan(state, NOW).reasons
    ids = [gang.id for group in engine.plan(state, NOW).reasons.groups for gang in group.gangs]
    assert len(ids) == len(set(ids)) == len(sorted_ones)
    checked = 0
    for n in range(3):
        searched = engine.plan(state, NOW).reasons
        for group in searched.groups[n::3]:
            gang = group.gangs[len(group.gangs) // 2]
            assert searched.reason(gang, group) == sorted_ones[gang.id]
            checked += 1
    assert checked > 20


def test_the_reason_of_one_gang_costs_no_more_behind_a_longer_queue() -> None:
    short, long = calls_of_a_reason(gangs=100), calls_of_a_reason(gangs=400)
    assert long < short * 1.3


def calls_of_a_reason(gangs: int) -> int:
    reasons = engine.plan(filled(nodes=4, gangs=gangs), NOW).reasons
    group = next(one for one in reasons.groups if not one.gangs[0].opportunistic)
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        reasons.reason(group.gangs[-1], group)
    finally:
        sys.setprofile(None)
    return calls
