"""Time, as the agent reads it; tests bring a clock of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from skep_agent.core.events import Moment


class Handle(Protocol):
    def cancel(self) -> None: ...


class Clock:
    """The machine's clock. Its monotonic side also counts while the machine is suspended, and is
    the same for all processes since the machine's start."""

    def moment(self) -> Moment:
        return Moment(time.clock_gettime(time.CLOCK_BOOTTIME), time.time())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_at(self, mono: float, callback: Callable[[], None]) -> Handle:
        delay = max(0.0, mono - self.moment().mono)
        return asyncio.get_running_loop().call_later(delay, callback)
