"""A gang rather waits than goes where it failed; for a while, and if there is an elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.cluster import Cluster, gang, member, node, owns

from skep_scheduler.model import Code, Gang

UNTIL = 900.0


def failed(name: str, *nodes: str, **fields: object) -> Gang:
    """It failed on these nodes."""
    return gang(name, avoid=tuple((n, UNTIL) for n in nodes), **fields)  # type: ignore[arg-type]


def nodes_of(cluster: Cluster, name: str) -> set[str]:
    return {task.node for task in cluster.state.running[name].tasks}


def test_it_goes_to_another_node() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("job", "n0", tasks=2, gpus=4))
    assert nodes_of(cluster, "job") == {"n1"}


def test_without_the_failure_it_would_have_been_packed_there() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(gang("first", gpus=4), gang("job", gpus=4))
    assert nodes_of(cluster, "job") == nodes_of(cluster, "first")
    cluster.run(failed("again", *nodes_of(cluster, "first"), gpus=4))
    assert nodes_of(cluster, "again") != nodes_of(cluster, "first")


def test_it_waits_for_another_node_and_says_so() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("other", "n0", gpus=8))
    cluster.submit(failed("job", "n0", gpus=8))
    reason = cluster.tick().reasons["job"]
    assert reason.code == Code.NODE_EXCLUDED
    assert reason.details["avoids"] == ["n0"]
    assert reason.details["expected_start"] == UNTIL
    assert reason.message == (
        "It failed on n0: it waits for another node, and may go there again in about 15 min; "
        "expected start in about 15 min."
    )
    cluster.end("other")
    cluster.tick()
    assert nodes_of(cluster, "job") == {"n1"}


def test_it_goes_there_when_its_time_is_over() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("other", "n0", gpus=8))
    cluster.submit(failed("job", "n0", gpus=8))
    cluster.now = UNTIL
    cluster.tick()
    assert nodes_of(cluster, "job") == {"n0"}


def test_where_there_is_no_elsewhere_it_goes_there() -> None:
    small = [node("n0"), node("n1", gpus=4)]
    cluster = Cluster(small, owns(a=12))
    cluster.run(failed("job", "n0", gpus=8))
    assert nodes_of(cluster, "job") == {"n0"}


def test_a_gang_that_needs_all_nodes_goes_there() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("job", "n0", tasks=2, gpus=8))
    assert nodes_of(cluster, "job") == {"n0", "n1"}


def test_a_node_that_is_not_there_is_no_elsewhere() -> None:
    cluster = Cluster([node("n0"), node("n1", schedulable=False)], owns(a=8))
    cluster.run(failed("job", "n0", gpus=8))
    assert nodes_of(cluster, "job") == {"n0"}


def test_no_one_is_preempted_for_it() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("lesser", "n0", gpus=8, priority=1))
    cluster.now = 600.0
    cluster.submit(failed("job", "n0", gpus=8))
    decided = cluster.tick()
    assert not decided.preemptions
    assert decided.reasons["job"].code == Code.NODE_EXCLUDED


def test_others_of_its_kind_are_not_refused_with_it() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("other", "n0", gpus=8))
    cluster.submit(failed("job", "n0", gpus=8, at=1.0), gang("next", gpus=8, at=2.0))
    cluster.tick()
    assert nodes_of(cluster, "next") == {"n0"}


def test_tasks_without_gpus_avoid_it_too() -> None:
    servers = [member(2, 0, role="ps")]
    cluster = Cluster([node("c0", gpus=0), node("c1", gpus=0)], owns(a=0))
    cluster.run(failed("job", "c0", members=servers))
    assert nodes_of(cluster, "job") == {"c1"}


def test_tasks_of_an_incremental_gang_avoid_it_too() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(failed("job", "n0", tasks=3, gpus=4, incremental=True))
    assert nodes_of(cluster, "job") == {"n1"}
    assert len(cluster.state.running["job"].tasks) == 2


def test_a_task_that_failed_waits_for_its_moment_and_says_so() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("job", tasks=2, gpus=1, incremental=True))
    allocation = cluster.state.running["job"]
    kept = allocation.tasks[:1]
    waits: dict[str, Any] = {
        "complete": False,
        "unplaced": (("worker", 1),),
        "delays": (("worker", 1, 60.0),),
    }
    cluster.state.set_running(replace(allocation, tasks=kept, **waits))
    decided = cluster.plan()
    assert decided.reasons["job"].code == Code.BACKOFF
    assert decided.reasons["job"].details["until"] == 60.0
    cluster.now = 60.0
    (placement,) = cluster.plan().placements
    assert [(task.role, task.index) for task in placement.tasks] == [("worker", 1)]
