"""Making placements true, a gang at a time: all of it or nothing, whatever happens in the middle.

The plan was made from a world that is old by now, so everything is looked at again under the lock
of the job's row. The unique constraints on leases of devices and ports are the last wall: a gang
that runs into one is left in the queue, and the next tick plans it anew.

An incremental gang is placed in parts, each whole: later tasks join the present job attempt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F, Max
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.cluster.services import bump_revision
from skep_platform.core import failures, notifications
from skep_platform.core.bulk import Writes, loaded, new
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs import queries
from skep_platform.jobs.containers.gang import Block
from skep_platform.jobs.lifecycle import messages, resizing
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.models import Job, Lease, PortLease, Task, TaskAttempt
from skep_platform.scheduling import gang_networks, metrics
from skep_platform.scheduling.gang_networks import (
    GANG,
    HOST,
    NoNetwork,
    PortRange,
    PortsExhausted,
    choose_ports,
    network_of,
)
from skep_platform.scheduling.homes import homes_of, homeward
from skep_platform.scheduling.models import Nomination
from skep_platform.tenancy.models import VcLimit
from skep_platform.usage import budgets
from skep_scheduler.model import Placement, TaskPlacement

log = structlog.get_logger(__name__)

GROUP_TASKS = 64  # small gangs share a transaction up to this many tasks
POSTPONE_S = 30.0
NO_DEVICES_S = 3600.0  # then it is looked whether a node has them by now
JOB_ROW = (
    "id",
    "attempt",
    "placed_at",
    "incremental",
    "tasks_total",
    "begun_at",
    "ends_at",
    "unplaced",
    "downgraded",
    "wait_reason",
    "network_mode",
    "rdma",
    "vc_id",
    "priority",
    "gpus",
    "created_at",
    "trace_parent",
    "request_id",
)
# In the order of their ids.
LOCKED = Compiled(
    lambda: (
        queries.placeable()
        .filter(Among("pk", "jobs"))
        .select_for_update(of=("self",), no_key=True)
        .order_by("pk")
    ),
    *JOB_ROW,
)
JOB_CHANGES = (
    *("attempt", "placed_at", "begun_at", "ends_at", "unplaced", "preempting_at", "downgraded"),
    *("wait_reason", "exit_reason", "updated_at"),
)


def place(placements: Iterable[Placement]) -> set[str]:
    """Write the placements; returns the ids of the gangs that were placed. The others changed
    meanwhile, or lost a race, and stay in the queue."""
    placed: set[str] = set()
    for group in _groups(placements):
        placed |= _place_group(group)
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


def _place_group(group: Sequence[Placement]) -> set[str]:
    """Place them together; or, when one violates a constraint, each alone."""
    jobs: dict[str, Job] = {}
    try:
        return _write(group, jobs)
    except (DatabaseError, PortsExhausted, NoNetwork, NoDevices) as error:
        if failures.is_cut_off(error) or not connection.is_usable():
            raise  # and with the connection the tick's lock is gone
        if len(group) > 1:
            return set(chain.from_iterable(_place_group([placement]) for placement in group))
        gang = group[0].gang
        # An error before its row was read leaves it unknown.
        request_id = jobs[gang].request_id if gang in jobs else ""
        log.warning("gang_not_placed", job_id=gang, request_id=request_id, error=str(error)[:300])
        if not (isinstance(error, IntegrityError) or failures.is_undone(error)):
            _postpone(gang, error)
        return set()


def _postpone(gang_id: str, error: Exception) -> None:
    """Not a race but a fault, which would be planned again and again and keep others out."""
    message = f"It could not be placed now: {str(error)[:300]}"
    if isinstance(error, NoDevices):
        _avoid(gang_id, error.nodes)
    queries.placeable().filter(pk=gang_id).update(
        not_before=Now() + timedelta(seconds=POSTPONE_S),
        wait_reason=messages.reason("commit_failed", message, in_s=POSTPONE_S),
    )


def _avoid(gang_id: str, nodes: Collection[str]) -> None:
    """The scheduler does not know of the devices: it looks elsewhere from now on."""
    job = queries.placeable().filter(pk=gang_id).only("avoid_nodes").first()
    if job is not None:
        until = (timezone.now() + timedelta(seconds=NO_DEVICES_S)).timestamp()
        avoided = {**(job.avoid_nodes or {}), **dict.fromkeys(nodes, until)}
        Job.objects.filter(pk=job.pk).update(avoid_nodes=avoided)


class NoDevices(Exception):
    """Some of the nodes lack devices that the job asks for."""

    def __init__(self, nodes: Collection[str]) -> None:
        super().__init__(f"{', '.join(sorted(nodes)[:3])}: no InfiniBand devices there.")
        self.nodes = nodes


@transaction.atomic
def _write(group: Sequence[Placement], jobs: dict[str, Job]) -> set[str]:
    """Write them, and return those that were placed. `jobs` gets the rows that were read."""
    # 1. Lock the jobs that still wait, in the order of their ids.
    ids = [UUID(placement.gang) for placement in group]
    found = (loaded(Job, JOB_ROW, row) for row in LOCKED.rows(jobs=ids))
    jobs |= {str(job.pk): job for job in found}
    # 2. Keep the gangs that are as they were planned, with nodes and GPUs that may be used.
    usable = UsableNodes(group)
    sizes = _sizes([p for p in group if p.gang in jobs and _is_resized(jobs[p.gang], p)])
    kept = [
        p
        for p in group
        if p.gang in jobs and (_fits(jobs[p.gang], p) or p.gang in sizes) and usable.has(p.tasks)
    ]
    over = budgets.used_up({jobs[p.gang].vc_id for p in kept})
    kept = [p for p in kept if _ranks_as_planned(jobs[p.gang], p, over)]
    homes = homes_of([jobs[p.gang] for p in kept])
    kept = [homeward(p, homes[p.gang]) if p.gang in homes else p for p in kept]
    # 3. Write attempts, leases, the jobs' new state and story.
    resizing.write({jobs[p.gang].pk: sizes[p.gang] for p in kept if p.gang in sizes})
    for placement in kept:
        if placement.gang in sizes:
            jobs[placement.gang].tasks_total = len(placement.tasks)
    networks = {p.gang: network_of(jobs[p.gang], p.tasks) for p in kept}
    _check_devices([p for p in kept if jobs[p.gang].rdma], usable)
    _check_host_network(jobs[gang] for gang, network in networks.items() if network == HOST)
    usable.know_ports({t.node for p in kept if networks[p.gang] == HOST for t in p.tasks})
    tasks = _tasks_of(jobs[p.gang] for p in kept)
    blocks = _gang_networks([p for p in kept if networks[p.gang] == GANG], jobs, usable)
    rows = _Rows(usable, tasks, _retries(jobs.values(), tasks), usable.now, blocks, over)
    for placement in kept:
        rows.add(jobs[placement.gang], placement, networks[placement.gang])
    rows.write()
    return {placement.gang for placement in kept}


def _check_devices(placements: Iterable[Placement], usable: UsableNodes) -> None:
    """Raises NoDevices."""
    without = {t.node for p in placements for t in p.tasks} - usable.rdma_nodes
    if without:
        raise NoDevices(without)


def _check_host_network(jobs: Iterable[Job]) -> None:
    """An admin may have taken the right back since they were submitted. One query, or none. Raises
    NoNetwork."""
    vcs = {job.vc_id for job in jobs}
    if not vcs:
        return
    allowed = VcLimit.objects.filter(vc__in=vcs, name="host_network", value=1)
    if vcs - set(allowed.values_list("vc_id", flat=True)):
        raise NoNetwork(
            "Jobs of its virtual cluster may no longer use the network of the nodes: clone it "
            "without `network: host`, or ask an admin to set the limit host_network."
        )


def _gang_networks(
    placements: Iterable[Placement], jobs: Mapping[str, Job], usable: UsableNodes
) -> Mapping[UUID, Block]:
    """Return the block of addresses of each gang over several nodes, by job. Raises NoNetwork."""
    wanted = []
    for placement in placements:
        job, nodes = jobs[placement.gang], {task.node for task in placement.tasks}
        if without := sorted(nodes - usable.gang_nodes):
            raise NoNetwork(
                f"A gang over several nodes needs nodes that isolate it; {', '.join(without[:3])} "
                "cannot: see the log of the agent there, and docs/network.md."
            )
        wanted.append((job, job.attempt + 1, len(placement.tasks), len(nodes)))
    return gang_networks.take(wanted)


def _fits(job: Job, placement: Placement) -> bool:
    """Return whether it is whole, or a part of what an incremental one lacks."""
    missing = job.tasks_total if job.placed_at is None else job.unplaced
    asked = len(placement.tasks)
    return asked == missing or (job.incremental and 0 < asked < missing)


def _is_resized(job: Job, placement: Placement) -> bool:
    """Return whether a gang starts with another number of tasks than it had."""
    whole = job.placed_at is None and not job.incremental
    return whole and len(placement.tasks) != job.tasks_total


def _sizes(placements: Collection[Placement]) -> Mapping[str, resizing.Size]:
    """Return the new sizes of elastic gangs, by gang; those that have no such size are left out.
    One query, or none."""
    wanted = {UUID(p.gang): Counter(task.role for task in p.tasks) for p in placements}
    return {str(job): size for job, size in resizing.sizes(wanted).items()}


def _ranks_as_planned(job: Job, placement: Placement, over: Mapping[UUID, Reason]) -> bool:
    """Return whether the budget of its virtual cluster is used up, or not, as it was planned."""
    if job.placed_at is not None or job.priority < 0 or not job.gpus:
        return True
    owned = any(task.cell_type for task in placement.tasks if task.gpu_uuids)
    return owned != (job.vc_id in over)


@dataclass(frozen=True, slots=True)
class _Task:
    """A task of a job, with what matters of its role."""

    id: int
    job_id: UUID
    index: int
    rank: int
    retries_used: int
    not_before: datetime | None
    role_id: int
    role: str
    ports: dict[str, int]


TASK = (
    *("id", "job_id", "index", "rank", "retries_used", "not_before"),
    *("role_id", "role__name", "role__ports"),
)
TASKS = Compiled(lambda: Task.objects.filter(Among("job", "jobs")), *TASK)
Member = tuple[str, int]  # role, index
Tasks = Mapping[str, dict[Member, _Task]]  # by job


USABLE = Compiled(
    lambda: Node.objects.filter(
        Among("name", "nodes"), state=NodeState.ONLINE, cordoned=False
    ).annotate(now=Now()),
    *("now", "name", "pk", "port_first", "port_last", "gang_network", "rdma"),
)
HEALTHY = Compiled(
    lambda: Device.objects.filter(Among("pk", "devices"), health=Device.Health.HEALTHY),
    *("uuid", "node_id"),
)


class UsableNodes:
    """The nodes and GPUs of a group of placements as they are now. `now` is by the clock of the
    database."""

    def __init__(self, group: Sequence[Placement]) -> None:
        tasks = [task for placement in group for task in placement.tasks]
        found = USABLE.rows(nodes=list({task.node for task in tasks}))
        self.now: datetime = found[0][0] if found else timezone.now()  # without nodes for nothing
        rows = [row for _, *row in found]
        self.ids: dict[str, UUID] = {name: pk for name, pk, *_ in rows}
        self.gang_nodes = {name for name, *_, able, _ in rows if able}
        self.rdma_nodes = {name for name, *_, has in rows if has}
        seed = UUID(group[0].gang).int
        self.ports = {name: PortRange(first, last, seed) for name, _, first, last, *_ in rows}
        uuids = list(chain.from_iterable(task.gpu_uuids for task in tasks))
        self._home: dict[str, UUID] = dict(HEALTHY.rows(devices=uuids))

    def has(self, tasks: Iterable[TaskPlacement]) -> bool:
        return all(
            task.node in self.ids
            and all(self._home.get(uuid) == self.ids[task.node] for uuid in task.gpu_uuids)
            for task in tasks
        )

    def know_ports(self, nodes: Collection[str]) -> None:
        """Those that are held on these nodes; no query for none."""
        names = {self.ids[name]: name for name in nodes}
        if not names:
            return
        held = PortLease.objects.filter(node_id__in=names, released_at=None)
        for node, port in held.values_list("node_id", "port"):
            self.ports[names[node]].held.add(port)


class _Rows:
    """All rows of a group of gangs, written together."""

    def __init__(
        self,
        usable: UsableNodes,
        tasks: Tasks,
        retries: dict[int, int],
        now: datetime,
        blocks: Mapping[UUID, Block],
        over: Mapping[UUID, Reason],
    ) -> None:
        """`retries`: by task, the number of its next retry by itself; none: it is not tried again
        but starts with the job's attempt. `blocks`: addresses by job, of gangs with a network.
        `over`: by virtual cluster, why its guaranteed jobs start as opportunistic ones."""
        self._over = over
        self._usable, self._tasks, self._retries, self._now = usable, tasks, retries, now
        self._blocks = blocks
        self.jobs: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.attempts: list[TaskAttempt] = []
        self.leases: list[Lease] = []
        self.ports: list[PortLease] = []
        self.events: list[Event] = []
        self.nodes: set[UUID] = set()
        self.placed: list[metrics.Placed] = []

    def add(self, job: Job, placement: Placement, network: str) -> None:
        """Raises PortsExhausted."""
        attempt = job.attempt + (job.placed_at is None)
        for task in placement.tasks:
            self._add_task(job, attempt, network, task)
        if job.placed_at is None:
            self._forget_retries(job)
        self.jobs.append(self._job(job, attempt, len(placement.tasks)))
        self.events.append(self._history(job, attempt, placement))
        self.nodes |= {self._usable.ids[task.node] for task in placement.tasks}
        self.placed.append(metrics.Placed(job, attempt, placement))

    def write(self) -> None:
        if not self.attempts:
            return
        writes = Writes()
        writes.insert_rows(self.attempts)
        # In one order over all commits: two that want the same GPUs wait, they do not deadlock.
        self.leases.sort(key=lambda lease: lease.device_id)
        writes.insert_rows(self.leases)
        writes.insert_rows(self.ports)
        writes.update_rows(Task, ("retries_used", "not_before"), self.tasks)
        writes.update_rows(Job, JOB_CHANGES, self.jobs)
        writes.insert_rows(self.events)
        writes.add(END_NOMINATIONS, [job["id"] for job in self.jobs])
        writes.run()
        # Last, and apart: whoever holds a node's row waits for no GPU.
        bump_revision(self.nodes)
        for job in self.jobs:
            notifications.notify_topic("job", job["id"])
        notifications.notify_topic("jobs")
        notifications.notify_topic("cluster")
        transaction.on_commit(partial(metrics.report_placed, self.placed))

    def _add_task(self, job: Job, number: int, network: str, placed: TaskPlacement) -> None:
        task = self._tasks[str(job.pk)][placed.role, placed.index]
        node_id = self._usable.ids[placed.node]
        retry, block = self._retries.get(task.id, 0), self._blocks.get(job.pk)
        if retry:
            self.tasks.append(_row(task, task.retries_used))
        attempt = new(
            TaskAttempt,
            job_id=job.pk,
            task_id=task.id,
            role_id=task.role_id,
            node_id=node_id,
            index=number,
            retry=retry,
            epoch=number + (retry << 32),
            gpu_uuids=list(placed.gpu_uuids),
            gpu_model=placed.gpu_model or "",
            cell_type=placed.cell_type,
            network=network,
            address=block.task(task.rank) if block else "",
            ports=choose_ports(network, task.ports, task.rank, self._usable.ports[placed.node]),
        )
        self.attempts.append(attempt)
        self.leases += [
            new(Lease, device_id=uuid, attempt_id=attempt.pk) for uuid in placed.gpu_uuids
        ]
        if network == HOST:
            self.ports += [
                PortLease(node_id=node_id, port=port, attempt=attempt)
                for port in chain.from_iterable(attempt.ports.values())
            ]

    def _forget_retries(self, job: Job) -> None:
        """Reset the retries of tasks: they belong to an earlier attempt of the job."""
        tasks = self._tasks[str(job.pk)].values()
        self.tasks += [_row(task, 0) for task in tasks if task.not_before or task.retries_used]

    def _job(self, job: Job, attempt: int, placed: int) -> dict[str, Any]:
        first = job.placed_at is None
        unplaced = (job.tasks_total if first else job.unplaced) - placed
        return {
            "id": job.pk,
            "attempt": attempt,
            "placed_at": self._now if first else job.placed_at,
            "begun_at": None if first else job.begun_at,
            "ends_at": None if first else job.ends_at,
            "unplaced": unplaced,
            "preempting_at": None,
            "downgraded": self._downgraded(job) if first else job.downgraded,
            "wait_reason": job.wait_reason if unplaced else None,
            "exit_reason": None,
            "updated_at": self._now,
        }

    def _downgraded(self, job: Job) -> Reason | None:
        return self._over.get(job.vc_id) if job.priority >= 0 and job.gpus else None

    def _history(self, job: Job, attempt: int, placement: Placement) -> Event:
        tasks_by_node: dict[str, int] = defaultdict(int)
        for task in placement.tasks:
            tasks_by_node[task.node] += 1
        gpus = sum(len(task.gpu_uuids) for task in placement.tasks)
        model = next((task.gpu_model for task in placement.tasks if task.gpu_model), None)
        owned = all(task.cell_type for task in placement.tasks if task.gpu_uuids)
        message = messages.placed(tasks_by_node, model, gpus, owned=owned)
        data: dict[str, Any] = {"nodes": dict(tasks_by_node), "gpus": gpus, "gpu_model": model}
        return event("job", job.pk, "job.placed", message, attempt=attempt, **data)


# What was reserved is used now.
END_NOMINATIONS = f"""
DELETE FROM {Nomination._meta.db_table} WHERE job_id = ANY(%s)
"""  # noqa: S608 the name of a table


def _row(task: _Task, retries_used: int) -> dict[str, Any]:
    """It waits for no retry."""
    return {"id": task.id, "retries_used": retries_used, "not_before": None}


def _retries(jobs: Iterable[Job], tasks: Tasks) -> dict[int, int]:
    """Of the tasks that are tried again by themselves; no query where none is."""
    again = [
        task.id
        for job in jobs
        if job.placed_at is not None
        for task in tasks.get(str(job.pk), {}).values()
        if task.not_before is not None
    ]
    if not again:
        return {}
    newest = TaskAttempt.objects.filter(task__in=again, index=F("job__attempt")).order_by()
    found = newest.values_list("task").annotate(newest=Max("retry"))
    return {task: retry + 1 for task, retry in found}


def _tasks_of(jobs: Iterable[Job]) -> Tasks:
    found: dict[str, dict[Member, _Task]] = defaultdict(dict)
    for task in (_Task(*row) for row in TASKS.rows(jobs=[job.pk for job in jobs])):
        found[str(task.job_id)][task.role, task.index] = task
    return found
