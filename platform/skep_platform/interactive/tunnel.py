"""Connections to a port of a task, through the node's agent, for the libraries that speak HTTP and
WebSocket over them.

Each connection is a stream as `skep port-forward` opens one (`gateway.relay`), counted apart from
those of people: at most so many of an app and of a node. Both directions wait for the reader.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import typing
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

import httpcore
import structlog
from redis import RedisError

from skep_agent.frames import Channel
from skep_agent.protocol import OpenStream
from skep_platform.gateway import relay
from skep_platform.gateway.relay import Pipe, StreamGone, StreamLimits, TooManyStreams
from skep_platform.gateway.socket import first_to_end

log = structlog.get_logger(__name__)
PIECE = 64 * 1024
LIMITS = StreamLimits(":apps", of_user=24, of_node=160)  # `of_user` is of an app here
BUFFER = 256 * 1024  # bytes read ahead of who reads


class NotReached(Exception):
    """The port does not answer; the text says why, for a person."""


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a running task."""

    app_id: UUID
    attempt_id: UUID
    node_id: UUID
    port: int

    def order(self, stream_id: str) -> str:
        order = OpenStream(
            stream_id=stream_id, attempt_id=str(self.attempt_id), kind="forward", port=self.port
        )
        return order.model_dump_json()


class Tunnel:
    """One connection. `reached` says whether the port sent anything yet."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._buffer = bytearray()
        self._changed = asyncio.Event()
        self._ended = False
        self._problem = ""
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, target: Target) -> Tunnel:
        """Ask the node's agent to dial, and wait until it did. Raises NotReached."""
        pipe = Pipe(relay.new_id(), "client", target.node_id, target.app_id, LIMITS)
        tunnel = cls(pipe)
        opened = asyncio.Event()
        tunnel._task = asyncio.create_task(tunnel._run(target.order(pipe.stream_id), opened))
        waiting = asyncio.create_task(opened.wait())
        try:
            await asyncio.wait([tunnel._task, waiting], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await tunnel.close()
            raise
        finally:
            waiting.cancel()
        if not opened.is_set():
            raise NotReached(tunnel._problem or "The node does not answer.")
        return tunnel

    async def read(self, most: int) -> bytes:
        """Return what came, at most so many bytes; b"" at the end. Raises NotReached where the
        port refused."""
        while not self._buffer and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._buffer:
            if self._problem:
                raise NotReached(self._problem)
            return b""
        data = bytes(self._buffer[:most])
        del self._buffer[:most]
        self._changed.set()
        return data

    async def write(self, data: bytes) -> None:
        """Send; wait for space. Raises NotReached once the connection ended."""
        for start in range(0, len(data), PIECE):
            if self._ended:
                raise NotReached(self._problem or "The app closed the connection.")
            try:
                await self._pipe.push(bytes([Channel.INPUT]) + data[start : start + PIECE])
            except (StreamGone, RedisError, OSError) as error:
                raise NotReached("The connection to the node is lost.") from error

    @property
    def readable(self) -> bool:
        """Whether a read would not wait; of an idle connection: it was closed."""
        return bool(self._buffer) or self._ended

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.gather(self._task, return_exceptions=True))

    async def _run(self, order: str, opened: asyncio.Event) -> None:
        try:
            async with self._pipe.subscribed():
                try:
                    await self._pipe.order(order)
                    await self._pipe.dialled()
                    opened.set()
                    await first_to_end(self._receive(), self._pipe.watch())
                finally:
                    await asyncio.shield(self._pipe.close())
        except TooManyStreams:
            self._problem = "The app has too many open connections; close some of its pages."
        except TimeoutError:
            self._problem = "The node does not answer."
        except StreamGone:
            self._problem = "The connection to the node is lost."
        except (RedisError, OSError) as error:
            log.warning("tunnel_without_broker", error=type(error).__name__)
            self._problem = "Connections to apps are not available for a moment."
        finally:
            self._ended = True
            self._changed.set()

    async def _receive(self) -> None:
        while True:
            popped = await self._pipe.pop()
            for frame in popped.frames:
                if frame[:1] == bytes([Channel.OUTPUT]):
                    self._buffer += frame[1:]
                elif frame[:1] == bytes([Channel.CONTROL]):
                    self._problem = _problem_of(frame[1:]) or self._problem
            self._changed.set()
            if popped.ended is not None:
                return
            while len(self._buffer) > BUFFER:
                self._changed.clear()
                await self._changed.wait()


def _problem_of(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                return await self._tunnel.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except NotReached as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                await self._tunnel.write(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        except NotReached as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        await self._tunnel.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        raise NotImplementedError

    def get_extra_info(self, info: str) -> typing.Any:
        return self._tunnel.readable if info == "is_readable" else None


class TunnelBackend(httpcore.AsyncNetworkBackend):
    """Connects httpcore to one target, whatever host it asks for."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[typing.Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            return _Stream(await Tunnel.open(self._target))
        except NotReached as error:
            raise httpcore.ConnectError(str(error)) from error


@asynccontextmanager
async def as_socket(target: Target) -> AsyncIterator[socket.socket]:
    """A connected socket whose other end is the target, for libraries that take one. Raises
    NotReached."""
    tunnel = await Tunnel.open(target)
    ours, theirs = socket.socketpair()
    pump = asyncio.create_task(_pump(ours, tunnel))
    try:
        yield theirs
    finally:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        theirs.close()
        await tunnel.close()


async def _pump(ours: socket.socket, tunnel: Tunnel) -> None:
    ours.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=ours)

    async def up() -> None:
        while data := await reader.read(PIECE):
            await tunnel.write(data)

    async def down() -> None:
        while data := await tunnel.read(PIECE):
            writer.write(data)
            await writer.drain()

    try:
        with suppress(NotReached, OSError):
            await first_to_end(up(), down())
    finally:
        writer.close()
