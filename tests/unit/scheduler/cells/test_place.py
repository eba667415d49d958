"""Placing gangs on cells: preemption, borrowing, topology, roles that grow one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.cells import counters, healthy, plain, trace

from skep_scheduler.cells import ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption, Refusal
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.request import GangRequest, MemberRequest, TopologyGroup, gang
from skep_scheduler.cells.state import CellState

ONE_NODE_EACH = plain([2, 2], 2, {"a": [(3, 1)], "b": [(3, 1)]}, node=3)
RACKS = plain([2, 2, 2], 2, {"a": [(4, 2)]}, node=3)


def start(state: CellState, asked: GangRequest) -> CellPlacement:
    answer = place(state, asked)
    assert isinstance(answer, CellPlacement), answer
    ledger.start(state, asked, answer)
    validate(state)
    return answer


def start_all(state: CellState, *gangs: GangRequest) -> list[CellPlacement]:
    return [start(state, asked) for asked in gangs]


def preempt(state: CellState, asked: GangRequest) -> CellPreemption:
    answer = place(state, asked)
    assert isinstance(answer, CellPreemption), answer
    assert ledger.reserve(state, asked, answer.placement) is not None
    validate(state)
    return answer


def refused(state: CellState, asked: GangRequest) -> Refusal:
    answer = place(state, asked)
    assert isinstance(answer, Refusal), answer
    return answer


def state_of(data: Mapping[str, Any] = ONE_NODE_EACH) -> CellState:
    return healthy(data)


def test_a_what_if_leaves_no_trace() -> None:
    state = state_of()
    start(state, gang("low", "a", 0, (1, 4), lazy=True))
    before = trace(state)
    for asked in (
        gang("high", "a", 1, (1, 4)),
        gang("more", "b", 0, (2, 2)),
        gang("idle", "b", -1, (1, 3)),
        gang("huge", "a", 0, (9, 4)),
    ):
        place(state, asked)
        assert trace(state) == before


def test_a_preemptor_sees_all_victims_and_what_each_loses() -> None:
    state = state_of()
    start_all(state, gang("x", "a", 0, (2, 1)), gang("y", "a", 0, (1, 2)))
    answer = preempt(state, gang("high", "a", 1, (1, 4)))
    assert {victim.gang: victim.devices for victim in answer.victims} == {"x": 2, "y": 2}
    assert state.groups["x"].state == "BeingPreempted"
    assert state.groups["high"].state == "Preempting"
    ledger.release(state, "x")
    ledger.release(state, "y")
    ledger.adopt(state, state.groups["high"].gang, "G-L3", answer.placement.tasks)
    assert state.groups["high"].state == "Allocated"
    validate(state)


def test_a_cancelled_preemptor_gives_everything_back() -> None:
    state = state_of()
    start(state, gang("low", "a", 0, (1, 2)))
    before = counters(state)
    preempt(state, gang("high", "a", 1, (1, 4)))
    assert ledger.cancel(state, "high")
    validate(state)
    assert counters(state) == before
    assert state.groups["low"].state == "Allocated"
    assert state.groups["low"].downgraded_by is None


def test_a_higher_preemptor_takes_what_a_lower_one_has_reserved() -> None:
    state = state_of()
    start(state, gang("low", "a", 0, (1, 4)))
    preempt(state, gang("mid", "a", 1, (1, 4)))
    assert refused(state, gang("equal", "a", 1, (1, 4))).code == "vc_busy"
    answer = preempt(state, gang("high", "a", 2, (1, 4)))
    assert answer.placement.cancels == ("mid",)
    assert "mid" not in state.groups
    ledger.release(state, "low")
    assert ledger.victims_cleared(state.groups["high"])


def test_a_lazy_victim_runs_on_where_another_cell_is_free() -> None:
    state = state_of()
    start(state, gang("low", "a", 0, (1, 4), lazy=True))
    answer = start(state, gang("high", "a", 1, (1, 4)))
    assert answer.downgrades == ("low",)
    low = state.groups["low"]
    assert low.downgraded_by == "preempted lazily by high"
    assert low.slots[0].node != answer.tasks[0].node
    preempted = preempt(state, gang("owner", "b", 0, (1, 4)))
    assert [victim.gang for victim in preempted.victims] == ["low"]


def test_opportunistic_gangs_borrow_from_anyone_and_keep_away_from_guaranteed_ones() -> None:
    state = state_of()
    guaranteed = start(state, gang("mine", "a", 0, (1, 1)))
    borrowed = start(state, gang("idle", "a", -1, (1, 4)))
    assert borrowed.tasks[0].node != guaranteed.tasks[0].node
    assert borrowed.tasks[0].cell_type == ""
    assert refused(state, gang("more", "a", -1, (1, 4))).code == "cluster_busy"
    answer = place(state, gang("owner", "b", 0, (1, 1)))
    assert isinstance(answer, CellPreemption)
    assert answer.victims[0].priority == -1


def test_tasks_of_a_role_without_gang_start_one_by_one_within_the_vc() -> None:
    state = state_of()
    tasks = [gang(f"elastic-{i}", "a", 0, (1, 1)) for i in range(6)]
    answers = [place(state, tasks[0])]
    for task in tasks:
        answer = place(state, task)
        answers.append(answer)
        if isinstance(answer, CellPlacement):
            ledger.start(state, task, answer)
    assert len(state.groups) == 4
    assert len({group.slots[0].node for group in state.groups.values()}) == 1
    waiting = refused(state, tasks[5])
    assert (waiting.code, waiting.details["owns"], waiting.details["used"]) == ("vc_busy", 4, 4)


def test_unequal_tasks_are_placed_where_filling_nodes_in_turn_would_miss_a_way() -> None:
    state = state_of(plain([4], 2, {"a": [(2, 2)]}, node=2))
    start(state, gang("one", "a", 0, (1, 1)))
    answer = start(state, gang("mixed", "a", 0, (1, 1), (2, 3)))
    assert sorted(len(placed.devices) for placed in answer.tasks) == [1, 3, 3]


def within(name: str, cell_type: str, *members: MemberRequest) -> GangRequest:
    return GangRequest(name, "a", 0, TopologyGroup(members, cell_type))


def test_a_party_lies_within_one_cell() -> None:
    state = state_of(RACKS)
    start(state, gang("small", "a", 0, (1, 1)))
    answer = start(state, within("rack", "G-L4", MemberRequest(2, 4)))
    assert {placed.node for placed in answer.tasks} == {"g2", "g3"}
    answer = start(state, within("pair", "G-L2", MemberRequest(2, 1)))
    assert {placed.node for placed in answer.tasks} == {"g0"}
    assert sorted(d for placed in answer.tasks for d in placed.devices) == [2, 3]


def test_parties_within_a_party_lie_within_its_cell() -> None:
    state = state_of(RACKS)
    inner = TopologyGroup((MemberRequest(2, 1),), "G-L2")
    asked = GangRequest(
        "nested", "a", 0, TopologyGroup((MemberRequest(1, 4),), "G-L4", (inner, inner))
    )
    answer = start(state, asked)
    assert [placed.member for placed in answer.tasks] == [0, 1, 1, 2, 2]
    assert {placed.node for placed in answer.tasks} == {"g0", "g1"}
    pairs = [[s.devices[0] for s in answer.tasks if s.member == m] for m in (1, 2)]
    assert sorted(map(sorted, pairs)) == [[0, 1], [2, 3]]


def test_a_task_may_ask_for_cells_instead_of_devices() -> None:
    state = state_of(RACKS)
    start(state, gang("small", "a", 0, (1, 1)))
    answer = start(
        state, GangRequest("whole", "a", 0, TopologyGroup((MemberRequest(1, 1, "G-L2"),)))
    )
    assert answer.tasks[0].devices == (2, 3)
    answer = start(
        state, GangRequest("node", "a", 0, TopologyGroup((MemberRequest(1, 1, "G-L3"),)))
    )
    assert answer.tasks[0].devices == (0, 1, 2, 3)
    wrong = refused(
        state, GangRequest("wrong", "a", 0, TopologyGroup((MemberRequest(1, 1, "NVSWITCH"),)))
    )
    assert wrong.code == "unknown_cell_type"


def test_what_is_wrong_with_a_request_is_said() -> None:
    state = state_of()
    wrong = {
        "unknown_vc": gang("x", "nobody", 0, (1, 1)),
        "bad_priority": gang("x", "a", 1001, (1, 1)),
        "bad_size": gang("x", "a", 0, (1, 0)),
        "empty_gang": gang("x", "a", 0),
        "unknown_pinned_cell": gang("x", "a", 0, (1, 1), pin="none"),
        "unknown_leaf_type": gang("x", "a", 0, (1, 1), leaf_type="H100"),
    }
    for code, asked in wrong.items():
        refusal = refused(state, asked)
        assert (refusal.code, refusal.invalid) == (code, True)


def test_nodes_to_avoid_are_avoided() -> None:
    state = state_of()
    asked = gang("job", "a", 0, (1, 4))
    first = place(state, asked)
    assert isinstance(first, CellPlacement)
    second = place(state, asked, avoid={first.tasks[0].node})
    assert isinstance(second, CellPlacement)
    assert second.tasks[0].node != first.tasks[0].node
    assert isinstance(place(state, asked, avoid=set(state.nodes)), Refusal)
