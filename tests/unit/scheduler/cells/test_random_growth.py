"""Random lives of inventories: hardware, claims and gangs come and go in every order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.support.cells import counters, rebuilt
from tests.support.examples import examples
from tests.support.inventories import A100, layouts, node

from skep_scheduler.cells import grow, health, ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.reconfigure import placements_of, reconfigure
from skep_scheduler.cells.request import gang
from skep_scheduler.cells.state import CellState
from skep_scheduler.inventory import build
from skep_scheduler.model import Claim, Inventory, Node, Pin, VirtualCluster

RACKS = st.sampled_from(["", "r1", "r1", "r2", "r3"])
FABRICS = st.sampled_from(["", "", "f1", "f2"])


class GrowthMachine(RuleBasedStateMachine):
    @initialize(layout=st.one_of(st.none(), st.none(), layouts()))
    def build(self, layout: object) -> None:
        self.nodes: dict[str, Node] = {}
        self.claims: dict[str, list[Claim]] = {"a": [], "b": []}
        self.pins: dict[str, Pin] = {}
        self.layout = layout
        self.state = CellState(build(self._inventory()).config)
        self.count = 0

    def _inventory(self) -> Inventory:
        vcs = [VirtualCluster(name, tuple(claims)) for name, claims in self.claims.items()]
        nodes, pins = tuple(self.nodes.values()), tuple(self.pins.values())
        return Inventory(nodes, tuple(vcs), pins, self.layout)  # type: ignore[arg-type]

    def _apply(self) -> None:
        groups = {name: placements_of(group) for name, group in self.state.groups.items()}
        waiting = {name for name, group in self.state.groups.items() if group.preempting}
        self.state, change = grow.apply(self.state, build(self._inventory()).config)
        assert groups.keys() - self.state.groups.keys() == set(change.cancelled) <= waiting
        for name, group in self.state.groups.items():
            assert placements_of(group) == groups[name], "nothing moves"
        validate(self.state)
        self._compare()

    def _compare(self) -> None:
        """With one built anew, where no gang's standing depends on what came before it."""
        groups = self.state.groups.values()
        if any(group.downgraded_by is not None or group.preempting for group in groups):
            return
        new, change = reconfigure(self.state, self.state.config)
        if not change.downgraded:
            assert counters(new) == counters(self.state)

    @rule(
        number=st.integers(1, 6),
        gpus=st.sampled_from([0, 2, 4, 4]),
        model=st.sampled_from([A100, A100, "V100"]),
        rack=RACKS,
        fabric=FABRICS,
    )
    def node_comes_or_changes(
        self, number: int, gpus: int, model: str, rack: str, fabric: str
    ) -> None:
        labels = {"rack": rack, "fabric": fabric}
        self.nodes[f"n{number}"] = node(f"n{number}", gpus, model, **labels)
        self._apply()

    @rule(numbers=st.sets(st.integers(1, 6), min_size=1, max_size=4), rack=RACKS)
    def equal_nodes_come(self, numbers: set[int], rack: str) -> None:
        for number in numbers:
            self.nodes[f"n{number}"] = node(f"n{number}", 4, A100, rack=rack)
        self._apply()

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def node_goes(self, data: st.DataObject) -> None:
        del self.nodes[data.draw(st.sampled_from(sorted(self.nodes)))]
        self._apply()

    @rule(data=st.data(), vc=st.sampled_from(["a", "b"]))
    def vc_changes(self, data: st.DataObject, vc: str) -> None:
        shapes = self.state.config.shapes.values()
        types = [(shape.chain, level.type) for shape in shapes for level in shape.levels]
        wish = data.draw(st.sampled_from([*types, ("", A100), ("", "V100")]))
        self.claims[vc].append(Claim(*wish, data.draw(st.integers(1, 8))))
        if len(self.claims[vc]) > 2:
            del self.claims[vc][0]
        self._apply()

    @rule(data=st.data(), owner=st.sampled_from(["a", "b", ""]))
    def pin_changes(self, data: st.DataObject, owner: str) -> None:
        types = [level.type for s in self.state.config.shapes.values() for level in s.levels]
        hosts = sorted(self.state.nodes)
        if not types or not hosts or "p" in self.pins:
            self.pins.clear()
        else:
            cell_type, host = data.draw(st.sampled_from(types)), data.draw(st.sampled_from(hosts))
            self.pins["p"] = Pin("p", cell_type, host, vc=owner)
        self._apply()

    @precondition(lambda self: self.state.nodes)
    @rule(data=st.data(), on=st.sampled_from([True, True, True, False]))
    def nodes_are_seen(self, data: st.DataObject, on: bool) -> None:
        for name in data.draw(st.sets(st.sampled_from(sorted(self.state.nodes)), min_size=1)):
            health.set_node(self.state, name, on)

    @precondition(lambda self: self.state.leaves)
    @rule(data=st.data(), on=st.booleans())
    def device(self, data: st.DataObject, on: bool) -> None:
        where = data.draw(st.sampled_from(sorted(self.state.leaves, key=str)))
        health.set_device(self.state, *where, on)

    @rule(
        vc=st.sampled_from(["a", "b"]),
        priority=st.sampled_from([-1, 0, 1, 2]),
        tasks=st.integers(1, 3),
        devices=st.sampled_from([1, 2, 4]),
    )
    def submit(self, vc: str, priority: int, tasks: int, devices: int) -> None:
        self.count += 1
        asked = gang(f"g{self.count}", vc, priority, (tasks, devices))
        answer = place(self.state, asked)
        other = rebuilt(self.state, seed=self.count)
        if other is not None:
            assert place(other, asked) == answer, "the answer follows from the facts"
        if isinstance(answer, CellPlacement):
            ledger.start(self.state, asked, answer)
        elif isinstance(answer, CellPreemption):
            assert ledger.reserve(self.state, asked, answer.placement) is not None

    @precondition(lambda self: self.state.groups)
    @rule(data=st.data())
    def gang_goes(self, data: st.DataObject) -> None:
        assert ledger.release(self.state, data.draw(st.sampled_from(sorted(self.state.groups))))

    @invariant()
    def all_invariants_hold(self) -> None:
        if hasattr(self, "state"):
            validate(self.state)

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        for name in list(self.state.groups):
            ledger.release(self.state, name)
        fresh = CellState(self.state.config)
        for where, leaf in self.state.leaves.items():
            health.set_node(fresh, where[0], True)
            health.set_node(self.state, where[0], True)
            health.set_device(self.state, *where, True)
            assert where in fresh.leaves, leaf
        assert counters(self.state) == counters(fresh), "all counters are as at the start"


GrowthMachine.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestGrowth = GrowthMachine.TestCase
