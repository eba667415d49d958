"""The newest output of a task attempt as one text: both streams, line by line, in the order in
which their chunks arrived. Memory is bounded by a chunk of each stream."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.queries import STREAMS
from skep_platform.telemetry.store import read_chunk

MAX_BYTES = 32 * 1024 * 1024  # of each stream; older ones are not read
MAX_CHUNKS = 2000  # of each stream: a trickling log has many small ones
MAX_LINE = 1024 * 1024  # a longer one is cut

Chunk = tuple[str, int, int, str]  # stream, offset, size, key


class Output:
    """Iterate once; `place` then tells where a line came from."""

    def __init__(self, attempt_id: UUID) -> None:
        self._attempt = attempt_id
        self._lines = 0  # given so far
        self._begun: dict[str, bytearray] = {}  # lines without their end, by stream
        self._number: dict[str, int | None] = {}  # lines of a stream; None: its begin is not read
        self._blocks: list[tuple[int, str, int | None]] = []  # first line here, and in its stream

    def __iter__(self) -> Iterator[bytes]:
        for stream, offset, size, key in _newest(self._attempt):
            data = read_chunk(key, size)
            begun = self._begun.get(stream)
            if begun is None:
                begun = self._begun[stream] = bytearray()
                self._number[stream] = 0 if offset == 0 else None
            end = data.rfind(b"\n") + 1
            if not end and len(begun) + len(data) > MAX_LINE:
                end = len(data)
            if end:
                yield self._give(stream, bytes(begun) + data[:end])
                begun.clear()
            begun += data[end:]
        for stream, begun in self._begun.items():
            if begun:
                yield self._give(stream, bytes(begun))

    def place(self, line: int) -> tuple[str, int]:
        """The stream of this line, counted from 1 as given here, and its number there (0: unknown,
        as the beginning of the stream was not read)."""
        held = [block for block in self._blocks if block[0] < line]
        if not held:
            return "", 0
        before, stream, number = held[-1]
        return stream, 0 if number is None else number + line - before

    def _give(self, stream: str, data: bytes) -> bytes:
        data = data if data.endswith(b"\n") else data + b"\n"
        count = data.count(b"\n")
        number = self._number[stream]
        self._blocks.append((self._lines, stream, number))
        self._lines += count
        self._number[stream] = None if number is None else number + count
        return data


def _newest(attempt_id: UUID) -> list[Chunk]:
    """Chunks in order of arrival."""
    found: list[tuple[int, Chunk]] = []
    for stream in STREAMS:
        rows = LogChunk.objects.filter(attempt=attempt_id, stream=stream).order_by("-offset")
        total = 0
        for pk, offset, size, key in rows.values_list("id", "offset", "size", "key")[:MAX_CHUNKS]:
            total += size
            if total > MAX_BYTES:
                break
            found.append((pk, (stream, offset, size, key)))
    return [chunk for _, chunk in sorted(found)]
