"""What virtual clusters own, use and cannot use: one count for reasons, pages and samples."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node, owns
from tests.support.examples import examples

from skep_scheduler import usage
from skep_scheduler.model import (
    Allocation,
    Claim,
    Inventory,
    Node,
    Placement,
    TaskAllocation,
    TaskPlacement,
    VirtualCluster,
)
from skep_scheduler.state import ClusterState


def broken(name: str, *indices: int) -> Node:
    whole = node(name)
    devices = [replace(d, healthy=d.index not in indices) for d in whole.devices]
    return replace(whole, devices=tuple(devices))


def test_finding_u5_two_broken_gpus_of_eight_are_two_everywhere():
    cluster = Cluster([broken("n0", 3, 5)], owns(a=8))
    cluster.run(gang("small", gpus=3))
    cluster.submit(gang("large", gpus=8, at=1.0))
    use = usage.measure(cluster.state)["a", "A100"]
    assert (use.owned, use.used, use.bad, use.free) == (8, 3, 2, 3)
    reason = cluster.tick().reasons["large"]
    assert (reason.details["bad"], reason.details["free"]) == (2, 3)


def test_finding_u5_a_bad_gpu_under_a_running_job_is_bad_and_not_taken_off_twice():
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.run(gang("all", gpus=8))
    cluster.state.set_node(broken("n0", 1))
    use = usage.measure(cluster.state)["a", "A100"]
    assert (use.used, use.bad, use.free) == (8, 1, 0)


def test_bad_gpus_of_a_cell_that_a_healthy_one_can_stand_for_are_nobodys_loss():
    cluster = Cluster([broken("n0", 0), node("n1")], owns(a=8))
    use = usage.measure(cluster.state)["a", "A100"]
    assert (use.owned, use.bad, use.free) == (8, 0, 8)


@pytest.mark.parametrize(
    ("closed", "words"), [({"cordoned": True}, "is cordoned"), ({}, "is offline")]
)
def test_finding_j14_a_closed_node_is_not_called_bad(closed: dict[str, bool], words: str):
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.state.set_node(node("n1", schedulable=False, **closed))
    cluster.run(gang("first", gpus=8, duration_s=600.0))
    cluster.submit(gang("second", members=[member(1, 8, gpu_model="A100")], at=1.0))
    reason = cluster.tick().reasons["second"]
    assert words in reason.message
    assert "bad" not in reason.message
    assert reason.details["bad"] == 0


MODELS = ("A100", "V100")


def runs_on(state: ClusterState, name: str, *gpus: tuple[str, str], **fields: object) -> None:
    """Record that a gang runs on these GPUs (node and UUID), with a task on each node."""
    nodes = sorted({where for where, _ in gpus})
    tasks = tuple(
        TaskAllocation(
            *("worker", i, where, tuple(g for n, g in gpus if n == where), 0, 0),
            cell_type=cell_type_of(state, where, str(fields.get("vc", "a"))),
        )
        for i, where in enumerate(nodes)
    )
    downgraded = bool(fields.pop("downgraded", False))
    known = gang(name, tasks=len(tasks), **fields)
    state.set_running(Allocation(known, tasks, 0.0, downgraded=downgraded))


def test_finding_u5_a_borrower_in_several_chains_borrows_in_each_of_them():
    """A gang runs in several chains when its nodes were changed under it; every GPU counts as the
    model that it is, not as the model of the gang's first GPU."""
    state = ClusterState()
    nodes = [node("n0", 4), node("n1", 4, "V100")]
    state.set_inventory(Inventory(tuple(nodes), owns(a=4)))
    gpus = [("n0", "n0-g0"), ("n1", "n1-g0"), ("n1", "n1-g1")]
    runs_on(state, "idle", *gpus, vc="b", priority=-1)
    used = usage.measure(state)
    assert (used["b", "A100"].borrowed, used["b", "V100"].borrowed) == (1, 2)
    assert usage.borrowed_gpus(state, "b") == 3


def recount(state: ClusterState) -> Counter[tuple[str, str, bool]]:
    """Count the GPUs in use by virtual cluster, model and whether the user is guaranteed: GPU by
    GPU from the facts. A GPU that is nominated counts for the preemptor."""
    owner: dict[str, tuple[str, bool]] = {}
    for gang_id, allocation in state.running.items():
        mine = allocation.gang.vc, state.is_guaranteed(gang_id)
        owner |= {uuid: mine for task in allocation.tasks for uuid in task.gpu_uuids}
    for gang_id, nominated in state.nominated.items():
        if state.is_nominated(gang_id):
            mine = nominated.gang.vc, True
            owner |= {uuid: mine for task in nominated.tasks for uuid in task.gpu_uuids}
    there = [device for known in state.nodes.values() for device in known.devices]
    return Counter((owner[d.uuid][0], d.model, owner[d.uuid][1]) for d in there if d.uuid in owner)


def measured(state: ClusterState) -> Counter[tuple[str, str, bool]]:
    found: Counter[tuple[str, str, bool]] = Counter()
    for (vc, model), use in usage.measure(state).items():
        found[vc, model, True], found[vc, model, False] = use.used, use.borrowed
    return +found


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30))
def test_finding_u5_used_and_borrowed_are_all_gpus_in_use_each_counted_once(seed: int):
    rng = random.Random(seed)
    state = ClusterState()
    nodes = [node(f"n{i}", rng.choice([1, 2, 4]), rng.choice(MODELS)) for i in range(4)]
    set_inventory(state, rng, nodes)
    for step in range(25):
        change(state, rng, nodes, f"g{step}")
        state.reconcile()
        assert measured(state) == recount(state)
        by_vc = Counter[str]()
        for (vc, _, guaranteed), gpus in recount(state).items():
            by_vc[vc] += 0 if guaranteed else gpus
        assert all(usage.borrowed_gpus(state, vc) == gpus for vc, gpus in by_vc.items())


def set_inventory(state: ClusterState, rng: random.Random, nodes: list[Node]) -> None:
    vcs = tuple(
        VirtualCluster(vc, tuple(Claim("", model, rng.randrange(7)) for model in MODELS))
        for vc in "ab"
    )
    present = [known for known in nodes if rng.random() < 0.9]
    labelled = [
        replace(known, labels={"rack": rng.choice(["r1", "r2"])}) if rng.random() < 0.3 else known
        for known in present
    ]
    state.set_inventory(Inventory(tuple(labelled), vcs))


def change(state: ClusterState, rng: random.Random, nodes: list[Node], name: str) -> None:
    """One random fact: gangs start on any GPUs whatever their chains, end, are nominated for places
    of others, and nodes and claims come and go."""
    held = {u for a in state.running.values() for task in a.tasks for u in task.gpu_uuids}
    wanted = {u for n in state.nominated.values() for task in n.tasks for u in task.gpu_uuids}
    every = [(known.name, device.uuid) for known in nodes for device in known.devices]
    act, known = rng.random(), sorted({*state.running, *state.nominated})
    if act < 0.5:
        idle = [gpu for gpu in every if gpu[1] not in held | wanted]
        some = rng.sample(idle, min(len(idle), rng.choice([1, 2, 2, 3])))
        if some:
            priority, vc = rng.choice([-1, 0, 5]), rng.choice("abc")
            downgraded = priority >= 0 and rng.random() < 0.2
            runs_on(state, name, *some, vc=vc, priority=priority, downgraded=downgraded)
    elif act < 0.65:
        free = [gpu for gpu in every if gpu[1] not in wanted]
        preemptor = gang(name, rng.choice("ab"), priority=9)
        if free:
            where, uuid = rng.choice(free)
            model = uuid_model(nodes, uuid)
            task = TaskPlacement(
                "worker", 0, where, (uuid,), model, cell_type_of(state, where, preemptor.vc)
            )
            state.set_waiting(preemptor)
            state.set_nominated(preemptor, Placement(name, (task,)))
    elif act < 0.85 and known:
        state.forget(rng.choice(known))
    else:
        set_inventory(state, rng, nodes)


def uuid_model(nodes: list[Node], uuid: str) -> str:
    return next(d.model for known in nodes for d in known.devices if d.uuid == uuid)


def cell_type_of(state: ClusterState, where: str, vc: str) -> str:
    """Return the type of a cell that the virtual cluster owns in the chain of a node."""
    leaf = next((leaf for (name, _), leaf in state.cells.leaves.items() if name == where), None)
    owner = state.cells.vcs.get(vc)
    domain = owner.chains.get(leaf.shape.chain) if leaf is not None and owner is not None else None
    return domain.roots[0].spec.type if domain is not None and domain.roots else ""


def test_the_nodes_of_a_virtual_cluster_are_those_of_its_cells_and_where_they_may_come():
    cluster = Cluster([node("n0"), node("n1"), node("other", model="H100")], owns(a=8, b=8))
    assert usage.nodes_of(cluster.state, "a") == {"n0", "n1"}
    cluster.run(gang("whole", gpus=8))
    (placed,) = usage.nodes_of(cluster.state, "a")
    assert placed in {"n0", "n1"}
    assert usage.nodes_of(cluster.state, "unknown") == set()
