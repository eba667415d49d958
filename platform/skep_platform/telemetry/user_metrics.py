"""Reading the logs of running jobs for the metrics that their users asked for (`metric_lines`).

Only jobs with a `metrics_rank` are looked at, and of each only the task of that rank. A row of
MetricLog says how far the log of a task attempt was read. A worker claims rows that are due, reads
a bounded part of each log outside of any transaction, and stores the points and the new places
together; what another worker stored meanwhile, it leaves alone. After the end of a log the rest of
it is read, and the row is not due any more. A log that cannot be read is tried again until long
after the end of its job; it holds up no other.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.core.bulk import fetch
from skep_platform.core.compiled import Compiled
from skep_platform.core.errors import Unavailable
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB, JobState
from skep_platform.telemetry.appending import MAX_CHUNK
from skep_platform.telemetry.metric_lines import Pattern, Series, collect, patterns, read
from skep_platform.telemetry.models import MetricLog, UserMetric
from skep_platform.telemetry.queries import STREAMS, Chunk, logs_ended, read_lines

log = structlog.get_logger(__name__)

EVERY = timedelta(seconds=5)
CLAIM = timedelta(seconds=60)  # a worker that died is waited for so long
BATCH = 20  # task attempts at a time
NEW = 1000  # task attempts that are begun in a round
ROUND_S = 8.0  # then another worker may go on
MAX_BYTES = 1024 * 1024  # of a stream at a time, and the chunk that exceeds it
MAX_CHUNKS = 200  # of a stream at a time
SETTLED_S = 300  # after the end of a job no log of it begins
GIVE_UP = timedelta(days=1)  # after the end of a job, on a log that cannot be read
STARTED = [state for state in JobState.values if state != JobState.WAITING]
ENDED = sorted(JOB.terminal)
NOT_FINITE_EVENT = "job.metric_not_finite"


def read_due() -> int:
    """Read what is due for a bounded time; returns how many points were found. Any number of
    workers may do so at once; a constant number of queries for each batch."""
    until, points = time.monotonic() + ROUND_S, 0
    _begin()
    while claimed := _claim():
        points += _read(claimed)
        if time.monotonic() > until:
            break
    _finish()
    return points


BEGIN = """
INSERT INTO telemetry_metriclog (attempt_id, job_id, stdout, stderr, stdout_end, stderr_end, inside,
                                 dropped, due_at, at)
SELECT a.id, j.id, 0, 0, 0, 0, '{}', '{}', statement_timestamp(), statement_timestamp()
  FROM jobs_job j
  JOIN jobs_task t ON t.job_id = j.id AND t.rank = j.metrics_rank
  JOIN jobs_taskattempt a ON a.task_id = t.id
 WHERE j.metrics_rank IS NOT NULL AND j.state = ANY(%s) AND a.started_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM telemetry_metriclog m WHERE m.attempt_id = a.id)
 LIMIT %s
    ON CONFLICT DO NOTHING
"""

FINISH = """
UPDATE jobs_job j SET metrics_rank = NULL
 WHERE j.metrics_rank IS NOT NULL AND j.state = ANY(%s)
   AND j.finished_at < statement_timestamp() - %s * interval '1 second'
   AND NOT EXISTS (SELECT FROM telemetry_metriclog m
                    WHERE m.job_id = j.id AND m.due_at IS NOT NULL)
   AND NOT EXISTS (SELECT FROM jobs_task t JOIN jobs_taskattempt a ON a.task_id = t.id
                     LEFT JOIN telemetry_metriclog m ON m.attempt_id = a.id
                    WHERE t.job_id = j.id AND t.rank = j.metrics_rank
                      AND a.started_at IS NOT NULL AND m.attempt_id IS NULL)
"""

# Materialized: PostgreSQL may run a subquery once for each row, with a limit of its own each time.
CLAIM_DUE = """
WITH due AS MATERIALIZED (
       SELECT attempt_id FROM telemetry_metriclog WHERE due_at <= statement_timestamp()
        ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE telemetry_metriclog m SET due_at = statement_timestamp() + %s
  FROM due, jobs_job j
 WHERE m.attempt_id = due.attempt_id AND j.id = m.job_id
RETURNING m.attempt_id, m.job_id, ARRAY[m.stdout, m.stderr],
          ARRAY[m.stdout_end, m.stderr_end], m.inside, m.at, j.finished_at,
          j.spec #> '{extras,skep,metrics}'
"""


def is_due() -> bool:
    """Return whether a job may have begun or ended of which metrics are read, or a log is to be
    read again. One query, or two."""
    return _ASKED.finds() or _UNREAD.finds()


_ASKED = Compiled(
    lambda: Job.objects.filter(metrics_rank__isnull=False, state__in=[*STARTED, *ENDED])
)
_UNREAD = Compiled(lambda: MetricLog.objects.filter(due_at__lte=Now()))


def _begin() -> None:
    with connection.cursor() as cursor:
        cursor.execute(BEGIN, [STARTED, NEW])


def _finish() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FINISH, [ENDED, SETTLED_S])


@dataclass(slots=True)
class Claimed:
    """A task attempt whose log is read now, and how much of it was read before."""

    attempt: UUID
    job: UUID
    places: dict[str, int]
    ends: dict[str, int]  # of what was seen of each stream
    inside: set[str]
    patterns: list[Pattern]
    began: tuple[int, int]  # the places when it was claimed
    at: datetime  # when it was read last
    finished_at: datetime | None  # of the job
    series: dict[str, Series] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    more: bool = False  # lies there already


def _claim() -> list[Claimed]:
    return [_claimed(*row) for row in fetch(CLAIM_DUE, [BATCH, CLAIM])]


def _claimed(
    attempt: UUID, job: UUID, places: list[int], ends: list[int], inside: list[str], *more: Any
) -> Claimed:
    at, finished_at, asked = more
    return Claimed(
        attempt,
        job,
        dict(zip(STREAMS, places, strict=True)),
        dict(zip(STREAMS, ends, strict=True)),
        set(inside),
        patterns(json.loads(asked) if isinstance(asked, str) else asked),
        (places[0], places[1]),
        at,
        finished_at,
    )


def _read(claimed: Sequence[Claimed]) -> int:
    ended = logs_ended(one.attempt for one in claimed)  # what is read after it is all there is
    chunks, stored = _chunks(claimed), _stored(claimed)
    done, given_up = [], []
    for one in claimed:
        one.series = {name: _series(metric) for name, metric in stored[one.attempt].items()}
        try:
            for stream in STREAMS:
                _read_stream(one, stream, chunks.get((one.attempt, stream), []), ended)
        except Exception as error:  # a log that is broken holds up no other
            if not isinstance(error, Unavailable):
                log.exception("metric_log_broken", attempt=str(one.attempt))
            if _is_over(one):
                given_up.append(one.attempt)
            continue  # else it is claimed again later
        done.append(one)
    MetricLog.objects.filter(pk__in=given_up).update(due_at=None)
    return _store(done, stored, ended)


def _is_over(one: Claimed) -> bool:
    """Return whether nothing of the log could be read for long, and its job ended long ago."""
    before = timezone.now() - GIVE_UP
    return one.finished_at is not None and max(one.finished_at, one.at) < before


Stored = dict[UUID, dict[str, UserMetric]]


def _stored(claimed: Sequence[Claimed]) -> Stored:
    """Return the series that the task attempts have, by name."""
    stored: Stored = {one.attempt: {} for one in claimed}
    for metric in UserMetric.objects.filter(attempt__in=list(stored)):
        stored[metric.attempt_id][metric.name] = metric
    return stored


# A chunk that covers a place begins less than a chunk's length before it.
CHUNKS = """
SELECT w.attempt, w.stream, c."offset", c.size, c.at, c.key
  FROM unnest(%s::uuid[], %s::text[], %s::bigint[]) AS w(attempt, stream, place),
       LATERAL (SELECT "offset", size, at, key FROM telemetry_logchunk
                 WHERE attempt_id = w.attempt AND stream = w.stream
                   AND "offset" > w.place - %s AND "offset" + size > w.place
                 ORDER BY "offset" LIMIT %s) AS c
 ORDER BY w.attempt, w.stream, c."offset"
"""


def _chunks(claimed: Sequence[Claimed]) -> dict[tuple[UUID, str], list[Chunk]]:
    wanted = [(one.attempt, s, one.places[s]) for one in claimed for s in STREAMS]
    columns = [list(column) for column in zip(*wanted, strict=True)]
    found: dict[tuple[UUID, str], list[Chunk]] = {}
    for attempt, stream, offset, size, at, key in fetch(
        CHUNKS, [*columns, MAX_CHUNK, MAX_CHUNKS + 1]
    ):
        chunk = Chunk(0, attempt, "", 0, 0, stream, offset, size, at, key)
        found.setdefault((attempt, stream), []).append(chunk)
    return found


def _read_stream(one: Claimed, stream: str, chunks: list[Chunk], ended: set[UUID]) -> None:
    """Raises Unavailable."""
    if not chunks:
        return
    over = one.attempt in ended
    if not over and chunks[-1].offset + chunks[-1].size == one.ends[stream]:
        return  # nothing was written behind the beginning of a line that was seen already
    # Behind a hole, which retention may have left, a line begins as well as any. The one before it
    # is left out: its number may be cut in half.
    place = max(one.places[stream], chunks[0].offset)
    times, data = LineTimes(place), bytearray()
    hole = more = False
    for number, chunk in enumerate(chunks):
        hole = chunk.offset > place + len(data)
        more = hole or len(data) >= MAX_BYTES or number == MAX_CHUNKS
        if more:
            break
        text, line_times = read_lines(chunk)
        data += text[place + len(data) - chunk.offset :]
        times.add(chunk.offset, text, line_times)
    final = over and not more
    found = read(bytes(data), one.patterns, inside=stream in one.inside, final=final)
    if hole:
        found.consumed, found.inside = chunk.offset - place, False
    elif more and not found.consumed:  # a line in a great many chunks: as one that is too long
        found.consumed, found.inside = len(data), True
    one.more = one.more or more
    one.ends[stream] = place + len(data)
    one.places[stream] = place + found.consumed
    one.inside.discard(stream)
    if found.inside:
        one.inside.add(stream)
    one.dropped.update(collect(found, one.series, times.of))


class LineTimes:
    """When the lines of consecutive chunks were written. Asked for in their order: each byte is
    counted once."""

    def __init__(self, place: int) -> None:
        self._place = place  # of the first byte that places are counted from
        self._offsets: list[int] = []
        self._chunks: list[tuple[bytes, Sequence[int]]] = []
        self._at = (-1, 0, 0)  # chunk, bytes of it that were counted, lines in them

    def add(self, offset: int, data: bytes, times: Sequence[int]) -> None:
        self._offsets.append(offset)
        self._chunks.append((data, times))

    def of(self, at: int) -> float:
        """Return the seconds since the epoch of the line that begins there."""
        number = bisect_right(self._offsets, self._place + at) - 1
        data, times = self._chunks[number]
        chunk, counted, lines = self._at
        inside = self._place + at - self._offsets[number]
        if chunk != number or counted > inside:
            counted = lines = 0
        lines += data.count(b"\n", counted, inside)
        self._at = (number, inside, lines)
        return times[min(lines, len(times) - 1)] / 1e9


_SERIES = [one.name for one in fields(Series)]
PROGRESS = [
    *("stdout", "stderr", "stdout_end", "stderr_end", "inside"),
    *("dropped", "at", "due_at"),
]


@transaction.atomic
def _store(done: Sequence[Claimed], stored: Stored, ended: set[UUID]) -> int:
    """Store the series and how far the logs were read. A log that another worker read meanwhile is
    left alone: of the others the series are as they were, too."""
    wanted = [one.attempt for one in done]
    rows = MetricLog.objects.select_for_update().filter(pk__in=wanted).order_by("pk")
    logs, now = {row.pk: row for row in rows}, timezone.now()
    changed: list[UserMetric] = []
    events: list[Event] = []
    points = 0
    for one in done:
        row = logs.get(one.attempt)
        if row is None or one.began != (row.stdout, row.stderr):
            continue
        for name, series in one.series.items():
            known = stored[one.attempt].get(name)
            count, not_finite = (known.count, known.not_finite) if known else (0, 0)
            new = series.count + series.not_finite - count - not_finite
            points += new
            if new:
                changed.append(_row(one, name, series, now))
            if series.not_finite and not not_finite:
                events.append(_not_finite(one.job, name, series))
        row.stdout, row.stderr = one.places["stdout"], one.places["stderr"]
        row.stdout_end, row.stderr_end = one.ends["stdout"], one.ends["stderr"]
        row.inside, row.at = sorted(one.inside), now
        row.dropped = dict(one.dropped + Counter(row.dropped))
        over = one.attempt in ended and not one.more
        row.due_at = None if over else now if one.more else now + EVERY
    UserMetric.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["attempt", "name"],
        update_fields=[*_SERIES, "at"],
    )
    MetricLog.objects.bulk_update(logs.values(), PROGRESS)
    Event.objects.bulk_create(events)
    return points


def _series(metric: UserMetric) -> Series:
    return Series(**{name: getattr(metric, name) for name in _SERIES})


def _row(one: Claimed, name: str, series: Series, now: Any) -> UserMetric:
    return UserMetric(job_id=one.job, attempt_id=one.attempt, name=name, at=now, **asdict(series))


def _not_finite(job: UUID, name: str, series: Series) -> Event:
    message = (
        f"Its metric {name} is no finite number (NaN or infinity) at step "
        f"{series.not_finite_step:g}. What it computes from there on may be worthless: look at it, "
        "or stop it."
    )
    return event("job", job, NOT_FINITE_EVENT, message, metric=name, step=series.not_finite_step)
