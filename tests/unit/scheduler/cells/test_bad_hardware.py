"""Nodes and devices that go bad. The reference dies of four such stories (A to D)."""

from __future__ import annotations

from tests.support.cells import counters, healthy, plain

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement, Refusal
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.request import gang
from skep_scheduler.cells.state import CellState

# Two racks of four nodes with 16 devices; VC "a" owns a rack's worth of nodes and more.
RACKS = plain([2, 2, 2, 2, 2, 2], 2, {"a": [(5, 5)], "b": [(6, 1)]}, node=5)
FLAT = plain([4], 4, {"a": [(2, 2)], "b": [(2, 1)]}, node=2)


def start(
    state: CellState, name: str, vc: str, priority: int, *members: tuple[int, int]
) -> CellPlacement:
    asked = gang(name, vc, priority, *members)
    answer = place(state, asked)
    assert isinstance(answer, CellPlacement), answer
    ledger.start(state, asked, answer)
    validate(state)
    return answer


def nodes_of(answer: CellPlacement) -> list[str]:
    return [placed.node for placed in answer.tasks]


def test_defect_a_a_gang_that_its_vc_owns_is_placed_around_a_bad_node() -> None:
    state = healthy(RACKS)
    health.set_node(state, "g1", healthy=False)
    answer = start(state, "big", "a", 0, (4, 16))
    assert "g1" not in nodes_of(answer)
    again = place(state, gang("pair", "b", 0, (2, 16)))
    assert isinstance(again, CellPlacement | Refusal)
    validate(state)


def test_defect_a_is_placed_whichever_node_is_bad() -> None:
    for bad in [f"g{i}" for i in range(8)]:
        state = healthy(RACKS)
        health.set_node(state, bad, healthy=False)
        assert bad not in nodes_of(start(state, "big", "a", 0, (4, 16)))


def test_defect_b_an_opportunistic_task_goes_from_a_node_that_went_bad() -> None:
    state = healthy(FLAT)
    before = counters(state)
    node = nodes_of(start(state, "idle", "a", -1, (1, 1)))[0]
    health.set_node(state, node, healthy=False)
    validate(state)
    assert ledger.release(state, "idle")
    validate(state)
    health.set_node(state, node, healthy=True)
    assert counters(state) == before


def test_defect_c_several_groups_go_from_nodes_that_went_bad() -> None:
    state = healthy(FLAT)
    before = counters(state)
    for i in range(8):
        start(state, f"g{i}", "ab"[i % 2], -1 if i % 3 else 0, (1, 1))
    for node in list(state.nodes):
        health.set_node(state, node, healthy=False)
        validate(state)
    for i in range(8):
        ledger.release(state, f"g{i}")
        validate(state)
    for node in state.nodes:
        health.set_node(state, node, healthy=True)
    assert counters(state) == before


def test_defect_d_a_bad_cell_that_is_used_turns_healthy_and_is_scheduled_on() -> None:
    state = healthy(FLAT)
    node = nodes_of(start(state, "one", "a", 0, (1, 2)))[0]
    for other in state.nodes:
        health.set_node(state, other, healthy=False)
    health.set_node(state, node, healthy=True)
    assert nodes_of(start(state, "two", "a", 0, (1, 2))) == [node]
    refused = place(state, gang("three", "b", 0, (1, 1)))
    assert isinstance(refused, Refusal)
    assert refused.code == "bad_hardware"
    for other in state.nodes:
        health.set_node(state, other, healthy=True)
    start(state, "three", "b", 0, (1, 1))


def test_what_a_vc_cannot_have_at_present_follows_from_the_counters() -> None:
    state = healthy(FLAT)
    assert health.lost(state, "a", "G-L2", 2) == 0
    for node in ["g0", "g1", "g2"]:
        health.set_node(state, node, healthy=False)
    assert health.lost(state, "a", "G-L2", 2) == 1
    assert health.lost(state, "b", "G-L2", 2) == 0
    health.set_node(state, "g3", healthy=False)
    assert health.lost(state, "a", "G-L2", 2) == 2
    health.set_node(state, "g0", healthy=True)
    assert health.lost(state, "b", "G-L2", 2) == 0


def test_one_bad_device_does_not_take_its_node_away() -> None:
    state = healthy(plain([2, 2], 1, {"a": [(3, 1)]}, node=3))
    health.set_device(state, "g0", 0, healthy=False)
    refused = place(state, gang("four", "a", 0, (1, 4)))
    assert isinstance(refused, Refusal)
    assert refused.details["bad_in_chain"] == 1
    assert start(state, "pair", "a", 0, (1, 2)).tasks[0].devices == (2, 3)
    assert start(state, "single", "a", 0, (1, 1)).tasks[0].devices == (1,)
    assert isinstance(place(state, gang("more", "a", 0, (1, 1))), Refusal)
    health.set_device(state, "g0", 0, healthy=True)
    start(state, "more", "a", 0, (1, 1))


def test_a_bad_node_with_a_bad_device_needs_both_to_be_repaired() -> None:
    state = healthy(FLAT)
    health.set_device(state, "g0", 1, healthy=False)
    health.set_node(state, "g0", healthy=False)
    health.set_node(state, "g0", healthy=True)
    assert [leaf.bad for leaf in state.nodes["g0"]] == [0, 1, 0, 0]


def test_a_running_gang_keeps_its_place_on_bad_hardware() -> None:
    state = healthy(FLAT)
    answer = start(state, "one", "a", 0, (1, 4))
    health.set_node(state, answer.tasks[0].node, healthy=False)
    assert [slot.node for slot in state.groups["one"].slots] == nodes_of(answer)
    validate(state)
