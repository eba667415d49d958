"""A container's output from its first byte, whatever happens to the engine on the way.

Spoken directly over the socket: the engine sends one chunk for each line, and a general HTTP client
spends 10 times as long on those as the engine needs to make them.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter

from skep_agent.containers import RuntimeFailure
from skep_agent.protocol import Stream
from skep_agent.runtimes.base import LogPiece
from skep_agent.runtimes.docker_engine import Engine

READ_BYTES = 256 * 1024
RECONNECT_S = 0.5
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
# "2026-11-21T02:04:32.123456789Z " before each record.
_TIMESTAMP_BYTES = 31
_SECOND_BYTES = 19
_HEADER = struct.Struct(">BxxxI")

Record = tuple[Stream, bytes]  # with its timestamp


class BrokenStream(Exception):
    """The connection ended before the answer did."""


async def follow(
    engine: Engine, container_id: str, is_running: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[LogPiece]:
    """All output in order per stream; ends when the container is dead and all was read. Raises
    RuntimeFailure "container_gone" when it was removed before."""
    log = _Log(engine, container_id)
    dead = False  # already before the pass
    while True:
        try:
            async with aclosing(log.read()) as pieces:
                async for piece in pieces:
                    yield piece
            # A follower can lose the last lines that were written just before the end (the engine
            # then closes the answer as if it were whole), a reader of a dead container's log not.
            if dead or (not await is_running() and await log.is_whole()):
                return
            dead = not await is_running()
        except (BrokenStream, OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(RECONNECT_S)
        except RuntimeFailure as failure:
            if failure.code != "engine_down":
                raise
            await asyncio.sleep(RECONNECT_S)


class _Log:
    """Reads the log again and again from its start, and gives each byte once."""

    def __init__(self, engine: Engine, container_id: str) -> None:
        self._engine = engine
        self._path = f"/containers/{container_id}/logs?stdout=1&stderr=1&timestamps=1"
        self._given: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._last: Record | None = None

    async def read(self) -> AsyncGenerator[LogPiece]:
        lines = _Lines()
        seen: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._last = None
        async with aclosing(self._records("&follow=1")) as batches:
            async for records in batches:
                self._last = records[-1]
                for piece in lines.joined(records):
                    stream, size = piece.stream, len(piece.data)
                    given = self._given[stream] - seen[stream]
                    seen[stream] += size
                    if given < size:
                        self._given[stream] = seen[stream]
                        yield lines.after(piece, given) if given > 0 else piece

    async def is_whole(self) -> bool:
        """Whether the log's last record is the last that was read."""
        last: Record | None = None
        async with aclosing(self._records("&tail=1")) as batches:
            async for records in batches:
                last = records[-1]
        return last == self._last

    async def _records(self, more: str) -> AsyncGenerator[list[Record]]:
        """Yield the records of each piece that arrived. Raises BrokenStream unless the answer is
        whole."""
        path = await self._engine.path(self._path + more)
        reader, writer = await self._engine.connect(READ_BYTES)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: docker\r\n\r\n".encode())
            await _read_head(reader)
            chunked, framed, end = bytearray(), bytearray(), False
            while not end:
                if not (data := await reader.read(READ_BYTES)):
                    raise BrokenStream("closed in the middle")
                chunked += data
                end = _take_chunks(chunked, framed)
                if records := _take_records(framed):
                    yield records
        finally:
            writer.close()


class _Lines:
    """From records to the bytes that the task wrote, and the times of its lines.

    The engine cuts a line longer than 16 KiB into records that share a timestamp, and its "local"
    driver then forgets the newline after the last of them: it is put back before the next line.
    (The very last newline of a log that ends with such a line stays lost.)

    The engine stamps the records of stdout and stderr in two threads before it writes them down, so
    the stamps of neighbours may be some microseconds out of order; and a clock may be set back. The
    order in which the records stand is what counts: a time that does not rise is moved to one
    nanosecond after the one before.
    """

    def __init__(self) -> None:
        self._open: dict[Stream, bytes] = {}  # timestamp of the line that is not at its end
        self._at = 0  # of the newest line, nanoseconds since the epoch
        self._second = b""  # of the newest timestamp, and as nanoseconds since the epoch:
        self._second_at = 0

    def joined(self, records: list[Record]) -> list[LogPiece]:
        """Return the records' content, with neighbours of the same stream joined."""
        pieces = []
        for stream, group in groupby(records, key=itemgetter(0)):
            times: list[int] = []
            data = b"".join([self._content(stream, record, times) for _, record in group])
            pieces.append(LogPiece(stream, data, times))
        return pieces

    def after(self, piece: LogPiece, given: int) -> LogPiece:
        """Return the piece without its first bytes, which were given before."""
        data = piece.data[given:]
        starts = piece.data.count(b"\n", given - 1, len(piece.data) - 1)
        return LogPiece(piece.stream, data, piece.times[len(piece.times) - starts :])

    def _content(self, stream: Stream, record: bytes, times: list[int]) -> bytes:
        content = record[_TIMESTAMP_BYTES:]
        if not content:
            return content
        before = self._open.pop(stream, None)
        if not content.endswith(b"\n"):
            self._open[stream] = record[:_TIMESTAMP_BYTES]
        if before is None:
            times.append(self._time(record))
        elif not record.startswith(before):
            times.append(self._time(record))
            return b"\n" + content
        return content

    def _time(self, record: bytes) -> int:
        """Return a record's time in nanoseconds since the epoch. Runs for every line."""
        second = record[:_SECOND_BYTES]
        try:
            if second != self._second:
                at = datetime.fromisoformat(second.decode()).replace(tzinfo=UTC)
                self._second_at = int(at.timestamp()) * 1_000_000_000
                self._second = second
            at_ns = self._second_at + int(record[_SECOND_BYTES + 1 : _TIMESTAMP_BYTES - 2])
        except ValueError:  # no engine that we know
            at_ns = 0
        self._at = max(at_ns, self._at + 1)
        return self._at


async def _read_head(reader: asyncio.StreamReader) -> None:
    status = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
    if status == b"404":
        raise RuntimeFailure("container_gone", "Someone removed the container.")
    if status != b"200":
        raise BrokenStream(f"status {status.decode(errors='replace')}")


def _take_chunks(chunked: bytearray, framed: bytearray) -> bool:
    """Move the content of all whole HTTP chunks; True at the chunk that ends the answer."""
    start = 0
    while (line_end := chunked.find(b"\r\n", start)) >= 0:
        size = int(chunked[start:line_end], 16)
        if size == 0:
            return True
        end = line_end + 2 + size
        if len(chunked) < end + 2:
            break
        framed += chunked[line_end + 2 : end]
        start = end + 2
    del chunked[:start]
    return False


def _take_records(framed: bytearray) -> list[Record]:
    """Move all whole records of the engine's multiplexed stream."""
    records: list[Record] = []
    start = 0
    while len(framed) >= start + 8:
        kind, size = _HEADER.unpack_from(framed, start)
        end = start + 8 + size
        if len(framed) < end:
            break
        if kind not in _STREAMS:  # the engine's own error, in the place of a record
            raise BrokenStream(bytes(framed[start + 8 : end]).decode(errors="replace"))
        records.append((_STREAMS[kind], bytes(framed[start + 8 : end])))
        start = end
    del framed[:start]
    return records
