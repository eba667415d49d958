"""Packing against an oracle that tries everything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.brute_force import could_start
from tests.support.snapshots import gang, member, node, snapshot

from skep_scheduler.gang import demands_of, kind_of
from skep_scheduler.packing import pack
from skep_scheduler.room import Room
from skep_scheduler.search import Budget, search
from skep_scheduler.state import Member, Node

nodes = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 9)), min_size=1, max_size=4).map(
    lambda sizes: [node(f"n{i}", gpus, cpus=cpus) for i, (gpus, cpus) in enumerate(sizes)]
)
tasks = st.builds(
    member, count=st.integers(1, 3), gpus=st.integers(0, 5), cpus=st.sampled_from([0, 1, 1, 2, 4])
)


@settings(max_examples=600, deadline=None)
@given(nodes, st.lists(tasks, min_size=1, max_size=3))
def test_a_gang_is_packed_if_and_only_if_there_is_a_way(
    machines: list[Node], members: list[Member]
) -> None:
    state, job = snapshot(machines), gang("x", *members)
    packed = pack(Room(state), demands_of(kind_of(job).shape, None), Budget())
    assert (packed is not None) == could_start(state, job)


@settings(max_examples=600, deadline=None)
@given(nodes, st.lists(tasks, min_size=1, max_size=3))
def test_the_search_alone_finds_a_way_if_there_is_one(
    machines: list[Node], members: list[Member]
) -> None:
    state, job = snapshot(machines), gang("x", *members)
    found = search(Room(state), demands_of(kind_of(job).shape, None), Budget())
    assert (found is not None) == could_start(state, job)


@settings(max_examples=300, deadline=None)
@given(nodes, tasks)
def test_equal_tasks_get_the_fewest_nodes(machines: list[Node], tasks: Member) -> None:
    """Unless they need no GPUs: those would rather keep off nodes with idle ones."""
    state, job = snapshot(machines), gang("x", tasks)
    packed = pack(Room(state), demands_of(kind_of(job).shape, None), Budget())
    if packed is not None and tasks.gpus:
        capacities = sorted(
            (
                min(
                    len(m.gpus.get("A100", ())) // tasks.gpus,
                    m.cpu_millis // tasks.cpu_millis if tasks.cpu_millis else tasks.count,
                )
                for m in machines
            ),
            reverse=True,
        )
        fewest = next(n for n in range(1, 5) if sum(capacities[:n]) >= tasks.count)
        assert len(packed.ranks) == fewest
