"""A gang with scratch goes back to where it lies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skep_platform.scheduling.homes import homeward
from skep_scheduler.model import Placement, TaskPlacement

NODES = st.sampled_from(["n1", "n2", "n3", "n4"])


@given(nodes=st.lists(NODES, min_size=1, max_size=8), homes=st.lists(NODES, max_size=8))
def test_finding_j4_places_are_exchanged_among_equal_tasks_so_that_most_go_home(nodes, homes):
    tasks = tuple(TaskPlacement("w", i, node, (f"GPU-{i}",)) for i, node in enumerate(nodes))
    other = TaskPlacement("ps", 0, "n1")
    known = {("w", i): home for i, home in enumerate(homes)} | {("ps", 0): "n2"}

    moved = homeward(Placement("g", (*tasks, other)), known).tasks

    assert [(t.role, t.index) for t in moved] == [(t.role, t.index) for t in (*tasks, other)]
    assert sorted((t.node, t.gpu_uuids) for t in moved) == sorted(
        (t.node, t.gpu_uuids) for t in (*tasks, other)
    )
    assert moved[-1] == other
    at_home = sum(known.get((t.role, t.index)) == t.node for t in moved[:-1])
    mine = homes[: len(nodes)]
    assert at_home == sum(min(nodes.count(n), mine.count(n)) for n in set(nodes))
