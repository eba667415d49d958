"""A container's output from its first byte, whatever happens to the engine on the way.

Read from the engine's own file where the agent can see it (`local_log`). The engine is asked where
it cannot, and also when anything about the file is not as expected: each byte is given once, and
the last record is compared with the one that the engine says is the last.

The engine is spoken to directly over the socket: it sends one chunk for each line, and a general
HTTP client spends 10 times as long on those as the engine needs to make them.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.frames import rises
from skep_agent.protocol import Stream
from skep_agent.runtimes.base import LogPiece
from skep_agent.runtimes.docker_engine import Engine
from skep_agent.runtimes.file_watches import FileWatches
from skep_agent.runtimes.local_log import LocalFile, Run

# Of the log of a dead container, in a row and without a new byte, until what was read is all.
BROKEN_READS = 30
READ_BYTES = 256 * 1024
_FILE = "local-logs/container.log"  # in a container's folder
RECONNECT_S = 0.5
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
# "2026-11-21T02:04:32.123456789Z " before each record.
_TIMESTAMP_BYTES = 31
_SECOND_BYTES = 19
_HEADER = struct.Struct(">BxxxI")

Record = tuple[Stream, bytes]  # with its timestamp
_Last = tuple[Stream, int, bytes]  # the time and the content of a record

log = structlog.get_logger(__name__)


class BrokenStream(Exception):
    """The connection ended before the answer did."""


class LogReader:
    """Reads the logs of an engine's containers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watches = FileWatches()
        self._root = ""  # where the engine keeps containers; "" before it was asked

    def close(self) -> None:
        """Wake no reader any more."""
        self._watches.close()

    async def follow(
        self, container_id: str, is_running: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[LogPiece]:
        """All output in order per stream; ends when the container is dead and all was read. Raises
        RuntimeFailure "container_gone" when it was removed before."""
        reading = _Log(self._engine, container_id)
        if path := await self._file_of(container_id):
            try:
                file = LocalFile(path, self._watches)
                async with aclosing(reading.read_file(file, is_running)) as pieces:
                    async for piece in pieces:
                        yield piece
                if await reading.is_whole():
                    return
                log.info("log_file_ends_early", container_id=container_id)
            except RuntimeFailure as failure:
                if failure.code != "engine_down":
                    raise
            except Exception:  # whatever is wrong with the file, the engine has the log
                log.warning("log_file_not_read", container_id=container_id, exc_info=True)
        async with aclosing(_follow_engine(reading, is_running)) as pieces:
            async for piece in pieces:
                yield piece

    async def _file_of(self, container_id: str) -> str:
        """Return the path of the container's log, "" where it is not to be seen from here."""
        if not self._engine.host.socket_path:
            return ""
        if not self._root:
            try:
                self._root = (await self._engine.call(lambda api: api.info()))["DockerRootDir"]
            except RuntimeFailure:
                return ""
        path = f"{self._root}/containers/{container_id}/{_FILE}"
        return path if os.access(path, os.R_OK) else ""


async def _follow_engine(
    reading: _Log, is_running: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[LogPiece]:
    dead = False  # already before the pass
    broken, given = 0, reading.given  # answers in a row that broke and brought nothing new
    while True:
        try:
            async with aclosing(reading.read()) as pieces:
                async for piece in pieces:
                    yield piece
            # A follower can lose the last lines that were written just before the end (the engine
            # then closes the answer as if it were whole), a reader of a dead container's log not.
            if dead or (not await is_running() and await reading.is_whole()):
                return
            dead = not await is_running()
        except BrokenStream as error:
            broken, given = broken + 1 if reading.given == given else 1, reading.given
            if broken >= BROKEN_READS and await _is_known_dead(is_running):
                # A disk damaged its file. Without an end the attempt would never be over.
                log.warning("log_damaged", container_id=reading.container_id, problem=str(error))
                return
            await asyncio.sleep(RECONNECT_S)
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(RECONNECT_S)
        except RuntimeFailure as failure:
            if failure.code != "engine_down":
                raise
            await asyncio.sleep(RECONNECT_S)


async def _is_known_dead(is_running: Callable[[], Awaitable[bool]]) -> bool:
    """Return whether an engine that answers says so."""
    try:
        return not await is_running()
    except RuntimeFailure as failure:
        if failure.code != "engine_down":
            raise
        return False


class _Log:
    """Reads the log again and again from its start, and gives each byte once."""

    def __init__(self, engine: Engine, container_id: str) -> None:
        self._engine = engine
        self.container_id = container_id
        self._path = f"/containers/{container_id}/logs?stdout=1&stderr=1&timestamps=1"
        self._given: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._last: _Last | None = None

    @property
    def given(self) -> int:
        """Return how many bytes were given."""
        return sum(self._given.values())

    async def read(self) -> AsyncGenerator[LogPiece]:
        """Read what the engine sends of it."""
        lines, seen = _Lines(), _nothing_seen()
        self._last = None
        async with aclosing(self._records("&follow=1")) as batches:
            async for records in batches:
                self._last = _last(records[-1])
                for piece in lines.joined(records):
                    if new := self._new(piece, seen):
                        yield new

    async def read_file(
        self, file: LocalFile, is_running: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[LogPiece]:
        """Read the engine's file, until the container is dead."""
        lines, seen = _Lines(), _nothing_seen()
        self._last = None

        async def is_over() -> bool:
            try:
                return not await is_running()
            except RuntimeFailure as failure:
                if failure.code != "engine_down":
                    raise
                return False  # an engine that starts again opens the file, or ends the container

        async with aclosing(file.runs(is_over)) as batches:
            async for runs in batches:
                stream, times, last, partial = runs[-1]
                self._last = stream, times[-1], last[-1] if partial else last[-1] + b"\n"
                for run in runs:
                    if new := self._new(lines.of_run(run), seen):
                        yield new

    async def is_whole(self) -> bool:
        """Whether the log's last record is the last that was read."""
        last: _Last | None = None
        async with aclosing(self._records("&tail=1")) as batches:
            async for records in batches:
                last = _last(records[-1])
        return last == self._last

    def _new(self, piece: LogPiece, seen: dict[Stream, int]) -> LogPiece | None:
        """Return of a piece what was not given before; `seen` counts what this reading saw."""
        stream, size = piece.stream, len(piece.data)
        given = self._given[stream] - seen[stream]
        seen[stream] += size
        if given >= size:
            return None
        self._given[stream] = seen[stream]
        return _after(piece, given) if given > 0 else piece

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
                while records := _take_records(framed):
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
        self._open: dict[Stream, int] = {}  # timestamp of the line that is not at its end
        self._at = 0  # of the newest line, nanoseconds since the epoch
        self._stamps = _Stamps()

    def joined(self, records: list[Record]) -> list[LogPiece]:
        """Return the records' content, with neighbours of the same stream joined."""
        pieces, stamp = [], self._stamps.read
        for stream, group in groupby(records, key=itemgetter(0)):
            times: list[int] = []
            contents = [
                self._content(stream, stamp(record), record[_TIMESTAMP_BYTES:], times)
                for _, record in group
            ]
            pieces.append(LogPiece(stream, b"".join(contents), times))
        return pieces

    def of_run(self, run: Run) -> LogPiece:
        """Return the same of records that were read from the engine's file."""
        stream, at, lines, partial = run
        times: list[int] = []
        if partial:
            return LogPiece(stream, self._content(stream, at[0], lines[0], times), times)
        if stream in self._open or at[0] <= self._at or not rises(at):
            contents = [
                self._content(stream, time, line + b"\n", times)
                for time, line in zip(at, lines, strict=True)
            ]
            return LogPiece(stream, b"".join(contents), times)
        self._at = at[-1]
        return LogPiece(stream, b"\n".join([*lines, b""]), at)

    def _content(self, stream: Stream, at: int, content: bytes, times: list[int]) -> bytes:
        if not content:
            return content
        before = self._open.pop(stream, None)
        if not content.endswith(b"\n"):
            self._open[stream] = at
        if before is None:
            times.append(self._rising(at))
        elif at != before:
            times.append(self._rising(at))
            return b"\n" + content
        return content

    def _rising(self, at: int) -> int:
        self._at = max(at, self._at + 1)
        return self._at


class _Stamps:
    """Reads the engine's timestamps."""

    def __init__(self) -> None:
        self._second = b""  # of the newest timestamp, and as nanoseconds since the epoch:
        self._second_at = 0

    def read(self, record: bytes) -> int:
        """Return a record's time in nanoseconds since the epoch. Runs for every line."""
        second = record[:_SECOND_BYTES]
        try:
            if second != self._second:
                at = datetime.fromisoformat(second.decode()).replace(tzinfo=UTC)
                self._second_at = int(at.timestamp()) * 1_000_000_000
                self._second = second
            return self._second_at + int(record[_SECOND_BYTES + 1 : _TIMESTAMP_BYTES - 2])
        except ValueError:  # no engine that we know
            return 0


def _nothing_seen() -> dict[Stream, int]:
    return {"stdout": 0, "stderr": 0}


def _last(record: Record) -> _Last:
    stream, content = record
    return stream, _Stamps().read(content), content[_TIMESTAMP_BYTES:]


def _after(piece: LogPiece, given: int) -> LogPiece:
    """Return the piece without its first bytes, which were given before."""
    data = piece.data[given:]
    starts = piece.data.count(b"\n", given - 1, len(piece.data) - 1)
    return LogPiece(piece.stream, data, piece.times[len(piece.times) - starts :])


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
    """Move all whole records of the engine's multiplexed stream, up to an error of the engine's:
    that is raised as BrokenStream once it is the first."""
    records: list[Record] = []
    start = 0
    while len(framed) >= start + 8:
        kind, size = _HEADER.unpack_from(framed, start)
        end = start + 8 + size
        if len(framed) < end:
            break
        if kind not in _STREAMS:  # the engine's own error, in the place of a record
            if records:
                break
            raise BrokenStream(bytes(framed[start + 8 : end]).decode(errors="replace"))
        records.append((_STREAMS[kind], bytes(framed[start + 8 : end])))
        start = end
    del framed[:start]
    return records
