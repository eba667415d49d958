"""Log bytes from an agent to the store: all of them, once, through kills and a store that hangs."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.core.files.storage import storages
from tests.support.gateway_agent import WAIT_S, Agent, Joined
from tests.support.gateway_rows import frame, frames, running_attempt
from tests.support.gateway_server import ProcessServer, wait_until
from websockets.exceptions import ConnectionClosed

from skep_agent.protocol import LOG_ACKS, LogAck, LogAcks, parse_server_message
from skep_platform.gateway import log_shipping
from skep_platform.jobs.models import TaskAttempt
from skep_platform.telemetry import services as telemetry
from skep_platform.telemetry.models import LogChunk

STREAMS = ("stdout", "stderr")


def stored(attempt: TaskAttempt, stream: str) -> bytes:
    data = b""
    for chunk in LogChunk.objects.filter(attempt=attempt, stream=stream).order_by("offset"):
        assert chunk.offset == len(data)
        data += storages["logs"].open(chunk.key).read()
    return data


def output(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def ship(agent: Agent, attempt: TaskAttempt, stream: str, data: bytes, start: int = 0) -> None:
    """Send data[start:] in pieces of many sizes, and the end marker."""
    chance = random.Random(start)
    while start < len(data):
        length = chance.choice([1, 10, 300, 5_000, 60_000])
        agent.send(frame(attempt, start, data[start : start + length], stream))
        start += length
    agent.send(frame(attempt, len(data), b"", stream))


def acknowledged(agent: Agent, streams: int) -> None:
    """Wait until that many streams are stored to their end."""
    while streams:
        streams -= agent.expect(LogAck).end


def test_both_streams_arrive_whole(port):
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        data = {stream: output(i, 700_000) for i, stream in enumerate(STREAMS)}
        for stream in STREAMS:
            ship(agent, attempt, stream, data[stream])
        acknowledged(agent, 2)
    assert {stream: stored(attempt, stream) for stream in STREAMS} == data
    attempt.refresh_from_db()
    assert attempt.log_sizes == dict.fromkeys(STREAMS, 700_000)


def test_a_trickle_becomes_few_chunks(port):
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        for part in frames(attempt, b"x" * 2000, range(2000)):
            agent.send(part)
        acknowledged(agent, 1)
    assert stored(attempt, "stdout") == b"x" * 2000
    assert LogChunk.objects.count() < 200


def test_a_reconnected_agent_is_shown_where_to_go_on(port):
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        agent.send(frame(attempt, 0, b"0123456789"))
        assert agent.expect(LogAck).offset == 10
    stranger = running_attempt()
    hello = joined.hello.model_copy(
        update={"attempt_ids": [str(attempt.pk), str(stranger.pk), "nonsense"]}
    )
    with joined.connect(port) as agent:
        welcome, _ = agent.enter(hello)
        positions = {(p.attempt_id, p.stream): p.offset for p in welcome.log_positions}
        assert positions == {(str(attempt.pk), "stdout"): 10, (str(attempt.pk), "stderr"): 0}


def test_25_a_node_cannot_write_the_log_of_another_nodes_attempt(port):
    mine, other = Joined(), Joined(gpus=1)
    with mine.connect(port) as rogue, other.connect(port) as honest:
        rogue.enter(mine.hello)
        honest.enter(other.hello)
        attempt = running_attempt(other.node)
        rogue.send(frame(attempt, 0, b"forged"))
        assert rogue.expect(LogAck).offset == 6
        honest.send(frame(attempt, 0, b"true"))
        assert honest.expect(LogAck).offset == 4
    assert stored(attempt, "stdout") == b"true"


def test_26_a_flood_of_lines_is_stored_and_holds_up_no_heartbeat(port):
    joined = Joined(gpus=1)
    data = b"".join(b"line %d\n" % i for i in range(10_000))
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        start = 0
        for number, line in enumerate(data.splitlines(keepends=True)):
            agent.send(frame(attempt, start, line))
            start += len(line)
            if number % 2_000 == 0:
                assert agent.beat()
        agent.send(frame(attempt, start, b""))
        acknowledged(agent, 1)
    assert stored(attempt, "stdout") == data


class StuckStore:
    """A log store that hangs from its first call until it is released."""

    def __init__(self) -> None:
        self.called, self.released = threading.Event(), threading.Event()


@pytest.fixture
def stuck_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[StuckStore]:
    """The log store hangs until it is released; there is space for three small frames."""
    store, append = StuckStore(), telemetry.append_logs_of_nodes

    def hanging(*args: object) -> dict[UUID, list[LogAck]]:
        store.called.set()
        store.released.wait(300)  # longer than anything here waits
        return append(*args)

    monkeypatch.setattr(telemetry, "append_logs_of_nodes", hanging)
    monkeypatch.setattr(log_shipping, "MAX_WAITING", 3 * (10 + log_shipping.FRAME_COST))
    monkeypatch.setattr(log_shipping, "PATIENCE_S", 0.05)
    yield store
    store.released.set()


@pytest.mark.parametrize(("features", "kind"), [([LOG_ACKS], LogAcks), ([], LogAck)])
def test_the_ends_of_a_task_come_back_in_one_message_where_the_agent_reads_it(
    port, stuck_store, features, kind
):
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello.model_copy(update={"features": features}))
        attempt = running_attempt(joined.node)
        agent.send(frame(attempt, 0, b"hello"))
        assert stuck_store.called.wait(60)  # so that neither end is stored with these bytes
        for stream, size in zip(STREAMS, (5, 0), strict=True):
            agent.send(frame(attempt, size, b"", stream))
        agent.beat()  # all were read, and wait for the store
        stuck_store.released.set()
        ended: list[LogAck] = []
        while len(ended) < 2:
            message = parse_server_message(agent.socket.recv(timeout=WAIT_S))
            acks = message.acks if isinstance(message, LogAcks) else [message]
            found = [ack for ack in acks if isinstance(ack, LogAck) and ack.end]
            assert not found or isinstance(message, kind)
            ended += found
    assert {(ack.stream, ack.offset) for ack in ended} == set(zip(STREAMS, (5, 0), strict=True))


def test_31_a_store_that_hangs_drops_frames_not_heartbeats_and_asks_for_them_again(
    port, stuck_store
):
    joined = Joined(gpus=1)
    data = output(1, 400)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        for start in range(0, 400, 10):
            agent.send(frame(attempt, start, data[start : start + 10]))
        assert agent.beat().seq == 1
        stuck_store.released.set()
        while not (ack := agent.expect(LogAck)).again:
            pass
        assert ack.offset < 400
        agent.send(frame(attempt, ack.offset, data[ack.offset :]))
        agent.send(frame(attempt, 400, b""))
        acknowledged(agent, 1)
    assert stored(attempt, "stdout") == data


def test_31_a_store_that_is_full_ends_no_session_and_loses_no_byte(port, monkeypatch):
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        refused = threading.Event()

        def full(chunks: object) -> None:
            refused.set()
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as outage:
            outage.setattr(storages["logs"], "save_many", full)
            ship(agent, attempt, "stdout", output(1, 300_000))
            assert refused.wait(60)
            agent.beat()
            assert not LogChunk.objects.exists()
        acknowledged(agent, 1)
        assert stored(attempt, "stdout") == output(1, 300_000)


def test_a_killed_server_loses_no_byte_and_stores_none_twice(transactional_db):
    """SIGKILL in the middle of the stream, twice; the agent goes on from the positions."""
    joined = Joined(gpus=1)
    data = {stream: output(i, 8_000_000) for i, stream in enumerate(STREAMS)}
    with ProcessServer() as server:
        with joined.connect(server.port) as agent:
            agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        hello = joined.hello.model_copy(update={"attempt_ids": [str(attempt.pk)]})
        for _ in range(2):
            with joined.connect(server.port) as agent:
                shipper = start_shipping(agent, hello, attempt, data)
                agent.expect(LogAck)
                server.kill()
                shipper.join()
            server.start()
        with joined.connect(server.port) as agent:
            start_shipping(agent, hello, attempt, data).join()
            acknowledged(agent, 2)
    assert {stream: stored(attempt, stream) for stream in STREAMS} == data
    attempt.refresh_from_db()
    assert attempt.log_sizes == dict.fromkeys(STREAMS, 8_000_000)


def start_shipping(
    agent: Agent, hello: object, attempt: TaskAttempt, data: dict[str, bytes]
) -> threading.Thread:
    """Enter, and send what the server does not have, in a thread that ends with the connection."""
    welcome, _ = agent.enter(hello)  # type: ignore[arg-type]

    def run() -> None:
        try:
            for position in welcome.log_positions:
                ship(agent, attempt, position.stream, data[position.stream], position.offset)
        except ConnectionClosed:
            pass

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_the_end_of_a_session_does_not_wait_for_a_store_that_hangs(port, web, stuck_store):
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        attempt = running_attempt(joined.node)
        agent.send(frame(attempt, 0, b"x"))
        assert agent.beat()
    wait_until(lambda: not web.server.server_state.tasks, "the connection ended")
