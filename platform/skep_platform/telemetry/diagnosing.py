"""Reading the logs of jobs that failed, to say why.

A job waits for that with `diagnosing_at`, and goes on once it is answered: so it is answered,
whatever its logs do to the reader. A worker claims a job and reads outside of any transaction. What
fails then is judged by its facts alone; and so is a job whose first reader never came back.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.jobs.life import diagnosing
from skep_platform.jobs.life.answering import answer
from skep_platform.jobs.life.diagnosing import COLUMNS, Diagnosis, Failed
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.telemetry.output import Output
from skep_platform.telemetry.queries import STREAMS

log = structlog.get_logger(__name__)

LOG_WAIT = timedelta(seconds=20)  # after an exit; a log that has no end by then is read as it is
CLAIM = timedelta(minutes=4)
MAX_READ = 8  # task attempts: those that failed first
ROUND_S = 20.0  # then another worker may go on


def diagnose_due() -> int:
    """Answer all jobs that wait and whose logs are there; returns how many. Any number of workers
    may do so at once."""
    end, answered = time.monotonic() + ROUND_S, 0
    while time.monotonic() < end and (claimed := _claim()):
        job_id, attempt, again = claimed
        answered += answer(job_id, attempt, _diagnose(job_id, attempt, read=not again))
    return answered


def _claim() -> tuple[UUID, int, bool] | None:
    """A job that nobody else reads, its attempt, and whether somebody began and did not end."""
    with transaction.atomic():
        # A claim from before it waited is of an earlier attempt of the job.
        free = Q(diagnosis_claimed_until=None) | Q(diagnosis_claimed_until__lt=Now())
        free |= Q(diagnosis_claimed_until__lt=F("diagnosing_at") + CLAIM)
        due = _due().filter(free).select_for_update(no_key=True, skip_locked=True, of=("self",))
        rows = due.order_by("diagnosing_at").values_list(
            "pk", "attempt", "diagnosing_at", "diagnosis_claimed_until"
        )
        row = rows.first()
        if row is None:
            return None
        pk, attempt, since, claimed = row
        Job.objects.filter(pk=pk).update(diagnosis_claimed_until=Now() + CLAIM)
        return pk, attempt, bool(claimed and since and claimed >= since + CLAIM)


def _due() -> QuerySet[Job]:
    """Those that wait for no log any more."""
    missing = _failing().filter(
        ~Q(log_sizes__has_keys=STREAMS),
        job=OuterRef("pk"),
        index=OuterRef("attempt"),
        started_at__isnull=False,
        state=AttemptState.FAILED,  # of one that was LOST nobody is left to tell the end
        finished_at__gt=Now() - LOG_WAIT,
    )
    return Job.objects.filter(~Exists(missing), diagnosing_at__isnull=False)


def _failing() -> QuerySet[TaskAttempt]:
    """Without tasks that failed before and were tried again by themselves."""
    return TaskAttempt.objects.filter(
        state__in=(AttemptState.FAILED, AttemptState.LOST), diagnosis__isnull=True
    )


def _diagnose(job_id: UUID, attempt: int, *, read: bool) -> Diagnosis:
    rows = _failing().filter(job=job_id, index=attempt)
    first = rows.order_by(F("finished_at").asc(nulls_last=True), "task__rank")[:MAX_READ]
    failed = [Failed(*row) for row in first.values_list(*COLUMNS)]
    if read:
        try:
            return _judge(failed)
        except Exception as error:
            log.exception("diagnosis_failed", job=str(job_id), error=type(error).__name__)
    return diagnosing.judge(failed)


def _judge(failed: list[Failed]) -> Diagnosis:
    outputs = {one.id: Output(one.id) for one in failed}
    found = diagnosing.judge(failed, outputs)
    evidence = found.verdict.evidence
    if found.failed is None or evidence.source != "log":
        return found
    stream, line = outputs[found.failed.id].place(evidence.line)
    told = replace(evidence, log=stream, line=line)
    return replace(found, verdict=replace(found.verdict, evidence=told))
