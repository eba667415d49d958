"""Before the maintenance of a node, only gangs that end in time are placed there."""

from __future__ import annotations

from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler.model import Code, Node
from skep_scheduler.placement.cells_placer import UNKNOWN_RUN_S

START, END = 10_000.0, 13_600.0


def closing(name: str) -> Node:
    return node(name, maintenance=(START, END))


def nodes_of(cluster: Cluster, name: str) -> set[str]:
    return {task.node for task in cluster.state.running[name].tasks}


def test_a_gang_that_ends_in_time_is_placed_and_a_longer_one_waits_and_says_why() -> None:
    cluster = Cluster([closing("n0")], owns(a=8))
    cluster.submit(gang("long", gpus=4, duration_s=START + 1 - cluster.now))
    cluster.submit(gang("short", gpus=4, duration_s=START - 1 - cluster.now))
    reasons = cluster.tick().reasons
    assert nodes_of(cluster, "short") == {"n0"}
    assert reasons["long"].code == Code.MAINTENANCE
    assert reasons["long"].details["closing"] == ["n0"]
    assert (reasons["long"].details["at"], reasons["long"].details["until"]) == (START, END)
    assert reasons["long"].details["expected_start"] == END
    assert reasons["long"].message.startswith("Maintenance of n0 begins in about ")


def test_a_longer_gang_goes_to_a_node_without_maintenance() -> None:
    cluster = Cluster([closing("n0"), node("n1")], owns(a=16))
    cluster.run(*(gang(name, gpus=4, duration_s=2 * START) for name in ("a", "b")))
    assert nodes_of(cluster, "a") | nodes_of(cluster, "b") == {"n1"}
    cluster.submit(gang("c", gpus=4, duration_s=2 * START))
    assert cluster.tick().reasons["c"].code == Code.MAINTENANCE


def test_a_prediction_counts_where_nothing_is_declared() -> None:
    cluster = Cluster([closing("n0")], owns(a=8))
    cluster.submit(gang("long", gpus=4, predicted_s=2 * START))
    cluster.run(gang("short", gpus=4, predicted_s=60.0))
    assert "long" not in cluster.state.running


def test_a_gang_of_unknown_length_is_kept_away_in_the_last_hour() -> None:
    cluster = Cluster([closing("n0")], owns(a=8))
    cluster.now = START - UNKNOWN_RUN_S
    cluster.run(gang("early", gpus=4))
    cluster.now += 1
    cluster.submit(gang("late", gpus=4))
    assert cluster.tick().reasons["late"].code == Code.MAINTENANCE


def test_no_one_is_preempted_for_a_place_that_closes() -> None:
    cluster = Cluster([closing("n0")], owns(a=8))
    cluster.run(gang("low", gpus=8, priority=-1, duration_s=60.0))
    cluster.submit(gang("high", gpus=8, priority=100, duration_s=2 * START))
    decided = cluster.tick()
    assert decided.preemptions == ()
    assert decided.reasons["high"].code == Code.MAINTENANCE


def test_it_is_used_again_when_the_window_is_over() -> None:
    cluster = Cluster([closing("n0")], owns(a=8))
    cluster.submit(gang("job", gpus=8, duration_s=2 * START))
    cluster.tick()
    cluster.state.set_node(node("n0"))
    cluster.tick()
    assert nodes_of(cluster, "job") == {"n0"}
