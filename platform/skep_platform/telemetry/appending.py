"""Storing log bytes, once each, whoever sends them how often.

Every chunk begins where the one before ends. Two processes that append to the same stream (the
node reconnected elsewhere) therefore collide on (attempt, stream, offset): one insert wins, the
other one learns the true size from the database and acknowledges that.
"""

from __future__ import annotations

import json
import math
import threading
import time
from array import array
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from uuid import UUID
from zlib import crc32

from django.db import connection
from django.utils import timezone

from skep_agent.frames import LogFrame, count_segments, encode_times
from skep_agent.protocol import LogAck, LogPosition
from skep_agent.protocol import Stream as LogStream
from skep_platform.core import metrics, notifications
from skep_platform.telemetry import store
from skep_platform.telemetry.merged_lines import to_datetime, to_ns
from skep_platform.telemetry.retention import LogAllowance

Stream = tuple[UUID, LogStream]
OnNode = tuple[UUID, UUID]  # an attempt, and the node that sends its log


MAX_CHUNK = 1024 * 1024
FIRST = datetime(2000, 1, 1, tzinfo=UTC)
SANE = (datetime(2000, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp())
SANE_NS = (int(SANE[0]) * 10**9, int(SANE[1]) * 10**9)


@dataclass(slots=True)
class Tail:
    """A stream's end as it grows: `size` bytes are stored, `data` comes after them."""

    size: int
    data: bytearray
    at: float = 0.0  # when the node read the first byte of `data`
    # Nanoseconds since the epoch of each line in `data` (see count_segments), never decreasing.
    times: array[int] = field(default_factory=lambda: array("q"))
    timed: bool = False  # the node sent some of them
    ended: bool = False  # the node reported that nothing follows
    gap: bool = False  # a frame was dropped because bytes before it are missing

    @property
    def end(self) -> int:
        return self.size + len(self.data)


def fold(size: int, frames: Iterable[LogFrame]) -> tuple[Tail, list[LogFrame]]:
    """Return what a stream of `size` stored bytes gains from frames, up to one chunk, and the
    frames left for the next chunk. Known bytes are trimmed; a frame past a gap is dropped, and the
    acknowledgement says from where to send again."""
    tail = Tail(size, bytearray())
    frames = list(frames)
    for number, frame in enumerate(frames):
        if frame.offset > tail.end:
            tail.gap = True
            continue
        added = frame.data[tail.end - frame.offset :]
        if tail.data and len(tail.data) + len(added) > MAX_CHUNK:
            return tail, frames[number:]
        if added:
            _add_times(tail, frame.after(tail.end))
        tail.data += added
        tail.ended = tail.ended or not frame.data
    return tail, []


def _add_times(tail: Tail, frame: LogFrame) -> None:
    """Take the times of the frame's lines into the tail, before its bytes. One that goes on with
    the tail's last line has no time of its own there."""
    if not tail.data:
        tail.at = frame.at
    times = frame.times or [to_ns(moment(frame.at, FIRST))] * count_segments(frame.data)
    tail.timed = tail.timed or bool(frame.times)
    if tail.data and not tail.data.endswith(b"\n"):
        times = times[1:]
    if tail.times and times and times[0] < tail.times[-1]:
        newest = tail.times[-1]
        times = [max(at, newest) for at in times]
    tail.times.extend(times)


def index_of(tail: Tail, now: datetime) -> tuple[datetime, bytes]:
    """Return the time of the tail's first line and, where its node sent them, the packed times of
    all, within what can be stored. They never decrease."""
    if not tail.timed:
        return moment(tail.at, now), b""
    times = tail.times
    if not SANE_NS[0] < times[0] <= times[-1] < SANE_NS[1]:
        sane = (at if SANE_NS[0] < at < SANE_NS[1] else to_ns(now) for at in times)
        times = array("q", accumulate(sane, max))
    return to_datetime(times[0]), encode_times(times)


def has_gap(size: int, frames: Iterable[LogFrame]) -> bool:
    """Return whether bytes are missing between `size` stored ones and the frames, in order."""
    for frame in frames:
        if frame.offset > size:
            return True
        size = max(size, frame.offset + len(frame.data))
    return False


def moment(seconds: float, now: datetime) -> datetime:
    """Return a node's clock as a time that can be stored; `now` where it makes no sense."""
    if not math.isfinite(seconds) or not SANE[0] < seconds < SANE[1]:
        return now
    return datetime.fromtimestamp(seconds, UTC)


REMEMBERED = 20_000  # attempts


@dataclass(slots=True)
class Stored:
    """How many bytes of each stream of an attempt are stored."""

    node_id: UUID
    job_id: UUID
    sizes: dict[str, int]


class Sizes:
    """How many bytes of each stream are stored: read from the database once, then remembered.

    A remembered size may be stale when another process took over the stream after a reconnect. It
    is then still the border of a chunk, so the insert collides with the chunk that begins there,
    and the size is read again: stale memory costs one round, never a byte. Safe for threads; the
    rows of one attempt are only ever asked for by its own node."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, Stored] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, attempts: Collection[OnNode]) -> dict[UUID, Stored]:
        """Return those of the attempts that are on the node that sends them, with at most one query
        for those that are not remembered."""
        with self._lock:
            found = {a: self._known[a] for a, _ in attempts if a in self._known}
            for attempt in found:
                self._known.move_to_end(attempt)
        missing = [(a, node_id) for a, node_id in attempts if a not in found]
        if missing:
            found |= self.read(missing)
        return {
            a: found[a] for a, node_id in attempts if a in found and found[a].node_id == node_id
        }

    def read(self, attempts: Collection[OnNode]) -> dict[UUID, Stored]:
        """Return the same from the database, and remember it."""
        found = _read(attempts)
        with self._lock:
            for attempt, stored in found.items():
                self._known[attempt] = stored
                self._known.move_to_end(attempt)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def forget(self, attempts: Iterable[UUID]) -> None:
        with self._lock:
            for attempt in attempts:
                self._known.pop(attempt, None)


READ = """
SELECT a.id, a.job_id, a.node_id, s.stream, coalesce((
         SELECT c."offset" + c.size FROM telemetry_logchunk c
          WHERE c.attempt_id = a.id AND c.stream = s.stream
          ORDER BY c."offset" DESC LIMIT 1), 0)
  FROM unnest(%s::uuid[], %s::uuid[]) sent (id, node_id)
  JOIN jobs_taskattempt a ON a.id = sent.id AND a.node_id = sent.node_id
 CROSS JOIN (VALUES ('stdout'), ('stderr')) s (stream)
"""


def _read(attempts: Collection[OnNode]) -> dict[UUID, Stored]:
    found: dict[UUID, Stored] = {}
    with connection.cursor() as cursor:
        cursor.execute(READ, [[a for a, _ in attempts], [node_id for _, node_id in attempts]])
        for attempt, job, node_id, stream, size in cursor.fetchall():
            found.setdefault(attempt, Stored(node_id, job, {})).sizes[stream] = size
    return found


TOPIC = "job-logs"
PAUSE_S = 0.2


class LogNotifier:
    """Notifies live pages of jobs with new log bytes: at most five times a second for each job and
    process. The first chunk after a silence is reported at once and the last of a burst always;
    however many jobs write, one thread sends the notifications of all of them in one round trip."""

    def __init__(self) -> None:
        self._due: set[UUID] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def notify(self, jobs: Iterable[UUID]) -> None:
        with self._lock:
            self._due.update(jobs)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="log-notifier", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                due, self._due = self._due, set()
            notifications.publish(
                {
                    notifications.topic_group(TOPIC, job): notifications.topic_changed(TOPIC, job)
                    for job in due
                }
            )
            time.sleep(PAUSE_S)


_sizes = Sizes()
_allowance = LogAllowance()
_notifier = LogNotifier()


def append(batches: Mapping[UUID, Sequence[LogFrame]]) -> dict[UUID, list[LogAck]]:
    """Store what nodes sent, by node, with as many statements for many nodes as for one. Return,
    by node, one acknowledgement for each stream named in its frames. A stream of an attempt that
    is not (or no longer) on the node is acknowledged unread, so that the node may forget it."""
    metrics.LOG_BYTES.inc(sum(len(frame.data) for sent in batches.values() for frame in sent))
    streams = {node_id: _by_stream(frames) for node_id, frames in batches.items()}
    known = _sizes.of({(a, node_id) for node_id, sent in streams.items() for a, _ in sent})
    acks: dict[UUID, list[LogAck]] = {node_id: [] for node_id in batches}
    waiting: dict[Stream, list[LogFrame]] = {}
    for node_id, sent in streams.items():
        for stream, held in sent.items():
            if stream[0] in known and known[stream[0]].node_id == node_id:
                waiting[stream] = held
            else:
                acks[node_id].append(_discard(held))
    for node_id, ack in _append(waiting, known):
        acks[node_id].append(ack)
    return acks


def _append(
    waiting: dict[Stream, list[LogFrame]], known: dict[UUID, Stored]
) -> list[tuple[UUID, LogAck]]:
    """Store the frames of attempts that are on the nodes that sent them. Return the
    acknowledgements, each with its node."""
    adding = {known[s[0]].job_id for s, held in waiting.items() if _adds(s, held, known)}
    over = _allowance.spent(adding)
    refused = {s: held for s, held in waiting.items() if known[s[0]].job_id in over}
    waiting = {s: held for s, held in waiting.items() if s not in refused}
    names = {stream: held[0].attempt_id for stream, held in waiting.items()}
    # A stream that is stored no further ends where it is.
    ended = {s for s, held in refused.items() if any(not frame.data for frame in held)}
    gaps: set[Stream] = set()
    try:
        _check_gaps(waiting, known)
        while waiting:
            for stream, tail in _append_once(waiting, known).items():
                ended |= {stream} if tail.ended else set()
                gaps |= {stream} if tail.gap else set()
        _store_ends(known, ended)
    except Exception:
        _sizes.forget(known)
        raise
    discarded = [(known[s[0]].node_id, _discard(held)) for s, held in refused.items()]
    return discarded + [
        (
            known[stream[0]].node_id,
            LogAck(
                attempt_id=name,
                stream=stream[1],
                offset=known[stream[0]].sizes[stream[1]],
                end=stream in ended,
                again=stream in gaps and stream not in ended,
            ),
        )
        for stream, name in names.items()
    ]


def _adds(stream: Stream, frames: list[LogFrame], known: Mapping[UUID, Stored]) -> bool:
    """Return whether frames do more than to end a stream where it is stored to."""
    size = known[stream[0]].sizes[stream[1]]
    return any(frame.data or frame.offset != size for frame in frames)


def positions(asked: Mapping[UUID, Iterable[str]]) -> dict[UUID, list[LogPosition]]:
    """Return, for each node, where to go on with the streams of those of its attempts that are on
    it. Reads the database: other processes may have stored more than this one remembers. One
    query, none where no attempt is asked for."""
    names = {
        (uuid, node_id): name
        for node_id, attempt_ids in asked.items()
        for name in attempt_ids
        if (uuid := parse_id(name))
    }
    found: dict[UUID, list[LogPosition]] = {node_id: [] for node_id in asked}
    for attempt, stored in (_sizes.read(names) if names else {}).items():
        name = names[attempt, stored.node_id]
        found[stored.node_id] += [
            LogPosition(attempt_id=name, stream=stream, offset=size)
            for stream, size in stored.sizes.items()
        ]
    return found


def parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _by_stream(frames: Iterable[LogFrame]) -> dict[Stream, list[LogFrame]]:
    unknown = UUID(int=0)
    streams: dict[Stream, list[LogFrame]] = {}
    for frame in frames:
        streams.setdefault((parse_id(frame.attempt_id) or unknown, frame.stream), []).append(frame)
    return streams


def _discard(frames: Sequence[LogFrame]) -> LogAck:
    last = max(frames, key=lambda frame: frame.offset + len(frame.data))
    return LogAck(
        attempt_id=last.attempt_id,
        stream=last.stream,
        offset=last.offset + len(last.data),
        end=any(not frame.data for frame in frames),
    )


def _check_gaps(waiting: Mapping[Stream, list[LogFrame]], known: dict[UUID, Stored]) -> None:
    """Read sizes again before a gap is reported: the missing bytes may have been stored by another
    process, and the node has forgotten them since."""
    doubtful = {
        attempt
        for (attempt, name), frames in waiting.items()
        if has_gap(known[attempt].sizes[name], frames)
    }
    if doubtful:
        known |= _sizes.read([(attempt, known[attempt].node_id) for attempt in doubtful])


def _append_once(
    waiting: dict[Stream, list[LogFrame]], known: dict[UUID, Stored]
) -> dict[Stream, Tail]:
    """Store one chunk per stream at most: of several behind a stale size only the first is sure to
    collide. Leaves in `waiting` what needs another round; returns what was folded and stored."""
    folded = {s: fold(known[s[0]].sizes[s[1]], frames) for s, frames in waiting.items()}
    grown = {stream: tail for stream, (tail, _) in folded.items() if tail.data}
    won = _store(grown, known) if grown else set()
    lost = grown.keys() - won
    for stream, (tail, left) in folded.items():
        if stream in lost:
            continue
        known[stream[0]].sizes[stream[1]] = tail.end
        if left:
            waiting[stream] = left
        else:
            del waiting[stream]
    if lost:
        known |= _sizes.read([(a, known[a].node_id) for a in {attempt for attempt, _ in lost}])
    return {stream: tail for stream, (tail, _) in folded.items() if stream not in lost}


# Chunk ids are the cursor of a job's merged log, so they must become visible in order: the lock,
# held to the statement's commit, makes the inserts of one job follow each other. `locked` is
# counted before the join gives its first row, and only then an id is drawn.
INSERT = """
WITH locked AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(1936418160, job) FROM unnest(%s::int[]) job
)
INSERT INTO telemetry_logchunk (job_id, attempt_id, stream, "offset", size, at, key, times_size)
SELECT v.* FROM (SELECT count(*) FROM locked) held,
       unnest(%s::uuid[], %s::uuid[], %s::text[], %s::bigint[], %s::int[],
              %s::timestamptz[], %s::text[], %s::int[]) v
ON CONFLICT (attempt_id, stream, "offset") DO NOTHING
RETURNING attempt_id, stream
"""


def _store(grown: Mapping[Stream, Tail], known: Mapping[UUID, Stored]) -> set[Stream]:
    """Store bytes first, then the rows that refer to them. Returns the streams whose insert won."""
    now = timezone.now()
    rows, chunks = [], []
    for (attempt, name), tail in grown.items():
        job, size = known[attempt].job_id, len(tail.data)
        at, times = index_of(tail, now)
        # With the size and the times in it, a key stands for the same bytes whoever writes it.
        key = f"{job}/{attempt}/{name}/{tail.size:015d}-{size}"
        key += f"-{crc32(times):08x}" if times else ""
        chunks.append((key, bytes(tail.data) + times))
        rows.append((job, attempt, name, tail.size, size, at, key, len(times)))
    store.save_chunks(chunks)
    jobs = {row[0] for row in rows}
    with connection.cursor() as cursor:
        locks = sorted(job.int & 0x7FFFFFFF for job in jobs)
        cursor.execute(INSERT, [locks, *map(list, zip(*rows, strict=True))])
        won = set(cursor.fetchall())
    stored: Counter[UUID] = Counter()
    for job, attempt, name, _, size, *_ in rows:
        stored[job] += size if (attempt, name) in won else 0
    _allowance.add(stored)
    _notifier.notify(jobs)
    return won


END = """
UPDATE jobs_taskattempt a SET log_sizes = a.log_sizes || v.sizes
  FROM unnest(%s::uuid[], %s::uuid[], %s::jsonb[]) v (id, node_id, sizes)
 WHERE a.id = v.id AND a.node_id = v.node_id AND NOT a.log_sizes @> v.sizes
RETURNING (SELECT j.diagnosing_at IS NOT NULL FROM jobs_job j WHERE j.id = a.job_id)
"""


def _store_ends(known: Mapping[UUID, Stored], ended: Iterable[Stream]) -> None:
    sizes: dict[UUID, dict[str, int]] = {}
    for attempt, name in ended:
        sizes.setdefault(attempt, {})[name] = known[attempt].sizes[name]
    if not sizes:
        return
    with connection.cursor() as cursor:
        nodes = [known[attempt].node_id for attempt in sizes]
        cursor.execute(END, [list(sizes), nodes, [json.dumps(s) for s in sizes.values()]])
        diagnosing = any(waits for (waits,) in cursor.fetchall())
    _notifier.notify({known[attempt].job_id for attempt in sizes})
    if diagnosing:
        notifications.notify_diagnosis()
