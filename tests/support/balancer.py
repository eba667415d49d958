"""A load balancer as it stands in front of replicas: a TCP proxy whose backends change."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Balancer:
    """New connections go to the backends in turn; one that refuses is passed over. Connections that
    are open stay where they are."""

    def __init__(self) -> None:
        self.port = 0
        self.host = "127.0.0.1"  # of the backends
        self.backends: list[int] = []
        self._turn = itertools.count()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        backends = self.backends
        first = next(self._turn)
        for number in range(len(backends)):
            port = backends[(first + number) % len(backends)]
            try:
                there, back = await asyncio.open_connection(self.host, port)
            except OSError:
                continue
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
            break
        writer.close()


@contextmanager
def balancer() -> Iterator[Balancer]:
    found, loop = Balancer(), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(found.forward, "127.0.0.1", 0))
    found.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass bytes on, and the end of one direction, too."""
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
    except OSError:
        sink.close()
