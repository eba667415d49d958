"""Limits of what one owner may hold in a virtual cluster."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns
from tests.support.examples import examples
from tests.unit.scheduler.engine.test_memory import OPTIONS, Remembering
from tests.unit.scheduler.engine.test_tick_cost import NOW, calls_of_plan

from skep_scheduler import engine
from skep_scheduler.explain import sentences
from skep_scheduler.memory import Memory
from skep_scheduler.model import DEFAULTS, Code, Gang, Inventory, UserLimits, VirtualCluster
from skep_scheduler.simulator.commit import commit
from skep_scheduler.state import ClusterState


def limited(limits: UserLimits, **gpus: int) -> list[VirtualCluster]:
    return [replace(vc, user_limits=limits) for vc in owns(**gpus)]


def of(owner: str, name: str, gpus: int = 1, **more: object) -> Gang:
    return replace(gang(name, gpus=gpus), owner=owner, **more)  # type: ignore[arg-type]


def test_a_gang_over_the_limit_waits_and_others_start_as_if_it_were_not_there() -> None:
    cluster = Cluster([node("n0")], limited(UserLimits(gpus=4), a=8))
    cluster.submit(of("ann", "ann1", 4, submitted_at=1.0), of("ann", "ann2", 2, submitted_at=2.0))
    cluster.submit(of("bob", "bob1", 4, submitted_at=3.0))
    plan = cluster.tick()
    assert cluster.state.running.keys() == {"ann1", "bob1"}
    assert plan.reasons["ann2"].code == Code.USER_GPU_LIMIT
    details = plan.reasons["ann2"].details
    assert (details["holds"], details["most"], details["asks"]) == (4, 4, 2)
    says = plan.reasons["ann2"].message
    assert says == "ann runs 4 of 4 GPUs that a user may have in a at a time, and it needs 2 GPUs."
    to_ann = sentences.sentence(Code.USER_GPU_LIMIT, {**details, "owner": ""})
    assert to_ann.startswith("You run 4 of 4 GPUs that a user may have in a")
    cluster.end("ann1")
    cluster.tick()
    assert "ann2" in cluster.state.running


def test_opportunistic_gangs_count_and_a_gang_above_the_whole_limit_is_told_so() -> None:
    cluster = Cluster([node("n0")], limited(UserLimits(gpus=4), a=8))
    cluster.submit(of("ann", "idle", 3, priority=-1))
    cluster.tick()
    cluster.submit(of("ann", "next", 2), of("ann", "huge", 6))
    plan = cluster.tick()
    assert plan.reasons["next"].code == plan.reasons["huge"].code == Code.USER_GPU_LIMIT
    assert "a user may have 4 in a at a time" in plan.reasons["huge"].message
    cluster.end("idle")
    cluster.tick()
    assert "next" in cluster.state.running


def test_running_jobs_of_a_user_are_limited_without_gpus_as_well() -> None:
    cluster = Cluster([node("n0")], limited(UserLimits(gangs=2), a=8))
    cluster.submit(*(of("ann", f"ann{i}", 0, submitted_at=float(i)) for i in range(3)))
    plan = cluster.tick()
    assert cluster.state.running.keys() == {"ann0", "ann1"}
    assert plan.reasons["ann2"].message.startswith("ann runs 2 of 2 jobs that a user may run in a")


def test_an_incremental_gang_starts_as_many_tasks_as_its_owner_may_have() -> None:
    cluster = Cluster([node("n0")], limited(UserLimits(gpus=4, gangs=1), a=8))
    cluster.submit(replace(gang("sweep", tasks=8, gpus=1), owner="ann", incremental=True))
    cluster.tick()
    assert len(cluster.state.running["sweep"].tasks) == 4
    cluster.tick()
    assert len(cluster.state.running["sweep"].tasks) == 4


def test_a_gang_loses_its_reservation_when_its_owner_comes_to_the_limit() -> None:
    """So that it holds back no one: ann's second gang would keep bob's from the free GPUs."""
    cluster = Cluster([node("n0")], limited(UserLimits(gpus=6), a=8))
    cluster.run(of("bob", "long", 2))
    cluster.run(of("ann", "mine", 4))
    cluster.submit(of("ann", "big", 6, submitted_at=1.0), of("bob", "small", 2, submitted_at=2.0))
    cluster.tick()
    assert "small" in cluster.state.running
    assert not cluster.state.reservations


def test_a_lowered_limit_ends_nothing_and_a_raised_one_starts_what_waited() -> None:
    cluster = Cluster([node("n0")], limited(UserLimits(gpus=4), a=8))
    cluster.submit(of("ann", "ann1", 4, submitted_at=1.0), of("ann", "ann2", 4, submitted_at=2.0))
    cluster.tick()
    for most, runs in ((1, {"ann1"}), (8, {"ann1", "ann2"})):
        vcs = tuple(limited(UserLimits(gpus=most), a=8))
        inventory = replace(cluster.state.inventory, virtual_clusters=vcs)
        cluster.state.set_inventory(inventory)
        cluster.tick()
        assert cluster.state.running.keys() == runs


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30), gpus=st.integers(1, 8), gangs=st.integers(1, 4))
def test_no_plan_exceeds_a_limit_and_memory_changes_none(seed: int, gpus: int, gangs: int) -> None:
    rng, most = random.Random(seed), UserLimits(gpus, gangs)
    vcs = tuple(replace(vc, user_limits=most) for vc in owns(a=8, b=8))
    cluster = Remembering([node("n0"), node("n1")], vcs, OPTIONS)
    cluster.memory, cluster.reserved, cluster.reported = Memory(OPTIONS), {}, {}
    for i in range(25):
        act = rng.random()
        if act < 0.7:
            one = gang(
                f"g{i:02}",
                rng.choice("ab"),
                gpus=rng.choice([0, 1, 1, 2, 4]),
                tasks=rng.choice([1, 1, 2]),
                priority=rng.choice([-1, 0, 10, 10]),
                at=cluster.now,
                duration_s=rng.choice([None, 30.0, 200.0]),
            )
            incremental = rng.random() < 0.2
            cluster.submit(replace(one, owner=rng.choice("xyz"), incremental=incremental))
        elif cluster.state.running:
            cluster.end(rng.choice(sorted(cluster.state.running)))
        cluster.advance(cluster.now + rng.choice([1.0, 20.0, 100.0]))
        held: Counter[tuple[str, str]] = Counter()
        jobs: Counter[tuple[str, str]] = Counter()
        for allocation in cluster.state.running.values():
            key = allocation.gang.vc, allocation.gang.owner
            held[key] += sum(len(task.gpu_uuids) for task in allocation.tasks)
            jobs[key] += 1
        assert max(held.values(), default=0) <= gpus
        assert max(jobs.values(), default=0) <= gangs


def test_a_long_queue_of_one_user_at_the_limit_costs_a_tick_nothing() -> None:
    assert _calls(400) < _calls(20) * 1.05


def _calls(waiting: int) -> int:
    state, memory = ClusterState(), Memory(DEFAULTS)
    vcs = tuple(limited(UserLimits(gpus=4), a=16))
    state.set_inventory(Inventory((node("n0"), node("n1")), vcs))
    state.set_waiting(of("ann", "held", 4))
    commit(state, engine.plan(state, NOW), NOW)
    for i in range(waiting):
        state.set_waiting(of("ann", f"w{i:04}", 1, submitted_at=float(i)))
    calls_of_plan(state, memory)
    state.set_waiting(of("bob", "bob", 1, submitted_at=1e6))
    calls, plan = calls_of_plan(state, memory)
    assert [placement.gang for placement in plan.placements] == ["bob"]
    return calls
