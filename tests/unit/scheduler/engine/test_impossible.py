"""What can never start says so, with the cluster's real numbers; and no reason names a cause that
is not there."""

from __future__ import annotations

from tests.support.cluster import Cluster, gang, member, node, owns

from skep_scheduler.model import Code


def reason_of(cluster: Cluster, name: str):
    return cluster.tick().reasons[name]


def test_finding_u3_more_gpus_than_the_cluster_has_are_never_there_for_an_opportunistic_gang():
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.submit(gang("wide", tasks=13, gpus=8, priority=-1))
    reason = reason_of(cluster, "wide")
    assert reason.code == Code.NEVER_FITS_CLUSTER
    assert "the whole cluster has 16 A100: ask for fewer" in reason.message


def test_finding_u3_more_tasks_without_gpus_than_all_nodes_hold_are_reported_as_such():
    cluster = Cluster([node("n0", cpu_millis=96_000), node("n1", cpu_millis=96_000)], owns(a=16))
    many = [member(200, 0, cpu_millis=1_000, memory_mb=64)]
    cluster.submit(gang("many", members=many))
    reason = reason_of(cluster, "many")
    assert reason.code == Code.NEVER_FITS_CLUSTER
    assert reason.details["fits"] == 192
    assert "memory" not in reason.message.split("but")[1]


def test_finding_u3_what_is_short_is_named():
    cluster = Cluster([node("n0", cpu_millis=8_000)], owns(a=8))
    cluster.run(gang("first", members=[member(6, 0, cpu_millis=1_000, memory_mb=64)]))
    cluster.submit(gang("second", members=[member(4, 0, cpu_millis=1_000, memory_mb=64)]))
    assert reason_of(cluster, "second").code == Code.CPU_BUSY


def test_the_largest_node_is_one_node():
    """Not the most CPU of one and the most memory of another."""
    nodes = [
        node("cpu", gpus=0, cpu_millis=64_000, memory_mb=8_192),
        node("memory", gpus=0, cpu_millis=4_000, memory_mb=262_144),
    ]
    cluster = Cluster(nodes, owns(a=0))
    cluster.submit(gang("both", members=[member(1, 0, cpu_millis=32_000, memory_mb=65_536)]))
    reason = reason_of(cluster, "both")
    assert reason.code == Code.NEVER_FITS_NODE
    assert reason.details["largest_node"] in (
        {"cpu_millis": 64_000, "memory_mb": 8_192},
        {"cpu_millis": 4_000, "memory_mb": 262_144},
    )
