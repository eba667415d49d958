"""Storing log bytes, once each, whoever sends them how often.

Every chunk begins where the one before ends. Two processes that append to the same stream (the
node reconnected elsewhere) therefore collide on (attempt, stream, offset): one insert wins, the
other one learns the true size from the database and acknowledges that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from django.db import connection
from django.utils import timezone

from skep_agent.protocol import LogAck, LogFrame, LogPosition
from skep_agent.protocol import Stream as LogStream
from skep_platform.core import doorbells
from skep_platform.telemetry import bells, store
from skep_platform.telemetry.allowance import LogAllowance
from skep_platform.telemetry.frames import Tail, fold, has_gap, moment
from skep_platform.telemetry.sizes import Sizes, Stored

Stream = tuple[UUID, LogStream]

_sizes = Sizes()
_allowance = LogAllowance()


def append(node_id: UUID, frames: Sequence[LogFrame]) -> list[LogAck]:
    """Store frames of attempts on this node; one acknowledgement per stream named in them. A
    stream of an attempt that is not (or no longer) on the node is acknowledged unread, so that
    the node may forget it."""
    waiting = _by_stream(frames)
    known = _sizes.of(node_id, {attempt for attempt, _ in waiting})
    foreign = [held for (attempt, _), held in waiting.items() if attempt not in known]
    waiting = {stream: held for stream, held in waiting.items() if stream[0] in known}
    over = _allowance.spent({known[attempt].job_id for attempt, _ in waiting})
    refused = {s: held for s, held in waiting.items() if known[s[0]].job_id in over}
    waiting = {s: held for s, held in waiting.items() if s not in refused}
    names = {stream: held[0].attempt_id for stream, held in waiting.items()}
    # A stream that is stored no further ends where it is.
    ended = {s for s, held in refused.items() if any(not frame.data for frame in held)}
    gaps: set[Stream] = set()
    try:
        _check_gaps(node_id, waiting, known)
        while waiting:
            for stream, tail in _append_once(node_id, waiting, known).items():
                ended |= {stream} if tail.ended else set()
                gaps |= {stream} if tail.gap else set()
        _store_ends(node_id, known, ended)
    except Exception:
        _sizes.forget(known)
        raise
    return [_discard(held) for held in [*foreign, *refused.values()]] + [
        LogAck(
            attempt_id=name,
            stream=stream[1],
            offset=known[stream[0]].sizes[stream[1]],
            end=stream in ended,
            again=stream in gaps and stream not in ended,
        )
        for stream, name in names.items()
    ]


def positions(node_id: UUID, attempt_ids: Iterable[str]) -> list[LogPosition]:
    """Where to go on with the streams of these attempts, those of them that are on this node. Asks
    the database: other processes may have stored more than this one remembers."""
    names = {uuid: name for name in attempt_ids if (uuid := parse_id(name))}
    found = _sizes.read(node_id, names) if names else {}
    return [
        LogPosition(attempt_id=names[attempt], stream=stream, offset=size)
        for attempt, stored in found.items()
        for stream, size in stored.sizes.items()
    ]


def parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _by_stream(frames: Iterable[LogFrame]) -> dict[Stream, list[LogFrame]]:
    nobody = UUID(int=0)
    streams: dict[Stream, list[LogFrame]] = {}
    for frame in frames:
        streams.setdefault((parse_id(frame.attempt_id) or nobody, frame.stream), []).append(frame)
    return streams


def _discard(frames: Sequence[LogFrame]) -> LogAck:
    last = max(frames, key=lambda frame: frame.offset + len(frame.data))
    return LogAck(
        attempt_id=last.attempt_id,
        stream=last.stream,
        offset=last.offset + len(last.data),
        end=any(not frame.data for frame in frames),
    )


def _check_gaps(
    node_id: UUID, waiting: Mapping[Stream, list[LogFrame]], known: dict[UUID, Stored]
) -> None:
    """Before a gap is believed, the database is asked: the missing bytes may have been stored by
    another process, and the node has forgotten them since."""
    doubtful = {
        attempt
        for (attempt, name), frames in waiting.items()
        if has_gap(known[attempt].sizes[name], frames)
    }
    if doubtful:
        known |= _sizes.read(node_id, doubtful)


def _append_once(
    node_id: UUID, waiting: dict[Stream, list[LogFrame]], known: dict[UUID, Stored]
) -> dict[Stream, Tail]:
    """One chunk per stream at most: of several behind a stale size only the first is sure to
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
        known |= _sizes.read(node_id, {attempt for attempt, _ in lost})
    return {stream: tail for stream, (tail, _) in folded.items() if stream not in lost}


# Chunk ids are the cursor of a job's merged log, so they must become visible in order: the lock,
# held to the statement's commit, makes the inserts of one job follow each other. `locked` is
# counted before the join gives its first row, and only then an id is drawn.
INSERT = """
WITH locked AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(1936418160, job) FROM unnest(%s::int[]) job
)
INSERT INTO telemetry_logchunk (job_id, attempt_id, stream, "offset", size, at, key)
SELECT v.* FROM (SELECT count(*) FROM locked) held,
       unnest(%s::uuid[], %s::uuid[], %s::text[], %s::bigint[], %s::int[],
              %s::timestamptz[], %s::text[]) v
ON CONFLICT (attempt_id, stream, "offset") DO NOTHING
RETURNING attempt_id, stream
"""


def _store(grown: Mapping[Stream, Tail], known: Mapping[UUID, Stored]) -> set[Stream]:
    """Bytes first, then the rows that tell of them. Returns the streams whose insert won."""
    now = timezone.now()
    rows, chunks = [], []
    for (attempt, name), tail in grown.items():
        job, size = known[attempt].job_id, len(tail.data)
        # With the size in it, a key stands for the same bytes whoever writes it.
        key = f"{job}/{attempt}/{name}/{tail.size:015d}-{size}"
        chunks.append((key, bytes(tail.data)))
        rows.append((job, attempt, name, tail.size, size, moment(tail.at, now), key))
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
    bells.ring_logs(jobs)
    return won


END = """
UPDATE jobs_taskattempt a SET log_sizes = a.log_sizes || v.sizes
  FROM unnest(%s::uuid[], %s::jsonb[]) v (id, sizes)
 WHERE a.id = v.id AND a.node_id = %s AND NOT a.log_sizes @> v.sizes
RETURNING (SELECT j.diagnosing_at IS NOT NULL FROM jobs_job j WHERE j.id = a.job_id)
"""


def _store_ends(node_id: UUID, known: Mapping[UUID, Stored], ended: Iterable[Stream]) -> None:
    sizes: dict[UUID, dict[str, int]] = {}
    for attempt, name in ended:
        sizes.setdefault(attempt, {})[name] = known[attempt].sizes[name]
    if not sizes:
        return
    with connection.cursor() as cursor:
        cursor.execute(END, [list(sizes), [json.dumps(s) for s in sizes.values()], node_id])
        diagnosing = any(waits for (waits,) in cursor.fetchall())
    bells.ring_logs({known[attempt].job_id for attempt in sizes})
    if diagnosing:
        doorbells.ring_diagnosis()
