"""Whole lines out of the pieces of many streams, in constant memory. Pure."""

from __future__ import annotations

from collections.abc import Hashable

from skep_platform.telemetry.progress import last_state

LONGEST_LINE = 1024 * 1024  # bytes; a longer one is told in parts
MAX_BEGUN = 16 * 1024 * 1024  # bytes of begun lines of all streams


class Merger:
    """Joins pieces of streams so that lines of different streams never mix. What comes out of one
    stream alone, without prefixes, is exactly what went in."""

    def __init__(self, *, settled: bool = False) -> None:
        self._settled = settled  # progress bars as the last state of their line
        self._begun: dict[Hashable, tuple[bytes, bytearray]] = {}  # prefix and begun line
        self._size = 0  # bytes of them
        self._told: Hashable | None = None  # whose line is not ended in what came out

    def feed(self, stream: Hashable, prefix: bytes, data: bytes) -> bytes:
        """The lines that are whole with these bytes, each behind the prefix."""
        begun = self._begun.pop(stream, (prefix, bytearray()))[1]
        self._size -= len(begun)
        end = data.rfind(b"\n") + 1
        if len(data) - end + (0 if end else len(begun)) > LONGEST_LINE:
            end = len(data)
        if not end:
            begun += data
            self._keep(stream, prefix, begun)
            return self._relieve()
        told = self._tell(stream, prefix, bytes(begun) + data[:end] if begun else data[:end])
        if end < len(data):
            self._keep(stream, prefix, bytearray(data[end:]))
        return told + self._relieve()

    def end(self) -> bytes:
        """The lines that nobody ended."""
        begun, self._begun = self._begun, {}
        return b"".join(self._tell(s, prefix, bytes(rest)) for s, (prefix, rest) in begun.items())

    def _keep(self, stream: Hashable, prefix: bytes, begun: bytearray) -> None:
        if begun:
            self._begun[stream] = prefix, begun
            self._size += len(begun)

    def _relieve(self) -> bytes:
        """Tell the longest begun line as it is, when all of them together take too much memory."""
        if self._size <= MAX_BEGUN:
            return b""
        stream = max(self._begun, key=lambda s: len(self._begun[s][1]))
        prefix, rest = self._begun.pop(stream)
        self._size -= len(rest)
        return self._tell(stream, prefix, bytes(rest))

    def _tell(self, stream: Hashable, prefix: bytes, data: bytes) -> bytes:
        if not data:
            return b""
        goes_on = self._told == stream
        start = b"" if goes_on or self._told is None else b"\n"
        self._told = None if data.endswith(b"\n") else stream
        text = _settled(data) if self._settled else data
        if prefix:
            # Not behind the last newline: that line is not here.
            inside = text.count(b"\n") - text.endswith(b"\n")
            text = text.replace(b"\n", b"\n" + prefix, inside)
        return b"".join([start, b"" if goes_on else prefix, text])


def _settled(data: bytes) -> bytes:
    return b"\n".join(map(last_state, data.split(b"\n"))) if b"\r" in data else data
