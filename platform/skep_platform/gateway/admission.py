"""Who is let in first when many agents connect at once: those whose lease ends first."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """At most `at_once` are within `turn` at a time; who waits enters in the order of `lease_end`
    (seconds since the epoch), whoever came first."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @asynccontextmanager
    async def turn(self, lease_end: float) -> AsyncIterator[None]:
        await self._enter(lease_end)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, lease_end: float) -> None:
        if self._free > 0:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (lease_end, next(self._numbers), mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was given to us just now
                self._leave()
            raise

    def _leave(self) -> None:
        """The place goes to the next one, or is free."""
        while self._waiting:
            _, _, next_one = heapq.heappop(self._waiting)
            if not next_one.done():
                next_one.set_result(None)
                return
        self._free += 1
