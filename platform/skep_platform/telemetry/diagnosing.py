"""Reading the logs of jobs that failed, to say why.

A job waits for that with `diagnosing_at`, and goes on once it is answered: so it is answered,
whatever its logs do to the reader. A worker claims a job and reads outside of any transaction. What
fails then is judged by its facts alone; and so is a job whose first reader never came back.

Output is read as one text of both streams, line by line, in the order in which their chunks
arrived. Memory is bounded by a chunk of each stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.core.compiled import Compiled
from skep_platform.jobs.lifecycle import diagnosing
from skep_platform.jobs.lifecycle.advance import record_diagnosis
from skep_platform.jobs.lifecycle.diagnosing import COLUMNS, Diagnosis, Failed
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.queries import STREAMS
from skep_platform.telemetry.store import read_chunk

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
        answered += record_diagnosis(job_id, attempt, _diagnose(job_id, attempt, read=not again))
    return answered


def is_due() -> bool:
    """Return whether a job waits for its diagnosis, be it that its logs are not there yet. One
    query."""
    return _WAITING.finds()


_WAITING = Compiled(lambda: Job.objects.filter(diagnosing_at__isnull=False))


def _claim() -> tuple[UUID, int, bool] | None:
    """Claim a job that is due. Returns its id, its attempt, and whether an earlier claim was never
    finished."""
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
    """Return the jobs whose logs need not be waited for any longer."""
    missing = _failing().filter(
        ~Q(log_sizes__has_keys=STREAMS),
        job=OuterRef("pk"),
        index=OuterRef("attempt"),
        started_at__isnull=False,
        state=AttemptState.FAILED,  # the node of one that was LOST reports no end
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
    outputs = {one.id: AttemptOutput(one.id) for one in failed}
    found = diagnosing.judge(failed, outputs)
    evidence = found.verdict.evidence
    if found.failed is None or evidence.source != "log":
        return found
    stream, line = outputs[found.failed.id].place(evidence.line)
    shown = replace(evidence, log=stream, line=line)
    return replace(found, verdict=replace(found.verdict, evidence=shown))


MAX_BYTES = 32 * 1024 * 1024  # of each stream; older ones are not read
MAX_CHUNKS = 2000  # of each stream: a trickling log has many small ones
MAX_LINE = 1024 * 1024  # a longer one is cut

Chunk = tuple[str, int, int, str]  # stream, offset, size, key


class AttemptOutput:
    """Iterate once; `place` then says where a line came from."""

    def __init__(self, attempt_id: UUID) -> None:
        self._attempt = attempt_id
        self._lines = 0  # given so far
        self._partial: dict[str, bytearray] = {}  # lines without their end, by stream
        self._number: dict[str, int | None] = {}  # lines of a stream; None: its begin is not read
        self._blocks: list[tuple[int, str, int | None]] = []  # first line here, and in its stream

    def __iter__(self) -> Iterator[bytes]:
        for stream, offset, size, key in _newest(self._attempt):
            data = read_chunk(key, size)
            partial = self._partial.get(stream)
            if partial is None:
                partial = self._partial[stream] = bytearray()
                self._number[stream] = 0 if offset == 0 else None
            end = data.rfind(b"\n") + 1
            if not end and len(partial) + len(data) > MAX_LINE:
                end = len(data)
            if end:
                yield self._give(stream, bytes(partial) + data[:end])
                partial.clear()
            partial += data[end:]
        for stream, partial in self._partial.items():
            if partial:
                yield self._give(stream, bytes(partial))

    def place(self, line: int) -> tuple[str, int]:
        """The stream of this line, counted from 1 as given here, and its number there (0: unknown,
        as the beginning of the stream was not read)."""
        held = [block for block in self._blocks if block[0] < line]
        if not held:
            return "", 0
        before, stream, number = held[-1]
        return stream, 0 if number is None else number + line - before

    def _give(self, stream: str, data: bytes) -> bytes:
        data = data if data.endswith(b"\n") else data + b"\n"
        count = data.count(b"\n")
        number = self._number[stream]
        self._blocks.append((self._lines, stream, number))
        self._lines += count
        self._number[stream] = None if number is None else number + count
        return data


def _newest(attempt_id: UUID) -> list[Chunk]:
    """Return the newest chunks of both streams in order of arrival."""
    found: list[tuple[int, Chunk]] = []
    for stream in STREAMS:
        rows = LogChunk.objects.filter(attempt=attempt_id, stream=stream).order_by("-offset")
        total = 0
        for pk, offset, size, key in rows.values_list("id", "offset", "size", "key")[:MAX_CHUNKS]:
            total += size
            if total > MAX_BYTES:
                break
            found.append((pk, (stream, offset, size, key)))
    return [chunk for _, chunk in sorted(found)]
