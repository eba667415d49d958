"""What gangs are and hold, read from the database: a few queries for any number of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from skep_platform.core.bulk import fetch
from skep_platform.jobs.models import Job, TaskRole
from skep_scheduler import facts
from skep_scheduler.queue import Placement, TaskPlacement

CHUNK = 5000  # gangs per query
Lacking = tuple[str, int, float | None]  # role, index, and before when it does not start again


@dataclass(frozen=True, slots=True)
class GangFacts:
    """All that there is to tell about a gang: what it holds, or that it waits, and what it has
    reserved meanwhile. One that neither holds nor waits is of no more concern. `left_reserved`:
    it has a reservation although it does not wait."""

    id: str
    gang: facts.Gang | None = None
    holding: facts.Holding | None = None
    waiting: bool = False
    reserved: Placement | None = None
    left_reserved: bool = False


def of_concern() -> list[str]:
    """The ids of all gangs that wait or hold something."""
    return [row[0] for row in fetch(OF_CONCERN)]


def read(ids: Sequence[str]) -> Iterator[GangFacts]:
    """The facts of each of these gangs, also of those that are gone."""
    left = iter(ids)
    while chunk := list(islice(left, CHUNK)):
        yield from _read(chunk)


def gang_of(job: Job, roles: Iterable[TaskRole], now: float) -> facts.Gang:
    """Of rows that are not stored, as if they had been stored now."""
    columns = [[getattr(role, name) for name in MEMBER] for role in roles]
    return facts.Gang(
        id=str(job.pk),
        name=job.name,
        vc=job.vc.name,
        priority=job.priority,
        submitted_at=now,
        members=tuple(_member(*values) for values in columns),
        within=job.within or None,
        pin=job.pinned_cell or None,
        lazy=job.lazy_preemption,
        preemptible=job.preemptible,
        incremental=job.incremental,
        duration_s=job.duration_s,
        owner=job.owner.get_username(),
    )


def placement_data(placement: Placement) -> list[dict[str, Any]]:
    """As it is stored with a reservation."""
    return [{name: getattr(task, name) for name in TASK} for task in placement.tasks]


def _read(ids: list[str]) -> Iterator[GangFacts]:
    jobs = {row[0]: _Job(*row) for row in fetch(JOBS, [ids])}
    members, held, lacking = _members(list(jobs)), _held(list(jobs)), _lacking(jobs.values())
    for pk in ids:
        if job := jobs.get(pk):
            yield job.told(tuple(members[pk]), tuple(held[pk]), lacking[pk])
        else:
            yield GangFacts(pk)


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
    placed_at: float | None
    unplaced: int
    downgraded: bool
    waiting: bool
    leaving: bool
    avoid_nodes: str
    reserved: str | None

    def told(
        self,
        members: tuple[facts.Member, ...],
        held: tuple[facts.HeldTask, ...],
        lacking: Sequence[Lacking],
    ) -> GangFacts:
        gang = self._gang(members)
        if held or lacking:
            holding = facts.Holding(
                gang,
                held,
                placed_at=self.placed_at or self.submitted_at,
                downgraded=self.downgraded,
                leaving=self.leaving,
                complete=not lacking,
                unplaced=tuple((role, index) for role, index, _ in lacking),
                delays=tuple((r, i, moment) for r, i, moment in lacking if moment is not None),
            )
            return GangFacts(self.id, gang, holding, left_reserved=self.reserved is not None)
        if not self.waiting:
            return GangFacts(self.id, left_reserved=self.reserved is not None)
        reserved = _placement(self.id, self.reserved) if self.reserved else None
        return GangFacts(self.id, gang, waiting=True, reserved=reserved)

    def _gang(self, members: tuple[facts.Member, ...]) -> facts.Gang:
        return facts.Gang(
            id=self.id,
            name=self.name,
            vc=self.vc,
            priority=self.priority,
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
            owner=self.owner,
            avoid=tuple(sorted(json.loads(self.avoid_nodes).items())),
        )


def _members(ids: list[str]) -> dict[str, list[facts.Member]]:
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
) -> facts.Member:
    return facts.Member(
        *(role, count, gpus, cpu, memory),
        gpu_model=model or None,
        cell_type=cell_type or None,
        cells=cells,
        within=within or None,
        affinity_group=group,
    )


def _held(ids: list[str]) -> dict[str, list[facts.HeldTask]]:
    held: dict[str, list[facts.HeldTask]] = defaultdict(list)
    for pk, role, index, node, uuids, cpu, memory, cell_type in fetch(HELD, [ids]):
        task = facts.HeldTask(
            role, index, node, tuple(json.loads(uuids)), cpu, memory, cell_type=cell_type
        )
        held[pk].append(task)
    return held


def _lacking(jobs: Iterable[_Job]) -> dict[str, list[Lacking]]:
    """The tasks without a place. No query where no job lacks any."""
    lacking: dict[str, list[Lacking]] = defaultdict(list)
    ids = [job.id for job in jobs if job.unplaced and job.placed_at and not job.leaving]
    if ids:
        for pk, role, index, not_before in fetch(LACKING, [ids]):
            lacking[pk].append((role, index, not_before))
    return lacking


MEMBER = (
    *("name", "instances", "gpus", "cpu_millis", "memory_mb", "gpu_model", "cell_type", "cells"),
    *("within", "affinity_group"),
)
TASK = ("role", "index", "node", "gpu_uuids", "gpu_model", "cell_type")


def _placement(gang_id: str, stored: str) -> Placement:
    tasks = [
        TaskPlacement(**{**row, "gpu_uuids": tuple(row["gpu_uuids"])}) for row in json.loads(stored)
    ]
    return Placement(gang_id, tuple(tasks))


OF_CONCERN = """
SELECT id::text FROM jobs_job WHERE state = 'WAITING' AND placed_at IS NULL
UNION SELECT id::text FROM jobs_job WHERE unplaced > 0
UNION SELECT job_id::text FROM scheduling_reservation
UNION SELECT job_id::text FROM jobs_taskattempt WHERE released_at IS NULL
"""

JOBS = """
SELECT j.id::text, j.name, v.name, u.username, j.priority,
       extract(epoch FROM j.created_at)::float8, extract(epoch FROM j.not_before)::float8,
       CASE WHEN j.attempt > 0 AND j.placed_at IS NULL THEN (
           SELECT extract(epoch FROM max(a.released_at))::float8
             FROM jobs_taskattempt a WHERE a.job_id = j.id) END,
       j.within, j.pinned_cell, j.lazy_preemption, j.preemptible, j.incremental, j.duration_s,
       extract(epoch FROM j.placed_at)::float8, j.unplaced, j.downgraded IS NOT NULL,
       j.state = 'WAITING' AND j.placed_at IS NULL AND j.stop_requested_at IS NULL,
       j.stop_requested_at IS NOT NULL OR j.preempting_at IS NOT NULL
           OR j.exit_reason IS NOT NULL,
       j.avoid_nodes, r.placement
  FROM jobs_job j
  JOIN tenancy_virtualcluster v ON v.id = j.vc_id
  JOIN accounts_user u ON u.id = j.owner_id
  LEFT JOIN scheduling_reservation r ON r.job_id = j.id
 WHERE j.id = ANY(%s::uuid[])
"""

ROLES = """
SELECT job_id::text, name, instances, gpus, cpu_millis, memory_mb, gpu_model, cell_type, cells,
       within, affinity_group
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

# Never placed by the present attempt, or tried again and not holding their old place any more.
LACKING = """
SELECT j.id::text, r.name, t.index, extract(epoch FROM t.not_before)::float8
  FROM jobs_job j
  JOIN jobs_task t ON t.job_id = j.id
  JOIN jobs_taskrole r ON r.id = t.role_id
 WHERE j.id = ANY(%s::uuid[])
   AND (t.not_before IS NOT NULL OR NOT EXISTS (
       SELECT FROM jobs_taskattempt a WHERE a.task_id = t.id AND a.index = j.attempt))
   AND NOT EXISTS (
       SELECT FROM jobs_taskattempt a WHERE a.task_id = t.id AND a.released_at IS NULL)
 ORDER BY j.id, t.rank
"""
