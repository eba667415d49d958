"""Proxies whose connections can be broken. They forward bytes.

`NodeProxy` is a reverse proxy as in front of many machines, one for each node: of each connection
it reads the first line, and sends what agents ask for to the gateway and all else to the web
server, as `docs/operations.md` has it for nginx. `EngineProxy` is the way of the server's processes
to PostgreSQL or Valkey.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PIECE = 16 * 1024
AGENT_PATHS = (b"/ws/agent", b"/api/v1/nodes/join", b"/api/v1/agent/")
SLOW_BYTES_PER_S = 4000.0

# "refuse": nothing gets a connection. "up" and "down": what the node sends, or the server, is lost;
# the other direction works. "silent": nothing moves, and all of it arrives when that is over.
# "slow": SLOW_BYTES_PER_S in each direction of each connection.
Mode = Literal["open", "refuse", "up", "down", "silent", "slow"]


_Way = tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True, eq=False)
class _Connection:
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]

    def reset(self) -> None:
        for writer in self.writers:
            with suppress(OSError, RuntimeError):
                linger = struct.pack("ii", 1, 0)  # the peer gets a reset, not an end
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
            writer.transport.abort()

    def half_close(self) -> None:
        """The client sees the server's end; the server sees nothing."""
        with suppress(OSError, RuntimeError):
            self.writers[0].write_eof()


class Proxy:
    """All methods are for the loop that it was started on."""

    def __init__(self) -> None:
        self._mode: Mode = "open"
        self._moving = asyncio.Event()
        self._moving.set()
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def _target(self, reader: asyncio.StreamReader) -> _Way:
        """Connect onward, and return what was read of the client for that. Raises OSError or
        ValueError."""
        raise NotImplementedError

    def close(self) -> None:
        if self._server:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """Reset every connection; new ones are made."""
        for connection in list(self._connections):
            connection.reset()

    def half_close(self) -> None:
        for connection in list(self._connections):
            connection.half_close()

    def set_mode(self, mode: Mode) -> None:
        """Connections of which something was lost are reset at the end, as TCP would."""
        lost = self._mode in ("up", "down") and mode == "open"
        self._mode = mode
        if mode == "refuse" or lost:
            self.cut()
        if mode == "silent":
            self._moving.clear()
        else:
            self._moving.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        try:
            first, there, back = await self._target(reader)
        except (OSError, ValueError):
            writer.transport.abort()
            return
        connection = _Connection((writer, back))
        self._connections.add(connection)
        try:
            back.write(first)
            await asyncio.gather(
                self._copy(reader, back, "up"),
                self._copy(there, writer, "down"),
            )
        except OSError:
            # One end is gone with a reset, as that of a killed process with unread input. The other
            # end has to see it, or it waits for ever for an answer that the network lost.
            connection.reset()
        finally:
            self._connections.discard(connection)
            for end in (writer, back):
                end.close()

    async def _copy(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        lost_in: Mode,
    ) -> None:
        """Raises OSError where an end was reset."""
        while data := await source.read(PIECE):
            await self._moving.wait()
            if self._mode == lost_in:
                continue
            try:
                sink.write(data)
            except RuntimeError:  # half-closed: it is read no more
                continue
            await sink.drain()
            if self._mode == "slow":
                await asyncio.sleep(len(data) / SLOW_BYTES_PER_S)
        if self._mode != lost_in and sink.can_write_eof():
            sink.write_eof()


class NodeProxy(Proxy):
    """One node's way to the server."""

    def __init__(self, web: int, gateway: int) -> None:
        """`web` and `gateway` are the ports of the servers on the loopback."""
        super().__init__()
        self._web, self._gateway = web, gateway
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=PIECE * 4)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _target(self, reader: asyncio.StreamReader) -> _Way:
        first = await reader.readline()
        port = self._gateway if _is_for_gateway(first) else self._web
        return (first, *await asyncio.open_connection("127.0.0.1", port))


class EngineProxy(Proxy):
    """The servers' way to an engine's socket `target`, by another socket."""

    def __init__(self, socket: Path, target: Path) -> None:
        super().__init__()
        self._socket, self._engine = socket, target

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._socket)

    async def _target(self, reader: asyncio.StreamReader) -> _Way:
        return (b"", *await asyncio.open_unix_connection(self._engine))


def _is_for_gateway(first_line: bytes) -> bool:
    words = first_line.split(b" ")
    return len(words) > 1 and words[1].startswith(AGENT_PATHS)
