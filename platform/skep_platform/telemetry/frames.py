"""From log frames to chunks: pure, so that every order of splits, repeats and gaps can be tried."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from skep_agent.protocol import LogFrame

MAX_CHUNK = 1024 * 1024
SANE = (datetime(2000, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp())


@dataclass(slots=True)
class Tail:
    """The end of a stream as it grows: `size` bytes are stored, `data` comes after them."""

    size: int
    data: bytearray
    at: float = 0.0  # when the node read the first byte of `data`
    ended: bool = False  # the node told that nothing follows
    gap: bool = False  # a frame was dropped because bytes before it are missing

    @property
    def end(self) -> int:
        return self.size + len(self.data)


def fold(size: int, frames: Iterable[LogFrame]) -> tuple[Tail, list[LogFrame]]:
    """What a stream of `size` stored bytes gains from frames, up to one chunk, and the frames left
    for the next chunk. Known bytes are trimmed; a frame past a gap is dropped, and the agent will
    be told from where to send again."""
    tail = Tail(size, bytearray())
    frames = list(frames)
    for number, frame in enumerate(frames):
        if frame.offset > tail.end:
            tail.gap = True
            continue
        news = frame.data[tail.end - frame.offset :]
        if tail.data and len(tail.data) + len(news) > MAX_CHUNK:
            return tail, frames[number:]
        if news and not tail.data:
            tail.at = frame.at
        tail.data += news
        tail.ended = tail.ended or not frame.data
    return tail, []


def has_gap(size: int, frames: Iterable[LogFrame]) -> bool:
    """Whether bytes are missing between `size` stored ones and the frames, taken in order."""
    for frame in frames:
        if frame.offset > size:
            return True
        size = max(size, frame.offset + len(frame.data))
    return False


def moment(seconds: float, now: datetime) -> datetime:
    """A node's clock as a time that can be stored; `now` where it makes no sense."""
    if not math.isfinite(seconds) or not SANE[0] < seconds < SANE[1]:
        return now
    return datetime.fromtimestamp(seconds, UTC)
