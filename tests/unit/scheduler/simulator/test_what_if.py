"""What if: the present queue with other nodes, quotas and policies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.cluster import gang, node, owns

from skep_scheduler.model import Allocation, Gang, Inventory, PolicyChoice, TaskAllocation
from skep_scheduler.simulator import snapshot, what_if
from skep_scheduler.simulator.snapshot import Snapshot
from skep_scheduler.simulator.what_if import GpuChange
from skep_scheduler.simulator.workload import WorkloadError
from skep_scheduler.state import ClusterState

NOW = 1_000.0
HOUR = 3600.0


def held(what: Gang, on: str, gpus: int, first: int = 0) -> Allocation:
    uuids = tuple(f"{on}-g{first + i}" for i in range(gpus))
    task = TaskAllocation("worker", 0, on, uuids, 1_000 * gpus, 1_024 * gpus, "A100-NODE8")
    return Allocation(what, (task,), NOW - 60)


def the_queue(vc: str = "a") -> Snapshot:
    """Two nodes of eight GPUs: `a` owns one, with a job that runs for an hour; three wait. `b` owns
    the other one, with a short job on it."""
    inventory = Inventory((node("n1"), node("n2")), owns(a=8, b=8))
    waiting = (
        gang("long", gpus=8, at=10, predicted_s=4 * HOUR),
        gang("short", gpus=8, at=20, predicted_s=HOUR),
        gang("one", at=30, predicted_s=HOUR),
    )
    left = {"first": HOUR, "long": 4 * HOUR, "short": HOUR, "one": HOUR, "other": 600.0}
    known = Snapshot(
        NOW,
        "a",
        inventory,
        (held(gang("first", gpus=8, predicted_s=HOUR), "n1", 8),),
        waiting,
        left,
    )
    if vc:
        return known
    other = held(gang("other", vc="b", gpus=2), "n2", 2)
    return replace(known, vc="", running=(*known.running, other))


def ends(known: Snapshot) -> dict[str, float | None]:
    found, _, _ = snapshot.run(known)
    return {job.id: None if job.ended_at is None else job.ended_at - NOW for job in found}


def test_without_a_change_it_is_the_forecast():
    known = the_queue()
    assert what_if.changed(known, []) == known
    # As the process of a simulation gets it: through JSON.
    sent = snapshot.decode(json.loads(json.dumps(snapshot.encode(known))))
    for choice in (PolicyChoice(), PolicyChoice("srtf")):
        forecast = snapshot.run(known, choice)
        assert snapshot.run(what_if.with_policy(what_if.changed(sent, []), "a", choice)) == forecast
    found, figures, series = snapshot.run(known)
    assert [(job.id, job.started_at) for job in found][:2] == [("first", NOW), ("long", NOW + HOUR)]
    assert figures["utilisation"] == pytest.approx((8 * 6 + 1) / (8 * 7), abs=0.001)
    assert series[0] == (0.0, 3, 8), "the plot begins with now"


def test_another_policy_is_that_of_one_virtual_cluster_or_of_all():
    known = the_queue("")
    short_first = what_if.with_policy(known, "a", PolicyChoice("srtf"))
    assert [vc.policy.name for vc in short_first.inventory.virtual_clusters] == [
        "srtf",
        PolicyChoice().name,
    ]
    assert ends(known)["short"] == 6 * HOUR
    assert ends(short_first)["short"] == 2 * HOUR
    everywhere = what_if.with_policy(known, "", PolicyChoice("srtf"))
    assert {vc.policy.name for vc in everywhere.inventory.virtual_clusters} == {"srtf"}


def test_new_nodes_and_the_quota_of_them_let_jobs_start_at_once():
    known = the_queue("")
    more = what_if.changed(known, [GpuChange("", "A100", 8), GpuChange("a", "A100", 8)])
    assert len(more.inventory.nodes) == 3
    found = ends(more)
    assert (found["long"], found["short"], found["other"]) == (4 * HOUR, 2 * HOUR, 600)
    _, figures, _ = snapshot.run(more)
    assert figures["finished"] == 5


def test_a_quota_that_goes_leaves_nothing_to_start_on():
    less = what_if.changed(the_queue(""), [GpuChange("a", "A100", -4)])
    found = ends(less)
    assert (found["long"], found["short"]) == (None, None)
    assert found["one"] is not None


def test_what_runs_on_a_node_that_goes_waits_again_with_its_work_done():
    """The emptier node goes first; what it loses is time, never its work."""
    known = the_queue("")
    less = what_if.changed(known, [GpuChange("", "A100", -8), GpuChange("b", "A100", -6)])
    assert [one.name for one in less.inventory.nodes] == ["n1"]
    assert [held.gang.id for held in less.running] == ["first"]
    [back] = [one for one in less.waiting if one.id == "other"]
    assert (back.waits_since, back.attained_gpu_s) == (NOW, 120.0)
    assert less.left_s == known.left_s


@pytest.mark.parametrize(
    ("changes", "code", "numbers"),
    [
        ([GpuChange("c", "A100", 1)], "unknown_virtual_cluster", {"virtual_cluster": "c"}),
        ([GpuChange("", "H100", 8)], "unknown_gpu_model", {"known": ["A100"]}),
        ([GpuChange("", "A100", 4)], "not_whole_nodes", {"gpus": 4, "gpus_of_node": 8}),
        ([GpuChange("", "A100", -24)], "gpus_not_there", {"gpus": 16, "asked": 24}),
        ([GpuChange("a", "A100", -9)], "gpus_not_owned", {"owned": 8, "asked": 9}),
        ([GpuChange("a", "A100", 1)], "quota_exceeds_cluster", {"asked": 17, "cluster": 16}),
        ([GpuChange("", "A100", -8)], "quota_exceeds_cluster", {"asked": 16, "cluster": 8}),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_with_its_numbers(changes, code, numbers):
    state = ClusterState()
    state.set_inventory(the_queue().inventory)
    with pytest.raises(WorkloadError) as refused:
        what_if.check(state, changes)
    assert refused.value.code == code
    assert numbers.items() <= refused.value.details.items()


def test_quotas_move_between_virtual_clusters_and_follow_new_nodes():
    state = ClusterState()
    state.set_inventory(the_queue().inventory)
    what_if.check(state, [GpuChange("a", "A100", 4), GpuChange("b", "A100", -4)])
    what_if.check(state, [GpuChange("a", "A100", 8), GpuChange("", "A100", 8)])
    what_if.check(state, [GpuChange("b", "A100", -8), GpuChange("", "A100", -8)])
