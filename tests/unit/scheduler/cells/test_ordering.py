"""Equal facts give equal placements, whatever happened before; only HiveD's order remembers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cells import healthy, plain, rebuilt
from tests.support.examples import examples

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellAnswer, CellPlacement, CellPreemption
from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.ordering import BY_RANK, Ordering
from skep_scheduler.cells.place import place
from skep_scheduler.cells.reconfigure import placements_of
from skep_scheduler.cells.request import GangRequest, MemberRequest, TopologyGroup, gang
from skep_scheduler.cells.state import CellState
from skep_scheduler.replay.hived_order import HivedOrder

NODES = plain([2, 2], 4, {"a": [(3, 2)], "b": [(3, 2)]}, node=3)  # 4 nodes of 4
RACKS = plain([2, 2, 2], 3, {"a": [(4, 1), (3, 2)], "b": [(4, 1)]}, node=3)
MIXED = plain([2, 2, 2], 5, {"a": [(4, 2), (3, 1), (2, 1)], "b": [(3, 2), (1, 3)]}, node=3)


def state_of(config: dict[str, Any], ordering: Ordering = BY_RANK) -> CellState:
    state = CellState(read_config(config), ordering)
    for node in state.nodes:
        health.set_node(state, node, healthy=True)
    return state


def start(state: CellState, asked: GangRequest) -> CellAnswer:
    """Place a gang, and make it start if it can; its victims go."""
    answer = place(state, asked)
    if isinstance(answer, CellPreemption):
        for victim in answer.victims:
            ledger.release(state, victim.gang)
        answer = place(state, asked)
    if isinstance(answer, CellPlacement):
        ledger.start(state, asked, answer)
    return answer


def where(answer: CellAnswer) -> list[tuple[str, tuple[int | str, ...]]]:
    assert isinstance(answer, CellPlacement), answer
    return [(task.node, task.devices) for task in answer.tasks]


@pytest.mark.parametrize("ordering", [BY_RANK, HivedOrder()], ids=["by rank", "hived"])
def test_free_cells_do_not_remember_in_which_order_they_came_back(ordering: Ordering) -> None:
    state = state_of(NODES, ordering)
    for name in "wx":
        start(state, gang(name, "a", 0, (1, 4)))
    first, second = state.groups["w"], state.groups["x"]
    nodes = sorted(slot.node for group in (first, second) for slot in group.slots)
    ledger.release(state, "w")
    ledger.release(state, "x")
    [(node, _)] = where(place(state, gang("next", "a", 0, (1, 4))))
    assert (node == nodes[0]) == (ordering is BY_RANK)


def test_which_of_its_equal_cells_a_virtual_cluster_bound_first_makes_no_difference() -> None:
    state, other = state_of(NODES), state_of(NODES)
    gangs = [gang(name, "a", 0, (1, 3)) for name in "xy"]
    for asked in gangs:
        start(state, asked)
    for asked in reversed(gangs):
        group = state.groups[asked.name]
        ledger.adopt(other, asked, group.chain, placements_of(group))
    roots = [[r.physical for r in s.vcs["a"].chains["G-L3"].roots] for s in (state, other)]
    assert [str(cell) for cell in roots[0]] != [str(cell) for cell in roots[1]]
    asked = gang("next", "a", 0, (1, 1))
    assert where(place(state, asked)) == where(place(other, asked)) == [("g0", (3,))]


def test_devices_within_a_node_are_tried_in_the_order_of_the_hardware() -> None:
    """Although its virtual cells are bound to it crosswise."""
    state = state_of(NODES)
    for name in "wxyz":
        start(state, gang(name, "a", 0, (1, 1)))
    ledger.release(state, "w")
    start(state, gang("w", "a", 1, (1, 1)))
    for name in "wxy":
        ledger.release(state, name)
    assert where(place(state, gang("next", "a", 0, (1, 2)))) == [("g0", (0, 1))]
    other = rebuilt(state, seed=1)
    assert other is not None
    for size in (1, 2, 3):
        asked = gang("next", "a", 1, (1, size))
        assert place(state, asked) == place(other, asked)


def test_a_node_in_a_rack_that_is_in_use_comes_before_one_that_opens_another() -> None:
    state = state_of(plain([2, 2, 2], 3, {"a": [(4, 2)]}, node=3))
    start(state, gang("x", "a", 0, (1, 4)))
    assert where(place(state, gang("next", "a", 0, (1, 4)))) == [("g1", (0, 1, 2, 3))]


CONFIGS = [
    NODES,
    RACKS,
    MIXED,
    plain([2, 2, 2], 6, {"a": [(3, 8)], "b": [(3, 3)]}, node=3),
    plain([2, 2, 2], 6, {"a": [(4, 4)], "b": [(3, 2)]}, node=3),
    plain([2, 2, 2], 4, {"a": [(4, 4)]}, node=3),
]
TYPES = ["G-L2", "G-L3", "G-L4"]


@dataclass
class Life:
    """Random gangs that come and go, and devices that break, in several states alike."""

    states: list[CellState]
    chance: random.Random
    count: int = 0

    def play(self, steps: int) -> None:
        for _ in range(steps):
            asked = self._gang()
            answers = [start(state, asked) for state in self.states]
            assert answers.count(answers[0]) == len(answers), asked
            if self.states[0].groups and self.chance.random() < 0.2:
                gone = self.chance.choice(sorted(self.states[0].groups))
                for state in self.states:
                    ledger.release(state, gone)
            if self.chance.random() < 0.15:
                device = self.chance.choice(sorted(self.states[0].leaves))
                healthy = self.chance.random() < 0.6
                for state in self.states:
                    health.set_device(state, *device, healthy)

    def _gang(self) -> GangRequest:
        draw, self.count = self.chance.choice, self.count + 1
        members = tuple(
            MemberRequest(draw([1, 1, 2]), draw([1, 1, 2, 3, 4]), draw([None] * 8 + TYPES[:2]))
            for _ in range(draw([1, 1, 2]))
        )
        topology = TopologyGroup(members, draw([None] * 4 + TYPES))
        lazy, largest_first = draw([False, False, True]), draw([False, False, True])
        name, vc, priority = f"g{self.count}", draw("aab"), draw([-1, 0, 0, 1])
        return GangRequest(name, vc, priority, topology, None, None, lazy, largest_first)


@given(config=st.sampled_from(CONFIGS), seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(150), deadline=None)
def test_a_rebuilt_state_goes_on_exactly_as_the_one_that_caught_up(
    config: dict[str, Any], seed: int
) -> None:
    life = Life([healthy(config)], random.Random(seed))
    life.play(life.chance.randint(2, 25))
    other = rebuilt(life.states[0], seed)
    if other is not None:
        life.states.append(other)
        life.play(15)
        validate(other)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(1, 4), st.integers(1, 4)), max_size=9),
    st.sampled_from(["NODES", "MIXED"]),
)
def test_nodes_that_are_too_full_are_passed_over_and_no_others(
    gangs: list[tuple[int, int, int]], config: str
) -> None:
    state = state_of({"NODES": NODES, "MIXED": MIXED}[config])
    for number, (priority, tasks, gpus) in enumerate(gangs):
        start(state, gang(f"g{number}", "ab"[number % 2], priority, (tasks, gpus)))
    domains = [domain for vc in state.vcs.values() for domain in vc.chains.values()]
    for order in (*state.node_orders.values(), *(domain.node_order for domain in domains)):
        nodes = order.ordered((), False)
        for least in range(1, 5):
            fit = [node for node in nodes if node.spec.leaves - node.used_total >= least]
            assert list(order.with_idle(least)) == fit
