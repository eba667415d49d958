"""The proxy in front of a node breaks its connections as it is asked to."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from chaos.proxy import NodeProxy

GATEWAY_LINE = b"GET /ws/agent HTTP/1.1\r\n"
WEB_LINE = b"GET /api/v1/jobs HTTP/1.1\r\n"


@asynccontextmanager
async def echo(name: bytes) -> AsyncIterator[int]:
    """A server that puts its name before each line that it is sent, and resets the connection at
    the line "die"; returns its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if line == b"die\n":
                    linger = struct.pack("ii", 1, 0)
                    own = writer.get_extra_info("socket")
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                    return
                writer.write(name + line)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
async def proxy() -> AsyncIterator[NodeProxy]:
    async with echo(b"web ") as web, echo(b"gateway ") as gateway:
        proxy = NodeProxy(web, gateway)
        await proxy.start()
        yield proxy
        proxy.close()


async def connected(proxy: NodeProxy, first: bytes = GATEWAY_LINE):
    """Connect through it. The writer is to be kept: the connection ends with it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(first)
    return reader, writer, await asyncio.wait_for(reader.readline(), 60)


@pytest.mark.parametrize(
    ("line", "answer"),
    [(GATEWAY_LINE, b"gateway GET /ws/agent"), (WEB_LINE, b"web GET /api/v1/jobs")],
)
async def test_agents_are_sent_to_the_gateway_and_all_else_to_the_web_server(proxy, line, answer):
    _, writer, first = await connected(proxy, line)

    assert first.startswith(answer)
    writer.close()


async def test_a_cut_resets_connections_and_lets_new_ones_in(proxy):
    reader, _writer, _ = await connected(proxy)

    proxy.cut()

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 60)
    assert (await connected(proxy))[2]


async def test_while_it_refuses_nothing_gets_through(proxy):
    proxy.set_mode("refuse")

    reader, _writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    proxy.set_mode("open")
    assert (await connected(proxy))[2]


async def test_what_a_silent_way_held_back_arrives_after_it(proxy):
    reader, writer, _ = await connected(proxy)
    proxy.set_mode("silent")
    writer.write(b"late\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readline(), 0.1)

    proxy.set_mode("open")

    assert await asyncio.wait_for(reader.readline(), 60) == b"gateway late\n"


async def test_bytes_of_one_direction_are_lost_and_the_connection_is_reset_after(proxy):
    reader, writer, _ = await connected(proxy)
    proxy.set_mode("down")
    writer.write(b"lost\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readline(), 0.1)

    proxy.set_mode("open")

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 60)


async def test_a_half_closed_connection_ends_for_the_client_alone(proxy):
    reader, writer, _ = await connected(proxy)

    proxy.half_close()

    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.write(b"more\n")
    await writer.drain()


async def test_a_reset_by_the_server_reaches_the_client_that_waits_for_an_answer(proxy):
    reader, writer, _ = await connected(proxy)

    writer.write(b"die\n")

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 60)
