"""What becomes of failures: why they happened, as far as facts tell, and which tasks of incremental
jobs are tried again by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from skep_platform.core.bulk import update_rows
from skep_platform.core.events import event
from skep_platform.jobs.life import blame, diagnosing, lifecycle, stories
from skep_platform.jobs.life.counting import WAITING
from skep_platform.jobs.life.diagnosing import Diagnosis, Failed
from skep_platform.jobs.life.lifecycle import Reaction, Retry, Role
from skep_platform.jobs.life.locked import Failure, LockedJob
from skep_platform.jobs.life.stories import Ending
from skep_platform.jobs.models import Task

DIAGNOSIS_TIMEOUT_S = 300.0  # logs that nobody has read until then explain nothing
BLAMED_S = 3600.0  # a node that failed a job is avoided by it so long
UNDIAGNOSED = "UNDIAGNOSED"  # as a task's state
MOST_TOLD = 20  # tasks with an event of their own, per job and batch


@dataclass(slots=True)
class Failures:
    """The failures of a batch of jobs: each is explained, or its logs are asked for."""

    now: datetime
    found: list[Diagnosis] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)

    def write(self) -> None:
        """To be called when the jobs' rows are written."""
        if self.found:
            blame.remember(self.found, self.now)
        update_rows(Task, ("retries_used", "not_before"), self.tasks)

    def explain(self, job: LockedJob) -> None:
        """Of a job whose attempt failed: sets its diagnosis if that is known, or can be told from
        facts. Else its logs are read first: `diagnosing_at` says since when it waits for that."""
        row = job.row
        if job.verdict is None and (known := _known(job)):
            job.diagnosis = known
        elif job.verdict is None:
            job.diagnosis = self._by_facts([failure.failed for failure in job.failures])
            row["diagnosing_at"] = self.now
        elif row["diagnosing_at"] is None:
            job.diagnosis = row["diagnosis"] or self._unexplained(job.failures)
        elif self._is_overdue(job):
            job.diagnosis = self._unexplained(job.failures)
        if job.diagnosis is not None:
            row |= {"diagnosis": job.diagnosis, "diagnosing_at": None}

    def retry_tasks(self, job: LockedJob) -> None:
        """Tasks of an incremental job are tried again by themselves, as long as it goes on."""
        if not job.row["incremental"] or job.view().asked_to_end or not job.failures:
            return
        settled = [self._settle(job, failure) for failure in job.failures]
        job.failures = [failure for failure in settled if failure is not None]
        waits = self.now if job.undiagnosed else None
        job.row["diagnosing_at"] = waits and (job.row["diagnosing_at"] or waits)

    def _settle(self, job: LockedJob, failure: Failure) -> Failure | None:
        """None: its task is tried again."""
        diagnosis = failure.diagnosis or self._of_task(job, failure)
        if diagnosis is None:
            job.undiagnosed += 1
            _count_as(job.roles[failure.role_id], failure.state, UNDIAGNOSED)
            return failure
        retry = _retry(failure, diagnosis)
        if retry is None:
            return replace(failure, diagnosis=diagnosis)
        _count_as(job.roles[failure.role_id], failure.state, WAITING)
        self._try_again(job, failure, diagnosis, retry)
        return None

    def _of_task(self, job: LockedJob, failure: Failure) -> dict[str, Any] | None:
        found = self._by_facts([failure.failed])
        if found is None and self._is_overdue(job):
            return self._unexplained([failure])
        return found

    def _try_again(
        self, job: LockedJob, failure: Failure, diagnosis: dict[str, Any], retry: Retry
    ) -> None:
        counted = retry == Retry.COUNTED
        used = failure.retries_used + counted
        seconds = pause_s(retry, failure.failed.id, failure.retry + 1, failure.retry + 1)
        not_before = self.now + timedelta(seconds=seconds)
        task = {"id": failure.task_id, "retries_used": used, "not_before": not_before}
        self.tasks.append(task)
        job.row["unplaced"] += 1
        avoid_blamed(job, diagnosis, self.now)
        if len(job.events) < MOST_TOLD:
            ending = Ending(failure.failed, failure.state)
            cause = stories.explained(stories.failed(ending, 1), diagnosis)
            why = stories.retried(
                *(cause, retry, used, failure.retries_allowed, seconds),
                node=failure.failed.node,
            )
            job.events.append(
                event("job", job.id, "task.retried", why["message"], **why["details"])
            )

    def _by_facts(self, failed: Sequence[Failed]) -> dict[str, Any] | None:
        found = diagnosing.by_facts(failed)
        if found is None:
            return None
        self.found.append(found)
        return found.as_dict()

    def _unexplained(self, failures: Sequence[Failure]) -> dict[str, Any]:
        found = diagnosing.judge([failure.failed for failure in failures])
        self.found.append(found)
        return found.as_dict()

    def _is_overdue(self, job: LockedJob) -> bool:
        since = job.row["diagnosing_at"]
        return since is not None and (self.now - since).total_seconds() > DIAGNOSIS_TIMEOUT_S


def pause_s(retry: Retry, subject: UUID, attempt: int, failures: int) -> float:
    """Seconds before a failure is tried again."""
    if retry == Retry.CONFLICT:
        return lifecycle.conflict_backoff_s(subject, attempt)
    return lifecycle.backoff_s(failures)


def avoid_blamed(job: LockedJob, diagnosis: Mapping[str, Any] | None, now: datetime) -> None:
    """The job keeps away from a node that was at fault."""
    if diagnosis and diagnosis["blame"] == "node" and diagnosis["node"]:
        job.row["avoid_nodes"] = avoiding(
            job.row["avoid_nodes"], [diagnosis["node"]], now, BLAMED_S
        )


def avoiding(
    known: Mapping[str, float] | None, nodes: Iterable[str], now: datetime, seconds: float
) -> dict[str, float]:
    """The nodes to avoid and until when, with these and without those that were long enough."""
    at = now.timestamp()
    still = {node: until for node, until in (known or {}).items() if until > at}
    return still | {node: max(at + seconds, still.get(node, 0.0)) for node in nodes}


def _known(job: LockedJob) -> dict[str, Any] | None:
    """Failed tasks of incremental jobs were looked at one by one."""
    if not job.row["incremental"]:
        return None
    return next((failure.diagnosis for failure in job.failures if failure.diagnosis), None)


def _retry(failure: Failure, diagnosis: Mapping[str, Any]) -> Retry | None:
    return lifecycle.retry_of(
        Reaction(diagnosis["reaction"]),
        node_to_blame=diagnosis["blame"] == "node",
        allowed=failure.retries_allowed,
        used=failure.retries_used,
        free=failure.retry - failure.retries_used,
    )


def _count_as(role: Role, state: str, other: str) -> None:
    states = role.states
    states[state] -= 1
    states[other] = states.get(other, 0) + 1
