"""Builders for snapshots of the scheduler: a few words for a cluster, a queue and what runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from skep_scheduler.plan import Placement, Plan
from skep_scheduler.state import Gang, Member, Node, Running, Snapshot, VirtualCluster


def node(
    name: str,
    gpus: int | dict[str, int] = 0,
    cpus: float = 64,
    gib: float = 256,
    *,
    open: bool = True,
    topology: dict[str, dict[str, str]] | None = None,
) -> Node:
    """Its id is its name; GPUs are A100 unless a model is named, "<node>-<model>-<n>"."""
    models = gpus if isinstance(gpus, dict) else {"A100": gpus} if gpus else {}
    return Node(
        id=name,
        name=name,
        cpu_millis=int(cpus * 1000),
        memory_mb=int(gib * 1024),
        gpus={m: tuple(f"{name}-{m}-{i:02}" for i in range(n)) for m, n in models.items()},
        schedulable=open,
        topology=topology or {},
    )


def member(
    count: int = 1,
    gpus: int = 1,
    cpus: float = 1,
    gib: float = 1,
    model: str | None = "A100",
    role: str = "worker",
) -> Member:
    return Member(role, count, gpus, int(cpus * 1000), int(gib * 1024), model if gpus else None)


def gang(
    name: str,
    *members: Member,
    vc: str = "team",
    priority: int = 10,
    at: float = 0.0,
    not_before: float = 0.0,
) -> Gang:
    """Its id is its name; one task of one A100 unless members are given."""
    return Gang(name, name, vc, priority, at, members or (member(),), not_before)


def running(
    gang_id: str, on: Node, gpus: int | Sequence[str] = 1, *, vc: str = "team", priority: int = 10,
    model: str = "A100", cpus: float = 1, gib: float = 1,
) -> Running:  # fmt: skip
    """Holds the first `gpus` GPUs of the node, or those with the UUIDs given."""
    uuids = tuple(on.gpus.get(model, ())[:gpus]) if isinstance(gpus, int) else tuple(gpus)
    return Running(
        gang_id, vc, on.id, uuids, model if uuids else None,
        int(cpus * 1000), int(gib * 1024), priority, gang_id,
    )  # fmt: skip


def snapshot(
    nodes: Iterable[Node],
    waiting: Iterable[Gang] = (),
    busy: Iterable[Running] = (),
    **quotas: dict[str, int] | int,
) -> Snapshot:
    """`team=8` owns 8 A100; without any quota there is "team", which owns 1000."""
    owned = {vc: q if isinstance(q, dict) else {"A100": q} for vc, q in quotas.items()}
    vcs = owned or {"team": {"A100": 1000}}
    return Snapshot(
        tuple(nodes),
        tuple(VirtualCluster(name, quota) for name, quota in vcs.items()),
        tuple(waiting),
        tuple(busy),
    )


def as_running(gang: Gang, placement: Placement) -> list[Running]:
    """The tasks of a gang once its placement is committed."""
    members = {m.role: m for m in gang.members}
    return [
        Running(
            gang.id, gang.vc, task.node_id, task.gpu_uuids, task.gpu_model,
            members[task.role].cpu_millis, members[task.role].memory_mb,
            gang.priority, gang.name,
        )
        for task in placement.tasks
    ]  # fmt: skip


def committed(state: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot once the plan is committed."""
    waiting = {gang.id: gang for gang in state.waiting}
    started = [t for p in plan.placements for t in as_running(waiting[p.gang_id], p)]
    placed = {p.gang_id for p in plan.placements}
    left = tuple(gang for gang in state.waiting if gang.id not in placed)
    return replace(state, waiting=left, running=(*state.running, *started))


def layout(placement: Placement) -> dict[str, int]:
    """Tasks per node."""
    tasks: dict[str, int] = {}
    for task in placement.tasks:
        tasks[task.node_id] = tasks.get(task.node_id, 0) + 1
    return tasks
