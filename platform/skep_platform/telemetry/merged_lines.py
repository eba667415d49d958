"""Bytes of logs as text, and one log of many streams: ordered by the times of the lines, and no
line mixed with another. Pure, in bounded memory.

A progress bar writes over its line with carriage returns. A terminal then shows the last state of
the line: the text behind its last carriage return that has text behind it. Every reader follows
this one rule: REST, downloads, `skep logs` (`skep_client.loglines`) and the pages (`assemble.ts`);
tests/data/logs/progress.json holds cases for all of them. The bytes in the store stay as they were
written.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import accumulate, chain
from typing import Any, AnyStr, Generic, TypeVar


class Decoder:
    """UTF-8 text of one stream read chunk after chunk: a character cut by a chunk's border comes
    with the second chunk. What is not UTF-8 becomes U+FFFD."""

    def __init__(self, at_start: bool) -> None:
        self._codec: Any = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = not at_start  # the first bytes may be the rest of a character

    def decode(self, data: bytes, *, last: bool = False) -> str:
        if self._inside:
            data, self._inside = _skip_rest(data), False
        return self._codec.decode(data, last)


def decode(data: bytes, *, at_start: bool = True) -> str:
    return Decoder(at_start).decode(data, last=True)


def _skip_rest(data: bytes) -> bytes:
    rest = 0
    while rest < min(3, len(data)) and data[rest] & 0xC0 == 0x80:
        rest += 1
    return data[rest:]


def last_state(line: AnyStr) -> AnyStr:
    """Return the last state of a whole line without its newline. The `\\r` of a Windows line end
    goes, too."""
    mark: AnyStr = b"\r" if isinstance(line, bytes) else "\r"
    return line.rstrip(mark).rpartition(mark)[2]


def settle(text: str) -> str:
    """Return a piece of a stream with the last state of each line in it. What may write over a line
    that began before, or be written over later, keeps its mark, so that pieces can be settled
    alone: settle(settle(a) + settle(b)) == settle(a + b)."""
    if "\r" not in text:
        return text
    first, *others = text.split("\n")
    if not others:
        return _over(first) + _under(first)
    *whole, rest = others
    last = last_state(rest) + _under(rest)
    return "\n".join([_over(first), *map(last_state, whole), last])


def _over(line: str) -> str:
    """Return the rest of a line that began before."""
    return "\r" * ("\r" in line.rstrip("\r")) + last_state(line)


def _under(line: str) -> str:
    """The mark that makes what comes later begin anew."""
    return "\r" * line.endswith("\r")


LONGEST_LINE = 1024 * 1024  # bytes; a longer one is written in parts
MAX_PARTIAL = 16 * 1024 * 1024  # bytes of partial lines of all streams
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEWLINE = re.compile(b"\n")

S = TypeVar("S")


@dataclass(slots=True)
class LineRun(Generic[S]):
    """Consecutive lines of one chunk: `data` begins at byte `start` of it, and `times` has the
    nanoseconds since the epoch of each of its lines."""

    source: S
    start: int
    data: bytes
    times: Sequence[int]

    def last(self, lines: int) -> LineRun[S]:
        """Return its last lines."""
        if lines >= len(self.times):
            return self
        begin = len(self.data)
        if lines:
            for _ in range(lines + self.data.endswith(b"\n")):
                begin = self.data.rfind(b"\n", 0, begin)
            begin += 1
        times = self.times[len(self.times) - lines :]
        return LineRun(self.source, self.start + begin, self.data[begin:], times)


class TimeOrder(Generic[S]):
    """Sorts the lines of chunks by time. The chunks of a stream are added in the order of their
    offsets, and its lines stay in their order whatever their times say. Equal times keep the order
    of the chunks' cursors.

    `take(keep)` leaves the newest `keep` bytes for the chunks that are added later: that far apart
    streams may arrive and are sorted nevertheless.
    """

    def __init__(self) -> None:
        self._streams: dict[Hashable, deque[_Held[S]]] = {}
        self._newest: dict[Hashable, int] = {}  # time of the newest line of each stream
        # The next line of each stream that has some: time, cursor, stream.
        self._next: list[tuple[int, int, Hashable]] = []
        self._size = 0

    def add(
        self, stream: Hashable, cursor: int, source: S, data: bytes, times: Sequence[int]
    ) -> None:
        """Add a chunk; `times` are those of its lines (see `count_segments` of the protocol)."""
        if not data:
            return
        newest = self._newest.get(stream, times[0])
        # In most cases they rise already; it costs as much to look.
        rising = array("q", accumulate(chain((newest,), times), max))[1:]
        self._newest[stream] = rising[-1]
        held = self._streams.setdefault(stream, deque())
        if not held:
            heappush(self._next, (rising[0], cursor, stream))
        held.append(_Held(cursor, source, data, rising))
        self._size += len(data)

    def take(self, keep: int = 0) -> Iterator[LineRun[S]]:
        """Give the oldest lines, until at most `keep` bytes are left."""
        while self._next and self._size > keep:
            _, cursor, stream = heappop(self._next)
            chunks = self._streams[stream]
            held = chunks[0]
            if self._next:
                at, other, _ = self._next[0]
                cut = bisect_right if cursor < other else bisect_left
                end = max(cut(held.times, at, held.line), held.line + 1)
            else:
                end = len(held.times)
            piece = held.take(end)
            self._size -= len(piece.data)
            if held.line == len(held.times):
                chunks.popleft()
            if chunks:
                first = chunks[0]
                heappush(self._next, (first.times[first.line], first.cursor, stream))
            else:
                del self._streams[stream]
            yield piece


@dataclass(slots=True)
class _Held(Generic[S]):
    cursor: int
    source: S
    data: bytes
    times: array[int]
    line: int = 0  # the first that is not taken, and where it begins
    start: int = 0
    ends: array[int] | None = None  # of its lines; only of a chunk that is taken in parts

    def take(self, end: int) -> LineRun[S]:
        """Lines up to `end`, which is not among them."""
        start, times = self.start, self.times[self.line : end]
        if end == len(self.times):
            stop = len(self.data)
        else:
            if self.ends is None:
                self.ends = array("I", (match.end() for match in NEWLINE.finditer(self.data)))
            stop = self.ends[end - 1]
        self.line, self.start = end, stop
        return LineRun(self.source, start, self.data[start:stop], times)


Format = Callable[[bytes, int], bytes]  # a whole line without its end, and its time


def as_text(prefix: str) -> Format:
    """Return what writes a line behind the prefix and its time."""

    def write(line: bytes, at: int) -> bytes:
        return f"{prefix}{format_time(at)} ".encode() + line + b"\n"

    return write


def as_json(role: str, index: int, rank: int, stream: str) -> Format:
    """Return what writes a line as a JSON object, with what is not UTF-8 as U+FFFD."""
    fields = {"role": role, "index": index, "rank": rank, "stream": stream}

    def write(line: bytes, at: int) -> bytes:
        text = line.decode(errors="replace")
        return json.dumps({"at": format_time(at), **fields, "text": text}).encode() + b"\n"

    return write


def format_time(at: int) -> str:
    """Return nanoseconds since the epoch as ISO 8601 with microseconds, in UTC."""
    return f"{to_datetime(at):%Y-%m-%dT%H:%M:%S.%fZ}"


def to_datetime(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at // 1000)


def to_ns(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1) * 1000


class LineWriter:
    """Writes whole lines one by one, each with the time at which it began."""

    def __init__(self, *, settled: bool = False) -> None:
        self._settled = settled  # progress bars as the last state of their line
        self._partial: dict[Hashable, tuple[Format, int, bytearray]] = {}
        self._size = 0  # bytes of partial lines

    def feed(self, stream: Hashable, write: Format, data: bytes, times: Sequence[int]) -> bytes:
        """Return the lines that are whole with these."""
        *whole, rest = data.split(b"\n")
        written = []
        for number, line in enumerate(whole):
            partial = None if number else self._partial.pop(stream, None)
            if partial:
                self._size -= len(partial[2])
                written.append(self._written(write, bytes(partial[2]) + line, partial[1]))
            else:
                written.append(self._written(write, line, times[number]))
        if rest:
            partial = self._partial.setdefault(stream, (write, times[-1], bytearray()))
            partial[2].extend(rest)
            self._size += len(rest)
            if len(partial[2]) > LONGEST_LINE:
                written.append(self._break(stream))
        while self._size > MAX_PARTIAL:
            written.append(self._break(max(self._partial, key=lambda s: len(self._partial[s][2]))))
        return b"".join(written)

    def end(self) -> bytes:
        """Return the lines that never ended."""
        return b"".join([self._break(stream) for stream in list(self._partial)])

    def _break(self, stream: Hashable) -> bytes:
        write, at, line = self._partial.pop(stream)
        self._size -= len(line)
        return self._written(write, bytes(line), at)

    def _written(self, write: Format, line: bytes, at: int) -> bytes:
        return write(last_state(line) if self._settled else line, at)


class Merger:
    """Joins pieces of streams so that lines of different streams never mix. What comes out of one
    stream alone, without prefixes, is exactly what went in."""

    def __init__(self, *, settled: bool = False) -> None:
        self._settled = settled  # progress bars as the last state of their line
        self._partial: dict[Hashable, tuple[bytes, bytearray]] = {}  # prefix and partial line
        self._size = 0  # bytes of them
        self._open_stream: Hashable | None = None  # whose line is not ended in what came out

    def feed(self, stream: Hashable, prefix: bytes, data: bytes) -> bytes:
        """Return the lines that are whole with these bytes, each behind the prefix."""
        partial = self._partial.pop(stream, (prefix, bytearray()))[1]
        self._size -= len(partial)
        end = data.rfind(b"\n") + 1
        if len(data) - end + (0 if end else len(partial)) > LONGEST_LINE:
            end = len(data)
        if not end:
            partial += data
            self._keep(stream, prefix, partial)
            return self._relieve()
        written = self._write(
            stream, prefix, bytes(partial) + data[:end] if partial else data[:end]
        )
        if end < len(data):
            self._keep(stream, prefix, bytearray(data[end:]))
        return written + self._relieve()

    def end(self) -> bytes:
        """Return the lines that never ended."""
        partial, self._partial = self._partial, {}
        return b"".join(
            self._write(s, prefix, bytes(rest)) for s, (prefix, rest) in partial.items()
        )

    def _keep(self, stream: Hashable, prefix: bytes, partial: bytearray) -> None:
        if partial:
            self._partial[stream] = prefix, partial
            self._size += len(partial)

    def _relieve(self) -> bytes:
        """Write the longest partial line as it is when all of them take too much memory."""
        if self._size <= MAX_PARTIAL:
            return b""
        stream = max(self._partial, key=lambda s: len(self._partial[s][1]))
        prefix, rest = self._partial.pop(stream)
        self._size -= len(rest)
        return self._write(stream, prefix, bytes(rest))

    def _write(self, stream: Hashable, prefix: bytes, data: bytes) -> bytes:
        if not data:
            return b""
        goes_on = self._open_stream == stream
        start = b"" if goes_on or self._open_stream is None else b"\n"
        self._open_stream = None if data.endswith(b"\n") else stream
        text = _settled(data) if self._settled else data
        if prefix:
            # Not behind the last newline: that line is not here.
            inside = text.count(b"\n") - text.endswith(b"\n")
            text = text.replace(b"\n", b"\n" + prefix, inside)
        return b"".join([start, b"" if goes_on else prefix, text])


def _settled(data: bytes) -> bytes:
    return b"\n".join(map(last_state, data.split(b"\n"))) if b"\r" in data else data
