"""People reach into tasks: the agent dials back to the server, and carries bytes both ways.

Nothing is kept here: whoever writes waits until the other side took it. Whichever side ends, the
other is closed, and a process that was begun for it is ended.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from skep_agent.containers import RuntimeFailure
from skep_agent.core.attempt import RUNNING, Attempt
from skep_agent.frames import Channel
from skep_agent.protocol import STREAMS_PATH, OpenStream
from skep_agent.runtimes.base import Command, Process, Runtime
from skep_agent.shell.link import socket_url
from skep_agent.shell.tasks import TaskSet, first_of
from skep_agent.statedir import Identity

# At a time: of the node, and of one attempt, so that no attempt takes all of them.
MAX_STREAMS = 256
MAX_ATTEMPT_STREAMS = 32
MAX_REFUSALS = 16  # that are reported; beyond, nothing is dialled
MAX_FRAME = 1024 * 1024
PIECE_BYTES = 64 * 1024
CONNECT_S = 10.0
CLOSE_S = 5.0
# A peer that is gone without a word is found by this; one that does not read for long is not lost.
PING_S = 20.0
MAX_ARGV_BYTES = 64 * 1024
MAX_CELLS = 1000  # rows and columns of a terminal
_STREAM_ID = re.compile(r"[0-9A-Za-z_-]{16,128}")

log = structlog.get_logger(__name__)


class Streams:
    """`find` gives the attempt that the node holds by this id."""

    def __init__(
        self, identity: Identity, runtime: Runtime, find: Callable[[str], Attempt | None]
    ) -> None:
        self._identity = identity
        self._runtime = runtime
        self._find = find
        self._tasks = TaskSet()
        self._open: dict[str, str] = {}  # stream id -> attempt id
        self._refusing = 0

    def open(self, what: OpenStream) -> None:
        """Open the stream in the background. What cannot be dialled is not reported: the server
        does not wait for long."""
        if what.stream_id in self._open or not _STREAM_ID.fullmatch(what.stream_id):
            log.warning("stream_refused", attempt_id=what.attempt_id, open=len(self._open))
            return
        refusal = self._refusal(what.attempt_id)
        if refusal is not None:
            log.warning(refusal.code, attempt_id=what.attempt_id, open=len(self._open))
            if self._refusing >= MAX_REFUSALS:
                return
            self._refusing += 1
        else:
            self._open[what.stream_id] = what.attempt_id
        self._tasks.start(what.stream_id, self._run(what, refusal))

    def _refusal(self, attempt_id: str) -> RuntimeFailure | None:
        of_attempt = sum(opened == attempt_id for opened in self._open.values())
        if of_attempt >= MAX_ATTEMPT_STREAMS:
            text = f"The task has {of_attempt} open shells and ports, and may not have more"
        elif len(self._open) >= MAX_STREAMS:
            text = f"The task's node has {len(self._open)} open shells and ports, and takes no more"
        else:
            return None
        return RuntimeFailure("too_many_streams", f"{text}: close some first.")

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, what: OpenStream, refusal: RuntimeFailure | None) -> None:
        try:
            async with _dialled(self._identity, what.stream_id) as socket:
                await self._serve(what, socket, refusal)
        except (OSError, InvalidHandshake, ConnectionClosed, TimeoutError) as error:
            log.info("stream_lost", attempt_id=what.attempt_id, problem=str(error))
        except Exception:
            log.exception("stream_broke", attempt_id=what.attempt_id)
        finally:
            if refusal is not None:
                self._refusing -= 1
            else:
                del self._open[what.stream_id]

    async def _serve(
        self, what: OpenStream, socket: ClientConnection, refusal: RuntimeFailure | None
    ) -> None:
        try:
            if refusal is not None:
                raise refusal
            attempt = self._running(what.attempt_id)
            if what.kind == "exec":
                await self._exec(what, attempt, socket)
            else:
                await self._forward(what, attempt, socket)
        except RuntimeFailure as failure:
            error = {"code": failure.code, "message": failure.message[:1000]}
            await _control(socket, {"error": error})

    def _running(self, attempt_id: str) -> Attempt:
        attempt = self._find(attempt_id)
        if attempt is None or attempt.state not in RUNNING:
            raise RuntimeFailure("not_running", "The task does not run on this node.")
        return attempt

    # --- a process in the container

    async def _exec(self, what: OpenStream, attempt: Attempt, socket: ClientConnection) -> None:
        process = await self._runtime.exec(attempt.container_id, _command(what))
        try:
            await first_of(_feed(socket, process), _show(socket, process), socket.wait_closed())
        finally:
            # Also when this agent ends: nothing else would.
            await asyncio.shield(asyncio.create_task(_end(process)))

    # --- a connection to a port

    async def _forward(self, what: OpenStream, attempt: Attempt, socket: ClientConnection) -> None:
        host = await self._runtime.address(attempt.container_id)
        if host is None and what.port not in attempt.ports:
            raise RuntimeFailure(
                "port_not_allowed", f"{what.port} is none of the ports that the task was given."
            )
        reader, writer = await _connected(host or "127.0.0.1", what.port)
        try:
            await first_of(
                _send_on(socket, writer), _send_back(reader, socket), socket.wait_closed()
            )
        finally:
            writer.close()


@asynccontextmanager
async def _dialled(identity: Identity, stream_id: str) -> AsyncIterator[ClientConnection]:
    async with connect(
        socket_url(identity.server, STREAMS_PATH + stream_id),
        additional_headers={"Authorization": f"Bearer {identity.credential}"},
        compression=None,
        max_size=MAX_FRAME,
        max_queue=4,
        write_limit=PIECE_BYTES,
        open_timeout=CONNECT_S,
        close_timeout=CLOSE_S,
        ping_interval=PING_S,
        ping_timeout=None,
    ) as socket:
        yield socket


def _command(what: OpenStream) -> Command:
    size = sum(len(word.encode()) + 1 for word in what.argv)
    if size > MAX_ARGV_BYTES or any("\0" in word for word in what.argv):
        raise RuntimeFailure(
            "exec_failed", f"A command has at most {MAX_ARGV_BYTES} bytes and no NUL byte."
        )
    return Command(tuple(what.argv), what.tty, _cells(what.rows), _cells(what.cols))


async def _feed(socket: ClientConnection, process: Process) -> None:
    """Until the server closes the stream."""
    async for channel, data in _frames(socket):
        if channel == Channel.INPUT:
            await process.write(data)
        elif channel == Channel.CONTROL:
            match _object(data):
                case {"resize": [int() as rows, int() as columns]}:
                    await process.resize(_cells(rows), _cells(columns))
                case {"eof": True}:
                    await process.end_input()


async def _show(socket: ClientConnection, process: Process) -> None:
    """Until the process ends."""
    async for channel, data in process.output():
        for begin in range(0, len(data), PIECE_BYTES):
            await socket.send(bytes([channel]) + data[begin : begin + PIECE_BYTES])
    await _control(socket, {"exit": await process.exit_code()})
    await socket.close()


async def _end(process: Process) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await process.close()
    except Exception:
        log.exception("process_not_ended")


async def _connected(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(CONNECT_S):
            return await asyncio.open_connection(host, port, limit=PIECE_BYTES)
    except (OSError, OverflowError) as error:
        raise RuntimeFailure(
            "port_closed", f"Nothing of the task answers on port {port} ({error})."
        ) from None


async def _send_on(socket: ClientConnection, writer: asyncio.StreamWriter) -> None:
    """Until the server closes the stream. That the port takes no more is no end yet: it may still
    have something to say."""
    async for channel, data in _frames(socket):
        with suppress(OSError):
            if channel == Channel.INPUT:
                writer.write(data)
                await writer.drain()
            elif channel == Channel.CONTROL and _object(data) == {"eof": True}:
                writer.write_eof()


async def _send_back(reader: asyncio.StreamReader, socket: ClientConnection) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(PIECE_BYTES):
            await socket.send(bytes([Channel.OUTPUT]) + data)
    await socket.close()


async def _frames(socket: ClientConnection) -> AsyncIterator[tuple[int, bytes]]:
    async for frame in socket:
        if isinstance(frame, bytes) and frame:
            yield frame[0], frame[1:]


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def _control(socket: ClientConnection, message: dict[str, Any]) -> None:
    await socket.send(bytes([Channel.CONTROL]) + json.dumps(message).encode())


def _cells(number: int) -> int:
    return min(max(number, 1), MAX_CELLS)
