"""Lines that run over the borders of chunks, while a search goes through a log.

A line is looked at in the chunk where it ends, when all of it is known. The begun lines of all
streams are carried from chunk to chunk; a new request reads them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.patterns import Find, line_matches
from skep_platform.telemetry.queries import Chunk
from skep_platform.telemetry.store import read_chunk

LONGEST_LINE = 64 * 1024  # bytes; of a longer one each such part is looked at by itself
OVERLAP = 512  # bytes of a part that the next part is looked at with: longer than a literal text
MAX_BEGUN = 16 * 1024 * 1024  # bytes of begun lines that are carried along

Stream = tuple[UUID, str]


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk behind the begun line that it goes on with (`head` bytes, of which matches up to
    `after` were told). Up to `end`, its lines are looked at now."""

    data: bytes
    head: int
    after: int
    end: int

    def hits(self, find: Find, skip: int) -> Iterator[tuple[int, int]]:
        start = self.head + skip if skip else 0
        if start >= self.end:
            return iter(())
        # The place behind the last newline is no line.
        end = self.end - self.data.endswith(b"\n", 0, self.end)
        return line_matches(self.data, find, start, end, self.after)

    def done(self, hit: tuple[int, int]) -> int:
        """Bytes of the chunk up to the end of the line with this match."""
        newline = self.data.find(b"\n", hit[1])
        return (len(self.data) if newline < 0 else newline + 1) - self.head


@dataclass(slots=True)
class Begun:
    """Lines that go on in later chunks, with the bytes of each that were looked at already."""

    lines: dict[Stream, tuple[bytes, int]] = field(default_factory=dict)
    size: int = 0

    def take(self, chunk: Chunk, newest: bool) -> Part:
        """The chunk with what it goes on with; remembers the line that goes on after it. The
        newest chunk of a stream is looked at whole: nobody knows whether its line goes on."""
        stream = (chunk.attempt_id, chunk.stream)
        carried = stream in self.lines
        head, after = self.lines.pop(stream) if carried else _line_before(chunk)
        self.size = max(0, self.size - len(head))
        data = head + read_chunk(chunk.key, chunk.size)
        begins = data.rfind(b"\n") + 1
        whole = newest or len(data) - begins > LONGEST_LINE
        rest = data[max(begins, len(data) - OVERLAP) if whole else begins :]
        self._keep(stream, rest, len(rest) if whole else 0)
        return Part(data, len(head), after, len(data) if whole else begins)

    def _keep(self, stream: Stream, rest: bytes, after: int) -> None:
        self.lines[stream] = rest, after
        self.size += len(rest)
        if self.size > MAX_BEGUN:
            self.lines.clear()  # they can be read again
            self.size = 0


def _line_before(chunk: Chunk) -> tuple[bytes, int]:
    """The begun line that this chunk goes on with, and how much of it was looked at: all, where it
    is longer than a line may be."""
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
