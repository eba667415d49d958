"""Diagnose failed task attempts from facts, retry single tasks of incremental jobs, and count the
faults of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from skep_platform.cluster import faults
from skep_platform.cluster.models import NodeFault
from skep_platform.core.bulk import update_rows
from skep_platform.core.events import event
from skep_platform.jobs.lifecycle import decisions, diagnosing, messages
from skep_platform.jobs.lifecycle.decisions import Reaction, Retry, RoleCounts
from skep_platform.jobs.lifecycle.diagnosing import Diagnosis, Failed
from skep_platform.jobs.lifecycle.job_state import WAITING, Failure, LockedJob
from skep_platform.jobs.lifecycle.messages import Ending
from skep_platform.jobs.models import Task, TaskAttempt

DIAGNOSIS_TIMEOUT_S = 300.0  # logs that were not read until then explain nothing
BLAMED_S = 3600.0  # so long the job avoids a node that failed it
UNDIAGNOSED = "UNDIAGNOSED"  # as a task's state
MAX_RETRY_EVENTS = 20  # tasks with an event of their own, per job and batch


@dataclass(slots=True)
class Failures:
    """Explains the failures of a job, or asks for their logs. Pure: `write_failures` stores what is
    found."""

    now: datetime
    found: list[Diagnosis] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)

    def explain(self, job: LockedJob) -> None:
        """Set the diagnosis of a job whose attempt failed if that is known, or follows from facts.
        Else its logs are read first: `diagnosing_at` has the time since when it waits for that."""
        row = job.row
        if job.verdict is None and (known := _known(job)):
            job.diagnosis = known
        elif job.verdict is None:
            job.diagnosis = self._by_facts([failure.failed for failure in job.failures])
            row.diagnosing_at = self.now
        elif row.diagnosing_at is None:
            job.diagnosis = row.diagnosis or self._unexplained(job.failures)
        elif self._is_overdue(job):
            job.diagnosis = self._unexplained(job.failures)
        if job.diagnosis is not None:
            row.diagnosis, row.diagnosing_at = job.diagnosis, None

    def retry_tasks(self, job: LockedJob) -> None:
        """Try tasks of an incremental job again by themselves, as long as it goes on."""
        if not job.row.incremental or job.view().asked_to_end or not job.failures:
            return
        settled = [self._settle(job, failure) for failure in job.failures]
        job.failures = [failure for failure in settled if failure is not None]
        waits = self.now if job.undiagnosed else None
        job.row.diagnosing_at = waits and (job.row.diagnosing_at or waits)

    def _settle(self, job: LockedJob, failure: Failure) -> Failure | None:
        """Return the failure with its diagnosis, or None where its task is tried again."""
        diagnosis = failure.diagnosis or self._of_task(job, failure)
        if diagnosis is None:
            job.undiagnosed += 1
            _count_as(job.roles[failure.role_id], failure.state, UNDIAGNOSED)
            return failure
        retry = None if job.row.retries_ended else _retry(failure, diagnosis)
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
        job.row.unplaced += 1
        avoid_blamed(job, diagnosis, self.now)
        if len(job.events) < MAX_RETRY_EVENTS:
            ending = Ending(failure.failed, failure.state)
            cause = messages.explained(messages.failed(ending, 1), diagnosis)
            why = messages.retried(
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
        since = job.row.diagnosing_at
        return since is not None and (self.now - since).total_seconds() > DIAGNOSIS_TIMEOUT_S


def pause_s(retry: Retry, subject: UUID, attempt: int, failures: int) -> float:
    """Return the seconds before a failure is tried again."""
    if retry == Retry.CONFLICT:
        return decisions.conflict_backoff_s(subject, attempt)
    return decisions.backoff_s(failures)


def avoid_blamed(job: LockedJob, diagnosis: Mapping[str, Any] | None, now: datetime) -> None:
    """Make the job avoid a node that was at fault, for BLAMED_S."""
    if diagnosis and diagnosis["blame"] == "node" and diagnosis["node"]:
        job.row.avoid_nodes = avoiding(job.row.avoid_nodes, [diagnosis["node"]], now, BLAMED_S)


def avoiding(
    known: Mapping[str, float] | None, nodes: Iterable[str], now: datetime, seconds: float
) -> dict[str, float]:
    """Return the nodes to avoid and until when: the known ones that are not over, and these."""
    at = now.timestamp()
    still = {node: until for node, until in (known or {}).items() if until > at}
    return still | {node: max(at + seconds, still.get(node, 0.0)) for node in nodes}


def _known(job: LockedJob) -> dict[str, Any] | None:
    """Return a diagnosis that is known: failed tasks of incremental jobs were looked at one by
    one."""
    if not job.row.incremental:
        return None
    return next((failure.diagnosis for failure in job.failures if failure.diagnosis), None)


def _retry(failure: Failure, diagnosis: Mapping[str, Any]) -> Retry | None:
    return decisions.retry_of(
        Reaction(diagnosis["reaction"]),
        node_to_blame=diagnosis["blame"] == "node",
        allowed=failure.retries_allowed,
        used=failure.retries_used,
        free=failure.retry - failure.retries_used,
    )


def _count_as(role: RoleCounts, state: str, other: str) -> None:
    states = role.states
    states[state] -= 1
    states[other] = states.get(other, 0) + 1


# A node that is lost is out of use already, with all its jobs at once: that is no defect of it that
# others would run into. And ports can be taken by a tenant who means harm to the node.
NOT_COUNTED = {-1001, 253}


def write_failures(failures: Sequence[Failures], now: datetime) -> None:
    """Store what transitions found out about failed tasks, after the rows of their jobs."""
    found = [diagnosis for one in failures for diagnosis in one.found]
    if found:
        store_diagnoses(found, now)
    update_rows(
        Task, ("retries_used", "not_before"), [task for one in failures for task in one.tasks]
    )


def store_diagnoses(diagnoses: Sequence[Diagnosis], now: datetime) -> None:
    """Store each with its task attempt, and count what was a node's fault against that node. Two
    queries for any number, three where a node is to blame; may be repeated. Call inside
    the transaction that stores them with their jobs."""
    rows = [{"id": d.failed.id, "diagnosis": d.as_dict()} for d in diagnoses if d.failed]
    update_rows(TaskAttempt, ("diagnosis",), rows)
    blamed = [(d.failed, d) for d in diagnoses if d.failed and d.node_to_blame]
    if blamed:
        witnesses = _witnesses([failed.id for failed, _ in blamed])
        faults.add([_fault(one, d, witnesses[one.id], now) for one, d in blamed])


def _witnesses(attempts: Sequence[UUID]) -> dict[UUID, tuple[UUID, UUID]]:
    """Return the job and the virtual cluster of each attempt, by its id."""
    rows = TaskAttempt.objects.filter(pk__in=attempts)
    return {pk: (job, vc) for pk, job, vc in rows.values_list("pk", "job_id", "job__vc_id")}


def _fault(
    failed: Failed, diagnosis: Diagnosis, witnesses: tuple[UUID, UUID], now: datetime
) -> NodeFault:
    verdict: Any = diagnosis.verdict
    from_log = verdict.evidence.source == "log"
    witness = None if verdict.code in NOT_COUNTED else witnesses[from_log]
    return NodeFault(
        node_id=failed.node_id,
        at=failed.finished_at or now,
        code=verdict.code,
        name=verdict.name,
        evidence=verdict.evidence.text[:500],
        from_log=from_log,
        attempt_id=failed.id,
        witness=witness,
    )
