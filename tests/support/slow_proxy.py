"""A TCP proxy that lets so many bytes a second through to each that connects: a registry behind a
slow line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PIECES_A_SECOND = 20


@contextmanager
def slow_proxy(target: str, bytes_a_second: int | None) -> Iterator[str]:
    """Forward to `target` ("host:port", or the path of a unix socket) and return the address of the
    proxy, which is on loopback. Each connection has the whole rate; None: as fast as it can."""
    host, _, port = target.rpartition(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if host:
            there, back = await asyncio.open_connection(host, int(port))
        else:
            there, back = await asyncio.open_unix_connection(target)
        await asyncio.gather(_copy(reader, back, None), _copy(there, writer, bytes_a_second))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(forward, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    forwarding = asyncio.all_tasks() - {asyncio.current_task()}
    for task in forwarding:
        task.cancel()
    await asyncio.gather(*forwarding, return_exceptions=True)


async def _copy(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, bytes_a_second: int | None
) -> None:
    size = bytes_a_second // PIECES_A_SECOND if bytes_a_second else 65536
    try:
        while data := await source.read(size):
            sink.write(data)
            await sink.drain()
            if bytes_a_second:
                await asyncio.sleep(len(data) / bytes_a_second)
    except OSError:
        pass
    finally:
        sink.close()
