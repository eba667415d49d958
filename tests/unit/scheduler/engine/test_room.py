"""CPU and memory: idle ones for everybody, the share of its GPUs for who owns them."""

from __future__ import annotations

from tests.support.cluster import Cluster, gang, member, node, owns

from skep_scheduler.model import Code

WHOLE_NODE_OF_CPUS = 64_000


def test_a_node_without_enough_cpu_is_passed_over() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(gang("hungry", members=[member(1, 1, cpu_millis=60_000)]))
    taken = cluster.state.running["hungry"].tasks[0].node
    cluster.run(gang("next", members=[member(1, 1, cpu_millis=8_000)]))
    assert cluster.state.running["next"].tasks[0].node != taken


def test_who_stays_within_the_shares_of_its_gpus_takes_back_what_others_borrow() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("borrows", members=[member(1, 0, cpu_millis=60_000)]))
    cluster.now = 60.0
    cluster.submit(gang("owns", members=[member(1, 1, cpu_millis=8_000)]))
    preemption = cluster.tick().preemptions[0]
    assert [(v.gang, v.cause) for v in preemption.victims] == [("borrows", "cpu")]
    cluster.advance(65.0)
    assert "owns" in cluster.state.running


def test_opportunistic_borrowers_go_first() -> None:
    cluster = Cluster([node("n0")], owns(a=8, b=0))
    borrows = member(1, 0, cpu_millis=30_000)
    cluster.run(gang("mine", members=[borrows]), gang("guest", "b", priority=-1, members=[borrows]))
    cluster.now = 60.0
    cluster.submit(gang("owns", members=[member(1, 1, cpu_millis=8_000)]))
    assert [v.gang for v in cluster.tick().preemptions[0].victims] == ["guest"]


def test_who_wants_more_than_its_share_waits_with_the_numbers() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("borrows", members=[member(1, 0, cpu_millis=60_000)]))
    cluster.now = 60.0
    cluster.submit(gang("greedy", members=[member(1, 1, cpu_millis=9_000)]))
    reason = cluster.tick().reasons["greedy"]
    assert reason.code == Code.CPU_BUSY
    assert reason.details["task"]["cpu_millis"] == 9_000
    assert reason.details["largest_free"]["cpu_millis"] == 4_000


def test_more_than_any_node_has_is_said_at_once() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.submit(gang("huge", members=[member(1, 1, memory_mb=10_000_000)]))
    assert cluster.tick().reasons["huge"].code == Code.NEVER_FITS_NODE


def test_tasks_without_gpus_go_beside_the_others_of_their_gang() -> None:
    cluster = Cluster([node("c0", gpus=0), node("n0"), node("n1")], owns(a=16))
    servers = member(2, 0, role="ps", cpu_millis=2_000)
    cluster.run(gang("job", members=[member(1, 8), servers]), gang("cpu", members=[servers]))
    assert {task.node for task in cluster.state.running["job"].tasks} < {"n0", "n1"}
    assert {task.node for task in cluster.state.running["cpu"].tasks} == {"c0"}


def test_a_vc_that_owns_nothing_may_use_idle_cpus() -> None:
    cluster = Cluster([node("n0")], owns(a=8, poor=0))
    cluster.run(gang("job", "poor", members=[member(1, 0, cpu_millis=WHOLE_NODE_OF_CPUS)]))
