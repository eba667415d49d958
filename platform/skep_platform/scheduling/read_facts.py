"""The scheduler's facts, read from the database: what the cells are made of (nodes, what virtual
clusters own, the layout), and gangs that wait or run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import Any

import structlog
from django.conf import settings
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from skep_platform.cluster import floors
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.cluster.services import cell_layout
from skep_platform.core.bulk import fetch
from skep_platform.core.logs import rarely
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.tenancy import claims
from skep_platform.usage import budgets
from skep_scheduler.model import Placement, TaskPlacement, facts

log = structlog.get_logger(__name__)

NODE = (
    "pk",
    "name",
    "cpu_millis",
    "memory_mb",
    "state",
    "cordoned",
    "topology",
    "labels",
    "components",
    "driver_version",
    "maintenance_from",
    "maintenance_until",
)
DEVICE = ("node_id", "uuid", "model", "index", "health")
NOWHERE = (NodeState.JOINED, NodeState.REMOVED)  # never seen, or gone for good


def nodes(ids: Collection[str] | None = None) -> dict[str, facts.Node]:
    """Return these nodes, or all, by id; two queries. Those that are gone are left out."""
    rows = Node.objects.exclude(state__in=NOWHERE).order_by("pk")
    devices = Device.objects.order_by("node_id", "index", "uuid")
    if ids is not None:
        rows, devices = rows.filter(pk__in=ids), devices.filter(node_id__in=ids)
    by_node: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for node_id, *device in devices.values_list(*DEVICE):
        by_node[node_id].append(tuple(device))
    return {str(row[0]): _node(row, by_node[row[0]]) for row in rows.values_list(*NODE)}


def inventory(known: Iterable[facts.Node]) -> facts.Inventory:
    """Return the inventory of these nodes; six queries for what virtual clusters own and limit and
    how cells are laid out."""
    vcs, pins = claims.read()
    in_order = sorted(known, key=lambda node: node.name)
    return facts.Inventory(tuple(in_order), vcs, pins, layout(cell_layout().text))


@lru_cache(maxsize=2)
def layout(text: str) -> Mapping[str, Any] | None:
    """Parse an imported HiveD file to plain data. It was checked before it was stored."""
    if not text.strip():
        return None
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        log.error("layout_unreadable", error=str(error)[:300])
        return None
    return data if isinstance(data, dict) else None


def _is_safe(components: dict[str, str], driver: str) -> bool:
    """Nothing new is placed on a node below a floor where the setting refuses it."""
    if settings.SKEP_VERSION_FLOORS != "refuse":
        return True
    return not floors.below(components | {"driver": driver})


def _node(row: tuple[Any, ...], devices: list[tuple[Any, ...]]) -> facts.Node:
    _, name, cpu_millis, memory_mb, state, cordoned, topology, labels, components, driver = row[:10]
    begins, ends = row[10:]
    present = {index for _, _, index, health in devices if health != Device.Health.ABSENT}
    return facts.Node(
        name=name,
        cpu_millis=cpu_millis,
        memory_mb=memory_mb,
        devices=tuple(
            facts.Device(uuid, model, index, health == Device.Health.HEALTHY)
            for uuid, model, index, health in devices
            # One that fell off the bus leaves a hole, unless another one was put in its place.
            if health != Device.Health.ABSENT or index not in present
        ),
        schedulable=state == NodeState.ONLINE and not cordoned and _is_safe(components, driver),
        topology=topology,
        labels=labels,
        cordoned=cordoned,
        maintenance=(begins.timestamp(), ends.timestamp()) if begins and ends else None,
    )


OPPORTUNISTIC = -1  # the priority
CHUNK = 5000  # gangs per query
Lacking = tuple[str, int, float | None]  # role, index, and before when it does not start again


@dataclass(frozen=True, slots=True)
class GangFacts:
    """All facts about a gang: what it holds, or that it waits, and what it has
    reserved meanwhile. One that neither holds nor waits is of no more concern. `left_nominated`:
    it has a reservation although it does not wait."""

    id: str
    gang: facts.Gang | None = None
    allocation: facts.Allocation | None = None
    waiting: bool = False
    reserved: Placement | None = None
    left_nominated: bool = False


def of_concern() -> list[str]:
    """Return the ids of all gangs that wait or hold something."""
    return [row[0] for row in fetch(OF_CONCERN)]


def read_gangs(ids: Sequence[str]) -> Iterator[GangFacts]:
    """The facts of each of these gangs, also of those that are gone."""
    left = iter(ids)
    while chunk := list(islice(left, CHUNK)):
        yield from _read(chunk)


def gang_of(job: Job, roles: Iterable[TaskRole], now: float) -> facts.Gang:
    """Of rows that are not stored, as if they had been stored now."""
    columns = [[getattr(role, name) for name in MEMBER] for role in roles]
    speedup = _speedup(job.spec.get("extras", {}).get("skep", {}).get("elastic"))
    demotion = budgets.demotion(job.vc) if job.priority >= 0 and job.gpus else ""
    return facts.Gang(
        id=str(job.pk),
        name=job.name,
        vc=job.vc.name,
        priority=OPPORTUNISTIC if demotion else job.priority,
        demotion=demotion,
        submitted_at=now,
        members=_with_speedup(tuple(_member(*values) for values in columns), speedup),
        within=job.within or None,
        pin=job.pinned_cell or None,
        lazy=job.lazy_preemption,
        preemptible=job.preemptible,
        incremental=job.incremental,
        duration_s=job.duration_s,
        predicted_s=job.predicted_s,
        leave_s=(job.prediction or {}).get("leave_s"),
        warmup_s=(job.prediction or {}).get("warmup_s"),
        deadline_at=job.deadline_at.timestamp() if job.deadline_at is not None else None,
        owner=job.owner.get_username(),
        speeds=_speeds(job.spec.get("extras", {}).get("skep", {}).get("speeds")),
    )


def placement_data(placement: Placement) -> list[dict[str, Any]]:
    """As it is stored with a reservation."""
    return [{name: getattr(task, name) for name in TASK} for task in placement.tasks]


def _read(ids: list[str]) -> Iterator[GangFacts]:
    jobs = {row[0]: _Job(*row) for row in fetch(JOBS, [ids])}
    members, held, lacking = members_of(list(jobs)), _held(list(jobs)), _lacking(jobs.values())
    for pk in ids:
        if job := jobs.get(pk):
            yield _facts(job, tuple(members[pk]), tuple(held[pk]), lacking[pk])
        else:
            yield GangFacts(pk)


def _facts(
    job: _Job,
    members: tuple[facts.Member, ...],
    held: tuple[facts.TaskAllocation, ...],
    lacking: Sequence[Lacking],
) -> GangFacts:
    """Return the facts of a gang. One whose row cannot be read would stop all others: it keeps what
    it holds, and is not planned while it waits."""
    try:
        return job.as_facts(members, held, lacking)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        rarely(log, job.id, "gang_unreadable", job_id=job.id, error=repr(error)[:300])
    if not held:
        return GangFacts(job.id)
    plain = replace(job, avoid_nodes="{}", speeds=None, elastic=None, reserved=None)
    return plain.as_facts(members, held, lacking)


@dataclass(frozen=True, slots=True)
class _Job:
    """A row of JOBS."""

    id: str
    name: str
    vc: str
    owner: str
    priority: int
    submitted_at: float
    not_before: float | None
    waits_since: float | None
    within: str
    pin: str
    lazy: bool
    preemptible: bool
    incremental: bool
    duration_s: int | None
    predicted_s: int | None
    leave_s: float | None
    warmup_s: float | None
    deadline_at: float | None
    attained_gpu_s: float
    progress: float | None
    placed_at: float | None
    unplaced: int
    downgraded: bool
    waiting: bool
    leaving: bool
    avoid_nodes: str
    speeds: str | None
    elastic: str | None  # as in the job file
    reserved: str | None
    over_budget: bool  # it was placed without its guarantee, as its budget was used up
    budget_hours: int | None  # where the budget is used up; of jobs with GPUs
    budget_month: date | None

    @property
    def speedup(self) -> tuple[tuple[int, float], ...]:
        return _speedup(json.loads(self.elastic)) if self.elastic else ()

    @property
    def demotion(self) -> str:
        """Return why it is opportunistic although its priority is guaranteed; "": it is not."""
        waits = self.placed_at is None
        if self.budget_month is None or self.priority < 0 or not (waits or self.over_budget):
            return ""
        return budgets.used_up_sentence(self.vc, self.budget_hours or 0, self.budget_month)

    def as_facts(
        self,
        members: tuple[facts.Member, ...],
        held: tuple[facts.TaskAllocation, ...],
        lacking: Sequence[Lacking],
    ) -> GangFacts:
        gang = self._gang(_with_speedup(members, self.speedup))
        if not held:
            gang = gang.as_asked()
        if held or lacking:
            allocation = facts.Allocation(
                gang,
                held,
                placed_at=self.placed_at or self.submitted_at,
                downgraded=self.downgraded and not gang.demotion,
                leaving=self.leaving,
                complete=not lacking,
                unplaced=tuple((role, index) for role, index, _ in lacking),
                delays=tuple((r, i, moment) for r, i, moment in lacking if moment is not None),
            )
            return GangFacts(self.id, gang, allocation, left_nominated=self.reserved is not None)
        if not self.waiting:
            return GangFacts(self.id, left_nominated=self.reserved is not None)
        # What it was nominated for, while it was guaranteed, are cells of its virtual cluster.
        if gang.opportunistic:
            return GangFacts(self.id, gang, waiting=True, left_nominated=self.reserved is not None)
        reserved = _placement(self.id, self.reserved) if self.reserved else None
        return GangFacts(self.id, gang, waiting=True, reserved=reserved)

    def _gang(self, members: tuple[facts.Member, ...]) -> facts.Gang:
        demotion = self.demotion
        return facts.Gang(
            id=self.id,
            name=self.name,
            vc=self.vc,
            priority=OPPORTUNISTIC if demotion else self.priority,
            submitted_at=self.submitted_at,
            members=members,
            not_before=self.not_before or 0.0,
            waits_since=self.waits_since,
            within=self.within or None,
            pin=self.pin or None,
            lazy=self.lazy,
            preemptible=self.preemptible,
            incremental=self.incremental,
            duration_s=self.duration_s,
            predicted_s=self.predicted_s,
            leave_s=self.leave_s,
            warmup_s=self.warmup_s,
            deadline_at=self.deadline_at,
            attained_gpu_s=self.attained_gpu_s,
            progress=self.progress,
            owner=self.owner,
            avoid=tuple(sorted(json.loads(self.avoid_nodes).items())),
            demotion=demotion,
            speeds=_speeds(json.loads(self.speeds)) if self.speeds else (),
        )


def _speeds(declared: Mapping[str, float] | None) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((declared or {}).items()))


def _speedup(elastic: Mapping[str, Any] | None) -> tuple[tuple[int, float], ...]:
    """Return the pairs of a number of tasks and a speed that a job file declares."""
    declared = (elastic or {}).get("speedup") or {}
    return tuple(sorted((int(tasks), speed) for tasks, speed in declared.items()))


def _with_speedup(
    members: tuple[facts.Member, ...], speedup: tuple[tuple[int, float], ...]
) -> tuple[facts.Member, ...]:
    if not speedup:
        return members
    return tuple(
        replace(member, elastic=replace(member.elastic, speedup=speedup))
        if member.elastic is not None
        else member
        for member in members
    )


def members_of(ids: list[str]) -> dict[str, list[facts.Member]]:
    """Return the task roles of jobs, by job, also of those that are over. One query."""
    members: dict[str, list[facts.Member]] = defaultdict(list)
    for pk, *values in fetch(ROLES, [ids]):
        members[pk].append(_member(*values))
    return members


def _member(
    role: str,
    count: int,
    gpus: int,
    cpu: int,
    memory: int,
    model: str,
    cell_type: str,
    cells: int,
    within: str,
    group: str,
    parallelism: int | None,
    elastic_min: int | None,
    elastic_max: int | None,
    asked: int | None,
) -> facts.Member:
    elastic = None
    if elastic_min is not None and elastic_max is not None and asked is not None:
        elastic = facts.ElasticRange(elastic_min, elastic_max, asked)
    return facts.Member(
        *(role, count, gpus, cpu, memory),
        gpu_model=model or None,
        cell_type=cell_type or None,
        cells=cells,
        within=within or None,
        affinity_group=group,
        parallelism=parallelism,
        elastic=elastic,
    )


def _held(ids: list[str]) -> dict[str, list[facts.TaskAllocation]]:
    held: dict[str, list[facts.TaskAllocation]] = defaultdict(list)
    for pk, role, index, node, uuids, cpu, memory, cell_type in fetch(HELD, [ids]):
        task = facts.TaskAllocation(
            role, index, node, tuple(json.loads(uuids)), cpu, memory, cell_type=cell_type
        )
        held[pk].append(task)
    return held


def _lacking(jobs: Iterable[_Job]) -> dict[str, list[Lacking]]:
    """Return the tasks without a place, by job. No query where no job lacks any."""
    lacking: dict[str, list[Lacking]] = defaultdict(list)
    ids = [job.id for job in jobs if job.unplaced and job.placed_at and not job.leaving]
    if ids:
        for pk, role, index, not_before in fetch(LACKING, [ids, ids]):
            lacking[pk].append((role, index, not_before))
    return lacking


MEMBER = (
    *("name", "instances", "gpus", "cpu_millis", "memory_mb", "gpu_model", "cell_type", "cells"),
    *("within", "affinity_group", "parallelism", "elastic_min", "elastic_max", "asked_instances"),
)
TASK = ("role", "index", "node", "gpu_uuids", "gpu_model", "cell_type")


def _placement(gang_id: str, stored: str) -> Placement:
    tasks = [
        TaskPlacement(**{**row, "gpu_uuids": tuple(row["gpu_uuids"])}) for row in json.loads(stored)
    ]
    return Placement(gang_id, tuple(tasks))


OF_CONCERN = """
SELECT id::text FROM jobs_job
 WHERE state = 'WAITING' AND placed_at IS NULL
   AND NOT awaits_dependencies
UNION SELECT id::text FROM jobs_job WHERE unplaced > 0
UNION SELECT job_id::text FROM scheduling_reservation
UNION SELECT job_id::text FROM jobs_taskattempt WHERE released_at IS NULL
"""

# Attained service and progress count released tasks: both change only with a release, which the
# change log reports. The prediction, the deadline and the speeds are set once, when the
# job is stored.
JOBS = """
SELECT j.id::text, j.name, v.name, u.username, j.priority,
       extract(epoch FROM j.created_at)::float8, extract(epoch FROM j.not_before)::float8,
       CASE WHEN j.placed_at IS NULL THEN extract(epoch FROM s.released_at)::float8 END,
       j.within, j.pinned_cell, j.lazy_preemption, j.preemptible, j.incremental, j.duration_s,
       j.predicted_s, (j.prediction->>'leave_s')::float8, (j.prediction->>'warmup_s')::float8,
       extract(epoch FROM j.deadline_at)::float8, coalesce(s.gpu_s, 0),
       CASE WHEN j.incremental AND j.placed_at IS NOT NULL THEN (
           SELECT count(*)::float8 / j.tasks_total FROM jobs_taskattempt a
            WHERE a.job_id = j.id AND a.index = j.attempt
              AND a.state = 'SUCCEEDED' AND a.released_at IS NOT NULL) END,
       extract(epoch FROM j.placed_at)::float8, j.unplaced, j.downgraded IS NOT NULL,
       j.state = 'WAITING' AND j.placed_at IS NULL AND j.stop_requested_at IS NULL
           AND NOT j.awaits_dependencies,
       j.stop_requested_at IS NOT NULL OR j.preempting_at IS NOT NULL
           OR j.exit_reason IS NOT NULL,
       j.avoid_nodes, j.spec #> '{extras,skep,speeds}', j.spec #> '{extras,skep,elastic}',
       r.placement,
       coalesce(j.downgraded->>'code' = 'budget_used_up', false), b.gpu_hours, b.month
  FROM jobs_job j
  JOIN tenancy_virtualcluster v ON v.id = j.vc_id
  JOIN accounts_user u ON u.id = j.owner_id
  LEFT JOIN scheduling_reservation r ON r.job_id = j.id
  LEFT JOIN usage_budget b ON b.vc_id = j.vc_id AND b.used_up AND j.gpus > 0
  LEFT JOIN scheduling_attainedservice s ON s.job_id = j.id
 WHERE j.id = ANY(%s::uuid[])
"""

ROLES = """
SELECT job_id::text, name, instances, gpus, cpu_millis, memory_mb, gpu_model, cell_type, cells,
       within, affinity_group, parallelism, elastic_min, elastic_max, asked_instances
  FROM jobs_taskrole WHERE job_id = ANY(%s::uuid[]) ORDER BY job_id, position
"""

HELD = """
SELECT a.job_id::text, r.name, t.index, n.name, a.gpu_uuids, r.cpu_millis, r.memory_mb, a.cell_type
  FROM jobs_taskattempt a
  JOIN jobs_task t ON t.id = a.task_id
  JOIN jobs_taskrole r ON r.id = a.role_id
  JOIN cluster_node n ON n.id = a.node_id
 WHERE a.released_at IS NULL AND a.job_id = ANY(%s::uuid[])
 ORDER BY a.job_id, t.rank
"""

# Never placed by the present attempt, or tried again and not holding their old place any more. Of a
# role with a parallelism no more than may start now: the change log reports each release, so the
# next ones are read then.
LACKING = """
SELECT id, role, index, not_before FROM (
SELECT j.id::text AS id, t.rank, r.name AS role, t.index, r.parallelism,
       extract(epoch FROM t.not_before)::float8 AS not_before,
       row_number() OVER (PARTITION BY r.id ORDER BY t.not_before NULLS FIRST, t.rank)
           + coalesce(h.held, 0) AS beside
  FROM jobs_job j
  JOIN jobs_task t ON t.job_id = j.id
  JOIN jobs_taskrole r ON r.id = t.role_id
  LEFT JOIN (SELECT role_id, count(*) AS held FROM jobs_taskattempt
              WHERE released_at IS NULL AND job_id = ANY(%s::uuid[]) GROUP BY role_id) h
    ON h.role_id = r.id
 WHERE j.id = ANY(%s::uuid[])
   AND (t.not_before IS NOT NULL OR NOT EXISTS (
       SELECT FROM jobs_taskattempt a WHERE a.task_id = t.id AND a.index = j.attempt))
   AND NOT EXISTS (
       SELECT FROM jobs_taskattempt a WHERE a.task_id = t.id AND a.released_at IS NULL)
) lacking
 WHERE parallelism IS NULL OR beside <= parallelism
 ORDER BY id, rank
"""
