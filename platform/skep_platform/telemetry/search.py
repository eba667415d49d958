"""Looking for a literal text in a job's log, a bounded amount of work at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from skep_platform.core.errors import SkepError
from skep_platform.jobs.models import Job
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.queries import Chunk, Filter, chunk_rows
from skep_platform.telemetry.text import decode, read_chunk

MAX_CHUNKS = 500  # per request, as is
MAX_BYTES = 8 * 1024 * 1024
CONTEXT = 200  # bytes of its line shown on either side of a match


@dataclass(frozen=True, slots=True)
class Match:
    """The first occurrence in a line (in one chunk of it); `offset` is its place in the stream."""

    chunk: Chunk
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """`next` goes on where the search stopped; None when the end of the log was reached."""

    matches: list[Match]
    next: str | None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Go on in chunk `chunk` with matches that end after its first `skip` bytes."""

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


def search(job: Job, which: Filter, needle: bytes, cursor: Cursor, limit: int) -> Found:
    """Matches in order of arrival. A match that runs over a chunk's border is found in the chunk
    where it ends."""
    rows = chunk_rows(which.chunks(job).filter(id__gte=cursor.chunk).order_by("id"), MAX_CHUNKS + 1)
    before: dict[tuple[UUID, str], bytes] = {}
    matches: list[Match] = []
    read = 0
    for number, chunk in enumerate(rows):
        if number == MAX_CHUNKS or (number and read + chunk.size > MAX_BYTES):
            return Found(matches, str(Cursor(chunk.cursor)))
        stream = (chunk.attempt_id, chunk.stream)
        head = before[stream] if stream in before else _line_before(chunk)
        data = head + read_chunk(chunk.key, chunk.size)
        read += chunk.size
        skip = cursor.skip if chunk.cursor == cursor.chunk else 0
        for start in _occurrences(data, needle, len(head) + skip):
            offset = chunk.offset - len(head) + start
            matches.append(Match(chunk, offset, _line_around(data, start, len(needle))))
            if len(matches) == limit:
                done = start + len(needle) - len(head)
                return Found(matches, str(Cursor(chunk.cursor, _line_end(data, done, len(head)))))
        before[stream] = _unfinished(data)
    return Found(matches, None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19  # fits a bigint


def _occurrences(data: bytes, needle: bytes, after: int) -> Iterator[int]:
    """Starts of the needle where it ends past `after`, one for each line."""
    at = max(0, after - len(needle) + 1)
    while (at := data.find(needle, at)) >= 0:
        yield at
        newline = data.find(b"\n", at + len(needle))
        if newline < 0:
            return
        at = newline + 1


def _line_end(data: bytes, done: int, head: int) -> int:
    """Bytes of the chunk up to the end of the line in which the last match ended."""
    newline = data.find(b"\n", head + done)
    return (len(data) if newline < 0 else newline + 1) - head


def _line_around(data: bytes, start: int, length: int) -> str:
    line = data.rfind(b"\n", 0, start) + 1
    newline = data.find(b"\n", start)
    end = len(data) if newline < 0 else newline
    first, last = max(line, start - CONTEXT), min(end, start + length + CONTEXT)
    return decode(data[first:last], at_start=False)


def _line_before(chunk: Chunk) -> bytes:
    """The begun line that this chunk goes on with."""
    if chunk.offset == 0:
        return b""
    of_stream = LogChunk.objects.filter(attempt=chunk.attempt_id, stream=chunk.stream)
    previous = of_stream.filter(offset__lt=chunk.offset).order_by("-offset").first()
    return _unfinished(read_chunk(previous.key, previous.size)) if previous else b""


def _unfinished(data: bytes) -> bytes:
    """The end of a line that has no newline yet, no more of it than a match and its context."""
    return data[data.rfind(b"\n") + 1 :][-2 * CONTEXT :]
