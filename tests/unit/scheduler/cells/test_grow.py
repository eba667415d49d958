"""Nodes that come and go while gangs run: along one path of the tree, and as if built anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tests.support.cells import counters
from tests.support.inventories import A100_NODE, node, vc

from skep_scheduler.cells import grow, health, ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.reconfigure import Change, reconfigure
from skep_scheduler.cells.request import gang
from skep_scheduler.cells.state import CellState
from skep_scheduler.inventory import build
from skep_scheduler.model import Inventory, Node, VirtualCluster

RACK = f"{A100_NODE}-RACK"
HALF = f"{A100_NODE}-x4"


def racks(*sizes: int) -> list[Node]:
    return [node(f"r{r}n{i}", rack=f"r{r}") for r, size in enumerate(sizes) for i in range(size)]


def world(nodes: list[Node], *vcs: VirtualCluster) -> CellState:
    state = CellState(build(Inventory(tuple(nodes), vcs)).config)
    for name in state.nodes:
        health.set_node(state, name, healthy=True)
    return state


def apply(state: CellState, nodes: list[Node], *vcs: VirtualCluster) -> tuple[CellState, Change]:
    new, change = grow.apply(state, build(Inventory(tuple(nodes), vcs)).config)
    validate(new)
    return new, change


def run(state: CellState, name: str, vc: str, priority: int, *members: tuple[int, int]) -> None:
    asked = gang(name, vc, priority, *members)
    answer = place(state, asked)
    assert isinstance(answer, CellPlacement), answer
    ledger.start(state, asked, answer)


def as_built_anew(state: CellState) -> object:
    return counters(reconfigure(state, state.config)[0])


def test_a_new_node_is_a_top_cell_of_its_chain() -> None:
    state = world([node("n1")])
    same, _ = apply(state, [node("n1"), node("n0")])
    assert same is state
    assert state.chains[A100_NODE].left[4] == 2
    assert state.chains[A100_NODE].bad_left[4] == 1, "no one has seen it yet"
    assert counters(state) == as_built_anew(state)


def test_a_node_fills_the_free_place_in_its_rack_which_is_whole_then() -> None:
    nodes = racks(2, 1)
    state = world(nodes)
    assert state.chains[RACK].left[5] == 1
    same, _ = apply(state, [*nodes, node("r1n1", rack="r1")])
    assert same is state
    assert state.chains[RACK].left[5] == 2
    assert counters(state) == as_built_anew(state)


def test_a_rack_that_lost_a_node_is_no_one_s_but_its_other_nodes_are_used() -> None:
    state = world(racks(2, 2), vc("a", (RACK, RACK, 1)))
    same, _ = apply(state, racks(2, 1), vc("a", (RACK, RACK, 1)))
    assert same is state
    assert state.chains[RACK].left[4:] == [3, 1]
    run(state, "guest", "a", -1, (3, 8))
    validate(state)


def test_who_runs_on_a_removed_node_goes_on_unaccounted() -> None:
    owned = vc("a", (A100_NODE, A100_NODE, 2))
    state = world([node("n1"), node("n2"), node("n3")], owned)
    run(state, "job", "a", 1, (2, 8))
    gone = state.groups["job"].slots[0].node
    nodes = [node(n) for n in ("n1", "n2", "n3") if n != gone]
    same, change = apply(state, nodes, owned)
    assert same is state
    assert change.unaccounted == ("job",)
    assert not change.downgraded, "the rest of it is in its VC's cells still"
    assert counters(state) == as_built_anew(state)

    apply(state, [node(n) for n in ("n1", "n2", "n3")], owned)
    assert all(leaf is not None for slot in state.groups["job"].slots for leaf in slot.leaves)
    assert not state.groups["job"].opportunistic
    assert ledger.release(state, "job")
    assert state.chains[A100_NODE].claims[4] == 2


def test_a_preemptor_that_waits_for_a_removed_node_is_cancelled() -> None:
    owned = vc("a", (A100_NODE, A100_NODE, 1))
    state = world([node("n1"), node("n2")], owned)
    run(state, "guests", "a", -1, (2, 8))
    asked = gang("owner", "a", 1, (1, 8))
    answer = place(state, asked)
    assert isinstance(answer, CellPreemption)
    assert ledger.reserve(state, asked, answer.placement) is not None
    wanted = answer.placement.tasks[0].node
    same, change = apply(state, [node("n1" if wanted == "n2" else "n2")], owned)
    assert same is state
    assert change.cancelled == ("owner",)
    assert change.unaccounted == ("guests",)


def test_claims_that_no_longer_fit_need_everything_anew() -> None:
    """Two racks, of which a VC uses half a one: when that loses a node, the other one is owed."""
    owned = vc("a", (RACK, RACK, 1))
    state = world(racks(2, 2), owned)
    run(state, "job", "a", 1, (1, 8))
    used = state.groups["job"].slots[0].node
    nodes = [n for n in racks(2, 2) if n.name == used or n.labels["rack"] != used[:2]]
    new, change = apply(state, nodes, owned)
    assert new is not state
    assert set(change.downgraded) == {"job"}


def test_what_others_are_owed_is_never_torn() -> None:
    """A rack and a node are owed, and the only other rack is split by a job: with one node of the
    free rack gone, both together cannot be had around the job."""
    owned = (vc("a", (RACK, RACK, 1)), vc("b", (RACK, A100_NODE, 1)))
    state = world(racks(2, 2), *owned)
    run(state, "job", "b", 1, (1, 8))
    busy = state.groups["job"].slots[0].node[:2]
    gone = "r1n1" if busy == "r0" else "r0n1"
    new, change = apply(state, [n for n in racks(2, 2) if n.name != gone], *owned)
    assert new is not state
    assert set(change.downgraded) == {"job"}
    assert new.groups["job"].slots[0].node[:2] == busy, "it runs on where it is"


def test_a_replaced_gpu_is_a_new_one() -> None:
    state = world([node("n1"), node("n2")])
    health.set_device(state, "n1", "GPU-n1-3", healthy=False)
    devices = list(node("n1").devices)
    devices[0] = node("other").devices[0]
    repaired = Node("n1", 1, 1, tuple(devices))
    same, _ = apply(state, [repaired, node("n2")])
    assert same is state
    assert ("n1", "GPU-n1-0") not in state.leaves
    assert not state.leaves["n1", "GPU-other-0"].bad, "its node is known to be well"
    assert state.leaves["n1", "GPU-n1-3"].bad


def test_the_last_node_takes_its_chain_along_and_brings_it_back() -> None:
    state = world([node("n1"), node("v1", 4, "V100")])
    apply(state, [node("n1")])
    assert list(state.chains) == [A100_NODE]
    assert "v1" not in state.nodes
    apply(state, [node("n1"), node("v1", 4, "V100")])
    assert list(state.chains) == ["V100-NODE4", A100_NODE]


def test_a_node_that_goes_touches_one_path() -> None:
    """Ten times the racks cost not one step more; for one that comes, its chain is numbered."""
    assert work_among(4) == work_among(40)


def work_among(many: int) -> int:
    nodes, owned = racks(*[2] * many), vc("a", (RACK, RACK, 1))
    state = world(nodes, owned)
    without = build(Inventory(tuple(nodes[1:]), (owned,))).config
    [node_] = grow.difference(state.config, without).removed

    def out() -> None:
        grow.remove(state, [grow.find(state, node_)])

    number = steps(out)
    validate(state)
    return number


def steps(action: Callable[[], None]) -> int:
    """Calls of Python functions, as a measure of work that no machine changes."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
