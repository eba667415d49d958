"""Threads for work that may hang: in a driver, or in a file system of another machine.

The pools of the standard library are waited for when the process ends, and one call that never
returns would keep an agent from ending. These are not: whoever stops the agent has it gone. And a
thread ends an agent whose event loop hangs.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog

LOOK_S = 10.0
LOOKS = 12  # in a row that the loop does not answer
SAY_S = 5.0  # for the log: the standard error may be what hangs
EXIT_CODE = 70  # EX_SOFTWARE

log = structlog.get_logger(__name__)

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


def end_when_hung(
    loop: asyncio.AbstractEventLoop, look_s: float = LOOK_S, looks: int = LOOKS
) -> None:
    """End this process with EXIT_CODE when the loop has not answered for so many looks of so many
    seconds, with the stacks of all threads on the standard error, so that systemd, Docker or the
    kubelet start another agent. Its tasks are safe meanwhile: the next agent adopts them, or the
    watchdog ends them with the lease of the node. A process that was stopped for long, as by
    SIGSTOP or with its machine, misses one look."""
    threading.Thread(target=_watch, args=(loop, look_s, looks), daemon=True).start()


def _watch(loop: asyncio.AbstractEventLoop, look_s: float, looks: int) -> None:
    missed = 0
    while missed < looks:
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # closed: the agent ends
            return
        if answered.wait(look_s):
            missed = 0
            time.sleep(look_s)
        else:
            missed += 1
    said = threading.Thread(target=_say, args=(look_s * looks,), daemon=True)
    said.start()
    said.join(SAY_S)
    os._exit(EXIT_CODE)


def _say(seconds: float) -> None:
    log.critical("agent_hangs", seconds=seconds)
    faulthandler.dump_traceback(all_threads=True)
