"""What the scheduler sees, read from the database.

What a gang needs and what an attempt holds never changes, so a process remembers them: a snapshot
reads the ids of what waits and of what runs, and the details only of those it has not met. Nodes,
devices and quotas are small and read whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Generic, TypeVar
from uuid import UUID

from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job, TaskAttempt, TaskRole
from skep_platform.tenancy.models import Quota, VirtualCluster
from skep_scheduler import state

Value = TypeVar("Value")
NODE = ("id", "name", "cpu_millis", "memory_mb", "state", "cordoned", "topology")
RUNNING: tuple[str, ...] = (
    *("id", "job_id", "job__vc__name", "node_id", "gpu_uuids", "gpu_model"),
    *("role__cpu_millis", "role__memory_mb", "job__priority", "job__name"),
)


class SnapshotSource:
    """Makes snapshots; not safe for threads. Forgets what no longer waits or runs."""

    def __init__(self) -> None:
        self._gangs: Remembered[state.Gang] = Remembered(_gangs)
        self._running: Remembered[state.Running] = Remembered(_running)
        self._vc_names: list[str] = []

    def take(self) -> state.Snapshot:
        """Six small queries, and two or three more for what is new. What waits is read before
        what runs: a gang placed in between is then seen twice, never missed, and the commit
        finds out; while GPUs that are still held are never taken for free."""
        vcs = _virtual_clusters()
        self._forget_old_names(vcs)
        waiting = self._waiting()
        nodes = _nodes()
        held = TaskAttempt.objects.filter(released_at=None).values_list("pk", flat=True)
        return state.Snapshot(
            nodes=nodes,
            virtual_clusters=vcs,
            waiting=waiting,
            running=tuple(self._running.get(held).values()),
        )

    def _forget_old_names(self, vcs: tuple[state.VirtualCluster, ...]) -> None:
        """What is remembered names its virtual cluster, and that may have been renamed."""
        names = [vc.name for vc in vcs]
        if names != self._vc_names:
            self._gangs.forget()
            self._running.forget()
        self._vc_names = names

    def _waiting(self) -> tuple[state.Gang, ...]:
        queued = dict(queries.queue().order_by().values_list("pk", "not_before"))
        gangs = self._gangs.get(queued)
        return tuple(
            gang if not_before is None else replace(gang, not_before=not_before.timestamp())
            for pk, not_before in queued.items()
            if (gang := gangs.get(pk)) is not None
        )


class Remembered(Generic[Value]):
    """Values by id that never change: `read` is asked for those not met before."""

    def __init__(self, read: Callable[[list[UUID]], dict[UUID, Value]]) -> None:
        self._read = read
        self._known: dict[UUID, Value] = {}

    def get(self, ids: Iterable[UUID]) -> dict[UUID, Value]:
        wanted = list(ids)
        missing = [pk for pk in wanted if pk not in self._known]
        found = self._known | self._read(missing) if missing else self._known
        self._known = {pk: found[pk] for pk in wanted if pk in found}
        return self._known

    def forget(self) -> None:
        self._known = {}


def _gangs(ids: list[UUID]) -> dict[UUID, state.Gang]:
    members = defaultdict(list)
    roles = TaskRole.objects.filter(job__in=ids).order_by("job_id", "position")
    needs = roles.values_list("job_id", "name", "instances", "gpus", "cpu_millis", "memory_mb")
    for job_id, name, count, gpus, cpu_millis, memory_mb in needs:
        members[job_id].append(state.Member(name, count, gpus, cpu_millis, memory_mb))
    rows = Job.objects.filter(pk__in=ids)
    return {
        pk: state.Gang(str(pk), name, vc, priority, created_at.timestamp(), tuple(members[pk]))
        for pk, name, vc, priority, created_at in rows.values_list(
            "pk", "name", "vc__name", "priority", "created_at"
        )
    }


def _running(ids: list[UUID]) -> dict[UUID, state.Running]:
    return {
        row["id"]: state.Running(
            gang_id=str(row["job_id"]),
            vc=row["job__vc__name"],
            node_id=str(row["node_id"]),
            gpu_uuids=tuple(row["gpu_uuids"]),
            gpu_model=row["gpu_model"] or None,
            cpu_millis=row["role__cpu_millis"],
            memory_mb=row["role__memory_mb"],
            priority=row["job__priority"],
            gang_name=row["job__name"],
        )
        for row in TaskAttempt.objects.filter(pk__in=ids).values(*RUNNING)
    }


def _nodes() -> tuple[state.Node, ...]:
    gpus: dict[UUID, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    healthy = Device.objects.filter(health=Device.Health.HEALTHY).order_by("node_id", "index")
    for uuid, node_id, model in healthy.values_list("uuid", "node_id", "model"):
        gpus[node_id][model].append(uuid)
    rows = Node.objects.exclude(state__in=[NodeState.JOINED, NodeState.REMOVED])
    return tuple(
        state.Node(
            id=str(row["id"]),
            name=row["name"],
            cpu_millis=row["cpu_millis"],
            memory_mb=row["memory_mb"],
            gpus={model: tuple(uuids) for model, uuids in gpus[row["id"]].items()},
            schedulable=row["state"] == NodeState.ONLINE and not row["cordoned"],
            topology=row["topology"],
        )
        for row in rows.values(*NODE)
    )


def _virtual_clusters() -> tuple[state.VirtualCluster, ...]:
    quotas: dict[UUID, dict[str, int]] = defaultdict(dict)
    for vc_id, model, gpus in Quota.objects.values_list("vc_id", "gpu_model", "gpus"):
        quotas[vc_id][model] = gpus
    rows = VirtualCluster.objects.order_by("pk").values_list("pk", "name")
    return tuple(state.VirtualCluster(name, quotas[pk]) for pk, name in rows)
