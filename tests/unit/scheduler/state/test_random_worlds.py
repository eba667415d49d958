"""Random lives of states: every fact and every plan in every order, and validated after each.

A second state gets the same facts in another order: it must come out the same, and plan alike.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.cluster import Cluster, member, node
from tests.support.examples import examples
from tests.support.plans import plan_of, rebuilt

from skep_scheduler.engine import explain
from skep_scheduler.model import (
    Claim,
    Gang,
    Inventory,
    Node,
    Pin,
    Placement,
    Preemption,
    Reason,
    UserLimits,
    VirtualCluster,
)
from skep_scheduler.state import ClusterState

MODELS = ["A100", "V100"]
VCS = ["a", "b"]


class WorldMachine(RuleBasedStateMachine):
    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        self.count = 0
        nodes = [self._node(data) for _ in range(data.draw(st.integers(1, 4)))]
        self.cluster = Cluster(nodes, self._vcs(data))
        self.state = self.cluster.state

    def _node(self, data: st.DataObject) -> Node:
        self.count += 1
        gpus = data.draw(st.sampled_from([0, 1, 2, 4, 4]))
        labels = {"rack": "r1"} if data.draw(st.booleans()) else {}
        model = data.draw(st.sampled_from(MODELS))
        return node(f"n{self.count}", gpus, model, labels=labels)

    def _vcs(self, data: st.DataObject) -> list[VirtualCluster]:
        claim = st.builds(Claim, st.just(""), st.sampled_from(MODELS), st.integers(0, 8))
        limits = st.builds(UserLimits, *[st.sampled_from([None, None, 1, 4])] * 2)
        return [
            VirtualCluster(
                vc, tuple(data.draw(st.lists(claim, max_size=2))), user_limits=data.draw(limits)
            )
            for vc in VCS
        ]

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
            owner=draw(st.sampled_from(["", "x", "y"])),
        )

    @rule(seconds=st.sampled_from([0.0, 5.0, 30.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.now += seconds
        self.cluster.tick()

    @rule(seconds=st.sampled_from([10.0, 100.0]))
    def everything_takes_its_course(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.now + seconds)

    @precondition(lambda self: self._known())
    @rule(data=st.data())
    def a_gang_goes(self, data: st.DataObject) -> None:
        self.cluster.end(data.draw(st.sampled_from(self._known())))

    @precondition(lambda self: self.state.waiting)
    @rule(data=st.data())
    def a_dry_run_changes_nothing(self, data: st.DataObject) -> None:
        before = self.state.digest()
        answer = explain(self.state, self._gang(data), self.cluster.now)
        assert isinstance(answer, Placement | Preemption | Reason)
        assert self.state.digest() == before

    @precondition(lambda self: self.state.nodes)
    @rule(data=st.data(), schedulable=st.booleans(), healthy=st.booleans())
    def a_node_changes(self, data: st.DataObject, schedulable: bool, healthy: bool) -> None:
        one = self.state.nodes[data.draw(st.sampled_from(sorted(self.state.nodes)))]
        devices = (*(replace(d, healthy=healthy) for d in one.devices[:1]), *one.devices[1:])
        self.state.set_node(replace(one, schedulable=schedulable, devices=devices))

    @rule(data=st.data())
    def nodes_come_and_go(self, data: st.DataObject) -> None:
        nodes = list(self.state.nodes.values())
        if len(nodes) > 1 and data.draw(st.booleans()):
            nodes.remove(data.draw(st.sampled_from(nodes)))
            self.state.set_inventory(replace(self.state.inventory, nodes=tuple(nodes)))
        else:
            self.state.set_node(self._node(data))

    @rule(data=st.data())
    def others_own_the_cells(self, data: st.DataObject) -> None:
        vcs = self._vcs(data)
        kept = data.draw(st.sampled_from([VCS, VCS, ["a"]]))
        pins: tuple[Pin, ...] = ()
        with_gpus = sorted(n.name for n in self.state.nodes.values() if n.devices)
        if with_gpus and data.draw(st.booleans()):
            name = data.draw(st.sampled_from(with_gpus))
            gpus = len(self.state.nodes[name].devices)
            model = self.state.nodes[name].devices[0].model
            pins = (Pin("p", f"{model}-NODE{gpus}", name, vc="a"),)
        inventory = Inventory(
            tuple(self.state.nodes.values()), tuple(vc for vc in vcs if vc.name in kept), pins
        )
        changed = self.state.set_inventory(inventory)
        for gang_id in changed.downgraded:
            assert not self.state.is_guaranteed(gang_id)

    def _known(self) -> list[str]:
        state = self.state
        return sorted({*state.waiting, *state.running, *state.nominated})

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        self.state.validate()

    @invariant()
    def a_rebuilt_state_equals_this_one_and_plans_alike(self) -> None:
        """A state that got the same facts in another order equals this one, and plans alike."""
        other = rebuilt(self.state, seed=self.count)
        assert other.digest() == self.state.digest()
        again, mine = plan_of(other, self.cluster.now), plan_of(self.state, self.cluster.now)
        pairs = zip_longest(again, mine)
        different = "\n".join(f"{a}\n{b}" for a, b in pairs if a != b)
        assert not different, different

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        for gang_id in self._known():
            self.state.forget(gang_id)
            self.state.validate()
        empty = ClusterState()
        empty.set_inventory(self.state.inventory)
        assert self.state.digest() == empty.digest()


def some(lives: int) -> settings:
    too_slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(
        max_examples=lives, stateful_step_count=30, deadline=None, suppress_health_check=too_slow
    )


class TestWorlds(WorldMachine.TestCase):
    settings = some(examples(15))


@pytest.mark.long
class TestManyWorlds(WorldMachine.TestCase):
    settings = some(200)
