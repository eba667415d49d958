"""Looking for something in a job's log, a bounded time at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from skep_platform.core.errors import SkepError
from skep_platform.jobs.models import Job
from skep_platform.telemetry.begun import Begun, Part
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.patterns import Find
from skep_platform.telemetry.queries import COLUMNS, PLAIN, Chunk, Filter, stream_bytes
from skep_platform.telemetry.text import decode

BUDGET_S = 1.0  # per request; the chunk that was begun is still looked at
ROWS = 500  # chunks asked for at a time
AROUND = 200  # bytes of its line shown on either side of a match, as is
CONTEXT = 8 * 1024  # bytes in which the lines around a match are looked for


@dataclass(frozen=True, slots=True)
class Match:
    """The first match in a line. `offset` is its place in the stream, `begin` and `end` its place
    in `text`; `before` and `after` are the lines around."""

    chunk: Chunk
    offset: int
    text: str
    begin: int
    end: int
    before: list[str]
    after: list[str]


@dataclass(frozen=True, slots=True)
class Found:
    """`next` goes on where the search stopped; None when the end of the log was reached."""

    matches: list[Match]
    next: str | None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Go on in chunk `chunk` with lines that begin after its first `skip` bytes."""

    chunk: int = 0
    skip: int = 0

    @classmethod
    def parse(cls, text: str) -> Cursor:
        chunk, _, skip = (text or "0").partition(".")
        if not (_is_number(chunk) and _is_number(skip or "0")):
            raise SkepError("The cursor is not one that this search gave.", code="cursor_invalid")
        return cls(int(chunk), int(skip or 0))

    def __str__(self) -> str:
        return f"{self.chunk}.{self.skip}"


def search(
    job: Job, which: Filter, find: Find, cursor: Cursor, limit: int, around: int = 0
) -> Found:
    """At most `limit` matches, in order of arrival of the ends of their lines, with `around` lines
    before and after each."""
    until = time.monotonic() + BUDGET_S
    begun = Begun()
    matches: list[Match] = []
    for number, (chunk, newest) in enumerate(_chunks(job, which, cursor.chunk)):
        if number and time.monotonic() > until:
            return Found(matches, str(Cursor(chunk.cursor)))
        skip = cursor.skip if chunk.cursor == cursor.chunk else 0
        part = begun.take(chunk, newest)
        for hit in part.hits(find, skip):
            matches.append(_match(chunk, part, hit, around))
            if len(matches) == limit:
                return Found(matches, str(Cursor(chunk.cursor, part.done(hit))))
    return Found(matches, None)


def _chunks(job: Job, which: Filter, cursor: int) -> Iterator[tuple[Chunk, bool]]:
    """Chunks from `cursor` on, each with whether it is the newest of its stream."""
    follows = LogChunk.objects.filter(
        attempt=OuterRef("attempt"),
        stream=OuterRef("stream"),
        offset=OuterRef("offset") + OuterRef("size"),
    )
    full = True
    while full:
        found = which.chunks(job).filter(id__gte=cursor).order_by("id")
        rows = list(found.values(*PLAIN, **COLUMNS, newest=~Exists(follows))[:ROWS])
        for row in rows:
            newest = row.pop("newest")
            yield Chunk(**row), newest
            cursor = row["cursor"] + 1
        full = len(rows) == ROWS


def _match(chunk: Chunk, part: Part, hit: tuple[int, int], around: int) -> Match:
    data, (begin, end) = part.data, hit
    line = data.rfind(b"\n", 0, begin) + 1
    newline = data.find(b"\n", end)
    line_end = len(data) if newline < 0 else newline
    head = decode(data[max(line, begin - AROUND) : begin], at_start=False)
    found = decode(data[begin:end])
    tail = decode(data[end : min(line_end, end + AROUND)])
    return Match(
        chunk,
        chunk.offset - part.head + begin,
        head + found + tail,
        len(head),
        len(head) + len(found),
        _lines(_bytes(chunk, part, line - CONTEXT, line))[-around:] if around else [],
        _lines(_bytes(chunk, part, line_end + 1, line_end + CONTEXT))[:around],
    )


def _bytes(chunk: Chunk, part: Part, start: int, end: int) -> bytes:
    """Of the stream, counted from the beginning of the part's data; read from the store where they
    are not in it."""
    base = chunk.offset - part.head
    start = max(start, -base)
    if start >= 0 and end <= len(part.data):
        return part.data[start:end]
    return b"".join(stream_bytes(chunk.attempt_id, chunk.stream, base + start, base + end))


def _lines(data: bytes) -> list[str]:
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return [decode(line[: 2 * AROUND], at_start=False) for line in lines]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19  # fits a bigint
