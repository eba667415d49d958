"""A proxy before the engine's socket: it sees every request, and can hang, break or refuse."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

ENGINE_SOCKET = "/var/run/docker.sock"
_FORBIDDEN = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 29\r\n\r\n{"message":"not on the list"}'
)


class Proxy:
    """One request per connection (it says "Connection: close" to both sides), so that bytes after
    the first head are handed on unread."""

    def __init__(self, allows: Callable[[str, str], bool] = lambda method, path: True) -> None:
        self.requests: list[tuple[str, str]] = []  # method and path without version and query
        self.answered: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.hangs = False
        self.holds_starts = False  # the engine gets them when `release_starts` is called
        self._released = asyncio.Event()
        self.breaks = 0  # so many next connections are closed after their request
        self._allows = allows
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    def release_starts(self) -> None:
        self.holds_starts = False
        self._released.set()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        request = method, re.sub(r"^/v[0-9.]+(?=/)", "", target.partition("?")[0])
        self.requests.append(request)
        if self.hangs:
            await asyncio.Event().wait()
        if self.holds_starts and request[1].endswith("/start"):
            await self._released.wait()
        if self.breaks:
            self.breaks -= 1
            return
        if not self._allows(*request):
            self.refused.append(request)
            writer.write(_FORBIDDEN)
            await writer.drain()
            return
        if "\r\nupgrade:" not in head.lower():
            head = re.sub(r"(?i)\r\nconnection:[^\r]*", "", head)
            head = head.replace("\r\n", "\r\nConnection: close\r\n", 1)
        engine_reader, engine_writer = await asyncio.open_unix_connection(ENGINE_SOCKET)
        try:
            engine_writer.write(head.encode())
            sending = asyncio.create_task(_copy(reader, engine_writer))
            await _copy(engine_reader, writer)
            self.answered.append(request)
            sending.cancel()
        finally:
            engine_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


@asynccontextmanager
async def unix_proxy(proxy: Proxy) -> AsyncIterator[str]:
    """Give the path of its socket."""
    with tempfile.TemporaryDirectory(prefix="skepp-", dir="/tmp") as folder:
        path = str(Path(folder, "docker.sock"))
        server = await asyncio.start_unix_server(proxy.serve, path, limit=2**20)
        try:
            yield path
        finally:
            server.close()
            await proxy.close()


@asynccontextmanager
async def tcp_proxy(proxy: Proxy) -> AsyncIterator[str]:
    """Give its URL, as DOCKER_HOST has it."""
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=2**20)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await proxy.close()
