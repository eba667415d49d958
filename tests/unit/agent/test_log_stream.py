"""No byte of a log is lost or doubled, whatever happens between reader and server."""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from skep_agent.core import log_stream
from skep_agent.core.log_stream import LineTimes, LogStream
from skep_agent.core.mask import Mask
from skep_agent.frames import LogFrame, decode_times, encode_times
from skep_agent.protocol import ProtocolError
from skep_agent.runtimes.docker_logs import _Lines


class Store:
    """The server's side: append by offset, trim what is known, ask again past a gap."""

    def __init__(self, whole: bytes | None = None) -> None:
        self.data = b""
        self.size: int | None = None
        self.whole = whole

    def take(self, frame: LogFrame) -> tuple[int, bool, bool]:
        """Offset, end and again of the acknowledgement."""
        if self.whole is not None:
            assert list(LogFrame.decode(frame.encode()).times) == times_in(self.whole, frame)
        gap = frame.offset > len(self.data)
        if not gap:
            self.data += frame.data[len(self.data) - frame.offset :]
            if not frame.data:
                assert frame.offset == len(self.data), "the end states the true size"
                self.size = frame.offset
        return len(self.data), self.size is not None, gap


def line_starts(data: bytes) -> list[int]:
    return [at for at in range(len(data)) if at == 0 or data[at - 1 : at] == b"\n"]


def time_at(offset: int) -> int:
    """When the line that begins there was written."""
    return 1_790_000_000_000_000_000 + 1000 * offset


def times_in(whole: bytes, frame: LogFrame) -> list[int]:
    """The time of each line of the frame: where it began, which may be before the frame."""
    end = frame.offset + len(frame.data)
    starts = [start for start in line_starts(whole) if start < end]
    before = [start for start in starts if start <= frame.offset][-1:] if frame.data else []
    return [time_at(start) for start in [*before, *(s for s in starts if s > frame.offset)]]


def drain(stream: LogStream, store: Store) -> None:
    while frame := stream.next_frame():
        offset, end, _ = store.take(frame)
        stream.ack(offset, end=end)


output = st.lists(st.sampled_from([b"a\n", b"bcd\n", b"efgh", b"\n", b"0123456789abcdef", b"x"]))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 9)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("send"), st.integers(1, 3)),
        st.tuples(st.just("deliver"), st.integers(1, 3)),
        st.tuples(st.just("ack"), st.integers(1, 3)),
        st.tuples(st.just("reconnect"), st.just(0)),
        st.tuples(st.just("reader breaks"), st.just(0)),
        st.tuples(st.just("agent restarts"), st.just(0)),
        st.tuples(st.just("no space"), st.just(0)),
    ),
    max_size=80,
)


@pytest.fixture(autouse=True, scope="module")
def small_frames():
    """Frames of 8 bytes, so that a few bytes make many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_stream, "MAX_LOG_BYTES", 8)
        yield


@settings(max_examples=examples(600), deadline=None)
@given(parts=output, steps=steps)
def test_finding_j11_the_store_ends_with_exactly_the_output_and_its_times(
    parts: list[bytes], steps
) -> None:
    full = b"".join(parts)
    stream, store, cursor = LogStream("a", "stdout"), Store(full), 0
    starts = line_starts(full)

    def feed(end: int) -> None:
        times = [time_at(start) for start in starts if cursor <= start < end]
        stream.feed(full[cursor:end], at=1.0, times=times)

    wire: list[LogFrame] = []  # sent, not yet at the server
    acks: list[tuple[int, bool, bool]] = []  # on the way back

    def reopen() -> None:
        nonlocal cursor
        cursor = 0
        stream.reopen()

    def resume(offset: int) -> None:
        if stream.resume(offset):
            reopen()

    for step, number in steps:
        if step == "read":
            feed(min(cursor + number, len(full)))
            cursor = min(cursor + number, len(full))
        elif step == "flush":
            stream.flush(2.0)
        elif step == "send":
            wire += [f for _ in range(number) if (f := stream.next_frame())]
        elif step == "deliver":
            acks += [store.take(frame) for frame in wire[:number]]
            del wire[:number]
        elif step == "no space" and wire:
            wire.pop(0)
            resume_at = len(store.data)
            wire.clear()
            acks.clear()
            resume(resume_at)
        elif step == "ack":
            for offset, end, _ in acks[:number]:
                stream.ack(offset, end=end)
            del acks[:number]
        elif step == "reconnect":
            wire.clear()
            acks.clear()
            resume(len(store.data))
        elif step == "reader breaks":
            reopen()
        elif step == "agent restarts":
            wire.clear()
            acks.clear()
            stream = LogStream("a", "stdout")
            cursor = 0
            if number == 0 and len(store.data) % 2:
                feed(min(3, len(full)))  # it may read before it is connected
                cursor = min(3, len(full))
            resume(len(store.data))
        assert 0 <= stream.acked <= stream.sent <= stream.read
        assert full.startswith(store.data)
    resume(len(store.data))
    feed(len(full))
    stream.end(3.0)
    drain(stream, store)
    assert store.data == full
    assert store.size == len(full)
    assert stream.drained
    assert stream.buffered == stream.unacked == 0


def sendable(stream: LogStream) -> list[bytes]:
    frames = []
    while frame := stream.next_frame():
        frames.append(frame.data)
    return frames


def test_frames_end_at_line_ends_where_there_are_some() -> None:
    stream = LogStream("a", "stdout")
    stream.feed(b"12\n345\n6789012345\nz", at=1.0)
    assert sendable(stream) == [b"12\n345\n", b"67890123"]
    stream.flush(1.0)
    assert sendable(stream) == [b"45\n"]


def test_a_flush_keeps_the_beginning_of_a_line_for_the_next() -> None:
    stream = LogStream("a", "stdout")
    stream.feed(b"ab\nc", at=1.0)
    stream.flush(1.1)
    assert sendable(stream) == [b"ab\n"]
    stream.flush(1.2)
    assert sendable(stream) == [b"c"]


def test_an_empty_stream_ends_with_an_empty_frame() -> None:
    stream, store = LogStream("a", "stderr"), Store()
    stream.end(1.0)
    drain(stream, store)
    assert store.size == 0
    assert stream.drained


def test_an_acknowledgement_of_what_was_not_sent_means_nothing() -> None:
    stream = LogStream("a", "stdout")
    stream.feed(b"abc", at=1.0)
    stream.flush(1.0)
    stream.ack(3, end=True)
    assert stream.buffered == 3
    assert not stream.drained


def test_a_server_that_lost_bytes_makes_the_reader_begin_again() -> None:
    stream, store = LogStream("a", "stdout"), Store()
    stream.feed(b"abcdef", at=1.0)
    stream.flush(1.0)
    drain(stream, store)
    store.data = b"ab"
    assert stream.resume(2)
    stream.reopen()
    stream.feed(b"abcdef", at=2.0)
    stream.end(2.0)
    drain(stream, store)
    assert store.data == b"abcdef"


def test_a_reader_without_times_gives_lines_the_time_of_reading():
    stream = LogStream("a", "stdout")
    stream.feed(b"ab\nc\n", at=1.5)
    stream.flush(2.0)
    frame = stream.next_frame()
    assert frame is not None
    assert list(frame.times) == [1_500_000_000] * 2


@given(
    parts=st.lists(st.sampled_from([b"s3", b"cr", b"et\n", b"\n", b"no ", b"ab\ncd", b"x"])),
    cuts=st.lists(st.integers(1, 7), min_size=1),
)
def test_finding_j11_times_stay_with_their_lines_behind_a_mask(parts, cuts):
    """Also where a secret goes over the end of a line: what was two lines is one."""
    whole = b"".join(parts)
    mask, lines = Mask(["s3cret", "b\nc"]), LineTimes()
    starts, covered, times, at = line_starts(whole), b"", [], 0
    while at < len(whole):
        end = min(at + cuts[at % len(cuts)], len(whole))
        begun = [time_at(start) for start in starts if at <= start < end]
        certain = mask.feed(whole[at:end])
        times += lines.through(whole[at:end], certain, begun)
        covered, at = covered + certain, end
    rest = mask.flush()
    covered += rest
    times += lines.take(rest)
    assert len(covered) == len(whole)
    assert times == [time_at(start) for start in line_starts(covered)]


def test_lines_are_not_looked_at_behind_a_mask_that_covers_nothing(monkeypatch):
    looked = []
    monkeypatch.setattr(log_stream, "_line_starts", lambda *args: looked.append(args) or [])
    mask, lines, times = Mask(["s3cret"]), LineTimes(), array("q", [1, 2, 3])
    for data in (b"a\nb\nc\n", b"d\ne\nf"):
        assert lines.through(data, mask.feed(data), times) is times
    assert not looked


@given(st.lists(st.integers(-(2**61), 2**61), max_size=50))
def test_finding_j11_packed_times_come_out_as_they_went_in(times):
    rising = sorted(times)
    assert list(decode_times(encode_times(rising), len(rising))) == rising
    falling = decode_times(encode_times(times), len(times))
    assert list(falling) == list(accumulate(times, max)), "they never decrease"


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"no deflate",
        encode_times([1, 2]),
        encode_times([1, 2, 3, 4]),
        encode_times([1, 2, 3])[:-3],
        encode_times([1, 2, 3]) + b"more",
        encode_times([0] * 1_000_000),
        zlib.compress(struct.pack("<3q", 2**62, 2**62, 2**62)),
        zlib.compress(b"x" * 23),
    ],
)
def test_times_that_do_not_fit_are_refused(packed):
    with pytest.raises(ValueError, match=r"times|time is"):
        decode_times(packed, 3)
    frame = LogFrame("a", "stdout", 0, 1.0, b"1\n2\n3").encode()
    head = json.dumps({"a": "a", "s": "stdout", "o": 0, "t": 1.0, "i": len(packed)}).encode()
    frame = struct.pack(">I", len(head)) + head + packed + b"1\n2\n3"
    if packed:
        with pytest.raises(ProtocolError):
            LogFrame.decode(frame)


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.integers(-3000, 3000))),
    st.integers(1, 5),
)
def test_finding_j11_times_rise_in_the_engines_order(lines, batch):
    """Its two threads stamp the lines before they write them down, and clocks are set back."""
    base, shown, joined = datetime(2026, 1, 1, tzinfo=UTC), [], _Lines()
    records = []
    for number, (stream, shift) in enumerate(lines):
        at = (base + timedelta(microseconds=number * 1000 + shift)).isoformat(" ", "microseconds")
        stamp = at.replace(" ", "T").replace("+00:00", "000Z ").encode()
        assert len(stamp) == 31
        records.append((stream, stamp + b"%d\n" % number))
    for begin in range(0, len(records), batch):
        for stream, data, times in joined.joined(records[begin : begin + batch]):
            shown += zip(times, data.split(), [stream] * len(times), strict=False)
            assert len(times) == data.count(b"\n")
    assert shown == sorted(shown)
    assert [int(number) for _, number, _ in shown] == list(range(len(lines)))
    assert len({at for at, *_ in shown}) == len(lines)
