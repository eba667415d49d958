"""The complete desired state of a node, from its unreleased attempts.

An attempt's spec never changes but for `desired` and its cause, so specs are remembered: a node
that is told about one more attempt costs one small query and the new one's details.

Tasks of an incremental job start when they find a place, each for itself: each is told of a world
with nobody else in it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import UUID

import structlog
from django.db.models import Q

from skep_agent.protocol import MAX_TEXT_FRAME, AttemptSpec, ImageSpec
from skep_platform.jobs import environment
from skep_platform.jobs.environment import Environments, Gang, Member
from skep_platform.jobs.hostnames import hostname
from skep_platform.jobs.models import TaskAttempt, TaskRole
from skep_platform.jobs.states import ATTEMPT, AttemptState

REMEMBERED_BYTES = 64 * 1024**2
# What one node is told at most, below the frame limit of the protocol. Newer attempts are left out
# and start elsewhere after their start timeout: a thousand tasks with huge commands cannot
# silence a node.
MAX_DESIRED_BYTES = MAX_TEXT_FRAME * 3 // 4
log = structlog.get_logger(__name__)

STOP_STATES = ATTEMPT.terminal | {AttemptState.STOPPING}
LOCALHOST = "127.0.0.1"

ROW: tuple[str, ...] = (
    *("id", "job_id", "index", "epoch", "role_id", "task__index", "task__rank", "node_id"),
    *("gpu_uuids", "network", "ports", "job__name", "job__tasks_total"),
    *("job__owner__username", "job__vc__name", "node__address", "job__incremental"),
    *("job__stop_grace_s", "job__checkpoint_signal", "job__checkpoint_grace_s"),
)
PEER: tuple[str, ...] = (
    *("id", "job_id", "index", "role_id", "task__index", "task__rank", "node_id"),
    *("network", "ports", "node__address"),
)
NEEDS: tuple[str, ...] = (
    *("name", "instances", "gpus", "cpu_millis", "memory_mb", "shm_mb"),
    *("min_failed", "min_succeeded"),
)
ROLE: tuple[str, ...] = ("id", "job_id", "image", "command", *NEEDS)


def desired_attempts(node_id: UUID) -> list[AttemptSpec]:
    """Every attempt that the node holds or shall hold, oldest first: one query for those known to
    this process, and three more for all others together."""
    held = TaskAttempt.objects.filter(node=node_id, released_at=None).order_by("pk")
    rows = held.values_list("pk", "state", "job__preempting_at")
    states = {pk: (state, preempting_at) for pk, state, preempting_at in rows}
    return [
        spec.model_copy(update=_stop(*states[pk])) if states[pk][0] in STOP_STATES else spec
        for pk, spec in _within_bounds(node_id, _known.specs(states))
    ]


def _stop(state: str, preempting_at: datetime | None) -> dict[str, str]:
    asked = preempting_at is not None and state == AttemptState.STOPPING
    return {"desired": "stop", "stop_cause": "preempted" if asked else ""}


@dataclass(frozen=True, slots=True)
class _Sized:
    spec: AttemptSpec
    size: int  # bytes as JSON


def _within_bounds(
    node_id: UUID, specs: Mapping[UUID, _Sized]
) -> Iterator[tuple[UUID, AttemptSpec]]:
    total = 0
    for pk, sized in specs.items():
        total += sized.size
        if total > MAX_DESIRED_BYTES:
            log.warning("desired_state_too_large", node=str(node_id), attempts=len(specs))
            return
        yield pk, sized.spec


class _Known:
    """Specs by attempt, the longest known forgotten first. Safe for threads."""

    def __init__(self) -> None:
        self._specs: OrderedDict[UUID, _Sized] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def specs(self, attempts: Collection[UUID]) -> dict[UUID, _Sized]:
        """In the order of `attempts`; those that were deleted are left out."""
        with self._lock:
            found = {pk: self._specs[pk] for pk in attempts if pk in self._specs}
        missing = [pk for pk in attempts if pk not in found]
        if missing:
            built = _build(missing)
            self._remember(built)
            found |= built
        return {pk: found[pk] for pk in attempts if pk in found}

    def _remember(self, specs: Mapping[UUID, _Sized]) -> None:
        with self._lock:
            for pk, sized in specs.items():
                if pk not in self._specs:
                    self._specs[pk] = sized
                    self._bytes += sized.size
            while self._bytes > REMEMBERED_BYTES:
                self._bytes -= self._specs.popitem(last=False)[1].size


_known = _Known()


def _build(attempts: Collection[UUID]) -> dict[UUID, _Sized]:
    rows = list(TaskAttempt.objects.filter(pk__in=attempts).values(*ROW))
    roles = {role["id"]: role for role in _roles(row["job_id"] for row in rows)}
    gangs = _gangs(rows, roles)
    specs = {row["id"]: _spec(row, roles[row["role_id"]], gangs) for row in rows}
    return {pk: _Sized(spec, len(spec.model_dump_json())) for pk, spec in specs.items()}


def _roles(jobs: Iterable[UUID]) -> list[dict[str, Any]]:
    rows = TaskRole.objects.filter(job__in=set(jobs)).order_by("job_id", "position")
    return list(rows.values(*ROLE))


Key = tuple[UUID, int, int | None]  # job, its attempt, and the rank of a task that is alone


def _key(row: Mapping[str, Any]) -> Key:
    return row["job_id"], row["index"], row["task__rank"] if row["job__incremental"] else None


def _gangs(
    rows: Iterable[dict[str, Any]], roles: Mapping[int, dict[str, Any]]
) -> dict[Key, tuple[Environments, dict[UUID, Member]]]:
    keys = {_key(row): row for row in rows}
    members: dict[Key, dict[UUID, Member]] = defaultdict(dict)
    for peer in _peers(keys):
        key = _key({"job__incremental": False, **peer})
        members[key][peer["id"]] = _member(peer, roles[peer["role_id"]]["name"])
    return {
        key: (Environments(_gang(row, roles, members[key].values())), members[key])
        for key, row in keys.items()
    }


def _peers(keys: Mapping[Key, dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """All tasks of these gangs by rank; a gang of one is known already."""
    alone = [row for row in keys.values() if _is_alone(row)]
    wanted = Q()
    for (job_id, index, _), row in keys.items():
        if not _is_alone(row):
            wanted |= Q(job=job_id, index=index)
    if not wanted:
        return alone
    peers = TaskAttempt.objects.filter(wanted).order_by("task__rank").values(*PEER)
    return [*alone, *peers]


def _is_alone(row: Mapping[str, Any]) -> bool:
    return row["job__tasks_total"] == 1 or row["job__incremental"]


def _member(row: Mapping[str, Any], role: str) -> Member:
    return Member(
        attempt_id=str(row["id"]),
        role=role,
        index=row["task__index"],
        rank=0 if row.get("job__incremental") else row["task__rank"],
        node=str(row["node_id"]),
        host=_host(row, role),
        ports=row["ports"],
    )


def _host(row: Mapping[str, Any], role: str) -> str:
    if row["network"] == "host":
        return str(row["node__address"])
    if row["network"] == "job":
        return hostname(role, row["task__index"])
    return LOCALHOST


def _gang(
    row: Mapping[str, Any], roles: Mapping[int, dict[str, Any]], members: Iterable[Member]
) -> Gang:
    mine = [role for role in roles.values() if role["job_id"] == row["job_id"]]
    return Gang(
        job_id=str(row["job_id"]),
        name=row["job__name"],
        owner=row["job__owner__username"],
        vc=row["job__vc__name"],
        roles=[environment.Role(**{name: role[name] for name in NEEDS}) for role in mine],
        members=list(members),
    )


def _spec(
    row: Mapping[str, Any],
    role: Mapping[str, Any],
    gangs: Mapping[Key, tuple[Environments, dict[UUID, Member]]],
) -> AttemptSpec:
    environments, members = gangs[_key(row)]
    return AttemptSpec(
        attempt_id=str(row["id"]),
        epoch=row["epoch"],
        job_id=str(row["job_id"]),
        job_name=row["job__name"],
        task_role=role["name"],
        task_index=row["task__index"],
        image=ImageSpec(reference=role["image"]),
        command=role["command"],
        env=environments.of(members[row["id"]]),
        gpu_uuids=row["gpu_uuids"],
        cpus=role["cpu_millis"] / 1000,
        memory_mb=role["memory_mb"],
        shm_mb=role["shm_mb"],
        network=row["network"],
        hostname=hostname(role["name"], row["task__index"]),
        ports={label: numbers for label, numbers in row["ports"].items() if numbers},
        stop_grace_s=row["job__stop_grace_s"],
        checkpoint_signal=row["job__checkpoint_signal"],
        checkpoint_grace_s=row["job__checkpoint_grace_s"],
    )
