"""What a diagnosis leaves behind at the task attempt that it is about, and at its node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from skep_platform.cluster import faults
from skep_platform.cluster.models import NodeFault
from skep_platform.core.bulk import update_rows
from skep_platform.jobs.life.diagnosing import Diagnosis, Failed
from skep_platform.jobs.models import TaskAttempt

# A node that is lost is out of use already, with all its jobs at once: that is no defect of it that
# others would run into. And ports can be taken by a tenant who means harm to the node.
NOT_COUNTED = {-1001, 253}


def remember(diagnoses: Sequence[Diagnosis], now: datetime) -> None:
    """Store each with its task attempt, and count what was a node's fault against that node. Two
    queries for any number, three where a node is to blame; once and again is the same. Call inside
    the transaction that stores them with their jobs."""
    told = [(d.failed.id, d.as_dict()) for d in diagnoses if d.failed]
    update_rows(TaskAttempt, ("diagnosis",), [{"id": id, "diagnosis": d} for id, d in told])
    blamed = [(d.failed, d) for d in diagnoses if d.failed and d.node_to_blame]
    if blamed:
        witnesses = _witnesses([failed.id for failed, _ in blamed])
        faults.add([_fault(one, d, witnesses[one.id], now) for one, d in blamed])


def _witnesses(attempts: Sequence[UUID]) -> dict[UUID, tuple[UUID, UUID]]:
    """By attempt, its job and its virtual cluster."""
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
