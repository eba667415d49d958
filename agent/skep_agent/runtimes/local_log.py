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
import sys
from array import array
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from functools import cache
from itertools import accumulate, groupby
from typing import NamedTuple

from skep_agent.protocol import Stream
from skep_agent.runtimes.file_watches import FileWatches

READ_BYTES = 256 * 1024
# What is written this soon after the last read is read together with what follows. To wake costs as
# much as some hundred lines, and many containers wake in turn.
PAUSE_S = 0.1
# Look whether the container has ended: this soon after the engine closed the file, then less and
# less often; and in any case.
LOOK_S, LOOK_AGAIN_S = 0.02, 60.0
MAX_RECORD_BYTES = 1_000_000  # the engine reads no longer ones either

_SIZE = struct.Struct(">I")
_NAMES: dict[bytes, Stream] = {b"stdout": "stdout", b"stderr": "stderr"}
# A usual record, behind its size: the source, whose last 4 bytes are a key of _WORDS; a time of 9
# bytes; a line, with its length in one or two bytes.
_SOURCE = b"\n\x06std"
_WORDS: dict[bytes, Stream] = {b"out\x10": "stdout", b"err\x10": "stderr"}
_TIME, _TAG, _LENGTH, _HEAD = 4, 13, 14, 16  # counted from the end of _SOURCE; of all but the line
_LINE = 0x1A
_NO_RECORD = b"out\x10" + b"\x80" * 8 + b"\0" * 4  # looks like one, to be skipped
_SIZES = 8  # bytes: of the record, again, and of the next one
_LANES = 4096  # numbers that are decoded together


class UnknownFormat(Exception):
    """Not what the known versions of the engine write."""


class Run(NamedTuple):
    """Neighbouring records of one stream: their times and what is in them. Whole lines come without
    their line ends; `partial` is one part of a line, which has none."""

    stream: Stream
    times: array[int]
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

    def take(self, data: bytes) -> list[Run]:
        """Return the records that are whole by now. Raises UnknownFormat."""
        data = self._rest + data if self._rest else data
        runs: list[Run] = []
        start = _take_usual(data, runs)
        while stop := _end_of_record(data, start):
            _append(runs, _record(data, start + 4, stop - 4))
            start = stop
        self._rest = data[start:]
        return runs


def _end_of_record(data: bytes, start: int) -> int:
    """Return where the record ends that begins at `start`; 0 if that is not here yet."""
    if start + 4 > len(data):
        return 0
    (size,) = _SIZE.unpack_from(data, start)
    if not 0 < size <= MAX_RECORD_BYTES:
        raise UnknownFormat("a record has no known size")
    stop = start + 4 + size
    if stop + 4 > len(data):
        return 0
    if _SIZE.unpack_from(data, stop)[0] != size:
        raise UnknownFormat("a record's two sizes differ")
    return stop + 4


def _append(runs: list[Run], run: Run) -> None:
    """Append a run, or extend the last one with it."""
    if runs and runs[-1].stream == run.stream and not runs[-1].partial and not run.partial:
        runs[-1].times.extend(run.times)
        runs[-1].lines.extend(run.lines)
    else:
        runs.append(run)


def _take_usual(data: bytes, runs: list[Run]) -> int:
    """Append the records that begin `data`, all but the last or as many as are usual, and return
    where the next one begins.

    To look at one record after the other costs several times as much as all else that is done with
    them. So `data` is cut at every _SOURCE, and each place of a record is looked at in all pieces
    together. A piece is a record if its line, by its length, ends where the sizes are that follow.
    Any other piece is decoded alone, and the pieces that begin within that record are skipped: a
    line that follows the length 10, the code of a line end, may look like a source.
    """
    first, *pieces = data.split(_SOURCE)
    if len(first) != 4 or len(pieces) < 2:
        return 0
    last = len(data) - len(pieces.pop()) - len(_SOURCE) - 4  # may not be whole
    heads = [piece[:_HEAD] for piece in pieces]
    odd = _odd(pieces, heads)
    for number in odd:
        heads[number] = _NO_RECORD
    head = b"".join(heads)
    times, streams = _times(head), _streams(head)
    if times is None or streams is None:
        return 0
    lines = _lines(pieces, head[_LENGTH::_HEAD])
    starts = list(_starts(pieces)) if odd else []
    at = 0
    for number in [*odd, len(pieces)]:
        for stream, same in groupby(streams[at:number]):
            stop = at + len(list(same))
            _append(runs, Run(stream, times[at:stop], lines[at:stop]))
            at = stop
        if at == number < len(pieces):
            if not (end := _end_of_record(data, starts[at])):
                return starts[at]
            _append(runs, _record(data, starts[at] + 4, end - 4))
            at = bisect_left(starts, end)
            if at == len(starts) or starts[at] != end:
                return end
    return last


def _starts(pieces: list[bytes]) -> Iterator[int]:
    """Return where the record of each piece begins, and the one after the last."""
    return accumulate((len(piece) + len(_SOURCE) for piece in pieces), initial=0)


def _odd(pieces: list[bytes], heads: list[bytes]) -> list[int]:
    """Return the numbers of the pieces that are not usual records."""
    head = b"".join(heads)
    if len(head) < _HEAD * len(pieces):
        head = b"".join([head.ljust(_HEAD, b"\0") for head in heads])
    tags, lengths = head[_TAG::_HEAD], head[_LENGTH::_HEAD]
    if lengths.isascii():  # each is one byte
        known = _LENGTH + 1 + _SIZES
        wanted = [known + length for length in lengths]
    else:
        known = _LENGTH + 2 + _SIZES
        wanted = [
            known + (length & 127 | more << 7 if length > 127 else length - 1)
            for length, more in zip(lengths, head[_LENGTH + 1 :: _HEAD], strict=True)
        ]
    sizes = list(map(len, pieces))
    if sizes == wanted and tags.count(_LINE) == len(tags):
        return []
    return [
        number
        for number, (size, want, tag) in enumerate(zip(sizes, wanted, tags, strict=True))
        if size != want or tag != _LINE
    ]


def _streams(head: bytes) -> list[Stream] | None:
    """Return the stream of each record; None if one has no known stream."""
    count = len(head) // _HEAD
    if all(head[i::_HEAD].count(head[i]) == count for i in range(4)):
        words = [head[:4]]  # most often all are of one
    else:
        words = [head[at : at + 4] for at in range(0, len(head), _HEAD)]
    if not _WORDS.keys() >= set(words):
        return None
    streams = [_WORDS[word] for word in words]
    return streams * count if len(words) == 1 else streams


def _lines(pieces: list[bytes], lengths: bytes) -> list[bytes]:
    if lengths.isascii():
        return [piece[_LENGTH + 1 : -_SIZES] for piece in pieces]
    return [
        piece[_LENGTH + 1 + (length > 127) : -_SIZES]
        for piece, length in zip(pieces, lengths, strict=True)
    ]


def _times(head: bytes) -> array[int] | None:
    """Decode the times of all records; None if one does not have 9 bytes."""
    times = array("q")
    for at in range(0, len(head), _LANES * _HEAD):
        some = head[at : at + _LANES * _HEAD]
        last = some[_TIME + 8 :: _HEAD]
        lanes = bytearray(8 * len(last))
        for i in range(8):
            lanes[i::8] = some[_TIME + i :: _HEAD]
        number, (more, *lower) = int.from_bytes(lanes, "little"), _masks()
        if (number & more).bit_count() < len(lanes) or not last.isascii():
            return None
        number &= ~more
        # 8 times 7 bits, then 4 times 14, 2 times 28 and 56 bits without gaps in each lane.
        for gap, mask in zip((1, 2, 4), lower, strict=True):
            low = number & mask
            number = low | (number ^ low) >> gap
        lanes[:] = number.to_bytes(len(lanes), "little")
        lanes[7::8] = last
        times.frombytes(lanes)
    if sys.byteorder == "big":
        times.byteswap()
    return times


@cache
def _masks() -> list[int]:
    """Return bits in each of 8 bytes, many times: those that say that another byte follows, and the
    lower halves of 2, 4 and 8 bytes."""
    halves = (b"\x80", b"\x7f\0", b"\xff\x3f\0\0", b"\xff\xff\xff\x0f\0\0\0\0")
    return [int.from_bytes(half * (_LANES * 8 // len(half)), "little") for half in halves]


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
    return Run(stream, array("q", [time]), [line], partial)


def _number(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Decode a number of protobuf; return it and where it ends."""
    value = shift = 0
    while at < stop and shift < 64:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at
    raise UnknownFormat("a number does not end")


async def _read(file: int, at: int) -> bytes:
    """Return bytes at an offset, none at the end. What is not in memory is read on a thread: a disk
    that hangs must not hold up the agent."""
    buffer = bytearray(READ_BYTES)
    try:
        size = os.preadv(file, [buffer], at, os.RWF_NOWAIT)
    except OSError:  # not in memory, or a file system that does not say
        return await asyncio.to_thread(os.pread, file, READ_BYTES, at)
    return bytes(memoryview(buffer)[:size])
