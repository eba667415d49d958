"""Which nodes a gang gets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.snapshots import gang, layout, member, node, running, snapshot

from skep_scheduler import engine
from skep_scheduler.gang import demands_of, kind_of
from skep_scheduler.invariants import validate
from skep_scheduler.packing import pack
from skep_scheduler.room import Room
from skep_scheduler.search import Budget
from skep_scheduler.state import Gang, Node, Running


def placed_on(nodes: list[Node], job: Gang, busy: Sequence[Running] = ()) -> dict[str, int] | None:
    state = snapshot(nodes, [job], busy, team={"A100": 1000, "V100": 1000})
    plan = engine.plan(state, now=0.0)
    validate(state, plan, now=0.0)
    return layout(plan.placements[0]) if plan.placements else None


A4, B8 = node("a", 4), node("b", 8)

EQUAL_TASKS = {
    "one task goes to the node with the fewest free GPUs that suffice": (
        [B8, A4], member(gpus=3), [], {"a": 1}),
    "between equally free nodes the first by name is taken": (
        [node("y", 4), node("x", 4)], member(gpus=2), [], {"x": 1}),
    "free GPUs count, not the size of the node": (
        [A4, B8], member(gpus=2), [running("r", B8, 6)], {"b": 1}),
    "the least CPU left over decides between equal GPUs": (
        [node("a", 4, cpus=64), node("b", 4, cpus=8)], member(gpus=4), [], {"b": 1}),
    "a gang that fits on one node is not spread": (
        [node("a", 4), node("b", 4), node("c", 8)], member(2, 4), [], {"c": 2}),
    "the roomiest nodes come first, so that there are few of them": (
        [node("a", 2), node("b", 2), node("c", 4), node("d", 4)],
        member(8, 1), [], {"c": 4, "d": 4}),
    "the last tasks go where they leave the least": (
        [node("a", 3), node("b", 4), node("c", 2)], member(6, 1), [], {"b": 4, "c": 2}),
    "a gang that lacks one GPU is not placed at all": (
        [node("a", 3), node("b", 4)], member(8, 1), [], None),
    "free GPUs in too small pieces are no room": (
        [node("a", 2), node("b", 2)], member(1, 4), [], None),
    "CPU bounds how many tasks a node takes": (
        [node("a", 8, cpus=8), node("b", 8, cpus=8)],
        member(4, 1, cpus=4), [], {"a": 2, "b": 2}),
    "memory bounds how many tasks a node takes": (
        [node("a", 8, gib=64), node("b", 8, gib=64)],
        member(3, 1, gib=32), [], {"a": 2, "b": 1}),
    "closed nodes take nothing": (
        [node("a", 8, open=False), node("b", 2)], member(4, 1), [], None),
    "the other GPU model of a node does not count": (
        [node("a", {"A100": 1, "V100": 8})], member(2, 1), [], None),
    "tasks without GPUs keep off nodes with idle GPUs": (
        [node("a", 8), node("b", 0, cpus=8)], member(2, 0, cpus=4), [], {"b": 2}),
    "tasks without GPUs rather spread over such nodes than take a GPU node": (
        [node("a", 8), node("b", 0, cpus=4), node("c", 0, cpus=4)],
        member(2, 0, cpus=4), [], {"b": 1, "c": 1}),
    "tasks without GPUs use a GPU node when there is nothing else": (
        [node("a", 8), node("b", 0, cpus=4)], member(2, 0, cpus=4), [], {"a": 2}),
    "a node whose GPUs are all busy is as good as one without": (
        [node("a", 8), B8], member(1, 0, cpus=4), [running("r", B8, 8)], {"b": 1}),
    "a node that shrank below what runs on it still takes tasks which need none of that": (
        [node("a", 2, gib=1)], member(1, 1, gib=0), [running("r", node("a"), 0, gib=2)],
        {"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", EQUAL_TASKS)
def test_equal_tasks(case: str) -> None:
    nodes, tasks, busy, expected = EQUAL_TASKS[case]
    assert placed_on(nodes, gang("job", tasks), busy) == expected


UNEQUAL_TASKS = {
    "a gang of unequal tasks that fits on one node goes there": (
        [node("a", 4), node("b", 8)],
        [member(1, 0, role="ps"), member(1, 8)], {"b": 2}),
    "small tasks fill the nodes that the large ones opened": (
        [node("a", 8), node("b", 8), node("c", 1)],
        [member(1, 1, role="chief"), member(2, 7)], {"a": 2, "b": 1}),
    "tasks without GPUs join the GPU tasks of their gang": (
        [node("a", 8), node("b", 8), node("c", 0)],
        [member(2, 0, role="ps"), member(2, 8)], {"a": 3, "b": 1}),
    "members with equal needs count as one": (
        [node("a", 2), node("b", 2)],
        [member(2, 1, role="ps"), member(2, 1, role="worker")], {"a": 2, "b": 2}),
    "members may name different GPU models": (
        [node("a", {"A100": 2}), node("b", {"V100": 2})],
        [member(2, 1), member(2, 1, model="V100", role="old")], {"a": 2, "b": 2}),
    "and what fits nowhere together is not placed": (
        [node("a", 4), node("b", 4)],
        [member(2, 3, role="big"), member(2, 2)], None),
}  # fmt: skip


@pytest.mark.parametrize("case", UNEQUAL_TASKS)
def test_unequal_tasks(case: str) -> None:
    nodes, members, expected = UNEQUAL_TASKS[case]
    assert placed_on(nodes, gang("job", *members)) == expected


def test_tasks_get_their_places_in_order_of_role_and_index() -> None:
    nodes = [node("a", 2), node("b", 2)]
    job = gang("job", member(1, 0, role="chief"), member(3, 1), member(1, 1, role="eval"))
    placement = engine.plan(snapshot(nodes, [job]), now=0.0).placements[0]
    names = [f"{task.role}-{task.index}" for task in placement.tasks]
    assert names == ["chief-0", "worker-0", "worker-1", "worker-2", "eval-0"]


def test_where_greedy_packing_ends_in_a_dead_end_search_finds_the_way() -> None:
    # Greedy seats the task of 4 on the node of 5 and strands a task of 2. 4+2, 3+2 is the way.
    job = gang("job", member(1, 4, role="a"), member(1, 3, role="b"), member(2, 2, role="c"))
    room = Room(snapshot([node("five", 5), node("six", 6)], [job]))
    demands = demands_of(kind_of(job).shape, None)
    before = [n.left for n in room.nodes]
    assert pack(room, demands, Budget(steps=0)) is None
    found = pack(room, demands, Budget())
    assert found is not None
    assert [(seat.rank, demands[seat.demand].need.gpus) for seat in found.seats] == [
        (1, 4),
        (0, 3),
        (0, 2),
        (1, 2),
    ]
    assert [n.left for n in room.nodes] == before
