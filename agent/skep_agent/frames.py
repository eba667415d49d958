"""The binary frames beside the protocol's JSON: bytes of logs, and of streams to a task."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, chain
from operator import sub

from skep_agent.protocol import MAX_LOG_BYTES, ProtocolError, Stream


class Channel(IntEnum):
    """The first byte of every binary frame of a stream; the rest is its payload. CONTROL carries
    JSON: {"resize": [rows, cols]}, {"eof": true} (no more input), and to the client, as the last
    one, {"exit": code} or {"error": {"code", "message"}}."""

    INPUT = 0  # to the process, or to the port
    OUTPUT = 1
    ERROR = 2
    CONTROL = 3


def count_segments(data: bytes | bytearray) -> int:
    """Return how many lines, whole or in part, `data` consists of."""
    return data.count(b"\n") + (not data.endswith(b"\n")) if data else 0


def rises(times: array[int]) -> bool:
    """Return whether each time is after the one before."""
    differences = _differences(times)
    return differences is not None and 0 not in differences


def encode_times(times: Sequence[int]) -> bytes:
    """Pack times (nanoseconds since the epoch) as their differences, each to the one before: 64-bit
    little-endian integers, deflated. Neighbouring lines cost two or three bytes each."""
    differences = _differences(times if isinstance(times, array) else array("q", times))
    if differences is None:
        differences = array("q", map(sub, times, chain((0,), times)))
    return zlib.compress(_little_endian(differences), 1)


def decode_times(packed: bytes, count: int) -> array[int]:
    """Unpack exactly `count` times, never decreasing. Raises ValueError for anything else, also for
    what would unpack to more."""
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, count * 8 + 1)
    except zlib.error as error:
        raise ValueError(f"times cannot be unpacked: {error}") from None
    if len(raw) != count * 8 or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"not the times of {count} lines")
    differences = _little_endian(array("q", raw))
    times = accumulate(differences)
    try:
        return array("q", times if min(differences, default=0) >= 0 else accumulate(times, max))
    except OverflowError:
        raise ValueError("a time is out of range") from None


def _differences(times: array[int]) -> array[int] | None:
    """Return the first time, and of each other one the difference to the one before; None if one of
    these is negative.

    The times are taken as the digits of one number, so that one subtraction does for all: some ten
    times as fast as one for each. A negative difference has its highest bit set.
    """
    raw = _little_endian(times).tobytes()
    difference = int.from_bytes(raw, "little") - int.from_bytes(bytes(8) + raw[:-8], "little")
    if difference < 0:
        return None
    raw = difference.to_bytes(len(raw), "little")
    return _little_endian(array("q", raw)) if raw[7::8].isascii() else None


def _little_endian(numbers: array[int]) -> array[int]:
    """Return numbers of this machine as little-endian ones, or the other way round."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


@dataclass(frozen=True, slots=True)
class LogFrame:
    """Log bytes: 4 bytes big-endian header length, a JSON header, the times of the lines where they
    are known, then the raw bytes. A frame without bytes marks the end of the stream: `offset` is
    its final size."""

    attempt_id: str
    stream: Stream
    offset: int
    at: float  # seconds since the epoch when the agent read the first byte
    data: bytes
    # Nanoseconds since the epoch of each line in `data` (see count_segments): when it was written.
    # A first line that began in an earlier frame has the time at which it began. Empty: not known.
    times: Sequence[int] = ()

    def encode(self) -> bytes:
        header = {"a": self.attempt_id, "s": self.stream, "o": self.offset, "t": self.at}
        times = encode_times(self.times) if self.times else b""
        if times:
            header["i"] = len(times)
        coded = json.dumps(header).encode()
        return struct.pack(">I", len(coded)) + coded + times + self.data

    def after(self, offset: int) -> LogFrame:
        """Return the rest of the frame from `offset` of the stream on."""
        skipped = offset - self.offset
        rest = self.data[skipped:]
        times = self.times[self.data.count(b"\n", 0, skipped) :] if rest else ()
        return LogFrame(self.attempt_id, self.stream, offset, self.at, rest, times)

    @classmethod
    def decode(cls, frame: bytes) -> LogFrame:
        """Raises ProtocolError for anything but a well-formed log frame."""
        try:
            (size,) = struct.unpack_from(">I", frame)
            if size > 1024:
                raise ValueError("header too large")
            header = json.loads(frame[4 : 4 + size])
            attempt_id, stream, offset = header["a"], header["s"], header["o"]
            at, index = float(header["t"]), header.get("i", 0)
            ok = (
                isinstance(attempt_id, str)
                and stream in ("stdout", "stderr")
                and type(offset) is int
                and offset >= 0
                and type(index) is int
                and 0 <= index <= len(frame) - 4 - size
            )
            if not ok:
                raise ValueError("bad header")
            data = frame[4 + size + index :]
            if len(data) > MAX_LOG_BYTES:
                raise ValueError("too many bytes")
            packed = frame[4 + size : 4 + size + index]
            times = decode_times(packed, count_segments(data)) if packed else ()
        except (
            struct.error,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise ProtocolError("log_frame_invalid", f"not a log frame: {error}") from None
        return cls(attempt_id, stream, offset, at, data, times)
