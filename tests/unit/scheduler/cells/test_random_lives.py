"""Random lives of clusters: every event in every order, validated after each step."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from ruamel.yaml import YAML
from tests.support.cells import (
    REFERENCE,
    counters,
    fits,
    healthy,
    hierarchies,
    merged,
    plain,
    rebuilt,
    trace,
)
from tests.support.examples import examples

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption, CellTaskPlacement, Refusal
from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.reconfigure import placements_of, reconfigure
from skep_scheduler.cells.request import GangRequest, MemberRequest, TopologyGroup

FIXED = [
    plain([2, 2, 2], 3, {"a": [(3, 1), (4, 1)], "b": [(2, 2), (3, 1)]}, node=3),
    plain([4], 4, {"a": [(2, 2)], "b": [(2, 1), (1, 3)]}, node=2),
    plain([2, 2, 2], 3, {"a": [(4, 1)], "b": [(3, 2)]}, node=3, pins={"a": (0, 3)}),
    merged(
        plain([2, 2], 2, {"a": [(2, 1)], "b": [(3, 1)]}, node=3),
        plain([2], 3, {"a": [(2, 1)], "b": [(1, 2)]}, node=2, name="H"),
    ),
]


def configurations() -> st.SearchStrategy[dict[str, Any]]:
    recorded = [
        YAML(typ="safe", pure=True).load(path)
        for name in ("design.yaml", "synthetic_topo.yaml")
        if (path := REFERENCE / "configs" / name).exists()
    ]
    both = st.builds(merged, hierarchies("G"), hierarchies("H"))
    return st.one_of(st.sampled_from(FIXED + recorded), hierarchies(), both)


class CellsMachine(RuleBasedStateMachine):
    @initialize(data=configurations())
    def build(self, data: dict[str, Any]) -> None:
        self.data = data
        self.state = healthy(data)
        self.born = counters(self.state)
        self.places: dict[str, tuple[CellTaskPlacement, ...]] = {}
        self.count = 0

    @rule(data=st.data(), number=st.integers(1, 4))
    def submit(self, data: st.DataObject, number: int) -> None:
        for _ in range(number):
            self._submit(data)
            validate(self.state)

    def _submit(self, data: st.DataObject) -> None:
        gang = data.draw(self._gangs(data))
        before = trace(self.state)
        avoid = data.draw(st.sets(st.sampled_from(sorted(self.state.nodes)), max_size=1))
        answer = place(self.state, gang, avoid)
        assert trace(self.state) == before, "a what-if left something behind"
        other = rebuilt(self.state, seed=self.count)
        if other is not None:
            assert place(other, gang, avoid) == answer, "the answer follows from the facts"
        if isinstance(answer, Refusal):
            assert answer.message
            return
        placement = answer if isinstance(answer, CellPlacement) else answer.placement
        self._check(gang, placement, avoid)
        if isinstance(answer, CellPlacement):
            group = ledger.start(self.state, gang, answer)
            assert group.opportunistic == gang.opportunistic, group.downgraded_by
            assert placements_of(group) == placement.tasks
        else:
            self._check_victims(gang, answer)
            assert ledger.reserve(self.state, gang, placement) is not None

    def _check(self, gang: GangRequest, placement: CellPlacement, avoid: set[str]) -> None:
        devices = [(placed.node, device) for placed in placement.tasks for device in placed.devices]
        assert len(set(devices)) == len(devices)
        assert not any(self.state.leaves[device].bad for device in devices)
        assert not any(placed.node in avoid for placed in placement.tasks)
        assert len(placement.tasks) == sum(member.tasks for member in gang.members)

    def _check_victims(self, gang: GangRequest, answer: CellPreemption) -> None:
        downgraded = set(answer.placement.downgrades)
        for victim in answer.victims:
            group = self.state.groups[victim.gang]
            assert (
                group.opportunistic
                or victim.gang in downgraded
                or (group.priority < gang.priority and group.gang.vc == gang.vc)
            )

    def _gangs(self, data: st.DataObject) -> st.SearchStrategy[GangRequest]:
        self.count += 1
        types = sorted({t for p in self.state.chains.values() for t in p.shape.level_of})
        members = st.lists(
            st.builds(
                MemberRequest,
                st.sampled_from([1, 1, 1, 2, 3]),
                st.sampled_from([1, 1, 2, 2, 3, 4]),
                st.sampled_from([None] * 12 + types),
            ),
            min_size=1,
            max_size=2,
        ).map(tuple)
        within = st.sampled_from([None] * 3 + types)
        subgroups = st.lists(st.builds(TopologyGroup, members, within), max_size=2).map(tuple)
        topology_group = st.one_of(
            st.builds(TopologyGroup, members),
            st.builds(TopologyGroup, members, within),
            st.builds(TopologyGroup, members, within, subgroups),
        )
        owners = [name for name, vc in self.state.vcs.items() if vc.chains or vc.pins]
        vc = data.draw(st.sampled_from(owners * 4 + sorted(self.state.vcs) or ["a"]))
        pins = [None] * 2 + sorted(self.state.vcs[vc].pins if vc in self.state.vcs else ())
        return st.builds(
            GangRequest,
            st.just(f"g{self.count}"),
            st.just(vc),
            st.sampled_from([-1, 0, 1, 2]),
            topology_group,
            st.sampled_from([None] * 4 + [p.shape.leaf_type for p in self.state.chains.values()]),
            st.sampled_from(pins),
            st.booleans(),
            st.booleans(),
        )

    @rule()
    def what_a_vc_owns_it_gets(self) -> None:
        """Each cell that a VC has free can be had as a whole, unless hardware is bad."""
        for vc in self.state.vcs.values():
            for chain, domain in vc.chains.items():
                free = [root for root in domain.roots if root.physical is None]
                if self.state.chains[chain].bad or not free:
                    continue
                shape, root = free[0].shape, free[0]
                level = min(root.level, shape.node_level)
                whole = MemberRequest(shape.cells_in(root.level, level), 1, shape.at(level).type)
                topology_group = TopologyGroup((whole,), root.spec.type)
                assert not isinstance(
                    place(self.state, GangRequest("owed", vc.name, 1000, topology_group)), Refusal
                )

    @precondition(lambda self: self.state.groups)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.state.groups)))
        assert ledger.release(self.state, name)
        self.places.pop(name, None)

    @precondition(lambda self: any(g.preempting for g in self.state.groups.values()))
    @rule(data=st.data())
    def settle_preemption(self, data: st.DataObject) -> None:
        waiting = sorted(n for n, g in self.state.groups.items() if g.preempting)
        group = self.state.groups[data.draw(st.sampled_from(waiting))]
        if data.draw(st.booleans()):
            for victim in {leaf.user.name for leaf, _ in group.pairs() if leaf.user}:
                ledger.release(self.state, victim)
                self.places.pop(victim, None)
        ledger.adopt(self.state, group.gang, group.chain, placements_of(group))
        assert not group.preempting

    @rule(data=st.data(), on=st.booleans())
    def node(self, data: st.DataObject, on: bool) -> None:
        health.set_node(self.state, data.draw(st.sampled_from(sorted(self.state.nodes))), on)

    @rule(data=st.data(), on=st.booleans())
    def device(self, data: st.DataObject, on: bool) -> None:
        where = data.draw(st.sampled_from(sorted(self.state.leaves, key=str)))
        health.set_device(self.state, *where, on)

    @rule()
    def unknown_names(self) -> None:
        assert not health.set_node(self.state, "nowhere", healthy=False)
        assert not health.set_device(self.state, "nowhere", 0, healthy=False)
        assert not ledger.release(self.state, "nobody")

    @rule(data=st.data(), what=st.sampled_from(["vcs", "vcs", "hardware", "nothing", "back"]))
    def change_configuration(self, data: st.DataObject, what: str) -> None:
        if what == "nothing":
            self._restart()
            return
        changed = copy.deepcopy(self.data)
        if what == "vcs":
            self._change_vcs(data, changed["virtualClusters"])
        cells = changed["physicalCluster"]["physicalCells"]
        if what == "hardware" and len(cells) > 1:
            del cells[data.draw(st.integers(0, len(cells) - 1))]
        if fits(changed):
            self._reconfigure(changed)

    def _change_vcs(self, data: st.DataObject, vcs: dict[str, Any]) -> None:
        for owns in vcs.values():
            for share in owns.get("virtualCells") or ():
                share["cellNumber"] = data.draw(st.integers(0, share["cellNumber"] + 1))
        if data.draw(st.booleans()) and vcs:
            del vcs[sorted(vcs)[0]]

    def _restart(self) -> None:
        """Who runs is adopted anew, from placements alone."""
        self.state, change = reconfigure(self.state, self.state.config)
        assert not change.downgraded, "what fitted fits again"

    def _reconfigure(self, data: dict[str, Any]) -> None:
        config = read_config(data)
        before = trace(self.state)
        state, change = reconfigure(self.state, config)
        assert trace(self.state) == before
        running = {n for n, g in self.state.groups.items() if not g.preempting}
        assert set(state.groups) == running, "nothing is killed"
        assert set(change.cancelled) == set(self.state.groups) - running
        self.state = state

    @invariant()
    def all_invariants_hold(self) -> None:
        if not hasattr(self, "state"):
            return
        validate(self.state)
        for name, group in self.state.groups.items():
            placements = [(placed.node, placed.devices) for placed in placements_of(group)]
            assert self.places.setdefault(name, placements) == placements, "nothing moves"

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        self._reconfigure(self.data)
        for name in list(self.state.groups):
            ledger.release(self.state, name)
            validate(self.state)
        for node in self.state.nodes:
            health.set_node(self.state, node, healthy=True)
        for where in self.state.leaves:
            health.set_device(self.state, *where, healthy=True)
        assert counters(self.state) == self.born, "all counters are as at the start"


CellsMachine.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCells = CellsMachine.TestCase
