"""What virtual clusters own, use and cannot use: one count for reasons, pages and samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.cluster import Cluster, gang, member, node, owns

from skep_scheduler import usage
from skep_scheduler.facts import Node


def broken(name: str, *indices: int) -> Node:
    whole = node(name)
    devices = [replace(d, healthy=d.index not in indices) for d in whole.devices]
    return replace(whole, devices=tuple(devices))


def test_finding_u5_two_broken_gpus_of_eight_are_two_everywhere():
    cluster = Cluster([broken("n0", 3, 5)], owns(a=8))
    cluster.run(gang("small", gpus=3))
    cluster.submit(gang("large", gpus=8, at=1.0))
    use = usage.measure(cluster.world)["a", "A100"]
    assert (use.owned, use.used, use.bad, use.free) == (8, 3, 2, 3)
    reason = cluster.tick().reasons["large"]
    assert (reason.details["bad"], reason.details["free"]) == (2, 3)


def test_finding_u5_a_bad_gpu_under_a_running_job_is_bad_and_not_taken_off_twice():
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("all", gpus=8))
    cluster.world.set_node(broken("n0", 1))
    use = usage.measure(cluster.world)["a", "A100"]
    assert (use.used, use.bad, use.free) == (8, 1, 0)


def test_bad_gpus_of_a_cell_that_a_healthy_one_can_stand_for_are_nobodys_loss():
    cluster = Cluster([broken("n0", 0), node("n1")], owns(a=8))
    use = usage.measure(cluster.world)["a", "A100"]
    assert (use.owned, use.bad, use.free) == (8, 0, 8)


@pytest.mark.parametrize(
    ("closed", "words"), [({"cordoned": True}, "is cordoned"), ({}, "is offline")]
)
def test_finding_j14_a_closed_node_is_not_called_bad(closed: dict[str, bool], words: str):
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.world.set_node(node("n1", schedulable=False, **closed))
    cluster.run(gang("first", gpus=8, duration_s=600.0))
    cluster.submit(gang("second", members=[member(1, 8, gpu_model="A100")], at=1.0))
    reason = cluster.tick().reasons["second"]
    assert words in reason.message
    assert "bad" not in reason.message
    assert reason.details["bad"] == 0
