"""What runs beside the event loop: threads for the database, values that wait for a worker, and
patience with an engine that is away.

Channels' `database_sync_to_async` runs everything of all connections in one thread, one call after
another. Each kind of work has its own few threads here, so that a slow log store never delays a
heartbeat; together they take no more database connections than the pool has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Generic, ParamSpec, TypeVar

import structlog

from skep_platform.core import failures
from skep_platform.core.errors import Unavailable
from skep_platform.core.logs import rarely
from skep_platform.core.serving import at_database

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
log = structlog.get_logger(__name__)
PAUSE_S = 1.0  # between two tries


class Threads:
    def __init__(self, name: str, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=f"gateway-{name}")

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of `work`, which runs with the context variables of this task. A caller
        that is cancelled does not stop it."""
        loop, context = asyncio.get_running_loop(), copy_context()
        return await loop.run_in_executor(
            self._pool, lambda: context.run(lambda: at_database(work, *args, **kwargs))
        )


beats = Threads("beats", 2)
credentials = Threads("credentials", 2)  # of callers who are not known yet: anyone can ask
control = Threads("control", 3)  # sessions, desired states, who may see what
facts = Threads("facts", 2)
logs = Threads("logs", 3)


class LatestValue(Generic[T]):
    """Holds the newest value only: `put` replaces one that was not taken, so that a slow worker
    sees no backlog."""

    def __init__(self) -> None:
        self._value: list[T] = []
        self._there = asyncio.Event()

    def put(self, value: T) -> None:
        self._value = [value]
        self._there.set()

    async def take(self) -> T:
        await self._there.wait()
        self._there.clear()
        return self._value.pop()


class BatchQueue(Generic[T]):
    """Gathers items until they are taken together; `put` waits while there are `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: list[T] = []
        self._there = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()

    async def put(self, items: list[T]) -> None:
        await self._free.wait()
        self._items += items
        if self._items:
            self._there.set()
        if len(self._items) >= self._most:
            self._free.clear()

    async def take(self) -> list[T]:
        await self._there.wait()
        self._there.clear()
        self._free.set()
        taken, self._items = self._items, []
        return taken


async def retry_while_unavailable(
    pool: Threads, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Return the result of `work`, tried until the database and the store answer. Closing the
    socket instead would make every agent of the cluster reconnect at once. Other errors are
    raised."""
    while True:
        try:
            return await pool.run(work, *args, **kwargs)
        except (*failures.DATABASE_ERRORS, Unavailable) as error:
            if not isinstance(error, Unavailable):
                raise_unless_away(error)
            rarely(log, type(error).__name__, "database_or_store_away", error=str(error)[:200])
            await asyncio.sleep(PAUSE_S)


def raise_unless_away(error: Exception) -> None:
    """Raise the error, unless it means that the database is away."""
    if not is_away(error):
        raise error


def is_away(error: Exception) -> bool:
    """Return whether the error means that the database is away."""
    return failures.as_refusal(error) is not None and failures.is_database_away(error)
