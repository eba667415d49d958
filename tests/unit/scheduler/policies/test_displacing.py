"""A policy whose waiting gangs may take the places of running ones that come later."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node, owns
from tests.support.examples import examples

from skep_scheduler import engine
from skep_scheduler.explain.standings import sentence
from skep_scheduler.model import (
    Claim,
    Code,
    Gang,
    Options,
    Plan,
    PolicyChoice,
    VirtualCluster,
)
from skep_scheduler.placement.base import Answer
from skep_scheduler.placement.cells_placer import find
from skep_scheduler.placement.displacing import Displacer
from skep_scheduler.policies.base import BackfillMode, Decision, Keep, Key, Needs, View
from skep_scheduler.policies.ordered import Ordered

OPTIONS = Options(starvation_s=1e9, min_run_s=60.0)


@dataclass(frozen=True, slots=True)
class ShortestFirst:
    """The shortest gang runs, also instead of a longer one."""

    name: ClassVar[str] = "shortest_first"
    label: ClassVar[str] = "shortest first"
    needs: ClassVar[Needs] = Needs()
    keep: Keep = Keep.DISPLACE
    backfill_mode: BackfillMode = BackfillMode.SKIP

    def key(self, gang: Gang, now: float) -> Key:
        return -gang.priority, gang.expected_s or 1e9


class Displacing(Cluster):
    keep = Keep.DISPLACE

    def plan(self) -> Plan:
        policy = Ordered(ShortestFirst(self.keep))
        decided = engine.plan(self.state, self.now, self.options, lambda vc: policy)
        self.state.validate()
        return decided


def cluster(nodes: int = 1, **gpus: int) -> Displacing:
    return Displacing([node(f"n{i}") for i in range(nodes)], owns(**gpus or {"a": 8}), OPTIONS)


def test_a_running_gang_moves_to_the_next_queue_when_it_was_served_enough() -> None:
    """And it yields at that moment: the plan is made again then."""
    limits = (("first_limit_gpu_s", 8 * 100), ("second_limit_gpu_s", 0))
    (vc,) = owns(a=8)
    vcs = [replace(vc, policy=PolicyChoice("tiresias", limits))]
    world = Cluster([node("n0")], vcs, OPTIONS)
    world.run(gang("early", gpus=8))
    world.now = 70.0
    world.submit(gang("late", gpus=8, at=70.0))
    plan = world.tick()
    assert (plan.preemptions, plan.next_at) == ((), 100.0)
    assert "it has had 0 GPU-seconds, so it is in queue 1 of 2" in plan.reasons["late"].message
    world.now = 100.0
    (made,) = world.tick().preemptions
    (victim,) = made.victims
    assert victim.gang == "early"
    assert sentence(victim.standing, 100.0) == (
        "it has had 0.2 GPU-hours, so it moved to queue 2 of 2; jobs of queue 1 go first"
    )


def test_a_gang_takes_the_places_of_one_that_comes_later_and_starts_when_it_has_left() -> None:
    world = cluster()
    world.run(gang("long", gpus=8, predicted_s=1000.0))
    world.now = 100.0
    world.submit(gang("short", gpus=8, at=100.0, predicted_s=10.0))
    (made,) = world.tick().preemptions
    assert [victim.gang for victim in made.victims] == ["long"]
    world.advance(100.0 + world.grace_s)
    assert world.started["short"] == 100.0 + world.grace_s
    assert "long" in world.state.waiting


@pytest.mark.parametrize(
    ("running", "code"),
    [
        ({"predicted_s": 5.0}, Code.VC_BUSY),  # it comes earlier
        ({"predicted_s": 1000.0, "preemptible": False}, Code.VC_BUSY),
        ({"predicted_s": 1000.0, "priority": 11}, Code.VC_BUSY),
    ],
)
def test_no_other_gang_is_displaced(running: dict[str, float], code: Code) -> None:
    world = cluster()
    world.run(gang("runs", gpus=8, **running))
    world.now = 100.0
    world.submit(gang("short", gpus=8, at=100.0, predicted_s=10.0))
    plan = world.tick()
    assert not plan.preemptions
    assert plan.reasons["short"].code == code


def test_a_gang_that_runs_since_a_moment_is_displaced_later() -> None:
    world = cluster()
    world.run(gang("long", gpus=8, predicted_s=1000.0))
    world.now = 30.0
    world.submit(gang("short", gpus=8, at=30.0, predicted_s=10.0))
    plan = world.tick()
    assert plan.reasons["short"].code == Code.VICTIMS_TOO_YOUNG
    assert plan.next_at == OPTIONS.min_run_s


def test_a_gang_whose_restart_is_dear_runs_longer_before_a_policy_takes_its_places() -> None:
    world = cluster()
    world.run(gang("long", gpus=8, predicted_s=1000.0, leave_s=4.0, warmup_s=6.0))
    world.now = 100.0
    world.submit(gang("short", gpus=8, at=100.0, predicted_s=10.0))
    plan = world.tick()
    assert plan.reasons["short"].code == Code.VICTIMS_TOO_YOUNG
    assert plan.next_at == 200.0
    world.submit(gang("urgent", gpus=8, at=100.0, predicted_s=10.0, priority=20))
    assert [made.gang for made in world.tick().preemptions] == ["urgent"]


def test_a_gang_leaves_and_restarts_as_fast_as_gangs_like_it_did() -> None:
    world = cluster()
    world.keep_progress = True
    world.run(gang("long", gpus=8, duration_s=1000.0, leave_s=2.0, warmup_s=3.0))
    world.now = 100.0
    world.submit(gang("short", gpus=8, at=100.0, duration_s=10.0))
    world.tick()
    world.run_to_end()
    assert world.started["short"] == 102.0
    # It did 102 s, so that 898 s were left, and 3 s more for the restart.
    assert world.history["long"].ended_at == 112.0 + 898.0 + 3.0


def test_gangs_of_another_virtual_cluster_and_those_not_needed_stay() -> None:
    world = cluster(2, a=8, b=8)
    world.run(
        gang("other", "b", gpus=8, predicted_s=9000.0),
        gang("longest", gpus=2, predicted_s=3000.0),
        gang("long", gpus=4, predicted_s=2000.0),
        gang("mid", gpus=2, predicted_s=1000.0),
    )
    world.now = 100.0
    world.submit(gang("short", gpus=4, at=100.0, predicted_s=10.0))
    (made,) = world.tick().preemptions
    assert [victim.gang for victim in made.victims] == ["long"]


def test_a_firm_policy_displaces_nothing() -> None:
    world = cluster()
    world.keep = Keep.FIRM
    world.run(gang("long", gpus=8, predicted_s=1000.0))
    world.now = 100.0
    world.submit(gang("short", gpus=8, at=100.0, predicted_s=10.0))
    assert not world.tick().preemptions


def half_on_each_of_two_nodes(**more: object) -> Displacing:
    """A gang runs on halves of two nodes, of which its virtual cluster owns one and a half."""
    world = Displacing([node("n0", 4), node("n1", 4)], owns(a=6), OPTIONS)
    world.run(gang("first", gpus=2))
    world.run(gang("spread", tasks=2, gpus=2, predicted_s=1000.0, **more))
    assert {task.node for task in world.state.running["spread"].tasks} == {"n0", "n1"}
    world.end("first")
    world.now = 100.0
    return world


def test_a_gang_is_displaced_only_if_the_other_one_can_have_its_places() -> None:
    """The whole node that the virtual cluster owns is bound to the one with the bad GPU, until the
    gang that runs there has left: it would have left in vain, and another one the same."""
    world = half_on_each_of_two_nodes()
    bound = next(t.node for t in world.state.running["spread"].tasks if t.cell_type == "A100-NODE4")
    bad, *good = world.state.nodes[bound].devices
    bad_node = replace(world.state.nodes[bound], devices=(replace(bad, healthy=False), *good))
    world.state.set_node(bad_node)
    world.submit(*(gang(f"short{i}", gpus=4, at=100.0, predicted_s=10.0) for i in range(2)))
    plan = world.tick()
    assert not plan.preemptions
    assert {reason.code for reason in plan.reasons.values()} == {Code.VC_BUSY}
    world.end("spread")
    assert [start.gang for start in world.tick().placements] == ["short0"]


def test_a_gang_gets_the_node_that_can_be_reserved_for_it() -> None:
    world = half_on_each_of_two_nodes()
    world.submit(gang("short", gpus=4, at=100.0, predicted_s=10.0))
    (made,) = world.tick().preemptions
    assert [victim.gang for victim in made.victims] == ["spread"]
    assert world.state.is_nominated("short")
    world.advance(100.0 + world.grace_s)
    assert world.started["short"] == 100.0 + world.grace_s


@pytest.mark.parametrize("at", [0, 3])
def test_a_gang_takes_the_nodes_of_its_victims_and_idle_ones_beside_them(at: int) -> None:
    """Its virtual cluster owns two nodes, and one of them is where the victim runs. Other nodes are
    idle, and would be chosen, as an opportunistic gang runs there as well."""
    nodes = [node(f"n{i}", 4) for i in range(4)]
    world = Displacing(nodes, owns(a=8, b=8), OPTIONS)
    for i, one in enumerate(nodes):
        world.state.set_node(replace(one, schedulable=i == at))
    world.run(gang("long", gpus=2, predicted_s=1000.0), gang("guest", "b", gpus=2, priority=-1))
    for one in nodes:
        world.state.set_node(one)
    world.now = 100.0
    world.submit(gang("short", tasks=2, gpus=4, at=100.0, predicted_s=10.0))
    (made,) = world.tick().preemptions
    assert {victim.gang for victim in made.victims} == {"long", "guest"}
    world.advance(100.0 + world.grace_s)
    assert world.started["short"] == 100.0 + world.grace_s


@pytest.mark.parametrize(("firm", "most"), [([], 1), ([f"g{i:03}" for i in range(0, 256, 8)], 0)])
def test_whom_to_displace_is_found_in_few_searches(firm: list[str], most: int) -> None:
    """Of 256 running gangs eight have to leave, or (with one that may not leave on each node) all
    of them are too few. To look after each that is released, and after each that is put back, takes
    441 and 224 searches."""
    world = cluster(32, a=256)
    for i in range(256):
        name = f"g{i:03}"
        world.run(gang(name, predicted_s=1000.0 + i * 37 % 256, preemptible=name not in firm))
    whole, decision = gang("whole", gpus=8, at=100.0, predicted_s=10.0), _decision(world)
    world.now = 100.0
    world.submit(whole)
    searches = 0

    def search(excluded: Collection[str]) -> Answer:
        nonlocal searches
        searches += 1
        return find(world.state, whole, world.state.kind_of(whole), 1, None, excluded)

    kind = world.state.kind_of(whole)
    found = Displacer(world.state, 100.0).find(whole, kind, decision, search)
    assert (found is None) == bool(firm)
    assert found is None or len(found.victims) == 8
    assert searches <= most


def test_a_gang_takes_no_places_on_gpus_that_it_cannot_use() -> None:
    """Although who is there would yield before others."""
    models = {"n0": "A100", "n1": "V100"}
    claims = tuple(Claim("", model, 8) for model in models.values())
    nodes = [node(name, model=model) for name, model in models.items()]
    world = Displacing(nodes, (VirtualCluster("a", claims),), OPTIONS)
    for name, model, seconds in (("v", "V100", 9000.0), ("l", "A100", 800.0), ("s", "A100", 700.0)):
        own = member(1, 8 if name == "v" else 4, gpu_model=model)
        world.run(gang(name, members=[own], predicted_s=seconds))
    world.now = 100.0
    short = member(1, 4, gpu_model="A100")
    world.submit(gang("short", members=[short], at=100.0, predicted_s=10.0))
    (made,) = world.plan().preemptions
    assert [victim.gang for victim in made.victims] == ["l"]


def test_gangs_that_are_released_together_leave_the_same_as_one_after_the_other() -> None:
    world = cluster(3, a=16, b=8)
    world.run(
        gang("whole", gpus=8),
        gang("four", gpus=4, priority=7),
        gang("firm", gpus=2, preemptible=False),
        gang("idle", gpus=2, priority=-1),
        gang("other", vc="b", gpus=4),
    )
    state, names = world.state, ["whole", "idle", "firm", "four"]
    before = state.digest()
    with state.trial():
        state.allocations.release_all(names)
        together = state.digest()
    with state.trial():
        for name in names:
            state.allocations.release(name)
        assert state.digest() == together != before
    assert state.digest() == before


def _decision(world: Displacing) -> Decision:
    return Ordered(ShortestFirst()).decide(View("a", 100.0, world.options))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    mix=st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from([1, 2, 4, 8]), st.integers(1, 9)),
        min_size=2,
        max_size=12,
    )
)
def test_every_gang_ends_and_no_two_displace_each_other_in_turn(
    mix: list[tuple[int, int, int]],
) -> None:
    world = cluster(2, a=16)
    for i, (tasks, gpus, length) in enumerate(mix):
        seconds = length * 100.0
        world.lifetimes[f"g{i}"] = seconds
        world.submit_later(
            gang(f"g{i}", members=[member(tasks, gpus)], at=i * 70.0, predicted_s=seconds)
        )
    world.advance(70.0 * len(mix))
    world.run_to_end(tick_limit=500)
    assert all(known.ended_at is not None for known in world.history.values())
    assert all(known.preemptions <= len(mix) for known in world.history.values())
