"""The complete desired state of a node, from its unreleased attempts.

An attempt's spec never changes but for `desired` and its cause, so specs are remembered: a node
that is told about one more attempt costs one small query and the new one's details.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import structlog
from django.db.models.functions import Now

from skep_agent.protocol import MAX_TEXT_FRAME, AttemptSpec, Desired, SharedSpec
from skep_platform.cluster.models import Node
from skep_platform.core.errors import Conflict
from skep_platform.jobs.containers.specs import Told, build
from skep_platform.jobs.life.facts import UNSAVED
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import ATTEMPT, AttemptState

REMEMBERED_BYTES = 64 * 1024**2
# What one node is told at most, below the frame limit of the protocol. An attempt that does not fit
# is left out and fails: it never keeps a node from what comes after it. Of this, the tasks of one
# owner have at most two thirds and those of one job a half, so that nobody can fill it alone.
MAX_DESIRED_BYTES = MAX_TEXT_FRAME * 3 // 4
MAX_OWNER_BYTES = MAX_DESIRED_BYTES * 2 // 3
MAX_JOB_BYTES = MAX_DESIRED_BYTES // 2
# Codes of the diagnosis: the first ends the job, after the second it is tried elsewhere.
TOO_LARGE, NO_ROOM = "spec_refused", "start_timeout"
log = structlog.get_logger(__name__)

STOP_STATES = ATTEMPT.terminal | {AttemptState.STOPPING}


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node is told: attempts, oldest first, and what some of them share."""

    attempts: list[AttemptSpec]
    shared: dict[str, SharedSpec]
    to_start: list[UUID]  # told to run for the first time; see `note_told`
    refused: dict[UUID, tuple[str, str]]  # left out because of their size: code and message


def desired_state(node_id: UUID) -> NodeState:
    """Every attempt that the node holds or shall hold: one query for those known to this process,
    and four more for all others together."""
    held = TaskAttempt.objects.filter(node=node_id, released_at=None).order_by("pk")
    states = {pk: _State(*row) for pk, *row in held.values_list("pk", *STATE)}
    attempts, shared, to_start = [], {}, []
    room = _Room(node_id)
    for pk, told in _known.told(states).items():
        if not room.takes(pk, told, states[pk].owner_id):
            continue
        update = _differs(states[pk])
        if not update and states[pk].told_run_at is None:
            to_start.append(pk)
        attempts.append(told.spec.model_copy(update=update) if update else told.spec)
        if told.shared is not None:
            shared[told.spec.shares] = told.shared
    return NodeState(attempts, shared, to_start, room.refused)


def note_told(node_id: UUID, session_epoch: int, attempts: Collection[UUID]) -> None:
    """Remember, before the node is told, that it may have started these: if it forgets them they
    are lost, and are not started a second time. Raises Conflict `session_fenced` when the session
    is over. One statement; none without attempts."""
    if not attempts:
        return
    mine = Node.objects.filter(pk=node_id, session_epoch=session_epoch, connected=True)
    rows = TaskAttempt.objects.filter(pk__in=attempts, node=node_id, node__in=mine)
    if not rows.update(told_run_at=Now()) and not mine.exists():
        raise Conflict("This session of the node is over.", code="session_fenced")


def desired_attempts(node_id: UUID) -> list[AttemptSpec]:
    """The same as the node's agent sees it."""
    state = desired_state(node_id)
    return Desired(revision=0, attempts=state.attempts, shared=state.shared).whole().attempts


STATE = (
    *("state", "phase", "job__preempting_at"),
    *("job__begun_at", "job__tasks_total", "job__incremental", "told_run_at"),
    "job__owner_id",
)


class _State(NamedTuple):
    state: str
    phase: str
    preempting_at: datetime | None
    begun_at: datetime | None
    tasks_total: int
    incremental: bool
    told_run_at: datetime | None
    owner_id: int

    @property
    def held(self) -> bool:
        """Until the tasks of its gang begin together."""
        waits = self.begun_at is None and self.tasks_total > 1 and not self.incremental
        return waits and self.state in (AttemptState.ASSIGNED, AttemptState.PREPARING)


def _differs(now: _State) -> dict[str, str | bool]:
    """From the spec as it was built, which says "run"."""
    if now.state in STOP_STATES:
        asked = now.preempting_at is not None and now.state == AttemptState.STOPPING
        cause = "preempted" if asked else ""
        at_once = now.phase == UNSAVED
        return {"desired": "stop", "stop_cause": cause, "stop_at_once": at_once}
    return {"desired": "hold"} if now.held else {}


class _Room:
    """What is left of the frame to a node, oldest attempts first."""

    def __init__(self, node_id: UUID) -> None:
        self._node_id = node_id
        self._total = 0
        self._of: Counter[object] = Counter()  # bytes by owner, and by job
        self.refused: dict[UUID, tuple[str, str]] = {}

    def takes(self, pk: UUID, told: Told, owner: int) -> bool:
        """Whether an attempt is told; if not, why is in `refused`."""
        job = told.spec.job_id
        if told.size > MAX_JOB_BYTES:
            size = f"{told.size} bytes" if told.size < sys.maxsize else "too many bytes"
            self._refuse(pk, TOO_LARGE, f"With its secrets, the task has {size} to be told to its "
                         f"node, at most {MAX_JOB_BYTES}. Use fewer or shorter secrets, commands "
                         "and variables.")  # fmt: skip
            return False
        if (
            self._total + told.size > MAX_DESIRED_BYTES
            or self._of[owner] + told.size > MAX_OWNER_BYTES
            or self._of[job] + told.size > MAX_JOB_BYTES
        ):
            self._refuse(pk, NO_ROOM, "Its node can be told no more at a time: commands and "
                         f"variables of its tasks have more than {MAX_DESIRED_BYTES} bytes, or "
                         f"those of this job more than {MAX_JOB_BYTES}.")  # fmt: skip
            return False
        self._total += told.size
        self._of[owner] += told.size
        self._of[job] += told.size
        return True

    def _refuse(self, pk: UUID, code: str, message: str) -> None:
        log.warning("attempt_not_told", node=str(self._node_id), attempt=str(pk), code=code)
        self.refused[pk] = (code, message)


class _Known:
    """Specs by attempt, the longest known forgotten first. Safe for threads."""

    def __init__(self) -> None:
        self._specs: OrderedDict[UUID, Told] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def told(self, attempts: Collection[UUID]) -> dict[UUID, Told]:
        """In the order of `attempts`; those that were deleted are left out."""
        with self._lock:
            found = {pk: self._specs[pk] for pk in attempts if pk in self._specs}
        missing = [pk for pk in attempts if pk not in found]
        if missing:
            built = build(missing)
            self._remember(built)
            found |= built
        return {pk: found[pk] for pk in attempts if pk in found}

    def _remember(self, specs: Mapping[UUID, Told]) -> None:
        with self._lock:
            for pk, told in specs.items():
                if pk not in self._specs:
                    self._specs[pk] = told
                    self._bytes += told.size
            while self._bytes > REMEMBERED_BYTES:
                self._bytes -= self._specs.popitem(last=False)[1].size


_known = _Known()
