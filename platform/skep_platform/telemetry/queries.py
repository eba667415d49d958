"""All reads of logs. Jobs and attempts come in already filtered for who may see them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from skep_agent.frames import count_segments, decode_times
from skep_platform.accounts.models import User
from skep_platform.core.errors import NotFound
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState
from skep_platform.telemetry.appending import MAX_CHUNK
from skep_platform.telemetry.merged_lines import Decoder, LineRun, TimeOrder, decode, to_ns
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.retention import check_kept
from skep_platform.telemetry.store import read_chunk, read_chunk_and_times

log = structlog.get_logger(__name__)

STREAMS = ("stdout", "stderr")
MAX_ROWS = 1000  # chunks per answer: a trickling log has many small ones
LOG_DEADLINE = timedelta(seconds=60)  # a log whose end is never reported counts as ended then


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
    """Return one task attempt on the same terms."""
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
class Text:
    """Consecutive lines of one chunk as text; `offset` is their place in the stream in bytes, and
    `times` has the nanoseconds since the epoch of each line."""

    chunk: Chunk
    offset: int
    text: str
    times: Sequence[int]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a job's merged log, its lines ordered by time: from where to go on, whether more
    lies there already in the direction of reading, and whether nothing will ever follow."""

    texts: list[Text]
    next: int
    more: bool
    complete: bool


def job_log(job: Job, which: Filter, cursor: int, limit: int) -> Page:
    """Return the merged log after `cursor`, whole chunks of together about `limit` bytes."""
    ended = _log_ended(job)  # asked before the chunks: what is read after is all there is
    rows = chunk_rows(which.chunks(job).filter(id__gt=cursor).order_by("id"), MAX_ROWS + 1)
    page, more = _up_to(rows, limit)
    texts = _texts(by_time(page))
    return Page(texts, page[-1].cursor if page else cursor, more, ended and not more)


def job_log_before(job: Job, which: Filter, before: int, limit: int) -> Page:
    """The merged log up to `before`, which is not part of it: for reading backwards. Empty at the
    beginning of the log."""
    rows = chunk_rows(which.chunks(job).filter(id__lt=before).order_by("-id"), MAX_ROWS + 1)
    newest, more = _up_to(rows, limit)
    texts = _texts(by_time(reversed(newest)))
    return Page(texts, newest[0].cursor if newest else before, more, complete=False)


def read_lines(chunk: Chunk) -> tuple[bytes, Sequence[int]]:
    """Read a chunk's bytes and the times of its lines. Raises Unavailable."""
    data, packed = read_chunk_and_times(chunk.key, chunk.size)
    return data, line_times(chunk, data, packed)


def line_times(chunk: Chunk, data: bytes, packed: bytes) -> array[int]:
    """Return the times of the lines of `data`, which are those of the chunk. Where they are not
    known, the chunk's own stands for all."""
    count = count_segments(data)
    if packed:
        try:
            return decode_times(packed, count)
        except ValueError as error:
            log.error("log_times_broken", key=chunk.key, problem=str(error))
    return array("q", [to_ns(chunk.at)]) * count


def by_time(chunks: Iterable[Chunk]) -> Iterator[LineRun[Chunk]]:
    """Read chunks, given in order of arrival, and give their lines in the order of their times."""
    order: TimeOrder[Chunk] = TimeOrder()
    for chunk in chunks:
        order.add((chunk.attempt_id, chunk.stream), chunk.cursor, chunk, *read_lines(chunk))
    return order.take()


def job_tail(job: Job, which: Filter, lines: int, limit: int) -> Page:
    """Return the newest `lines` lines of the merged log, of about `limit` bytes at most. `more`
    says that there are earlier ones."""
    ended = _log_ended(job)
    rows = chunk_rows(which.chunks(job).order_by("-id"), MAX_ROWS + 1)
    newest, more = _up_to(rows, limit)
    order: TimeOrder[Chunk] = TimeOrder()
    held, found, oldest = [], 0, 0
    for chunk in newest:
        data, times = read_lines(chunk)
        # Chunks of other tasks may have come earlier with lines that are as new.
        if found >= lines and times[-1] < oldest:
            break
        held.append((chunk, data, times))
        found += len(times)
        oldest = min(oldest or times[0], times[0]) if found - len(times) < lines else oldest
    for chunk, data, times in reversed(held):
        order.add((chunk.attempt_id, chunk.stream), chunk.cursor, chunk, data, times)
    kept, cut = _newest_lines(list(order.take()), lines)
    more = more or cut or len(held) < len(newest)
    return Page(_texts(kept), newest[0].cursor if newest else 0, more, ended)


def _newest_lines(pieces: list[LineRun[Chunk]], lines: int) -> tuple[list[LineRun[Chunk]], bool]:
    """Return the last lines, each whole also where it began in another piece, and whether there
    were more."""
    kept: list[LineRun[Chunk]] = []
    streams: dict[tuple[UUID, str], bool] = {}  # whether the newer piece of each is kept whole
    for piece in reversed(pieces):
        stream = (piece.source.attempt_id, piece.source.stream)
        # The rest of its last line is in a newer piece, and counted there.
        goes_on = stream in streams and not piece.data.endswith(b"\n")
        wanted = 0 if goes_on and not streams[stream] else lines + goes_on
        rest = piece.last(wanted)
        if rest.data:
            kept.append(rest)
        lines -= len(rest.times) - (goes_on and len(rest.times) > 0)
        streams[stream] = len(rest.times) == len(piece.times)
    return kept[::-1], not all(streams.values())


def newest_cursor(job: Job, which: Filter) -> int:
    """Of what is stored now; 0 when that is nothing."""
    return which.chunks(job).order_by("-id").values_list("id", flat=True).first() or 0


def next_chunks(job: Job, which: Filter, cursor: int, end: int, limit: int) -> list[Chunk]:
    """Return chunks behind `cursor`, up to `end`, of together about `limit` bytes."""
    rows = which.chunks(job).filter(id__gt=cursor, id__lte=end).order_by("id")
    return _up_to(chunk_rows(rows, MAX_ROWS + 1), limit)[0]


@dataclass(frozen=True, slots=True)
class StreamPart:
    """Bytes [offset, next_offset) of a stream as text; `size` bytes are stored so far."""

    offset: int
    next_offset: int
    size: int
    complete: bool
    text: str


def stream_part(attempt: TaskAttempt, stream: str, offset: int, limit: int) -> StreamPart:
    final = attempt.log_sizes.get(stream)
    size = stream_size(attempt, stream)
    offset = min(offset, size)
    data = b"".join(stream_bytes(attempt.pk, stream, offset, min(offset + limit, size)))
    end = offset + len(data)
    complete = end >= size and (final is not None or attempt_log_ended(attempt))
    return StreamPart(offset, end, size, complete, decode(data, at_start=offset == 0))


def stream_tail(attempt: TaskAttempt, stream: str, length: int) -> StreamPart:
    """Return the newest `length` bytes."""
    offset = max(0, stream_size(attempt, stream) - length)
    return stream_part(attempt, stream, offset, length)


def stream_size(attempt: TaskAttempt, stream: str) -> int:
    last = _stream_chunks(attempt.pk, stream).order_by("-offset").first()
    return last.offset + last.size if last else 0


def stream_bytes(attempt_id: UUID, stream: str, offset: int, end: int) -> Iterator[bytes]:
    """Give bytes [offset, end), chunk by chunk."""
    # A chunk that covers `offset` begins less than a chunk's length before it.
    rows = _stream_chunks(attempt_id, stream).filter(offset__gt=offset - MAX_CHUNK, offset__lt=end)
    for chunk in rows.order_by("offset")[:MAX_ROWS]:
        if chunk.offset + chunk.size > offset:
            data = read_chunk(chunk.key, chunk.size)
            yield data[max(0, offset - chunk.offset) : end - chunk.offset]


def attempt_log_ended(attempt: TaskAttempt) -> bool:
    """No byte will follow, or its node has had its time to send it."""
    return not TaskAttempt.objects.filter(pk=attempt.pk).exclude(_LOG_ENDED).exists()


# Its node reported the end; or it never started, or its node is gone.
_LOG_ENDED = (
    Q(log_sizes__has_keys=STREAMS)
    | Q(released_at__isnull=False, started_at__isnull=True)
    | Q(released_at__isnull=False, state=AttemptState.LOST)
    | Q(released_at__lt=Now() - LOG_DEADLINE)
)


def logs_ended(attempts: Iterable[UUID]) -> set[UUID]:
    """Return those of the task attempts of which the same is true."""
    ended = TaskAttempt.objects.filter(_LOG_ENDED, pk__in=list(attempts))
    return set(ended.values_list("pk", flat=True))


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


def _texts(pieces: Iterable[LineRun[Chunk]]) -> list[Text]:
    held = list(pieces)
    streams = [(piece.source.attempt_id, piece.source.stream) for piece in held]
    last = {stream: number for number, stream in enumerate(streams)}
    decoders: dict[tuple[UUID, str], Decoder] = {}
    texts = []
    for number, (piece, stream) in enumerate(zip(held, streams, strict=True)):
        offset = piece.source.offset + piece.start
        decoder = decoders.setdefault(stream, Decoder(at_start=offset == 0))
        text = decoder.decode(piece.data, last=last[stream] == number)
        texts.append(Text(piece.source, offset, text, piece.times))
    return texts
