"""One stream of one attempt's log between its reader and the server: no byte lost or doubled.

The reader always begins at the container's first byte, however often it begins anew; the server
says how far it has stored. What lies between is cut into frames, and kept until acknowledged.
"""

from __future__ import annotations

from collections import deque

from skep_agent.protocol import MAX_LOG_BYTES, LogFrame, Stream


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
        self._frames: deque[LogFrame] = deque()  # cut and unacknowledged, in order, without gaps
        self._unsent = 0  # how many frames at the end of `_frames` are not yet sent
        self._parts: list[bytes] = []  # not yet cut
        self._parts_size = 0
        self._parts_at = 0.0
        self._end_sent = False

    @property
    def buffered(self) -> int:
        """Bytes in memory."""
        return self.read - self.acked

    @property
    def unacked(self) -> int:
        """Bytes on their way."""
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

    def feed(self, data: bytes, at: float) -> None:
        """Bytes from the reader, read at `at` (seconds since the epoch). Full frames are cut."""
        known = self.read - self._cursor
        self._cursor += len(data)
        if known > 0:
            data = data[known:]
        if not data:
            return
        if not self._parts:
            self._parts_at = at
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
        """The next frame to send, which then counts as sent; an empty one ends the stream."""
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
        """The server stored all before `offset`. An acknowledgement of what was not sent on this
        connection means nothing."""
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
            first = self._frames.popleft()
            rest = first.data[offset - first.offset :]
            self._frames.appendleft(
                LogFrame(first.attempt_id, first.stream, offset, first.at, rest)
            )
        self._unsent = min(self._unsent, len(self._frames))
        self.acked = offset
        self.sent = max(self.sent, offset)

    def _cut(self, *, keep_tail: bool, at: float) -> None:
        """Frames of at most MAX_LOG_BYTES, each to a line end where there is one. What is left
        over begins to wait at `at`."""
        data = b"".join(self._parts)
        offset, begin = self.read - len(data), 0
        while begin < len(data):
            rest = len(data) - begin
            if keep_tail and rest < MAX_LOG_BYTES:
                break
            line_end = data.rfind(b"\n", begin, begin + MAX_LOG_BYTES) + 1
            if not keep_tail and rest <= MAX_LOG_BYTES and begin and not line_end:
                break  # a line's beginning, and whole lines went before it: it may wait
            end = line_end if line_end > begin else min(begin + MAX_LOG_BYTES, len(data))
            frame = data[begin:end]
            self._frames.append(
                LogFrame(self.attempt_id, self.stream, offset + begin, self._parts_at, frame)
            )
            self._unsent += 1
            begin, self._parts_at = end, at
        left = data[begin:]
        self._parts = [left] if left else []
        self._parts_size = len(left)
