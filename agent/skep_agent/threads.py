"""Threads for work that may hang: in a driver, or in a file system of another machine.

The pools of the standard library are waited for when the process ends, and one call that never
returns would keep an agent from ending. These are not: whoever stops the agent has it gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """At most `most` at a time. Work whose caller has gone keeps its thread until it ends."""

    def __init__(self, most: int, name: str) -> None:
        self._free = asyncio.Semaphore(most)
        self._name = name
        self.busy = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Wait for a free thread, and return what the work returns there."""
        await self._free.acquire()
        self.busy += 1
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def end(result: T | None, error: BaseException | None) -> None:
            self.busy -= 1
            self._free.release()
            if answer.cancelled():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            result, failed = None, None
            try:
                result = work(*args)
            except BaseException as error:
                failed = error
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end, result, failed)

        try:
            threading.Thread(target=call, name=self._name, daemon=True).start()
        except RuntimeError as error:  # the machine has no thread left
            end(None, error)
        return await answer
