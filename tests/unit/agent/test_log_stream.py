"""No byte of a log is lost or doubled, whatever happens between reader and server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_agent.core import log_stream
from skep_agent.core.log_stream import LogStream
from skep_agent.protocol import LogFrame


class Store:
    """The server's side: append by offset, trim what is known, ask again past a gap."""

    def __init__(self) -> None:
        self.data = b""
        self.size: int | None = None

    def take(self, frame: LogFrame) -> tuple[int, bool, bool]:
        """Offset, end and again of the acknowledgement."""
        gap = frame.offset > len(self.data)
        if not gap:
            self.data += frame.data[len(self.data) - frame.offset :]
            if not frame.data:
                assert frame.offset == len(self.data), "the end tells the true size"
                self.size = frame.offset
        return len(self.data), self.size is not None, gap


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
        st.tuples(st.just("no room"), st.just(0)),
    ),
    max_size=80,
)


@pytest.fixture(autouse=True, scope="module")
def small_frames():
    """Frames of 8 bytes, so that a few bytes make many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_stream, "MAX_LOG_BYTES", 8)
        yield


@settings(max_examples=600, deadline=None)
@given(parts=output, steps=steps)
def test_the_store_ends_with_exactly_the_output(parts: list[bytes], steps) -> None:
    full = b"".join(parts)
    stream, store, cursor = LogStream("a", "stdout"), Store(), 0
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
            stream.feed(full[cursor : cursor + number], at=1.0)
            cursor = min(cursor + number, len(full))
        elif step == "flush":
            stream.flush(2.0)
        elif step == "send":
            wire += [f for _ in range(number) if (f := stream.next_frame())]
        elif step == "deliver":
            acks += [store.take(frame) for frame in wire[:number]]
            del wire[:number]
        elif step == "no room" and wire:
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
                stream.feed(full[:3], at=1.0)  # it may read before it is connected
                cursor = min(3, len(full))
            resume(len(store.data))
        assert 0 <= stream.acked <= stream.sent <= stream.read
        assert full.startswith(store.data)
    resume(len(store.data))
    stream.feed(full[cursor:], at=3.0)
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
