"""Making a plan true, a gang at a time: all of it or nothing, whatever happens in the middle.

The plan was made from a snapshot that is old by now, so everything is looked at again under the
lock of the job's row. The unique constraints on leases of devices and ports are the last wall: a
gang that runs into one is left in the queue, and the next tick plans it anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.cluster.services import bump_revision
from skep_platform.core import doorbells
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs import queries, stories
from skep_platform.jobs.bulk import update_rows
from skep_platform.jobs.models import Job, Lease, PortLease, Task, TaskAttempt, TaskRole
from skep_platform.scheduling.ports import HOST, PortRange, PortsExhausted, choose, network_of
from skep_scheduler.plan import Placement, TaskPlacement

log = structlog.get_logger(__name__)

GROUP_TASKS = 64  # small gangs share a transaction up to this many tasks
POSTPONE_S = 30.0
JOB_ROW = ("id", "attempt")
ROLE_ROW = ("id", "job_id", "name", "ports")
JOB_CHANGES = ("attempt", "placed_at", "wait_reason", "exit_reason", "updated_at")


def commit(placements: Iterable[Placement]) -> set[str]:
    """Write the placements; returns the ids of the gangs that were placed. The others changed
    meanwhile, or lost a race, and stay in the queue."""
    placed: set[str] = set()
    for group in _groups(placements):
        placed |= _commit_group(group)
    return placed


def _groups(placements: Iterable[Placement]) -> Iterable[list[Placement]]:
    group: list[Placement] = []
    tasks = 0
    for placement in placements:
        if group and tasks + len(placement.tasks) > GROUP_TASKS:
            yield group
            group, tasks = [], 0
        group.append(placement)
        tasks += len(placement.tasks)
    if group:
        yield group


def _commit_group(group: Sequence[Placement]) -> set[str]:
    """Together; or, when one of them runs into a wall, each alone."""
    try:
        return _write(group)
    except (DatabaseError, PortsExhausted) as error:
        if not connection.is_usable():
            raise  # and with the connection the tick's lock is gone
        if len(group) > 1:
            return set(chain.from_iterable(_commit_group([placement]) for placement in group))
        log.warning("gang_not_committed", job=group[0].gang_id, error=str(error)[:300])
        if not isinstance(error, IntegrityError):
            _postpone(group[0].gang_id, error)
        return set()


def _postpone(gang_id: str, error: Exception) -> None:
    """Not a race but a fault, which would be planned again and again and keep others out."""
    message = f"It could not be placed now: {str(error)[:300]}"
    queries.queue().filter(pk=gang_id).update(
        not_before=timezone.now() + timedelta(seconds=POSTPONE_S),
        wait_reason=stories.reason("commit_failed", message, in_s=POSTPONE_S),
    )


@transaction.atomic
def _write(group: Sequence[Placement]) -> set[str]:
    # 1. Lock the jobs that still wait, in the order of their ids.
    ids = [UUID(placement.gang_id) for placement in group]
    locked = queries.queue().filter(pk__in=ids).select_for_update(of=("self",), no_key=True)
    jobs = {str(job.pk): job for job in locked.order_by("pk").only(*JOB_ROW)}
    # 2. Keep the gangs whose nodes and GPUs are still there to be used.
    room = _Room(group)
    kept = [p for p in group if p.gang_id in jobs and room.has(p.tasks)]
    # 3. Write attempts, leases, the jobs' new state and story.
    rows = _Rows(room, _tasks_of(jobs[p.gang_id] for p in kept), timezone.now())
    for placement in kept:
        rows.add(jobs[placement.gang_id], placement)
    rows.write()
    return {placement.gang_id for placement in kept}


Member = tuple[str, int]  # role, index


class _Room:
    """The nodes and GPUs of a group as they are now."""

    def __init__(self, group: Sequence[Placement]) -> None:
        tasks = [task for placement in group for task in placement.tasks]
        nodes = Node.objects.filter(
            pk__in={task.node_id for task in tasks}, state=NodeState.ONLINE, cordoned=False
        )
        rows = nodes.values_list("pk", "name", "port_first", "port_last")
        self.names = {str(pk): name for pk, name, _, _ in rows}
        seed = UUID(group[0].gang_id).int
        self.ports = {str(pk): PortRange(first, last, seed) for pk, _, first, last in rows}
        uuids = list(chain.from_iterable(task.gpu_uuids for task in tasks))
        healthy = Device.objects.filter(pk__in=uuids, health=Device.Health.HEALTHY)
        self._home = {uuid: str(node) for uuid, node in healthy.values_list("uuid", "node_id")}
        self._know_held(group)

    def has(self, tasks: Iterable[TaskPlacement]) -> bool:
        return all(
            task.node_id in self.names
            and all(self._home.get(uuid) == task.node_id for uuid in task.gpu_uuids)
            for task in tasks
        )

    def _know_held(self, group: Sequence[Placement]) -> None:
        spread = [p.tasks for p in group if network_of(p.tasks) == HOST]
        nodes = self.ports.keys() & {task.node_id for tasks in spread for task in tasks}
        if not nodes:
            return
        held = PortLease.objects.filter(node_id__in=nodes, released_at=None)
        for node, port in held.values_list("node_id", "port"):
            self.ports[str(node)].held.add(port)


class _Rows:
    """All rows of a group of gangs, written together."""

    def __init__(
        self, room: _Room, tasks: dict[str, dict[Member, tuple[Task, TaskRole]]], now: datetime
    ) -> None:
        self._room, self._tasks, self._now = room, tasks, now
        self.jobs: list[dict[str, Any]] = []
        self.attempts: list[TaskAttempt] = []
        self.leases: list[Lease] = []
        self.ports: list[PortLease] = []
        self.events: list[Event] = []
        self.nodes: set[str] = set()

    def add(self, job: Job, placement: Placement) -> None:
        """Raises PortsExhausted."""
        network = network_of(placement.tasks)
        for task in placement.tasks:
            self._add_task(job, network, task)
        self.jobs.append(self._job(job))
        self.events.append(self._story(job, placement))
        self.nodes |= {task.node_id for task in placement.tasks}

    def write(self) -> None:
        if not self.attempts:
            return
        TaskAttempt.objects.bulk_create(self.attempts)
        # In one order over all commits: two that want the same GPUs wait, they do not deadlock.
        Lease.objects.bulk_create(sorted(self.leases, key=lambda lease: lease.device_id))
        PortLease.objects.bulk_create(self.ports)
        update_rows(Job, JOB_CHANGES, self.jobs)
        Event.objects.bulk_create(self.events)
        bump_revision(self.nodes)
        for job in self.jobs:
            doorbells.ring_topic("job", job["id"])
        doorbells.ring_topic("jobs")
        doorbells.ring_topic("cluster")

    def _add_task(self, job: Job, network: str, placed: TaskPlacement) -> None:
        task, role = self._tasks[str(job.pk)][placed.role, placed.index]
        range_ = self._room.ports[placed.node_id]
        attempt = TaskAttempt(
            job=job,
            task=task,
            role=role,
            node_id=placed.node_id,
            index=job.attempt + 1,
            epoch=job.attempt + 1,
            gpu_uuids=list(placed.gpu_uuids),
            gpu_model=placed.gpu_model or "",
            network=network,
            ports=choose(network, role.ports, task.rank, range_),
        )
        self.attempts.append(attempt)
        self.leases += [Lease(device_id=uuid, attempt=attempt) for uuid in placed.gpu_uuids]
        if network == HOST:
            self.ports += [
                PortLease(node_id=placed.node_id, port=port, attempt=attempt)
                for port in chain.from_iterable(attempt.ports.values())
            ]

    def _job(self, job: Job) -> dict[str, Any]:
        return {
            "id": job.pk,
            "attempt": job.attempt + 1,
            "placed_at": self._now,
            "wait_reason": None,
            "exit_reason": None,
            "updated_at": self._now,
        }

    def _story(self, job: Job, placement: Placement) -> Event:
        tasks_by_node: dict[str, int] = defaultdict(int)
        for task in placement.tasks:
            tasks_by_node[self._room.names[task.node_id]] += 1
        gpus = sum(len(task.gpu_uuids) for task in placement.tasks)
        model = next((task.gpu_model for task in placement.tasks if task.gpu_model), None)
        message = stories.placed(tasks_by_node, model, gpus)
        data: dict[str, Any] = {"nodes": dict(tasks_by_node), "gpus": gpus, "gpu_model": model}
        return event("job", job.pk, "job.placed", message, attempt=job.attempt + 1, **data)


def _tasks_of(jobs: Iterable[Job]) -> dict[str, dict[Member, tuple[Task, TaskRole]]]:
    ids = [job.pk for job in jobs]
    roles = {role.pk: role for role in TaskRole.objects.filter(job__in=ids).only(*ROLE_ROW)}
    found: dict[str, dict[Member, tuple[Task, TaskRole]]] = defaultdict(dict)
    for task in Task.objects.filter(job__in=ids):
        role = roles[task.role_id]
        found[str(task.job_id)][role.name, task.index] = (task, role)
    return found
