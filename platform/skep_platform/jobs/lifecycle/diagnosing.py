"""Why a job attempt failed: the verdict of `skep_diagnosis` on the task attempts that failed.

Pure. The facts about the tasks are read first; logs are needed only where these do not explain the
failure. Telemetry reads them, and `advance.record_diagnosis` stores the result. Every error code of
agent and platform is a fact in table.toml; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from skep_diagnosis.facts import Facts, read_facts
from skep_diagnosis.table import NO_SIGNATURE, Code, table
from skep_diagnosis.verdict import SKEW_S, Evidence, Log, Verdict, diagnose

Logs = Mapping[UUID, Iterable[bytes]]  # of task attempts, by id

# Of TaskAttempt, in the order of the fields of Failed.
COLUMNS: tuple[str, ...] = (
    *("id", "task__rank", "job__tasks_total", "role__name", "task__index"),
    *("node_id", "node__name"),
    *("exit_code", "exit_signal", "oom_killed", "error_code", "error_message"),
    *("memory_peak_mb", "role__memory_mb", "xids", "disk_full", "started_at", "finished_at"),
)


@dataclass(frozen=True, slots=True)
class Failed:
    """A task attempt in state FAILED or LOST, from a row of COLUMNS. One that was STOPPED had to
    end because of another: it explains nothing."""

    id: UUID
    rank: int
    tasks: int  # of the job
    role: str
    index: int
    node_id: UUID
    node: str
    exit_code: int | None
    exit_signal: int | None
    oom_killed: bool
    error_code: str
    error_message: str
    memory_peak_mb: int | None
    memory_mb: int | None
    xids: Sequence[int]
    disk_full: bool
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def facts(self) -> Facts:
        return read_facts(
            {
                "exit_code": self.exit_code,
                "exit_signal": self.exit_signal,
                "oom_killed": self.oom_killed,
                "error_code": self.error_code,
                "error_message": self.error_message,
                "memory_peak_mb": self.memory_peak_mb,
                "memory_limit_mb": self.memory_mb,
                "xids": list(self.xids),
                "disk_full": self.disk_full,
                "rank": self.rank,
                "tasks": self.tasks,
                "finished_at": self.finished_at.timestamp() if self.finished_at else None,
            }
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A verdict, and the task attempt that it is about (None: no task of the job is to blame)."""

    verdict: Verdict
    failed: Failed | None = None

    @property
    def node_to_blame(self) -> str | None:
        """The node's name, where the failure was its fault."""
        return self.failed.node if self.failed and self.verdict.node_to_blame else None

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as it is stored and shown."""
        failed = self.failed
        return asdict(self.verdict) | {
            "task": f"{failed.role}-{failed.index}" if failed else None,
            "rank": failed.rank if failed else None,
            "node": failed.node if failed else None,
        }


def by_facts(failed: Sequence[Failed]) -> Diagnosis | None:
    """Return what is known without logs of a job attempt of which these task attempts failed, in
    any order; None where a log may say more."""
    if not failed:
        return Diagnosis(_no_signature())
    first, *others = first_failures(failed)
    diagnosis = judge([first])
    if diagnosis.verdict.settled:
        return diagnosis
    if any(one.started_at for one in (first, *others)):
        return None
    return Diagnosis(_verdict(table().code(NEVER_RAN), first.error_message), first)


def by_code(code: str) -> Diagnosis:
    """Return the diagnosis of an end of the whole job: "max_duration_exceeded", "preempted" or
    "stopped"."""
    return Diagnosis(diagnose([Log("", (), Facts(error_code=code))]))


def judge(failed: Sequence[Failed], logs: Logs | None = None) -> Diagnosis:
    """Diagnose failed tasks from facts and logs. Reads each log once."""
    logs = logs or {}
    verdict = diagnose([Log(str(one.id), logs.get(one.id, ()), one.facts) for one in failed])
    return Diagnosis(verdict, next((o for o in failed if o.rank == verdict.rank), None))


def first_failures(failed: Sequence[Failed]) -> list[Failed]:
    """Return those that failed so soon after the first one that they may be the cause as well as
    it; clocks of nodes differ."""
    ordered = sorted(failed, key=_ended)
    end = _ended(ordered[0])[0] + SKEW_S if ordered else 0.0
    return [one for one in ordered if _ended(one)[0] <= end]


NEVER_RAN = -300  # "failed before its container ran", for no reported reason


def _ended(one: Failed) -> tuple[float, int]:
    return one.finished_at.timestamp() if one.finished_at else float("inf"), one.rank


@lru_cache(maxsize=1)
def _no_signature() -> Verdict:
    return _verdict(table().code(NO_SIGNATURE))


def _verdict(code: Code, text: str = "") -> Verdict:
    """Return the verdict of a code that no rule gave."""
    columns = {name: getattr(code, name) for name in Code.__dataclass_fields__}
    return Verdict(**columns, rule="", evidence=Evidence("facts" if text else "none", text))
