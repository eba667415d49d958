"""Shipping logs: bounded memory, a patient reader, an end for every log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from skep_agent.containers import RuntimeFailure
from skep_agent.frames import LogFrame
from skep_agent.protocol import LOG_WINDOW_BYTES, MAX_LOG_BYTES, LogAck, LogPosition
from skep_agent.runtimes.base import LogPiece
from skep_agent.shell import logs
from skep_agent.shell.logs import ATTEMPT_BUFFER_BYTES, LogShipper


class Tape:
    """A runtime with nothing but logs; `fails` are raised before the next reads succeed."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.fails: list[Exception] = []
        self.read = 0

    async def logs(self, container_id: str) -> AsyncIterator[LogPiece]:
        for chunk in self.chunks:
            yield LogPiece("stdout", chunk)
            self.read = max(self.read, len(chunk))
            if self.fails:
                raise self.fails.pop(0)
            await asyncio.sleep(0)


class Receiver:
    """The other end of the connection."""

    def __init__(self, shipper: LogShipper) -> None:
        self.shipper = shipper
        self.data: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self.frames: list[LogFrame] = []

    async def take(self) -> LogFrame:
        async with asyncio.timeout(60):
            frame = await self.shipper.next_frame()
        self.frames.append(frame)
        return frame

    def ack(self, frame: LogFrame, **fields: Any) -> None:
        self.data[frame.stream] += frame.data
        self.shipper.ack(
            LogAck(
                attempt_id=frame.attempt_id,
                stream=frame.stream,
                offset=frame.offset + len(frame.data),
                end=not frame.data,
                **fields,
            )
        )


def make(tape: Tape) -> tuple[LogShipper, Receiver, asyncio.Event]:
    drained = asyncio.Event()
    shipper = LogShipper(tape, lambda: 1.0, lambda attempt_id, epoch: drained.set())  # type: ignore[arg-type]
    return shipper, Receiver(shipper), drained


async def pump_until(drained: asyncio.Event, receiver: Receiver) -> None:
    while not drained.is_set():
        receiver.ack(await receiver.take())


async def test_nothing_is_sent_before_the_server_said_where_it_is() -> None:
    shipper, receiver, drained = make(Tape(b"abcdef\n"))
    shipper.ship("a", 1, "c")
    await asyncio.sleep(0.05)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(shipper.next_frame(), 0.02)
    shipper.connected([LogPosition(attempt_id="a", stream="stdout", offset=3)])
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == b"def\n"
    assert shipper.attempt_ids() == []


async def test_output_that_trickles_is_sent_without_waiting_for_more() -> None:
    tape = Tape(b"no newline yet")
    forever = asyncio.Event()

    async def endless(container_id: str) -> AsyncIterator[LogPiece]:
        yield LogPiece("stdout", b"no newline yet")
        await forever.wait()

    tape.logs = endless  # type: ignore[method-assign]
    shipper, receiver, _ = make(tape)
    shipper.connected([])
    shipper.ship("a", 1, "c")
    assert (await receiver.take()).data == b"no newline yet"
    await shipper.close()


async def test_the_reader_waits_while_no_one_takes_its_bytes() -> None:
    tape = Tape(*[b"x" * 4095 + b"\n"] * 4000)
    shipper, receiver, drained = make(tape)
    shipper.connected([])
    shipper.ship("a", 1, "c")
    for _ in range(6000):
        await asyncio.sleep(0)
    stream = shipper._pumps["a"].streams["stdout"]
    assert ATTEMPT_BUFFER_BYTES <= stream.buffered < ATTEMPT_BUFFER_BYTES + MAX_LOG_BYTES
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == b"".join(tape.chunks)


async def test_no_more_than_a_window_is_on_its_way_over_all_attempts() -> None:
    tape = Tape(*[b"x" * 65535 + b"\n"] * 40)
    shipper, _, _ = make(tape)
    shipper.connected([])
    for number in range(8):
        shipper.ship(f"a{number}", 1, "c")
    taken = 0
    while taken < LOG_WINDOW_BYTES:
        frame = await asyncio.wait_for(shipper.next_frame(), 60)
        taken += len(frame.data)
    with suppress(TimeoutError):
        frame = await asyncio.wait_for(shipper.next_frame(), 0.3)
        taken += len(frame.data)
    assert taken < LOG_WINDOW_BYTES + MAX_LOG_BYTES
    await shipper.close()


async def test_attempts_take_turns() -> None:
    tape = Tape(*[b"x" * 65535 + b"\n"] * 12)
    shipper, receiver, _ = make(tape)
    shipper.connected([])
    shipper.ship("a", 1, "c")
    shipper.ship("b", 1, "c")
    for _ in range(100):
        await asyncio.sleep(0)
    assert {(await receiver.take()).attempt_id for _ in range(2)} == {"a", "b"}
    await shipper.close()


async def test_a_reader_that_breaks_begins_again_without_doubling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "READ_AGAIN_MAX_S", 0.0)
    tape = Tape(b"one\n", b"two\n", b"three\n")
    tape.fails = [RuntimeFailure("engine_down", "x"), ValueError("y"), OSError("z")]
    shipper, receiver, drained = make(tape)
    shipper.connected([])
    shipper.ship("a", 1, "c")
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == b"one\ntwo\nthree\n"


async def test_a_vanished_container_ends_its_log_at_what_was_read() -> None:
    tape = Tape(b"one\n", b"two\n")
    tape.fails = [RuntimeFailure("container_gone", "x")]
    shipper, receiver, drained = make(tape)
    shipper.connected([])
    shipper.ship("a", 1, "c")
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == b"one\n"


async def test_the_unreadable_log_of_a_dead_container_ends_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "READ_AGAIN_MAX_S", 0.0)
    tape = Tape(b"one\n", b"two\n")
    tape.fails = [ValueError("corrupt")] * 1000
    shipper, receiver, drained = make(tape)
    shipper.connected([])
    shipper.ship("a", 1, "c")
    shipper.end("a", 1, readable=True)
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == b"one\n"


async def test_an_attempt_without_a_container_has_an_empty_log_with_an_end() -> None:
    shipper, receiver, drained = make(Tape())
    shipper.connected([])
    shipper.ship("a", 1, "")
    shipper.end("a", 1, readable=False)
    await pump_until(drained, receiver)
    assert [(f.stream, f.offset, f.data) for f in receiver.frames] == [
        ("stdout", 0, b""),
        ("stderr", 0, b""),
    ]


async def test_the_end_of_a_log_that_cannot_be_read_any_more_is_where_the_server_is() -> None:
    shipper, receiver, drained = make(Tape())
    shipper.ship("a", 1, "")
    shipper.end("a", 1, readable=False)
    shipper.connected([LogPosition(attempt_id="a", stream="stdout", offset=77)])
    await pump_until(drained, receiver)
    assert receiver.frames[0].offset == 77


async def test_what_the_server_could_not_take_is_sent_again_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "AGAIN_S", 0.01)
    chunk = b"x" * (MAX_LOG_BYTES - 1) + b"\n"
    shipper, receiver, drained = make(Tape(chunk, chunk, chunk))
    shipper.connected([])
    shipper.ship("a", 1, "c")
    lost = [await receiver.take() for _ in range(3)]
    for _ in lost:
        shipper.ack(LogAck(attempt_id="a", stream="stdout", offset=0, again=True))
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == chunk * 3
    assert [f.offset for f in receiver.frames if f.stream == "stdout"][3:6] == [
        f.offset for f in lost
    ]


async def test_a_dropped_log_frees_its_memory() -> None:
    shipper, _, _ = make(Tape(b"abc" * 1000))
    shipper.ship("a", 1, "c")
    async with asyncio.timeout(60):
        while not shipper._buffered:  # noqa: ASYNC110 there is no event for it
            await asyncio.sleep(0)
    shipper.drop("a", 1)
    assert (shipper._buffered, shipper.attempt_ids()) == (0, [])


async def test_secrets_are_covered_over_pieces_and_readers_that_begin_anew() -> None:
    tape = Tape(b"key=s3", b"cr", b"et and s3cret\nthe end s3cr")
    tape.fails = [RuntimeFailure("engine_down", "gone"), RuntimeFailure("engine_down", "gone")]
    shipper, receiver, drained = make(tape)
    shipper.ship("a", 1, "c", ["s3cret", "the e"])
    shipper.connected([])
    await asyncio.sleep(0.5)
    shipper.end("a", 1, readable=True)
    await pump_until(drained, receiver)
    assert receiver.data["stdout"] == b"key=****** and ******\n*****nd s3cr"


async def test_finding_s3_a_log_that_is_hard_to_mask_holds_up_only_itself() -> None:
    """100 secrets that lie in one another, and 1 MiB that consists of them."""
    hostile = Tape(b"a" * 262144, b"a" * 262144, b"a" * 262144, b"a" * 262144)
    shipper, receiver, drained = make(hostile)
    shipper.connected([])
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while not drained.is_set():
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    shipper.ship("a", 1, "c", ["a" * n for n in range(901, 1001)])
    await pump_until(drained, receiver)
    await turning
    assert receiver.data["stdout"] == b"*" * 1048576
    assert turns > 100, "the loop went on meanwhile"
    await shipper.close()
