"""A job's row under lock, and what its attempts come to: what decisions are made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from skep_platform.core.models import Event
from skep_platform.jobs.life.diagnosing import Failed
from skep_platform.jobs.life.lifecycle import Reaction, Role, Verdict, View
from skep_platform.jobs.life.stories import OVER_TIME
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB

COLUMNS = (
    "id",
    "name",
    "state",
    "attempt",
    "tasks_total",
    "incremental",
    "max_duration_s",
    "placed_at",
    "not_before",
    "begun_at",
    "ends_at",
    "avoid_nodes",
    "unplaced",
    "preempting_at",
    "downgraded",
    "preemptions",
    "retries_used",
    "free_retries",
    "failing_since",
    "failing_retries",
    "diagnosing_at",
    "diagnosis",
    "started_at",
    "finished_at",
    "stop_requested_at",
    "wait_reason",
    "exit_reason",
    "spec__jobRetryCount",
)
JSON = ("avoid_nodes", "downgraded", "diagnosis", "wait_reason", "exit_reason")
VERDICTS = {
    "succeeded": Verdict.SUCCEEDED,
    "stopped": Verdict.STOPPED,
    "owner_left": Verdict.STOPPED,
}  # by code; else FAILED


@dataclass(frozen=True, slots=True)
class Failure:
    """A task attempt that failed or was lost, and what its task may still do about it."""

    job_id: UUID
    role_id: int
    task_id: int
    state: str
    retry: int  # of the task alone
    retries_used: int
    retries_allowed: int
    diagnosis: dict[str, Any] | None
    failed: Failed


@dataclass(slots=True)
class LockedJob:
    """`failures` are those that came first, of an incremental job all that were not granted a
    retry; `diagnosis` is that of the present attempt's failure, once it is known."""

    row: dict[str, Any]
    roles: dict[int, Role] = field(default_factory=dict)
    started: int = 0
    first_start: datetime | None = None
    unreleased: int = 0
    unready: int = 0
    lost: bool = False
    undiagnosed: int = 0  # failed tasks that may be tried again by themselves
    failures: list[Failure] = field(default_factory=list)
    diagnosis: dict[str, Any] | None = None
    # Of the batch at hand: tasks that left ASSIGNED, and what to tell of others.
    left_assigned: int = 0
    events: list[Event] = field(default_factory=list)

    @classmethod
    def from_sql(cls, values: Sequence[Any]) -> LockedJob:
        """From a row of COLUMNS that was not read by a queryset: jsonb is text there."""
        row = dict(zip(COLUMNS, values, strict=True))
        for name in JSON:
            row[name] = json.loads(row[name]) if row[name] else None
        return cls(row)

    @property
    def id(self) -> UUID:
        found: UUID = self.row["id"]
        return found

    @property
    def active(self) -> bool:
        return self.row["state"] in JOB.active

    @property
    def retries_allowed(self) -> int:
        return self.row["spec__jobRetryCount"] or 0

    @property
    def held(self) -> bool:
        """Its tasks begin together, and were not told to yet."""
        row = self.row
        return row["tasks_total"] > 1 and not row["incremental"] and row["begun_at"] is None

    @property
    def verdict(self) -> Verdict | None:
        """Decided earlier: the exit reason is written with the decision."""
        told = self.row["exit_reason"]
        return None if told is None else VERDICTS.get(told["code"], Verdict.FAILED)

    @property
    def reaction(self) -> Reaction | None:
        """None: nobody knows yet why it failed."""
        told = self.row["exit_reason"]
        if told is not None and told["code"] == OVER_TIME:
            return Reaction.NEVER_RETRY
        return Reaction(self.diagnosis["reaction"]) if self.diagnosis else None

    def view(self, now: datetime | None = None) -> View:
        return View(
            state=self.row["state"],
            roles=list(self.roles.values()),
            started=self.started,
            unreleased=self.unreleased,
            unplaced=self.row["unplaced"] + self.undiagnosed,
            held=self.held,
            unready=self.unready,
            verdict=self.verdict,
            stop_requested=self.row["stop_requested_at"] is not None,
            preempting=self.row["preempting_at"] is not None,
            diagnosis=self.reaction,
            node_to_blame=bool(self.diagnosis and self.diagnosis["blame"] == "node"),
            lost=self.lost,
            retries_allowed=self.retries_allowed,
            retries_used=self.row["retries_used"],
            free_retries=self.row["free_retries"],
            failing_retries=self.row["failing_retries"],
            failing_s=self.failing_s(now),
        )

    def failing_s(self, now: datetime | None) -> float:
        """How long its attempts have failed and been tried again for free, in seconds."""
        since = self.row["failing_since"]
        return (now - since).total_seconds() if since and now else 0.0


def lock(jobs: QuerySet[Job], *, skip_locked: bool = False) -> list[LockedJob]:
    """Lock these jobs, one query. Call inside a transaction."""
    rows = jobs.select_for_update(of=("self",), no_key=True, skip_locked=skip_locked)
    return [LockedJob(row) for row in rows.order_by("pk").values(*COLUMNS)]
