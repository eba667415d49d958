"""The log frames of one session, on their way from the socket to the store."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from skep_agent.frames import LogFrame
from skep_agent.protocol import LOG_WINDOW_BYTES, LogAck, LogAcks
from skep_platform.gateway import concurrency
from skep_platform.gateway.concurrency import retry_while_unavailable
from skep_platform.gateway.grouped import groups
from skep_platform.gateway.socket import Socket
from skep_platform.telemetry import services as telemetry

GATHER_S = 0.02  # after a silence: what comes together is stored together
PAUSE_S = 0.2  # a trickle becomes five chunks a second, not one for each line
PLENTY = 256 * 1024  # bytes that are stored without waiting for more
MAX_CALL = LOG_WINDOW_BYTES  # bytes in one call
MAX_WAITING = 2 * LOG_WINDOW_BYTES
FRAME_COST = 200  # bytes that a frame occupies besides its data
PATIENCE_S = 2.0  # how long the socket is not read while the buffer is full


class LogShipper:
    """Stores the log frames of one agent: `put` is called by the reader of the socket, `run` stores
    and acknowledges.

    An agent keeps its window; one that does not is first made to wait. When the store hangs its
    frames are dropped, so that heartbeats get through, and asked for again later. `together`: the
    agent reads several acknowledgements in one frame."""

    def __init__(self, node_id: UUID, socket: Socket, *, together: bool = False) -> None:
        self._node_id = node_id
        self._socket = socket
        self._together = together
        self._frames: list[LogFrame] = []
        self._bytes = 0
        self._dropped: set[str] = set()  # attempts
        self._some = asyncio.Event()
        self._hurry = asyncio.Event()  # the store need not wait for more
        self._free = asyncio.Event()

    async def put(self, frame: LogFrame) -> None:
        if self._bytes >= MAX_WAITING and not self._dropped:
            self._free.clear()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._free.wait()
            except TimeoutError:
                pass
        if self._bytes >= MAX_WAITING:
            self._dropped.add(frame.attempt_id)
            return
        self._frames.append(frame)
        self._bytes += len(frame.data) + FRAME_COST
        self._some.set()
        if self._bytes >= PLENTY or not frame.data:
            self._hurry.set()

    async def run(self) -> None:
        stored_at = 0.0
        while True:
            await self._some.wait()
            await self._gather(stored_at)
            acks = await self._store(self._take())
            stored_at = time.monotonic()
            await self._acknowledge(acks)
            if self._dropped and not self._frames:
                await self._ask_again()

    async def _store(self, frames: list[LogFrame]) -> list[LogAck]:
        node, logs = self._node_id, concurrency.logs
        if sum(len(frame.data) for frame in frames) < PLENTY:
            return await groups().append_logs(node, frames)
        return await retry_while_unavailable(logs, telemetry.append_logs, node, frames)

    async def _gather(self, stored_at: float) -> None:
        pause = max(GATHER_S, stored_at + PAUSE_S - time.monotonic())
        try:
            async with asyncio.timeout(pause):
                await self._hurry.wait()
        except TimeoutError:
            pass

    def _take(self) -> list[LogFrame]:
        taken = size = 0
        while taken < len(self._frames) and size < MAX_CALL:
            size += len(self._frames[taken].data) + FRAME_COST
            taken += 1
        frames, self._frames = self._frames[:taken], self._frames[taken:]
        self._bytes -= size
        self._free.set()
        if not self._frames:
            self._some.clear()
            self._hurry.clear()
        return frames

    async def _ask_again(self) -> None:
        dropped, self._dropped = self._dropped, set()
        positions = await retry_while_unavailable(
            concurrency.logs, telemetry.log_positions, self._node_id, dropped
        )
        await self._acknowledge(
            [
                LogAck(attempt_id=p.attempt_id, stream=p.stream, offset=p.offset, again=True)
                for p in positions
            ]
        )

    async def _acknowledge(self, acks: list[LogAck]) -> None:
        if self._together and len(acks) > 1:
            await self._socket.send(LogAcks(acks=acks).model_dump_json())
            return
        for ack in acks:
            await self._socket.send(ack.model_dump_json())
