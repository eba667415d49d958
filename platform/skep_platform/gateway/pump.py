"""Frames between one socket and its end of a stream, both ways at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from skep_agent.protocol import Channel
from skep_platform.gateway import frames
from skep_platform.gateway.relay import LOOK_S, Pipe
from skep_platform.gateway.socket import Closed, Socket, first_to_end

CARRY_S = 30.0


class Pump:
    """`ended`: why the other side closed, once all that it sent was delivered; None while this side
    is what ends. `told_end`: whether the peer was told how the stream ended."""

    def __init__(self, socket: Socket, pipe: Pipe, allowed: frozenset[Channel]) -> None:
        self._socket = socket
        self._pipe = pipe
        self._allowed = allowed
        self.ended: str | None = None
        self.told_end = False

    async def run(self, *beside: Awaitable[None]) -> None:
        """Until either side ends. Raises Closed, Refusal, Gone, and what `beside` raises."""
        await first_to_end(self._inwards(), self._outwards(), *beside)

    async def _inwards(self) -> None:
        while True:
            frame = await self._socket.next()
            for piece in frames.pieces(frame, self._allowed):
                await self._pipe.push(piece)

    async def _outwards(self) -> None:
        try:
            while self.ended is None:
                popped = await self._pipe.pop()
                for frame in popped.frames:
                    await self._socket.send(frame)
                    self.told_end = frames.is_last(frame)
                self.ended = popped.ended
        except Closed:
            await self._carried()
            raise

    async def _carried(self) -> None:
        """The peer has closed, and what it sent before may still be read: until that ends, or
        nobody takes it."""
        while time.monotonic() < self._pipe.moved_at + CARRY_S:  # noqa: ASYNC110 it moves on
            await asyncio.sleep(LOOK_S)
