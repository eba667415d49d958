"""Search in a job's log, a bounded time per request.

A line is searched in the chunk where it ends, when all of it is known. The partial lines of all
streams are carried from chunk to chunk; a new request reads them again.

What is looked for is literal text, or a regular expression that takes linear time. Python's `re`
can be made to run for hours by a pattern of ten characters, and nothing can stop it; RE2 cannot
(https://github.com/google/re2/wiki/WhyRE2), at the price of look-around and back-references.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import re2
from django.db.models import Exists, OuterRef

from skep_platform.core.errors import SkepError
from skep_platform.jobs.models import Job
from skep_platform.telemetry.merged_lines import decode
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.queries import COLUMNS, PLAIN, Chunk, Filter, line_times, stream_bytes
from skep_platform.telemetry.store import read_chunk, read_chunk_and_times

MAX_PATTERN_MEMORY = 1024 * 1024  # bytes of a compiled pattern

# (data, from, to) -> where the first match begins and ends; None: there is none.
Find = Callable[[bytes, int, int], tuple[int, int] | None]


def finder(text: str, *, regex: bool, ignore_case: bool) -> Find:
    """Raises SkepError `regex_invalid`. A match never spans lines."""
    if not regex and not ignore_case:
        return _literal(text.encode())
    return _regex(text if regex else re2.escape(text), ignore_case)


def line_matches(
    data: bytes, find: Find, start: int, end: int, after: int = 0
) -> Iterator[tuple[int, int]]:
    """Find the first match of each line within data[start:end] that ends behind `after`."""
    at = start
    while at <= end and (hit := find(data, at, end)):
        if after and hit[1] <= after:
            at = hit[0] + 1
            continue
        yield hit
        newline = data.find(b"\n", hit[1], end)
        if newline < 0:
            return
        at = newline + 1


def _literal(needle: bytes) -> Find:
    def find(data: bytes, start: int, end: int) -> tuple[int, int] | None:
        at = data.find(needle, start, end)
        return (at, at + len(needle)) if at >= 0 else None

    return find


def _regex(text: str, ignore_case: bool) -> Find:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.never_nl = True
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY
    try:
        pattern = re2.compile(b"(?m)" + text.encode(), options)
    except re2.error as error:
        reason = error.args[0]
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise SkepError(
            f"This is no regular expression of RE2: {why}.", code="regex_invalid"
        ) from None

    def find(data: bytes, start: int, end: int) -> tuple[int, int] | None:
        match = pattern.search(data, start, end)
        return match.span() if match else None

    return find


BUDGET_S = 1.0  # per request; the chunk that it is at is still searched
ROWS = 500  # chunks asked for at a time
AROUND = 200  # bytes of its line shown on either side of a match, as is
CONTEXT = 8 * 1024  # bytes in which the lines around a match are looked for
LONGEST_LINE = 64 * 1024  # bytes; of a longer one each such part is looked at by itself
OVERLAP = 512  # bytes of a part that the next part is looked at with: longer than a literal text
MAX_PARTIAL = 16 * 1024 * 1024  # bytes of partial lines that are carried along

Stream = tuple[UUID, str]


@dataclass(frozen=True, slots=True)
class Match:
    """The first match in a line. `offset` is its place in the stream, `begin` and `end` its place
    in `text`; `before` and `after` are the lines around."""

    chunk: Chunk
    at: int  # when the line was written, nanoseconds since the epoch
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
class SearchCursor:
    """Go on in chunk `chunk` with lines that begin after its first `skip` bytes."""

    chunk: int = 0
    skip: int = 0

    @classmethod
    def parse(cls, text: str) -> SearchCursor:
        chunk, _, skip = (text or "0").partition(".")
        if not (_is_number(chunk) and _is_number(skip or "0")):
            raise SkepError("The cursor is not one that this search gave.", code="cursor_invalid")
        return cls(int(chunk), int(skip or 0))

    def __str__(self) -> str:
        return f"{self.chunk}.{self.skip}"


def search(
    job: Job, which: Filter, find: Find, cursor: SearchCursor, limit: int, around: int = 0
) -> Found:
    """Return at most `limit` matches, in order of arrival of the ends of their lines, with `around`
    lines before and after each."""
    until = time.monotonic() + BUDGET_S
    partial = PartialLines()
    matches: list[Match] = []
    for number, (chunk, newest) in enumerate(_chunks(job, which, cursor.chunk)):
        if number and time.monotonic() > until:
            return Found(matches, str(SearchCursor(chunk.cursor)))
        skip = cursor.skip if chunk.cursor == cursor.chunk else 0
        part = partial.take(chunk, newest)
        for hit in part.hits(find, skip):
            matches.append(_match(chunk, part, hit, around))
            if len(matches) == limit:
                return Found(matches, str(SearchCursor(chunk.cursor, part.done(hit))))
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


def _match(chunk: Chunk, part: ChunkPart, hit: tuple[int, int], around: int) -> Match:
    data, (begin, end) = part.data, hit
    line = data.rfind(b"\n", 0, begin) + 1
    newline = data.find(b"\n", end)
    line_end = len(data) if newline < 0 else newline
    head = decode(data[max(line, begin - AROUND) : begin], at_start=False)
    found = decode(data[begin:end])
    tail = decode(data[end : min(line_end, end + AROUND)])
    return Match(
        chunk,
        part.at(begin),
        chunk.offset - part.head + begin,
        head + found + tail,
        len(head),
        len(head) + len(found),
        _lines(_bytes(chunk, part, line - CONTEXT, line))[-around:] if around else [],
        _lines(_bytes(chunk, part, line_end + 1, line_end + CONTEXT))[:around],
    )


def _bytes(chunk: Chunk, part: ChunkPart, start: int, end: int) -> bytes:
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


@dataclass(slots=True)
class ChunkPart:
    """A chunk behind the partial line that it goes on with (`head` bytes, of which matches up to
    `after` were reported). Up to `end`, its lines are looked at now."""

    data: bytes
    head: int
    after: int
    end: int
    chunk: Chunk
    packed: bytes  # times of the lines of the chunk, see `line_times`
    times: Sequence[int] = ()  # the same, once asked for

    def hits(self, find: Find, skip: int) -> Iterator[tuple[int, int]]:
        start = self.head + skip if skip else 0
        if start >= self.end:
            return iter(())
        # The place behind the last newline is no line.
        end = self.end - self.data.endswith(b"\n", 0, self.end)
        return line_matches(self.data, find, start, end, self.after)

    def at(self, place: int) -> int:
        """Return when the line with this place was written: nanoseconds since the epoch."""
        if not self.times:
            self.times = line_times(self.chunk, self.data[self.head :], self.packed)
        return self.times[self.data.count(b"\n", self.head, max(place, self.head))]

    def done(self, hit: tuple[int, int]) -> int:
        """Return the bytes of the chunk up to the end of the line with this match."""
        newline = self.data.find(b"\n", hit[1])
        return (len(self.data) if newline < 0 else newline + 1) - self.head


@dataclass(slots=True)
class PartialLines:
    """Lines that go on in later chunks, with the bytes of each that were looked at already."""

    lines: dict[Stream, tuple[bytes, int]] = field(default_factory=dict)
    size: int = 0

    def take(self, chunk: Chunk, newest: bool) -> ChunkPart:
        """Return the chunk with what it goes on with, and remember the line that goes on after it.
        The newest chunk of a stream is looked at whole: whether its line goes on is not known
        yet."""
        stream = (chunk.attempt_id, chunk.stream)
        carried = stream in self.lines
        head, after = self.lines.pop(stream) if carried else _line_before(chunk)
        self.size = max(0, self.size - len(head))
        added, packed = read_chunk_and_times(chunk.key, chunk.size)
        data = head + added
        begins = data.rfind(b"\n") + 1
        whole = newest or len(data) - begins > LONGEST_LINE
        rest = data[max(begins, len(data) - OVERLAP) if whole else begins :]
        self._keep(stream, rest, len(rest) if whole else 0)
        return ChunkPart(data, len(head), after, len(data) if whole else begins, chunk, packed)

    def _keep(self, stream: Stream, rest: bytes, after: int) -> None:
        self.lines[stream] = rest, after
        self.size += len(rest)
        if self.size > MAX_PARTIAL:
            self.lines.clear()  # they can be read again
            self.size = 0


def _line_before(chunk: Chunk) -> tuple[bytes, int]:
    """Return the partial line that this chunk goes on with, and how much of it was looked at: all,
    where it is longer than a line may be."""
    line, offset = b"", chunk.offset
    of_stream = LogChunk.objects.filter(attempt=chunk.attempt_id, stream=chunk.stream)
    while offset and len(line) <= LONGEST_LINE:
        previous = of_stream.filter(offset__lt=offset).order_by("-offset").first()
        if previous is None:
            break
        data = read_chunk(previous.key, previous.size)
        begins = data.rfind(b"\n") + 1
        line, offset = data[begins:] + line, previous.offset
        if begins:
            break
    if len(line) <= LONGEST_LINE:
        return line, 0
    return line[-OVERLAP:], OVERLAP
