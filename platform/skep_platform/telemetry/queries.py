"""All reads of logs. Jobs and attempts come in already filtered for who may see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.accounts.models import User
from skep_platform.core.errors import NotFound
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState
from skep_platform.telemetry.frames import MAX_CHUNK
from skep_platform.telemetry.keeping import check_kept
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.store import read_chunk
from skep_platform.telemetry.text import Decoder, decode

STREAMS = ("stdout", "stderr")
MAX_ROWS = 1000  # chunks per answer: a trickling log has many small ones
LOG_DEADLINE = timedelta(seconds=60)  # a log whose end is never told counts as ended then


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored chunk, and whose output it is."""

    cursor: int
    attempt_id: UUID
    role: str
    index: int
    rank: int
    stream: str
    offset: int
    size: int
    at: datetime
    key: str


COLUMNS = {
    "cursor": F("id"),
    "role": F("attempt__role__name"),
    "index": F("attempt__task__index"),
    "rank": F("attempt__task__rank"),
}
PLAIN = ("attempt_id", "stream", "offset", "size", "at", "key")


def find_log(user: User, job_id: UUID) -> Job:
    """The job, whose log is there to be read. Raises NotFound, also when it exists and the user
    may not know, and Gone."""
    job = jobs.find(user, job_id)
    check_kept(job)
    return job


def find_attempt(user: User, attempt_id: UUID) -> TaskAttempt:
    """The same for one task attempt."""
    attempts = TaskAttempt.objects.filter(job__in=jobs.visible_to(user), pk=attempt_id)
    attempt = attempts.select_related("job").first()
    if attempt is None:
        raise NotFound("There is no such task attempt.")
    check_kept(attempt.job)
    return attempt


@dataclass(frozen=True, slots=True)
class Filter:
    """Which part of a job's merged log; None is all. `attempt` is the number of a job attempt."""

    rank: int | None = None
    stream: str | None = None
    role: str | None = None
    attempt: int | None = None

    def chunks(self, job: Job) -> QuerySet[LogChunk]:
        """Of few task attempts by their ids: an index has their chunks in order, however many
        chunks the rest of the gang has."""
        found = LogChunk.objects.filter(job=job)
        tasks = {"task__rank": self.rank, "role__name": self.role, "index": self.attempt}
        asked = {name: value for name, value in tasks.items() if value is not None}
        if asked:
            attempts = TaskAttempt.objects.filter(job=job, **asked)
            found = found.filter(attempt__in=list(attempts.values_list("pk", flat=True)))
        return found.filter(stream=self.stream) if self.stream else found


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a job's merged log: chunks with their text, from where to go on, whether more lies
    there already in the direction of reading, and whether nothing will ever follow."""

    chunks: list[tuple[Chunk, str]]
    next: int
    more: bool
    complete: bool


def job_log(job: Job, which: Filter, cursor: int, limit: int) -> Page:
    """The merged log after `cursor`, whole chunks of together about `limit` bytes."""
    ended = _log_ended(job)  # asked before the chunks: what is read after is all there is
    rows = chunk_rows(which.chunks(job).filter(id__gt=cursor).order_by("id"), MAX_ROWS + 1)
    page, more = _up_to(rows, limit)
    texts = _texts((chunk, read_chunk(chunk.key, chunk.size)) for chunk in page)
    return Page(texts, page[-1].cursor if page else cursor, more, ended and not more)


def job_log_before(job: Job, which: Filter, before: int, limit: int) -> Page:
    """The merged log up to `before`, which is not part of it: for reading backwards. Empty at the
    beginning of the log."""
    rows = chunk_rows(which.chunks(job).filter(id__lt=before).order_by("-id"), MAX_ROWS + 1)
    newest, more = _up_to(rows, limit)
    texts = _texts((chunk, read_chunk(chunk.key, chunk.size)) for chunk in reversed(newest))
    return Page(texts, newest[0].cursor if newest else before, more, complete=False)


def job_tail(job: Job, which: Filter, lines: int, limit: int) -> Page:
    """The newest `lines` lines of the merged log, of about `limit` bytes at most. `more` tells
    that there are earlier ones."""
    ended = _log_ended(job)
    rows = chunk_rows(which.chunks(job).order_by("-id"), MAX_ROWS + 1)
    newest, more = _up_to(rows, limit)
    held: list[tuple[Chunk, bytes]] = []
    going_on: set[tuple[UUID, str]] = set()  # streams whose line goes on in a newer chunk
    for chunk in newest:
        if lines <= 0:
            more = True
            break
        stream = (chunk.attempt_id, chunk.stream)
        data = read_chunk(chunk.key, chunk.size)
        ends = stream in going_on or data.endswith(b"\n")  # no line ends with the chunk itself
        kept = _last_lines(data, lines if ends else lines - 1)
        lines -= kept.count(b"\n") + (not ends)
        more = more or len(kept) < len(data)
        going_on.add(stream)
        held.append((chunk, kept))
    texts = _texts(reversed(held))
    return Page(texts, newest[0].cursor if newest else 0, more, ended)


def newest_cursor(job: Job, which: Filter) -> int:
    """Of what is stored now; 0 when that is nothing."""
    return which.chunks(job).order_by("-id").values_list("id", flat=True).first() or 0


def next_chunks(job: Job, which: Filter, cursor: int, end: int, limit: int) -> list[Chunk]:
    """Chunks behind `cursor`, up to `end`, of together about `limit` bytes."""
    rows = which.chunks(job).filter(id__gt=cursor, id__lte=end).order_by("id")
    return _up_to(chunk_rows(rows, MAX_ROWS + 1), limit)[0]


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes [offset, next_offset) of a stream as text; `size` bytes are stored so far."""

    offset: int
    next_offset: int
    size: int
    complete: bool
    text: str


def stream_part(attempt: TaskAttempt, stream: str, offset: int, limit: int) -> Part:
    final = attempt.log_sizes.get(stream)
    size = stream_size(attempt, stream)
    offset = min(offset, size)
    data = b"".join(stream_bytes(attempt.pk, stream, offset, min(offset + limit, size)))
    end = offset + len(data)
    complete = end >= size and (final is not None or attempt_log_ended(attempt))
    return Part(offset, end, size, complete, decode(data, at_start=offset == 0))


def stream_tail(attempt: TaskAttempt, stream: str, length: int) -> Part:
    """The newest `length` bytes."""
    offset = max(0, stream_size(attempt, stream) - length)
    return stream_part(attempt, stream, offset, length)


def stream_size(attempt: TaskAttempt, stream: str) -> int:
    last = _stream_chunks(attempt.pk, stream).order_by("-offset").first()
    return last.offset + last.size if last else 0


def stream_bytes(attempt_id: UUID, stream: str, offset: int, end: int) -> Iterator[bytes]:
    """Bytes [offset, end), chunk by chunk."""
    # A chunk that covers `offset` begins less than a chunk's length before it.
    rows = _stream_chunks(attempt_id, stream).filter(offset__gt=offset - MAX_CHUNK, offset__lt=end)
    for chunk in rows.order_by("offset")[:MAX_ROWS]:
        if chunk.offset + chunk.size > offset:
            data = read_chunk(chunk.key, chunk.size)
            yield data[max(0, offset - chunk.offset) : end - chunk.offset]


def attempt_log_ended(attempt: TaskAttempt) -> bool:
    """No byte will follow, or its node has had its time to send it."""
    return not TaskAttempt.objects.filter(pk=attempt.pk).exclude(_LOG_ENDED).exists()


# Its node told the end; or it never started, or nobody is left to tell.
_LOG_ENDED = (
    Q(log_sizes__has_keys=STREAMS)
    | Q(released_at__isnull=False, started_at__isnull=True)
    | Q(released_at__isnull=False, state=AttemptState.LOST)
    | Q(released_at__lt=Now() - LOG_DEADLINE)
)


def _log_ended(job: Job) -> bool:
    if job.state not in JOB.terminal:
        return False
    return not TaskAttempt.objects.filter(job=job).exclude(_LOG_ENDED).exists()


def _stream_chunks(attempt_id: UUID, stream: str) -> QuerySet[LogChunk]:
    return LogChunk.objects.filter(attempt=attempt_id, stream=stream)


def chunk_rows(found: QuerySet[LogChunk], most: int) -> list[Chunk]:
    rows: Iterable[dict[str, Any]] = found.values(*PLAIN, **COLUMNS)[:most]
    return [Chunk(**row) for row in rows]


def _up_to(rows: list[Chunk], limit: int) -> tuple[list[Chunk], bool]:
    """The first chunks of together at most `limit` bytes, at least one; and whether some are
    left."""
    total = 0
    for number, chunk in enumerate(rows):
        total += chunk.size
        if number and (total > limit or number >= MAX_ROWS):
            return rows[:number], True
    return rows, False


def _texts(held: Iterable[tuple[Chunk, bytes]]) -> list[tuple[Chunk, str]]:
    chunks = list(held)
    last = {(chunk.attempt_id, chunk.stream): chunk.cursor for chunk, _ in chunks}
    decoders: dict[tuple[UUID, str], Decoder] = {}
    texts = []
    for chunk, data in chunks:
        stream = (chunk.attempt_id, chunk.stream)
        decoder = decoders.setdefault(stream, Decoder(at_start=chunk.offset == 0))
        texts.append((chunk, decoder.decode(data, last=last[stream] == chunk.cursor)))
    return texts


def _last_lines(data: bytes, lines: int) -> bytes:
    """The last lines that end with a newline, and what follows the last newline."""
    at = len(data)
    for _ in range(lines + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :]
