"""One stream of one attempt's log between its reader and the server: no byte lost or doubled.

The reader always begins at the container's first byte, however often it begins anew; the server
says how far it has stored. What lies between is cut into frames, and kept until acknowledged.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

from skep_agent.frames import LogFrame
from skep_agent.protocol import MAX_LOG_BYTES, Stream


def count_line_starts(data: bytes, inside: bool) -> int:
    """Return how many lines begin in `data`; `inside`: its first byte goes on with a line."""
    return data.count(b"\n", 0, len(data) - 1) + (not inside) if data else 0


class LineTimes:
    """Keeps the times of lines beside a mask, which holds bytes back and may cover the end of a
    line: those lines are one then, with the time of the first."""

    def __init__(self) -> None:
        self._starts: deque[tuple[int, int]] = deque()  # offset and time of lines not yet taken
        self._read = self._taken = 0  # bytes of the stream before the mask, and behind it
        self._inside = self._taken_inside = False

    def through(self, data: bytes, covered: bytes, times: Sequence[int]) -> Sequence[int]:
        """Note that `data`, in which lines with these times begin, went into the mask and `covered`
        came out; return the times of the lines that begin in that."""
        if covered == data and self._read == self._taken:  # most often: no need to look at lines
            self._starts.clear()
            self._read += len(data)
            self._taken = self._read
            self._inside = self._taken_inside = not data.endswith(b"\n") if data else self._inside
            return times
        self.put(data, times)
        return self.take(covered)

    def put(self, data: bytes, times: Sequence[int]) -> None:
        """Note what goes into the mask: bytes, and the times of the lines that begin in them."""
        starts = _line_starts(data, self._inside)
        if len(starts) == len(times):
            self._starts.extend(
                (self._read + start, at) for start, at in zip(starts, times, strict=True)
            )
        self._read += len(data)
        self._inside = not data.endswith(b"\n") if data else self._inside

    def take(self, data: bytes) -> list[int]:
        """Return the times of the lines that begin in what comes out of the mask; fewer than there
        are lines where some are not known."""
        times = []
        for start in _line_starts(data, self._taken_inside):
            offset = self._taken + start
            while self._starts and self._starts[0][0] < offset:
                self._starts.popleft()
            if self._starts and self._starts[0][0] == offset:
                times.append(self._starts.popleft()[1])
        self._taken += len(data)
        self._taken_inside = not data.endswith(b"\n") if data else self._taken_inside
        return times


def _line_starts(data: bytes, inside: bool) -> list[int]:
    starts = [] if inside or not data else [0]
    at = data.find(b"\n") + 1
    while 0 < at < len(data):
        starts.append(at)
        at = data.find(b"\n", at) + 1
    return starts


class LogStream:
    """Offsets count the stream's bytes: acked ≤ sent ≤ cut ≤ read."""

    def __init__(self, attempt_id: str, stream: Stream) -> None:
        self.attempt_id = attempt_id
        self.stream: Stream = stream
        self.acked = 0  # the server has all before it
        self.sent = 0  # on this connection
        self.read = 0  # taken from the reader, or known to be with the server
        self.ended = False  # the reader will bring nothing more
        self.drained = False  # the server knows the final size
        self.held = False  # nothing is sent before `resume`
        self._cursor = 0  # where the present reader is
        self._inside = False  # the byte before it does not end a line
        self._frames: deque[LogFrame] = deque()  # cut and unacknowledged, in order, without gaps
        self._unsent = 0  # how many frames at the end of `_frames` are not yet sent
        self._parts: list[bytes] = []  # not yet cut
        self._parts_size = 0
        self._parts_at = 0.0
        self._times = array("q")  # of the lines that begin in `_parts`
        self._line_at = 0  # time of the newest line that was read
        self._open: int | None = None  # time of the line that `_parts` goes on with, if it does
        self._end_sent = False

    @property
    def buffered(self) -> int:
        """Return the number of bytes in memory."""
        return self.read - self.acked

    @property
    def unacked(self) -> int:
        """Return the number of bytes that were sent and not acknowledged."""
        return self.sent - self.acked

    @property
    def uncut(self) -> int:
        return self._parts_size

    @property
    def ready(self) -> bool:
        """`next_frame` has something."""
        end_due = self.ended and not self._parts and not self._end_sent and not self.drained
        return not self.held and (self._unsent > 0 or end_due)

    def reopen(self) -> None:
        """The reader begins at the first byte again."""
        self._cursor = 0
        self._inside = False

    def feed(self, data: bytes, at: float, times: Sequence[int] = ()) -> None:
        """Bytes from the reader, read at `at` (seconds since the epoch), and the times of the lines
        that begin in them (nanoseconds since the epoch; those of a reader that does not know them
        are `at`). Full frames are cut."""
        if not data:
            return
        begun = count_line_starts(data, self._inside)
        if len(times) != begun:
            times = [int(at * 1e9)] * begun
        known, inside = max(self.read - self._cursor, 0), self._inside
        self._cursor += len(data)
        self._inside = not data.endswith(b"\n")
        if known:
            skipped = count_line_starts(data[:known], inside)
            self._line_at = times[skipped - 1] if skipped else self._line_at
            inside, times = not data.endswith(b"\n", 0, known), times[skipped:]
            data = data[known:]
            if not data:
                return
        if not self._parts:
            self._parts_at = at
            self._open = self._line_at if inside else None
        self._times.extend(times)
        self._line_at = times[-1] if times else self._line_at
        self._parts.append(data)
        self._parts_size += len(data)
        self.read += len(data)
        if self._parts_size >= MAX_LOG_BYTES:
            self._cut(keep_tail=True, at=at)

    def flush(self, at: float) -> None:
        """Cut what waits: up to the last line end, or all of it where there is none."""
        if self._parts:
            self._cut(keep_tail=False, at=at)

    def end(self, at: float) -> None:
        """The stream ends at what was read."""
        while self._parts:
            self._cut(keep_tail=False, at=at)
        self.ended = True

    def next_frame(self) -> LogFrame | None:
        """Return the next frame to send, and count it as sent. An empty frame ends the stream."""
        if not self.ready:
            return None
        if self._unsent:
            frame = self._frames[-self._unsent]
            self._unsent -= 1
            self.sent = frame.offset + len(frame.data)
            return frame
        self._end_sent = True
        return LogFrame(self.attempt_id, self.stream, self.read, self._parts_at, b"")

    def ack(self, offset: int, *, end: bool = False) -> None:
        """Drop what the server has stored: all before `offset`. An acknowledgement of what was not
        sent on this connection is ignored."""
        if self.acked < offset <= self.sent:
            self._drop_before(offset)
        if end and self._end_sent:
            self.drained = True

    def resume(self, offset: int) -> bool:
        """A new connection, or the server asks again: it has all before `offset` and nothing after.
        True when bytes are wanted that are no longer here: `reopen`, and read again."""
        self._end_sent = self.held = False
        if self.acked <= offset <= self.read:
            self._flush_to(offset)
            self._drop_before(offset)
            self._send_again()
            return False
        backwards = offset < self.acked
        self._frames.clear()
        self._parts.clear()
        del self._times[:]
        self._unsent = self._parts_size = 0
        self.acked = self.sent = self.read = offset
        if backwards:
            self.ended = False
        return backwards

    def _flush_to(self, offset: int) -> None:
        """Bytes before `offset` must be in frames, so that they can be dropped."""
        if offset > self.read - self._parts_size:
            while self._parts:
                self._cut(keep_tail=False, at=self._parts_at)

    def _send_again(self) -> None:
        self._unsent = len(self._frames)
        self.sent = self.acked

    def _drop_before(self, offset: int) -> None:
        while self._frames and self._frames[0].offset + len(self._frames[0].data) <= offset:
            self._frames.popleft()
        if self._frames and self._frames[0].offset < offset:
            self._frames.appendleft(self._frames.popleft().after(offset))
        self._unsent = min(self._unsent, len(self._frames))
        self.acked = offset
        self.sent = max(self.sent, offset)

    def _cut(self, *, keep_tail: bool, at: float) -> None:
        """Frames of at most MAX_LOG_BYTES, each to a line end where there is one. What is left
        over begins to wait at `at`."""
        data = b"".join(self._parts)
        offset, begin, timed = self.read - len(data), 0, 0
        while begin < len(data):
            rest = len(data) - begin
            if keep_tail and rest < MAX_LOG_BYTES:
                break
            line_end = data.rfind(b"\n", begin, begin + MAX_LOG_BYTES) + 1
            if not keep_tail and rest <= MAX_LOG_BYTES and begin and not line_end:
                break  # a line's beginning, and whole lines went before it: it may wait
            end = line_end if line_end > begin else min(begin + MAX_LOG_BYTES, len(data))
            frame = data[begin:end]
            lines = self._count_lines(data, begin, end, timed)
            times = self._times[timed:lines]
            if self._open is not None:
                times.insert(0, self._open)
            timed, self._open = lines, None if frame.endswith(b"\n") else times[-1]
            self._frames.append(
                LogFrame(self.attempt_id, self.stream, offset + begin, self._parts_at, frame, times)
            )
            self._unsent += 1
            begin, self._parts_at = end, at
        del self._times[:timed]
        left = data[begin:]
        self._parts = [left] if left else []
        self._parts_size = len(left)

    def _count_lines(self, data: bytes, begin: int, end: int, timed: int) -> int:
        """Return how many of `_times` are of lines that begin in `data` before `end`; `timed` are
        known to be, which begin before `begin`. What is shorter is counted, before it or after."""
        if len(data) - end < end - begin:
            inside = not data.endswith(b"\n", 0, end)
            return len(self._times) - count_line_starts(data[end:], inside)
        return timed + count_line_starts(data[begin:end], self._open is not None)
