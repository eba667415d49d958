"""Small tools for asyncio tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from skep_agent.containers import RuntimeFailure

log = structlog.get_logger(__name__)


class TaskSet:
    """Background tasks by key; starting a key again replaces its task."""

    def __init__(self) -> None:
        self._tasks: dict[object, asyncio.Task[None]] = {}

    def start(self, key: object, work: Coroutine[Any, Any, None]) -> None:
        self.cancel(key)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._done(key, done))

    def cancel(self, key: object) -> None:
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def close(self) -> None:
        """Cancel all and wait until they are gone."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, key: object, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        # No one waits for it.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_broke", task=str(key), exc_info=error)


@contextmanager
def going_on(event: str) -> Iterator[None]:
    """Log what fails inside, and go on: whoever looks from time to time looks again. Were it not
    caught, the agent would end, time and again while it lasts, and its tasks with the lease."""
    try:
        yield
    except RuntimeFailure as failure:
        log.warning(event, code=failure.code, problem=failure.message)
    except Exception:
        log.exception(event)


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until the first ends, cancel the others, and end as it did."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
