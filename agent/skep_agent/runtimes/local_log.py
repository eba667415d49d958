"""The file in which the engine's log driver "local" keeps a container's output, read directly.

The engine spends 6 s of CPU time on a million lines that it sends to a follower: it decodes each
record, writes its time as text and makes an HTTP chunk of it. Here the same records cost less than
1 s. The file is the engine's own matter, so nothing is taken for granted: whatever is not exactly
as Docker 18.09 and later write it raises `UnknownFormat`, and the engine is asked instead.

A record is its size (4 bytes, big-endian), a protobuf message, and the size again. The message:
1 source, 2 time in nanoseconds since the epoch, 3 the line without its line end, 4 whether it is a
part of a longer line, and 5 which part.
"""

from __future__ import annotations

import asyncio
import os
import struct
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from typing import NamedTuple

from skep_agent.protocol import Stream
from skep_agent.runtimes.file_watches import FileWatches

READ_BYTES = 256 * 1024
# What is written this soon after the last read is read together with what follows.
PAUSE_S = 0.02
# Look whether the container has ended: this soon after the engine closed the file, then less and
# less often; and in any case.
LOOK_S, LOOK_AGAIN_S = 0.02, 60.0
MAX_RECORD_BYTES = 1_000_000  # the engine reads no longer ones either

_SIZE = struct.Struct(">I")
# The usual record up to the length of its line: size, source, a time of 9 bytes, and a length of
# one byte.
_USUAL = struct.Struct(">I9sHH5sBB")
_USUAL_BYTES = 20  # of a message besides the line
_SOURCES: dict[bytes, Stream] = {b"\n\x06stdout\x10": "stdout", b"\n\x06stderr\x10": "stderr"}
_NAMES: dict[bytes, Stream] = {b"stdout": "stdout", b"stderr": "stderr"}
_LINE = 0x1A
_MORE = 0x8080  # the bit of two bytes of a number that says that another byte follows


class UnknownFormat(Exception):
    """Not what the known versions of the engine write."""


class Run(NamedTuple):
    """Neighbouring records of one stream: their times and what is in them. Whole lines come without
    their line ends; `partial` is one part of a line, which has none."""

    stream: Stream
    times: list[int]
    lines: list[bytes]
    partial: bool = False


class LocalFile:
    """Raises OSError and UnknownFormat while it is read."""

    def __init__(self, path: str, watches: FileWatches) -> None:
        self._path = path
        self._watches = watches
        self._sign = asyncio.Event()
        self._closed = False
        self._look_s = LOOK_AGAIN_S

    async def runs(self, is_over: Callable[[], Awaitable[bool]]) -> AsyncGenerator[list[Run]]:
        """Yield what is in the file and then what comes, until it was read to its end after
        `is_over`."""
        parser, at, due, over = Parser(), 0, True, False
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._watches.closes(os.path.dirname(self._path), self._on_close)
            while True:
                self._sign.clear()
                self._watches.next_write(self._path, self._on_write)
                while data := await _read(file, at):
                    at += len(data)
                    if runs := parser.take(data):
                        yield runs
                    await asyncio.sleep(0)  # others have their turn
                if over:
                    return
                if due:
                    over = await is_over()
                    self._look_s = min(2 * self._look_s, LOOK_AGAIN_S)
                due = not over and await self._wait()
        finally:
            self._watches.forget(self._on_write, self._on_close)
            os.close(file)

    async def _wait(self) -> bool:
        """Wait for something to read; True when the container may have ended."""
        loop = asyncio.get_running_loop()
        read_at = loop.time()
        try:
            async with asyncio.timeout(self._look_s):
                await self._sign.wait()
        except TimeoutError:
            return True
        await asyncio.sleep(max(read_at + PAUSE_S - loop.time(), 0))
        return self._closed

    def _on_write(self) -> None:
        self._closed, self._look_s = False, LOOK_AGAIN_S
        self._sign.set()

    def _on_close(self) -> None:
        # The container ended, or the engine did, and opens the file again.
        self._closed, self._look_s = True, LOOK_S
        self._sign.set()


class Parser:
    """Makes records of the bytes of the file, in whatever pieces they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._top = b""  # the upper bytes of the newest time, and what they stand for
        self._high = 0

    def take(self, data: bytes) -> list[Run]:
        """Return the records that are whole by now. Raises UnknownFormat. Runs for every line."""
        data = self._rest + data if self._rest else data
        runs: list[Run] = []
        times: list[int] = []
        lines: list[bytes] = []
        current = b""
        start, end, low_bits, high = 0, len(data), _low_bits(), self._high
        unpack, size_of = _USUAL.unpack_from, _SIZE.unpack_from
        while start + _USUAL.size <= end:
            size, source, low, mid, top, tag, length = unpack(data, start)
            stop = start + size + 4
            if stop + 4 > end or size > MAX_RECORD_BYTES:
                break
            if size_of(data, stop)[0] != size:
                raise UnknownFormat("a record's two sizes differ")
            first = start + _USUAL.size
            if length > 127 and data[first] < 128:  # a length of two bytes
                length += (data[first] << 7) - 127
                first += 1
            if (
                tag == _LINE
                and length == size - _USUAL_BYTES
                and low & mid & _MORE == _MORE
                and source in _SOURCES
            ):
                if source != current:
                    times, lines, current = [], [], source
                    runs.append(Run(_SOURCES[source], times, lines))
                if top != self._top:  # every quarter of a second
                    high = self._high = _high_bits(top)
                    self._top = top
                times.append(low_bits[low] + (low_bits[mid] << 14) + high)
                lines.append(data[first:stop])
            else:
                runs.append(_record(data, start + 4, stop))
                current = b""
            start = stop + 4
        self._rest = data[start:]
        if len(self._rest) >= 4 and not 0 < size_of(self._rest)[0] <= MAX_RECORD_BYTES:
            raise UnknownFormat("a record has no known size")
        return runs


def _record(data: bytes, at: int, stop: int) -> Run:
    """Decode any message that the engine writes."""
    stream: Stream | None = None
    time, line, partial = 0, b"", False
    while at < stop:
        tag, (value, at) = data[at], _number(data, at + 1, stop)
        content = b""
        if tag & 7 == 2:
            content, at = data[at : at + value], at + value
        if at > stop:
            raise UnknownFormat("a field is longer than its record")
        match tag:
            case 0x0A:
                stream = _NAMES.get(content)
            case 0x10:
                time = value
            case 0x1A:
                line = content
            case 0x20:
                partial = bool(value)
            case 0x2A:
                pass
            case _:
                raise UnknownFormat(f"a record has a field {tag:#x}")
    if stream is None:
        raise UnknownFormat("a record of no known stream")
    return Run(stream, [time], [line], partial)


def _number(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Decode a number of protobuf; return it and where it ends."""
    value = shift = 0
    while at < stop and shift < 64:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at
    raise UnknownFormat("a number does not end")


def _high_bits(top: bytes) -> int:
    value, end = _number(top, 0, len(top))
    if end != len(top):
        raise UnknownFormat("a time ends early")
    return value << 28


@cache
def _low_bits() -> array[int]:
    """Return what two bytes of a number stand for, by their value as one big-endian number."""
    return array("H", [(two >> 8 & 127) | (two & 127) << 7 for two in range(1 << 16)])


async def _read(file: int, at: int) -> bytes:
    """Return bytes at an offset, none at the end. What is not in memory is read on a thread: a disk
    that hangs must not hold up the agent."""
    buffer = bytearray(READ_BYTES)
    try:
        size = os.preadv(file, [buffer], at, os.RWF_NOWAIT)
    except OSError:  # not in memory, or a file system that does not say
        return await asyncio.to_thread(os.pread, file, READ_BYTES, at)
    return bytes(memoryview(buffer)[:size])
