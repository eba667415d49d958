"""What a node's fact changes of a task attempt: a pure fold.

Facts come from a machine that may be wrong about the time and may run foreign code: every value is
bounded here before it reaches a column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from uuid import UUID

from skep_agent.protocol import ERROR_CODES, SIGNAL_UNHANDLED, AttemptFact
from skep_jobfile.plain import plain
from skep_platform.jobs.states import ATTEMPT, AttemptState

# Phases of a preempted attempt that has no process with a handler for its checkpoint signal:
# the rest of its gang may still save; and, no task of it does.
UNHANDLED = "unhandled"
UNSAVED = "unsaved"
MAX_MESSAGE = 2000
MAX_INT = 2**31 - 1
MAX_BYTES = 2**63 - 1
MAX_XIDS = 32  # stored per attempt


@dataclass(slots=True)
class AttemptRow:
    """The columns of a task attempt that facts change, and those they are checked against."""

    id: UUID
    job_id: UUID
    epoch: int
    created_at: datetime
    index: int  # of the job attempt
    role_id: int
    min_failed: int  # of its role, as for min_succeeded
    min_succeeded: int
    network: str
    state: str
    phase: str
    pull_percent: int | None
    pull_bytes: int | None
    pull_total_bytes: int | None
    container_id: str
    exit_code: int | None
    exit_signal: int | None
    oom_killed: bool
    error_code: str
    error_message: str
    memory_peak_mb: int | None
    xids: list[int]
    disk_full: bool
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    released_at: datetime | None

    def copy(self) -> AttemptRow:
        """Return an equal row, in a third of the time that `dataclasses.replace` takes."""
        return AttemptRow(*_values(self))

    @property
    def ended(self) -> bool:
        return self.state in ATTEMPT.terminal

    def move_to(self, state: str) -> bool:
        """Take this state where the table of states allows it; return whether it did."""
        if not ATTEMPT.allows(self.state, state):
            return False
        self.state = state
        return True


_values = attrgetter(*(field.name for field in fields(AttemptRow)))
CHANGED = (
    "state",
    "phase",
    "pull_percent",
    "pull_bytes",
    "pull_total_bytes",
    "container_id",
    "exit_code",
    "exit_signal",
    "oom_killed",
    "error_code",
    "error_message",
    "memory_peak_mb",
    "xids",
    "disk_full",
    "ready_at",
    "started_at",
    "finished_at",
    "released_at",
)


def fold(attempt: AttemptRow, fact: AttemptFact, now: datetime) -> None:
    """Change the row as a fact reports. A fact that is repeated, or late, changes nothing that a
    later one set."""
    if attempt.released_at is not None:
        return
    at = _time(fact.at, attempt.created_at, now)
    attempt.xids = _xids(attempt.xids, fact.xids)
    if fact.phase == "released":
        _released(attempt, at, now)
    elif attempt.ended:
        return
    elif fact.phase == "exited":
        _exited(attempt, fact, at)
    elif fact.phase == "failed":
        _failed(attempt, fact, at)
    else:
        _alive(attempt, fact, at)


def _alive(attempt: AttemptRow, fact: AttemptFact, at: datetime) -> None:
    if fact.phase == "running":
        attempt.move_to(AttemptState.RUNNING)
        attempt.started_at = attempt.started_at or at
        attempt.container_id = _text(fact.container_id, 80) or attempt.container_id
    elif fact.phase in ("pulling", "creating", "ready"):
        if attempt.started_at is not None or attempt.ready_at is not None:
            return  # it was reported before what is known by now
        attempt.move_to(AttemptState.PREPARING)
        if fact.phase == "ready":
            attempt.ready_at = at
        if fact.pull_percent is not None:
            attempt.pull_percent = min(max(fact.pull_percent, 0), 100)
            attempt.pull_bytes = _int(fact.pull_bytes, 0, MAX_BYTES)
            attempt.pull_total_bytes = _int(fact.pull_total_bytes, 0, MAX_BYTES) or None
    elif fact.error_code == SIGNAL_UNHANDLED:
        attempt.error_message = _text(fact.message, MAX_MESSAGE)
        attempt.phase = UNSAVED if attempt.phase == UNSAVED else UNHANDLED
        return
    attempt.phase = fact.phase


def _exited(attempt: AttemptRow, fact: AttemptFact, at: datetime) -> None:
    if attempt.state == AttemptState.STOPPING:
        attempt.move_to(AttemptState.STOPPED)
    else:
        attempt.move_to(AttemptState.SUCCEEDED if fact.exit_code == 0 else AttemptState.FAILED)
    unsaved = attempt.error_message if attempt.phase in (UNHANDLED, UNSAVED) else ""
    attempt.phase = fact.phase
    attempt.container_id = _text(fact.container_id, 80) or attempt.container_id
    if fact.exit_code is not None:  # else it was stopped before it started
        attempt.started_at = attempt.started_at or at
    attempt.finished_at = at
    attempt.exit_code = _int(fact.exit_code, -MAX_INT)
    attempt.exit_signal = _int(fact.signal, 0, 32767)
    attempt.oom_killed = fact.oom_killed
    attempt.disk_full = fact.disk_full
    attempt.memory_peak_mb = _int(fact.memory_peak_mb, 0)
    code, message = _reported_error(fact)
    attempt.error_code = code or ("oom_killed" if fact.oom_killed else "")
    attempt.error_message = message or unsaved


def _failed(attempt: AttemptRow, fact: AttemptFact, at: datetime) -> None:
    if attempt.state == AttemptState.STOPPING:
        attempt.move_to(AttemptState.STOPPED)
    else:
        attempt.move_to(AttemptState.FAILED)
    attempt.phase = fact.phase
    attempt.finished_at = at
    attempt.disk_full = fact.disk_full
    code, attempt.error_message = _reported_error(fact)
    attempt.error_code = code or "failed"


def _released(attempt: AttemptRow, at: datetime, now: datetime) -> None:
    """The node saw no process on the GPUs. It may have lost the container without an exit code."""
    if not attempt.ended:
        if attempt.state == AttemptState.STOPPING:
            attempt.move_to(AttemptState.STOPPED)
        else:
            attempt.move_to(AttemptState.LOST)
            attempt.error_code = "container_lost"
            attempt.error_message = "The node lost the container before it saw it end."
        attempt.finished_at = at
    attempt.phase = "released"
    attempt.released_at = now


def _reported_error(fact: AttemptFact) -> tuple[str, str]:
    """Return the code and the message of a fact. Retries depend on the code, and some codes are the
    server's own: one that is not of the protocol counts as none and stays in the message."""
    code, message = fact.error_code, _text(fact.message, MAX_MESSAGE)
    if not code or code in ERROR_CODES:
        return code, message
    return "", f"{message} (reported as {_text(code, 64)})".strip()[:MAX_MESSAGE]


def _time(at: float, earliest: datetime, now: datetime) -> datetime:
    """Return the node's time, kept between the creation of the attempt and now."""
    if not math.isfinite(at):
        return now
    latest = max(now, earliest)
    seconds = min(max(at, earliest.timestamp()), latest.timestamp())
    return datetime.fromtimestamp(seconds, UTC)


def _xids(known: list[int], reported: list[int]) -> list[int]:
    """Return each error number once, in the order in which they were reported."""
    bounded = (min(max(xid, 0), MAX_INT) for xid in reported)
    return list(dict.fromkeys([*known, *bounded]))[:MAX_XIDS]


def _int(value: int | None, least: int, most: int = MAX_INT) -> int | None:
    return None if value is None else min(max(value, least), most)


def _text(value: str, most: int) -> str:
    """Return the part of the text that PostgreSQL can hold and a terminal can show."""
    return plain(value.replace("\0", "")[:most].encode("utf-8", "replace").decode())
