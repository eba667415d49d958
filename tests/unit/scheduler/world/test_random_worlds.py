"""Random lives of worlds: every fact and every plan in every order, and validated after each.

A second world is told the same facts anew and in another order: it must come out the same.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.cluster import Cluster, member, node

from skep_scheduler.facts import Claim, Gang, Inventory, Node, Pin, VirtualCluster
from skep_scheduler.queue import Placement, Preemption, Reason, explain
from skep_scheduler.world import World

MODELS = ["A100", "V100"]
VCS = ["a", "b"]


class WorldMachine(RuleBasedStateMachine):
    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        self.count = 0
        nodes = [self._node(data) for _ in range(data.draw(st.integers(1, 4)))]
        self.cluster = Cluster(nodes, self._vcs(data))
        self.world = self.cluster.world

    def _node(self, data: st.DataObject) -> Node:
        self.count += 1
        gpus = data.draw(st.sampled_from([0, 1, 2, 4, 4]))
        labels = {"rack": "r1"} if data.draw(st.booleans()) else {}
        model = data.draw(st.sampled_from(MODELS))
        return node(f"n{self.count}", gpus, model, labels=labels)

    def _vcs(self, data: st.DataObject) -> list[VirtualCluster]:
        claim = st.builds(Claim, st.just(""), st.sampled_from(MODELS), st.integers(0, 8))
        return [VirtualCluster(vc, tuple(data.draw(st.lists(claim, max_size=2)))) for vc in VCS]

    @rule(data=st.data(), number=st.integers(1, 3))
    def submit(self, data: st.DataObject, number: int) -> None:
        for _ in range(number):
            self.cluster.submit(self._gang(data))

    def _gang(self, data: st.DataObject) -> Gang:
        self.count += 1
        draw = data.draw
        members = [
            member(
                draw(st.sampled_from([1, 1, 2, 3])),
                draw(st.sampled_from([0, 1, 1, 2, 4])),
                role,
                gpu_model=draw(st.sampled_from([None, *MODELS])),
                cpu_millis=draw(st.sampled_from([100, 4_000, 20_000])),
                affinity_group=draw(st.sampled_from(["", "", "x"])),
            )
            for role in draw(st.sampled_from([["w"], ["w"], ["w", "p"]]))
        ]
        return Gang(
            f"g{self.count}",
            f"job-{self.count}",
            draw(st.sampled_from([*VCS, *VCS, *VCS, "nobody"])),
            draw(st.sampled_from([-1, 0, 0, 1, 2])),
            float(self.count),
            tuple(members),
            lazy=draw(st.booleans()),
            preemptible=draw(st.sampled_from([True, True, False])),
            incremental=draw(st.sampled_from([False, False, False, True])),
            duration_s=draw(st.sampled_from([None, 20.0, 100.0])),
        )

    @rule(seconds=st.sampled_from([0.0, 5.0, 30.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.now += seconds
        self.cluster.tick()

    @rule(seconds=st.sampled_from([10.0, 100.0]))
    def everything_takes_its_course(self, seconds: float) -> None:
        self.cluster.go_to(self.cluster.now + seconds)

    @precondition(lambda self: self._known())
    @rule(data=st.data())
    def a_gang_goes(self, data: st.DataObject) -> None:
        self.cluster.end(data.draw(st.sampled_from(self._known())))

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data())
    def a_dry_run_changes_nothing(self, data: st.DataObject) -> None:
        before = self.world.digest()
        answer = explain(self.world, self._gang(data), self.cluster.now)
        assert isinstance(answer, Placement | Preemption | Reason)
        assert self.world.digest() == before

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data(), schedulable=st.booleans(), healthy=st.booleans())
    def a_node_changes(self, data: st.DataObject, schedulable: bool, healthy: bool) -> None:
        one = self.world.nodes[data.draw(st.sampled_from(sorted(self.world.nodes)))]
        devices = (*(replace(d, healthy=healthy) for d in one.devices[:1]), *one.devices[1:])
        self.world.set_node(replace(one, schedulable=schedulable, devices=devices))

    @rule(data=st.data())
    def nodes_come_and_go(self, data: st.DataObject) -> None:
        nodes = list(self.world.nodes.values())
        if len(nodes) > 1 and data.draw(st.booleans()):
            nodes.remove(data.draw(st.sampled_from(nodes)))
            self.world.set_inventory(replace(self.world.inventory, nodes=tuple(nodes)))
        else:
            self.world.set_node(self._node(data))

    @rule(data=st.data())
    def others_own_the_cells(self, data: st.DataObject) -> None:
        vcs = self._vcs(data)
        kept = data.draw(st.sampled_from([VCS, VCS, ["a"]]))
        pins: tuple[Pin, ...] = ()
        with_gpus = sorted(n.name for n in self.world.nodes.values() if n.devices)
        if with_gpus and data.draw(st.booleans()):
            name = data.draw(st.sampled_from(with_gpus))
            gpus = len(self.world.nodes[name].devices)
            model = self.world.nodes[name].devices[0].model
            pins = (Pin("p", f"{model}-NODE{gpus}", name, vc="a"),)
        inventory = Inventory(
            tuple(self.world.nodes.values()), tuple(vc for vc in vcs if vc.name in kept), pins
        )
        changed = self.world.set_inventory(inventory)
        for gang_id in changed.downgraded:
            assert not self.world.is_guaranteed(gang_id)

    def _known(self) -> list[str]:
        world = self.world
        return sorted({*world.waiting, *world.running, *world.reserved})

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        self.world.validate()

    @precondition(lambda self: not self.world.downgraded() and not self.world.restored())
    @invariant()
    def another_world_comes_out_the_same(self) -> None:
        """Where nothing is left to be done about gangs that lost (or got back) their cells."""
        if all(self.world.is_reserved(gang_id) for gang_id in self.world.reserved):
            assert told_anew(self.world, seed=self.count).digest() == self.world.digest()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for gang_id in self._known():
            self.world.forget(gang_id)
            self.world.validate()
        empty = World()
        empty.set_inventory(self.world.inventory)
        assert self.world.digest() == empty.digest()


def told_anew(world: World, seed: int) -> World:
    """The same facts, in some other order."""
    other = World()
    facts: list[Any] = [lambda: other.set_inventory(world.inventory)]
    facts += [lambda g=g: other.set_waiting(g) for g in world.waiting.values()]
    facts += [lambda h=h: other.set_running(h) for h in world.running.values()]
    facts += [lambda r=r: other.set_reserved(r.gang, r.placement) for r in world.reserved.values()]
    random.Random(seed).shuffle(facts)
    for fact in facts:
        fact()
    return other


TestWorlds = WorldMachine.TestCase
TestWorlds.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
