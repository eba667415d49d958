"""People reach into mock tasks over real sockets."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.support.agent_process import AgentProcess
from tests.support.agent_server import FakeControlPlane
from tests.support.agent_specs import spec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedOK

from skep_agent.frames import Channel
from skep_agent.runtimes.mock import MockProcess, MockRuntime
from skep_agent.shell import streams


@pytest.fixture
async def server(server: FakeControlPlane, agent: AgentProcess) -> FakeControlPlane:
    """With two tasks that run: one on a bridge, one on the node's own network."""
    command = "mock run_for=forever"
    await server.desire(
        spec("a1", command=command),
        spec("a2", command=command, network="host", ports={"http": [20001]}),
    )
    await server.until(lambda: all("running" in server.node().phases(a) for a in ("a1", "a2")))
    return server


async def send(socket: ServerConnection, channel: Channel, payload: bytes | dict) -> None:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    await socket.send(bytes([channel]) + data)


async def receive(socket: ServerConnection) -> tuple[Channel, bytes]:
    async with asyncio.timeout(60):
        frame = await socket.recv()
    assert isinstance(frame, bytes)
    return Channel(frame[0]), frame[1:]


async def last_word(socket: ServerConnection) -> dict:
    """What the agent sends before it closes the stream."""
    channel, data = await receive(socket)
    assert channel == Channel.CONTROL
    with pytest.raises(ConnectionClosedOK):
        await receive(socket)
    return json.loads(data)


async def test_a_command_shows_its_output_and_its_exit_code(server: FakeControlPlane) -> None:
    socket = await server.stream("a1", kind="exec", argv=["echo", "hello", "bee"])
    assert await receive(socket) == (Channel.OUTPUT, b"hello bee\n")
    assert await last_word(socket) == {"exit": 0}


async def test_a_shell_takes_input_sizes_and_its_end(server: FakeControlPlane) -> None:
    socket = await server.stream("a1", kind="exec", argv=["size"], tty=True, rows=9, cols=99)
    assert await receive(socket) == (Channel.OUTPUT, b"9 99\n")
    await send(socket, Channel.CONTROL, {"resize": [5, 10**9]})
    assert await receive(socket) == (Channel.OUTPUT, b"5 1000\n")
    await send(socket, Channel.INPUT, b"\x00\xff any bytes")
    assert await receive(socket) == (Channel.OUTPUT, b"\x00\xff any bytes")
    await send(socket, Channel.INPUT, b"exit 7\n")
    assert await last_word(socket) == {"exit": 7}


async def test_the_end_of_the_input_is_passed_on(server: FakeControlPlane) -> None:
    socket = await server.stream("a1", kind="exec", argv=["cat"])
    await send(socket, Channel.CONTROL, {"eof": True})
    assert await last_word(socket) == {"exit": 0}


async def test_what_means_nothing_is_passed_over(server: FakeControlPlane) -> None:
    socket = await server.stream("a1", kind="exec")
    for frame in (b"", b"\x09x", b"\x03{", b"\x03[1]", b'\x03{"resize": "x"}', "text"):
        await socket.send(frame)
    await send(socket, Channel.INPUT, b"still here")
    assert await receive(socket) == (Channel.OUTPUT, b"still here")


async def test_a_client_that_leaves_ends_the_process(
    server: FakeControlPlane, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    class Watched(MockProcess):
        async def close(self) -> None:
            ended.set()

    monkeypatch.setattr("skep_agent.runtimes.mock.MockProcess", Watched)
    for leave in ("close", "abort"):
        ended.clear()
        socket = await server.stream("a1", kind="exec")
        await send(socket, Channel.INPUT, b"x")
        await receive(socket)
        await socket.close() if leave == "close" else socket.transport.abort()
        await asyncio.wait_for(ended.wait(), 60)


@pytest.mark.parametrize(
    ("attempt_id", "what", "code"),
    [
        ("a9", {"kind": "exec"}, "not_running"),
        ("a1", {"kind": "exec", "argv": ["a\0b"]}, "exec_failed"),
        ("a1", {"kind": "exec", "argv": ["x" * 70_000]}, "exec_failed"),
        ("a2", {"kind": "forward", "port": 22}, "port_not_allowed"),
        ("a2", {"kind": "forward", "port": 20001}, "port_closed"),
        ("a1", {"kind": "forward", "port": 1}, "port_closed"),
        ("a1", {"kind": "forward", "port": 99999}, "port_closed"),
    ],
)
async def test_what_cannot_be_reached_is_reported_by_a_code(
    server: FakeControlPlane, attempt_id: str, what: dict, code: str
) -> None:
    socket = await server.stream(attempt_id, **what)
    assert (await last_word(socket))["error"]["code"] == code


async def test_a_port_is_reached_and_every_byte_arrives_both_ways(
    server: FakeControlPlane,
) -> None:
    async def double(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()  # to the end of the input
        writer.write(data * 2)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(double, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    socket = await server.stream("a1", kind="forward", port=port)
    sent = bytes(range(256)) * 4096
    for begin in range(0, len(sent), 100_000):
        await send(socket, Channel.INPUT, sent[begin : begin + 100_000])
    await send(socket, Channel.CONTROL, {"eof": True})
    frames = [frame async for frame in socket]
    assert {frame[0] for frame in frames} == {Channel.OUTPUT}
    assert b"".join(frame[1:] for frame in frames) == sent * 2
    listener.close()


async def test_a_reader_that_does_not_read_makes_the_process_wait(
    server: FakeControlPlane, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, and little is in memory, however slow the person is."""
    written = 0

    class Endless(MockProcess):
        async def output(self):
            nonlocal written
            while True:
                written += 65536
                yield Channel.OUTPUT, b"x" * 65536

    monkeypatch.setattr("skep_agent.runtimes.mock.MockProcess", Endless)
    socket = await server.stream("a1", kind="exec")
    await receive(socket)
    before = -1
    while before != written:  # until no stream moves any more
        before = written
        await asyncio.sleep(0.3)
    assert written < 32 * 1024 * 1024
    for _ in range(1000):
        await receive(socket)
    assert written > before
    socket.transport.abort()


async def test_finding_s6_the_number_of_streams_of_an_attempt_and_of_a_node_is_bounded(
    server: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_ATTEMPT_STREAMS", 4)
    monkeypatch.setattr(streams, "MAX_STREAMS", 6)
    sockets = [await server.stream("a1", kind="exec") for _ in range(4)]
    refused = (await last_word(await server.stream("a1", kind="exec")))["error"]
    assert refused["code"] == "too_many_streams"
    assert "4 open shells and ports" in refused["message"]
    kept = [await server.stream("a2", kind="exec") for _ in range(2)]
    refused = (await last_word(await server.stream("a2", kind="exec")))["error"]
    assert refused["code"] == "too_many_streams"
    assert "node has 6" in refused["message"]
    await kept[0].close()
    await send(sockets[1], Channel.INPUT, b"here")
    assert await receive(sockets[1]) == (Channel.OUTPUT, b"here")
    async with asyncio.timeout(60):
        while True:  # until the agent knows of the end
            socket = await server.stream("a2", kind="exec", argv=["echo", "in"])
            channel, data = await receive(socket)
            if channel == Channel.OUTPUT:
                break
    assert data == b"in\n"


async def test_finding_s6_those_who_are_refused_are_bounded_too(
    server: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 0)
    monkeypatch.setattr(streams, "MAX_REFUSALS", 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await server.stream("a1", kind="exec")


async def test_the_agents_end_closes_its_streams(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    socket = await server.stream("a1", kind="exec")
    await agent.kill()
    await asyncio.wait_for(socket.wait_closed(), 60)
    assert isinstance(agent.runtime, MockRuntime)
